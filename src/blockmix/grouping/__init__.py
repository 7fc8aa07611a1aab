"""Column groups from a covariance: groupings find the groups, rules choose their number.

Write your own with one method: `Grouping.group` or `Rule.choose`.
"""

from sklearn.base import BaseEstimator

from blockmix.grouping.greedy import GreedyGrouping
from blockmix.grouping.grouping import Grouping, GroupingWarning, HierarchicalGrouping, Proposal, Rule
from blockmix.grouping.relaxed import RelaxedGrouping
from blockmix.grouping.rules import BestCut, SilhouetteRule

GROUPINGS: dict[str, type[BaseEstimator]] = {
    "hierarchical": HierarchicalGrouping,
    "greedy": GreedyGrouping,
    "relaxed": RelaxedGrouping,
}
RULES: dict[str, type[BaseEstimator]] = {"auto": BestCut, "silhouette": SilhouetteRule}

__all__ = [
    "GROUPINGS",
    "RULES",
    "BestCut",
    "GreedyGrouping",
    "Grouping",
    "GroupingWarning",
    "HierarchicalGrouping",
    "Proposal",
    "RelaxedGrouping",
    "Rule",
    "SilhouetteRule",
]
