"""The registry: groupings and rules by name, and `find_groups`, which reads the parameter `n_groups`.

Estimators take a name or an object for each. A grouping or rule of your own needs no entry here: pass the object.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any, cast

import numpy as np
from sklearn.base import BaseEstimator

from blockmix.grouping.auto import AutoRule
from blockmix.grouping.chance import ChanceRule
from blockmix.grouping.greedy import GreedyGrouping
from blockmix.grouping.hierarchical import HierarchicalGrouping
from blockmix.grouping.optimal import OptimalRule
from blockmix.grouping.protocols import Grouping, Proposal, Rule, check_n_groups
from blockmix.grouping.relaxed import RelaxedGrouping
from blockmix.grouping.rules import BicRule, SilhouetteRule
from blockmix.partition import FloatArray, RandomState

GROUPINGS: dict[str, type[BaseEstimator]] = {
    "hierarchical": HierarchicalGrouping,
    "greedy": GreedyGrouping,
    "relaxed": RelaxedGrouping,
}
RULES: dict[str, type[BaseEstimator]] = {
    "auto": AutoRule,
    "optimal": OptimalRule,
    "chance": ChanceRule,
    "silhouette": SilhouetteRule,
    "bic": BicRule,
}


def as_grouping(grouping: str | Grouping, random_state: RandomState = None) -> Grouping:
    """Return the grouping of that name, seeded if it draws random numbers, or the object itself."""
    if isinstance(grouping, str) and grouping in GROUPINGS:
        found = GROUPINGS[grouping]()
        if hasattr(found, "random_state"):
            found.random_state = random_state
        return cast(Grouping, found)
    if isinstance(grouping, Grouping) and not isinstance(grouping, type):
        return grouping
    raise ValueError(f"grouping={grouping!r} must be one of {', '.join(GROUPINGS)} or an object with a method `group`")


def as_rule(n_groups: object, name: str = "n_groups") -> Rule | None:
    """Return the rule of that name, the rule itself, or None for a number."""
    if isinstance(n_groups, Integral):
        return None
    if isinstance(n_groups, str) and n_groups in RULES:
        return cast(Rule, RULES[n_groups]())
    # NumPy's numbers and arrays have a method `choose` of their own.
    if hasattr(n_groups, "choose") and not isinstance(n_groups, (type, np.generic, np.ndarray)):
        return cast(Rule, n_groups)
    raise ValueError(
        f"{name}={n_groups!r} must be a whole number, one of {', '.join(RULES)}, or a rule such as "
        "SilhouetteRule(candidates=range(2, 5))"
    )


def find_groups(
    S: Any,
    n_rows: float,
    n_groups: object,
    grouping: Grouping,
    squares: FloatArray | None = None,
    price: float | None = None,
) -> Proposal:
    """Find the column groups of S: as many as `n_groups` says, or as its rule chooses.

    Parameters
    ----------
    S : array of shape (p, p)
        Covariance estimated from n_rows rows; a `GramMatrix` if grouping and rule have a true `takes_rows`.
    n_rows : float
    n_groups : int, str or Rule
    grouping : Grouping
    squares, price
        Passed on to the rule; see `Rule.choose`.

    Examples
    --------
    >>> S = np.array([[1.0, -0.9, 0.1], [-0.9, 1.0, 0.0], [0.1, 0.0, 1.0]])
    >>> find_groups(S, 50, "bic", HierarchicalGrouping()).partition.labels
    array([0, 0, 1])
    """
    rule = as_rule(n_groups)
    if rule is None:
        return grouping.group(S, check_n_groups(n_groups, len(S)), n_rows)
    return rule.choose(S, n_rows, grouping, squares=squares, price=price)
