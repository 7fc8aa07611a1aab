"""How far to trust column groups and clusters: what comes back when the rows are weighed at random."""

from blockmix.estimators.stability.values import ClusterStability, GroupStability, Stability

__all__ = ["ClusterStability", "GroupStability", "Stability"]
