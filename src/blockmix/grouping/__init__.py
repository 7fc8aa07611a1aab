"""Column groups from a covariance: one verb, four searches, three rules for their number."""

from blockmix.grouping.auto import AutoRule
from blockmix.grouping.greedy import GreedyGrouping
from blockmix.grouping.hierarchical import HierarchicalGrouping
from blockmix.grouping.penalized import PenalizedGrouping
from blockmix.grouping.relaxed import RelaxedGrouping
from blockmix.grouping.rules import BicRule, SilhouetteRule

__all__ = [
    "AutoRule",
    "BicRule",
    "GreedyGrouping",
    "HierarchicalGrouping",
    "PenalizedGrouping",
    "RelaxedGrouping",
    "SilhouetteRule",
]
