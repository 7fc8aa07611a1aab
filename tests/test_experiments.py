"""Figures of the experiments, drawn from the committed tables: nothing hidden, cut off or misquoted."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest

FOLDER = Path(__file__).parents[1] / "experiments"
pytestmark = pytest.mark.skipif(not FOLDER.exists(), reason="the experiments are not part of a source distribution")


@pytest.fixture
def figure(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A function of an experiment's name that returns its figure, drawn from the committed table."""
    monkeypatch.syspath_prepend(str(FOLDER))
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(variable, "1")  # the harness sets them: undone after the test
    figures = import_module("figures")

    def drawn(name: str) -> Any:
        kept: list[Any] = []
        experiment = import_module(name)
        monkeypatch.setattr(experiment, "save", lambda figure, *_: kept.append(figure))
        experiment.draw(figures.committed(name), figures.FULL)
        kept[0].canvas.draw()
        return kept[0]

    yield drawn
    plt.close("all")


@pytest.mark.parametrize("name", ["real_sets", "gene_sets"])
def test_compared_methods_are_dots_on_axes_that_end_at_one(figure: Any, name: str) -> None:
    for ax in figure(name).axes:
        assert not ax.patches  # a bar has no place to begin on a logarithmic axis
        if ax.get_xscale() == "linear":
            assert ax.get_xlim()[1] < 1.05 and max(ax.get_xticks()) <= 1 + 1e-9
        right = ax.get_window_extent().x1
        boxes = [text.get_window_extent() for text in ax.texts]
        assert all(box.x0 > right for box in boxes)  # numbers stand beside the marks
        assert all(a.y0 >= b.y1 for a, b in pairwise(boxes))


@pytest.mark.parametrize("name", ["n_components", "recovery"])
def test_no_method_hides_another(figure: Any, name: str) -> None:
    for ax in figure(name).axes:
        lines = [line for line in ax.lines if line.get_marker() in list("osD^vPX*")]
        places = [ax.transData.transform(point) for line in lines for point in line.get_xydata()]
        distances = np.linalg.norm(np.array(places)[:, None] - np.array(places), axis=2)
        assert np.min(distances + 1e9 * np.eye(len(places))) > 5  # pixels


def test_recovery_quotes_the_paper_where_it_says_so(figure: Any) -> None:
    drawn = figure("recovery")
    texts = [drawn.get_suptitle(), *(ax.get_title() for ax in drawn.axes)]
    assert not any("Σ_" in text for text in texts)  # a subscript, not an underscore
    first, _, second, _ = drawn.axes
    assert "90 %" in first.texts[0].get_text() and "90" not in second.texts[0].get_text()
    dashed = [[line for line in ax.lines if line.get_linestyle() == "--"] for ax in (first, second)]
    assert len(dashed[0]) == 1 and not dashed[1]
