"""Gaussian mixtures with learned block-diagonal covariances: row clusters and column groups at once."""

from blockmix import datasets, metrics, plotting
from blockmix.covariance import BlockDiagonalCovariance
from blockmix.grouping.proposal import GroupingWarning

__version__ = "0.1.0"

__all__ = ["BlockDiagonalCovariance", "GroupingWarning", "datasets", "metrics", "plotting"]
