"""Gaussian mixtures with learned block-diagonal covariances: row clusters and column groups at once."""

from blockmix import datasets, metrics, plotting
from blockmix.biclustering import GaussianBiclustering
from blockmix.covariance import BlockDiagonalCovariance
from blockmix.grouping.proposal import GroupingWarning

__version__ = "0.1.0"

__all__ = ["BlockDiagonalCovariance", "GaussianBiclustering", "GroupingWarning", "datasets", "metrics", "plotting"]
