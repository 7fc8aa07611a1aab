"""Figures: what they show is what was given, in order, centered, and readable however wide the table is."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import matplotlib
import numpy as np
import pytest
from scipy.cluster.hierarchy import linkage
from sklearn.exceptions import NotFittedError

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from blockmix.plotting.axes import MOST_PIXELS
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from blockmix import BlockDiagonalCovariance, FactorBiclustering, GaussianBiclustering, plotting, select
from blockmix.partition import Partition
from blockmix.plotting.views import component_view, observed_correlation


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    plt.close("all")


def rows_of_two(n: int = 120, p: int = 6) -> np.ndarray:
    rng = np.random.default_rng(0)
    X = np.repeat(rng.standard_normal((n, p // 2)), 2, axis=1) + 0.6 * rng.standard_normal((n, p))
    X[: n // 2] += 5
    return X


@pytest.fixture(scope="module")
def model() -> GaussianBiclustering:
    return GaussianBiclustering(2, 3, random_state=0).fit(rows_of_two())


def frames(ax: Any) -> list[tuple[float, float]]:
    return [(patch.get_x(), patch.get_width()) for patch in ax.patches if isinstance(patch, Rectangle)]


def test_the_heat_map_has_the_groups_in_order_and_framed() -> None:
    R = np.corrcoef(np.random.default_rng(0).standard_normal((30, 4)).T)
    ax = plotting.correlation_heatmap(R, Partition([0, 1, 0, 1]), names=list("abcd"))
    shown = np.asarray(ax.images[0].get_array())[::100, ::100]
    assert np.array_equal(shown, R[np.ix_([0, 2, 1, 3], [0, 2, 1, 3])])
    assert [label.get_text() for label in ax.get_xticklabels()] == list("acbd")
    assert frames(ax) == [(-0.5, 2), (1.5, 2)]
    assert ax.images[0].get_clim() == (-1, 1)


@pytest.mark.parametrize("p", [4, 30, 90, 150, 400, 2000])
def test_frames_never_hide_their_blocks(p: int) -> None:
    ax = plotting.correlation_heatmap(np.eye(p), Partition(np.arange(p) // 2))
    ax.figure.canvas.draw()
    column = ax.get_window_extent().width * 72 / (ax.figure.dpi * p)  # points
    assert all(2 * patch.get_linewidth() <= 0.3 * patch.get_width() * column for patch in ax.patches)
    assert len(ax.patches) == (p // 2 if p <= 400 else 0)


def test_a_pair_draws_both_under_one_scale() -> None:
    partition, R = Partition([0, 0, 1]), np.array([[1, 0.5, -0.2], [0.5, 1, 0.1], [-0.2, 0.1, 1]])
    pair = plotting.correlation_pair(R, R * (R > 0.4), partition, title="x")
    assert [ax.get_title() for ax in pair] == ["x: observed", "x: estimated"]
    assert pair[0].images[0].get_clim() == pair[1].images[0].get_clim() == (-1, 1)
    assert len(pair[0].figure.axes) == 3  # two maps and their scale
    given = plt.subplots(1, 2)[1]
    assert list(plotting.correlation_pair(R, R, partition, colorbar=False, ax=given)) == list(given)
    assert given[0].figure.axes == list(given)


def test_the_checkerboard_has_clusters_together_and_is_centered() -> None:
    X = rows_of_two()[:, [0, 2, 4, 1, 3, 5]]
    labels = np.tile([0, 1], 60)
    ax = plotting.checkerboard(X, labels, Partition([0, 1, 2, 0, 1, 2]))
    low, high = ax.images[0].get_clim()
    assert low == -high
    image = np.asarray(ax.images[0].get_array())
    lines = image[:: image.shape[0] // 120, :: image.shape[1] // 6]
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    upper = Z[labels == 0][:, [0, 3, 1, 4, 2, 5]]
    assert np.allclose(np.sort(lines[:60], axis=0), np.sort(upper, axis=0))
    assert [label.get_text() for label in ax.get_yticklabels()] == ["0\n60 rows", "1\n60 rows"]


def test_a_table_of_2000_columns_is_averaged_and_has_no_text() -> None:
    p = 2000
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, p))
    partition = Partition(np.arange(p) % 40)
    names = [f"column {j}" for j in range(p)]
    R = np.corrcoef(X.T)
    heat = plotting.correlation_heatmap(R, partition, names=names)
    board = plotting.checkerboard(X, np.arange(60) % 3, partition, names=names)
    tree = plotting.dendrogram(linkage(X[:5].T), 7, names=names)
    groups = plotting.group_comparison(np.stack([partition.labels] * 2), names=names)
    assert max(np.asarray(heat.images[0].get_array()).shape) <= MOST_PIXELS
    assert max(np.asarray(board.images[0].get_array()).shape) <= MOST_PIXELS
    order = partition.order
    expected = R[np.ix_(order, order)].reshape(1000, 2, 1000, 2).mean(axis=(1, 3))
    assert np.allclose(np.asarray(heat.images[0].get_array()), expected)
    for ax in (heat, board, tree, groups):
        texts = [text.get_text() for text in ax.texts] + [label.get_text() for label in ax.get_xticklabels()]
        assert len([text for text in texts if text]) <= 1  # the number of groups at the line of the cut
        assert "2000 columns" in ax.get_xlabel()
    assert tree.collections[0].get_rasterized()


@pytest.mark.parametrize("K", [1, 2, 3, 6])
def test_the_dendrogram_is_cut_into_as_many_groups(K: int) -> None:
    tree = linkage(np.random.default_rng(0).standard_normal((6, 3)), "average")
    ax = plotting.dendrogram(tree, K)
    level = ax.lines[0].get_ydata()[0]
    assert np.count_nonzero(tree[:, 2] > level) == K - 1
    branches = ax.collections[0]
    assert isinstance(branches, LineCollection)
    above = [path.vertices[1, 1] > level for path in branches.get_paths()]
    gray = [to_hex(color) == "#a9aeb5" for color in branches.get_colors()]
    assert gray == above
    assert sorted(path.vertices[1, 1] for path in branches.get_paths()) == sorted(tree[:, 2])


def test_the_trace_and_the_table() -> None:
    ax = plotting.likelihood_trace([-5.0, -3.0, -2.5])
    assert ax.lines[0].get_xdata().tolist() == [1, 2, 3]
    X = rows_of_two()
    with pytest.warns(UserWarning, match="edge"):
        table = select(X, [1, 2], [2, 3], random_state=0)
    ax = table.plot()
    lines = {line.get_label(): line for line in ax.lines}
    assert lines["2"].get_xdata().tolist() == [1, 2]
    assert lines["3"].get_ydata().tolist() == [row.bic for row in table.rows if row.n_column_groups == 3]
    best = ax.lines[-1]
    assert (best.get_xdata()[0], best.get_ydata()[0]) == (table.best_.n_components, table.best_.bic)
    assert table.plot(criterion="icl").get_ylabel() == "ICL"
    with pytest.raises(ValueError, match="criterion='wic'"):
        table.plot(criterion="wic")
    wide = select(X, [1], [1, 2, 3, 4], random_state=0)
    assert wide.plot().get_xlabel() == "number of column groups"


def test_the_comparison_marks_the_columns_that_move() -> None:
    labels = np.array([[0, 0, 0, 1, 1], [0, 0, 1, 1, 1]])
    ax = plotting.group_comparison(labels, names=list("abcde"))
    assert np.asarray(ax.images[1].get_array()).tolist() == [[0, 0, 1, 0, 0]]
    assert [text.get_text() for text in ax.texts] == list("AAABB") + list("AABBB")
    assert ax.get_yticklabels()[-1].get_text() == "moves (1)"
    many = plotting.group_comparison(np.stack([np.arange(30)] * 2), names=[str(j) for j in range(30)])
    assert [text.get_text() for text in many.texts][26:28] == ["AA", "AB"]


def test_models_draw_themselves(model: GaussianBiclustering) -> None:
    X = rows_of_two()
    ax = plt.subplots()[1]
    assert model.plot_checkerboard(X, ax=ax) is ax
    assert model.plot_dendrogram(X, 1).get_title() == "component 1"
    assert model.plot_trace().lines[0].get_ydata().tolist() == model.log_likelihood_trace_.tolist()
    assert model.plot_groups().get_yticklabels()[0].get_text() == "component 0"
    observed, _ = model.plot_correlations(X, 1)
    R = observed_correlation(X, model.predict_proba(X)[:, 1])
    order = Partition(model.column_labels_[1]).order
    shown = np.asarray(observed.images[0].get_array())
    assert np.allclose(shown[:: len(shown) // 6, :: len(shown) // 6], R[np.ix_(order, order)])
    factor = FactorBiclustering(2, 3, random_state=0).fit(X)
    assert len(factor.plot_correlations(X)) == 2
    covariance = BlockDiagonalCovariance(3).fit(X)
    assert len(covariance.plot_correlations(X)) == 2
    assert covariance.plot_dendrogram().get_ylabel() == "distance"


def test_what_cannot_be_drawn_is_refused(model: GaussianBiclustering) -> None:
    X = rows_of_two()
    with pytest.raises(ValueError, match="component=2 must be from 0 to 1"):
        model.plot_correlations(X, 2)
    with pytest.raises(NotFittedError):
        GaussianBiclustering(2).plot_groups()
    with pytest.raises(ValueError, match="has no tree"):
        BlockDiagonalCovariance(2, grouping="greedy").fit(X).plot_dendrogram()


def test_without_matplotlib_a_figure_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    draw: list[Any] = [
        lambda: plotting.dendrogram(linkage(np.eye(3))),
        lambda: plotting.correlation_pair(np.eye(2), np.eye(2), Partition([0, 1])),
        lambda: plotting.group_comparison(np.zeros((1, 2), dtype=int)),
    ]
    for figure in draw:
        with pytest.raises(ImportError, match=r"matplotlib is needed .* pip install 'blockmix\[app\]'"):
            figure()


def test_within_a_group_the_fitted_correlation_is_the_observed_one(model: GaussianBiclustering) -> None:
    # Red if rows counted by their label only, or for another component.
    X = rows_of_two()
    for g in range(2):
        view = component_view(model.blocks_[g], X, model.predict_proba(X)[:, g], model)
        assert view.observed is not None
        within = view.partition.labels[:, None] == view.partition.labels
        assert np.allclose(view.estimated[within], view.observed[within], atol=1e-3)
        assert (view.estimated[~within] == 0).all()


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda tree, half: plotting.dendrogram(tree, 7), "n_groups=7 must be from 1 to 4, the number of columns"),
        (lambda tree, half: plotting.dendrogram(tree, 0), "n_groups=0 must be from 1 to 4"),
        (lambda tree, half: plotting.dendrogram(tree, names=["a"]), "names has 1 entries for 4 columns"),
        (lambda tree, half: plotting.correlation_heatmap(np.eye(3), half), r"shape \(3, 3\) does not fit .* 4 columns"),
        (
            lambda tree, half: plotting.checkerboard(np.ones((5, 4)), np.zeros(3, int), half),
            "does not fit 3 row labels",
        ),
        (lambda tree, half: plotting.likelihood_trace([]), "the trace is empty"),
    ],
)
def test_values_that_do_not_fit_are_refused(draw: Any, message: str) -> None:
    tree = linkage(np.random.default_rng(0).standard_normal((4, 9)))
    with pytest.raises(ValueError, match=message):
        draw(tree, Partition([0, 0, 1, 1]))
