"""Gaussian mixtures with learned block-diagonal covariances: row clusters and column groups at once.

Names load lazily, so `blockmix --help` does not import scikit-learn.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from blockmix import anndata as anndata
    from blockmix import grouping, plotting, report
    from blockmix.candidates import SelectionTable
    from blockmix.command import show_versions, warm_up
    from blockmix.estimators.comparison import Comparison, compare
    from blockmix.estimators.covariance import BlockDiagonalCovariance
    from blockmix.estimators.discriminant import BlockDiscriminantAnalysis
    from blockmix.estimators.factor import FactorBiclustering
    from blockmix.estimators.gaussian import GaussianBiclustering
    from blockmix.estimators.models import load
    from blockmix.estimators.replication import Replication, plan, replicate
    from blockmix.estimators.topics import TopicBiclustering
    from blockmix.grouping import GroupingWarning
    from blockmix.partition import Partition
    from blockmix.selection import SelectionWarning, select

__version__ = "0.2.0"

__all__ = [
    "BlockDiagonalCovariance",
    "BlockDiscriminantAnalysis",
    "Comparison",
    "FactorBiclustering",
    "GaussianBiclustering",
    "GroupingWarning",
    "Partition",
    "Replication",
    "SelectionTable",
    "SelectionWarning",
    "TopicBiclustering",
    "compare",
    "grouping",
    "load",
    "plan",
    "plotting",
    "replicate",
    "report",
    "select",
    "show_versions",
    "warm_up",
]

# The module of each name that is not a module itself.
_HOMES = {
    "BlockDiagonalCovariance": "estimators.covariance",
    "BlockDiscriminantAnalysis": "estimators.discriminant",
    "Comparison": "estimators.comparison",
    "FactorBiclustering": "estimators.factor",
    "GaussianBiclustering": "estimators.gaussian",
    "GroupingWarning": "grouping",
    "Partition": "partition",
    "Replication": "estimators.replication",
    "SelectionTable": "candidates",
    "SelectionWarning": "selection",
    "TopicBiclustering": "estimators.topics",
    "compare": "estimators.comparison",
    "load": "estimators.models",
    "plan": "estimators.replication",
    "replicate": "estimators.replication",
    "select": "selection",
    "show_versions": "command",
    "warm_up": "command",
}


def __getattr__(name: str) -> Any:
    # `from blockmix import *` must not put our bridge in the place of the package anndata.
    if name not in (*__all__, "anndata"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = import_module(f"blockmix.{_HOMES.get(name, name)}")
    globals()[name] = getattr(home, name) if name in _HOMES else home
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
