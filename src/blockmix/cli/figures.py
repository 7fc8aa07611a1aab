"""Figures for a paper: one column wide, readable in black and white."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from blockmix.cli.data import Data
from blockmix.cli.fitting import Fitted
from blockmix.estimators.covariance import BlockDiagonalCovariance
from blockmix.plotting import style
from blockmix.rows.files import needed

_MOST_MAPS = 8  # components with a correlation map of their own
_UNDATED = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}  # the same figure is the same file


def write_figures(folder: Path, data: Data, fitted: Fitted, formats: Sequence[str]) -> None:
    """Write every figure in every format, as figure-NAME.FORMAT."""
    needed("matplotlib", "app").use("agg")  # no windows
    pyplot = needed("matplotlib.pyplot", "app")
    with style("paper"):
        for name, axes in _drawn(data.X, fitted):
            figure = np.ravel(axes)[0].figure
            for kind in formats:
                figure.savefig(folder / f"figure-{name}.{kind}", dpi=300, metadata=_UNDATED.get(kind))
            pyplot.close(figure)


def _drawn(X: Any, fitted: Fitted) -> Iterator[tuple[str, Any]]:
    """Name and Axes of each figure in turn."""
    model, found = fitted.model, fitted.stability
    if isinstance(model, BlockDiagonalCovariance):
        yield "correlations", model.plot_correlations(X)
        if model.linkage_ is not None:
            yield "dendrogram", model.plot_dendrogram()
    else:
        G = len(model.weights_)
        yield "checkerboard", model.plot_checkerboard(X)
        for g in range(min(G, _MOST_MAPS)):
            yield f"correlations-{g}", model.plot_correlations(X, g)
        if G > 1:
            yield "groups", model.plot_groups()
        yield "trace", model.plot_trace()
    if fitted.selection is not None:
        yield "selection", fitted.selection.plot()
    if found is not None:
        for g in range(min(len(found.partitions), _MOST_MAPS)):
            yield f"pairs-{g}", found.plot_pairs(g)
        if found.clusters is not None:
            yield "clusters", found.plot_clusters()
