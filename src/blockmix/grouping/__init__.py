"""Column groups from a covariance: groupings find the groups, rules choose their number.

Write your own with one method: `Grouping.group` or `Rule.choose`.
"""

from blockmix.grouping.auto import AutoRule
from blockmix.grouping.chance import ChanceRule
from blockmix.grouping.greedy import GreedyGrouping
from blockmix.grouping.hierarchical import HierarchicalGrouping
from blockmix.grouping.optimal import OptimalRule
from blockmix.grouping.protocols import Grouping, Proposal, Rule
from blockmix.grouping.relaxed import RelaxedGrouping
from blockmix.grouping.rules import BicRule, SilhouetteRule

__all__ = [
    "AutoRule",
    "BicRule",
    "ChanceRule",
    "GreedyGrouping",
    "Grouping",
    "HierarchicalGrouping",
    "OptimalRule",
    "Proposal",
    "RelaxedGrouping",
    "Rule",
    "SilhouetteRule",
]
