"""Gaussian mixtures with learned block-diagonal covariances: row clusters and column groups at once."""

from blockmix import datasets, metrics, plotting
from blockmix.biclustering import GaussianBiclustering
from blockmix.covariance import BlockDiagonalCovariance
from blockmix.factor import FactorBiclustering
from blockmix.grouping.proposal import GroupingWarning
from blockmix.selection import SelectionTable, select
from blockmix.storage import load
from blockmix.topics import TopicBiclustering
from blockmix.trials import SelectionWarning

__version__ = "0.1.0"

__all__ = [
    "BlockDiagonalCovariance",
    "FactorBiclustering",
    "GaussianBiclustering",
    "GroupingWarning",
    "SelectionTable",
    "SelectionWarning",
    "TopicBiclustering",
    "datasets",
    "load",
    "metrics",
    "plotting",
    "select",
]
