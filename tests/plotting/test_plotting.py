"""Figures: what they show is what was given, in order, centered, and readable however wide the table is."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import matplotlib
import numpy as np
import pytest
from scipy.cluster.hierarchy import linkage

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.colors import to_hex

from blockmix import BlockDiagonalCovariance, GaussianBiclustering, plotting, select
from blockmix.partition import Partition
from blockmix.report.sections import differences
from blockmix.report.subject import subject_of

HALVES = Partition([0, 1, 0, 1])
TREE = linkage(np.random.default_rng(0).standard_normal((6, 3)), "average")


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def X() -> np.ndarray:
    rng = np.random.default_rng(0)
    X = np.repeat(rng.standard_normal((120, 3)), 2, axis=1) + 0.6 * rng.standard_normal((120, 6))
    X[:60] += 5
    return X


@pytest.fixture(scope="module")
def model(X: np.ndarray) -> GaussianBiclustering:
    return GaussianBiclustering(2, 3, random_state=0).fit(X)


def image(ax: Any, rows: int, columns: int) -> np.ndarray:
    """One value for each cell of a heat map, which repeats them."""
    values = np.asarray(ax.images[0].get_array())
    return values[:: len(values) // rows, :: values.shape[1] // columns]


def texts(labels: Any) -> list[str]:
    return [label.get_text() for label in labels]


def test_the_heat_map_has_the_groups_in_order_and_framed() -> None:
    R = np.corrcoef(np.random.default_rng(0).standard_normal((30, 4)).T)
    ax = plotting.correlation_heatmap(R, HALVES, names=list("abcd"))
    assert np.array_equal(image(ax, 4, 4), R[np.ix_([0, 2, 1, 3], [0, 2, 1, 3])])
    assert texts(ax.get_xticklabels()) == list("acbd")
    assert [(frame.get_x(), frame.get_width()) for frame in ax.patches] == [(-0.5, 2), (1.5, 2)]
    assert ax.images[0].get_clim() == (-1, 1)


@pytest.mark.parametrize("p", [4, 90, 400, 2000])
def test_frames_never_hide_their_blocks(p: int) -> None:
    ax = plotting.correlation_heatmap(np.eye(p), Partition(np.arange(p) // 2))
    ax.figure.canvas.draw()
    column = ax.get_window_extent().width * 72 / (ax.figure.dpi * p)  # points
    assert all(2 * patch.get_linewidth() <= 0.3 * patch.get_width() * column for patch in ax.patches)
    assert len(ax.patches) == (p // 2 if p <= 400 else 0)


def test_a_pair_draws_both_under_one_scale() -> None:
    pair = plotting.correlation_pair(np.eye(4), np.eye(4), HALVES, title="x")
    assert texts(ax.title for ax in pair) == ["x: observed", "x: estimated"]
    assert pair[0].images[0].get_clim() == pair[1].images[0].get_clim() == (-1, 1)
    assert len(pair[0].figure.axes) == 3  # two maps and their scale
    given = plt.subplots(1, 2)[1]
    assert list(plotting.correlation_pair(np.eye(4), np.eye(4), HALVES, ax=given)) == list(given)


def test_the_checkerboard_has_clusters_together_and_is_centered(X: np.ndarray) -> None:
    labels = np.tile([0, 1], 60)
    ax = plotting.checkerboard(X, labels, Partition([0, 1, 0, 1, 0, 1]))
    low, high = ax.images[0].get_clim()
    assert low == -high
    upper = ((X - X.mean(axis=0)) / X.std(axis=0))[labels == 0][:, [0, 2, 4, 1, 3, 5]]
    assert np.allclose(np.sort(image(ax, 120, 6)[:60], axis=0), np.sort(upper, axis=0))
    assert texts(ax.get_yticklabels()) == ["0\n60 rows", "1\n60 rows"]


def test_a_table_of_2000_columns_is_averaged_and_has_no_text() -> None:
    p, values = 2000, np.random.default_rng(0).standard_normal((60, 2000))
    partition, names, R = Partition(np.arange(p) % 40), [f"column {j}" for j in range(p)], np.corrcoef(values.T)
    heat = plotting.correlation_heatmap(R, partition, names=names)
    board = plotting.checkerboard(values, np.arange(60) % 3, partition, names=names)
    tree = plotting.dendrogram(linkage(values[:5].T), 7, names=names)
    order = partition.order
    expected = R[np.ix_(order, order)].reshape(1000, 2, 1000, 2).mean(axis=(1, 3))
    assert np.allclose(np.asarray(heat.images[0].get_array()), expected)
    assert np.asarray(board.images[0].get_array()).shape[1] == 1000
    for ax in (heat, board, tree):
        labels = texts(ax.texts) + texts(ax.get_xticklabels())
        assert len(list(filter(None, labels))) <= 1  # the number of groups at the line of the cut
        assert "2000 columns" in ax.get_xlabel()
    assert tree.collections[0].get_rasterized()


@pytest.mark.parametrize("K", [1, 3, 6])
def test_the_dendrogram_is_cut_into_as_many_groups(K: int) -> None:
    ax = plotting.dendrogram(TREE, K)
    level = ax.lines[0].get_ydata()[0]
    assert np.count_nonzero(TREE[:, 2] > level) == K - 1
    heights = [path.vertices[1, 1] for path in ax.collections[0].get_paths()]
    gray = [to_hex(color) == "#a9aeb5" for color in ax.collections[0].get_colors()]
    assert gray == [height > level for height in heights] and sorted(heights) == sorted(TREE[:, 2])


def test_the_table_is_drawn_over_the_number_that_varies_more(X: np.ndarray) -> None:
    with pytest.warns(UserWarning, match="edge"):
        table = select(X, [1, 2], [2, 3], shared_covariance=False, random_state=0)
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


def test_models_draw_themselves(model: GaussianBiclustering, X: np.ndarray) -> None:
    ax = plt.subplots()[1]
    assert model.plot_checkerboard(X, ax=ax) is ax
    assert model.plot_dendrogram(X, 1).get_title() == "Cluster 2"
    R, order = np.cov(X.T, aweights=model.predict_proba(X)[:, 1]), Partition(model.column_labels_[1]).order
    R /= np.sqrt(np.outer(R.diagonal(), R.diagonal()))
    assert np.allclose(image(model.plot_correlations(X, 1)[0], 6, 6), R[np.ix_(order, order)])
    covariance = BlockDiagonalCovariance(3).fit(X)
    assert len(covariance.plot_correlations(X)) == 2
    assert covariance.plot_dendrogram().get_ylabel() == "distance"


def test_the_map_the_profiles_and_the_differences_are_those_of_the_page(
    model: GaussianBiclustering, X: np.ndarray
) -> None:
    model = GaussianBiclustering(2, 3, init=model.row_labels_, random_state=0).fit(X)
    model.names_ = {"cluster 2": "tall"}
    section = differences(subject_of(model))
    assert section is not None
    ax = model.plot_differences()
    columns = [int(text.removeprefix("x")) for text in texts(ax.get_yticklabels())]
    assert columns == list(dict.fromkeys(j for marks in section["marks"] for part in marks for j in part))
    shown = np.asarray(ax.images[0].get_array())
    assert np.allclose(shown, np.array(section["columns"]).T[columns], atol=6e-4)
    assert texts(ax.get_xticklabels()) == ["Cluster 1", "tall"]
    assert ax.images[0].get_clim()[0] == -ax.images[0].get_clim()[1]  # zero is white
    scores = {tuple(line) for own in section["groups"] for line in own}
    for line in np.asarray(model.plot_profiles().images[0].get_array()):
        assert min(np.abs(np.subtract(line, score)).max() for score in scores) < 6e-4
    ax = model.plot_map(X)
    parts = {part.get_label(): np.asarray(part.get_offsets()) for part in ax.collections}
    assert {name: len(places) for name, places in parts.items()} == {"Cluster 1": 60, "tall": 60}
    assert "discriminant axis 1" in ax.get_xlabel()
    sides = [np.sign(places[:, 0]) for places in parts.values()]
    assert (sides[0] == -sides[1]).all()


def test_figures_have_150_dots_per_inch_and_on_paper_the_width_of_a_column() -> None:
    assert plotting.means_heatmap(np.eye(2), ["a", "b"], ["c", "d"]).figure.dpi == 150
    with plotting.style("paper"):
        assert plotting.means_heatmap(np.eye(2), ["a", "b"], ["c", "d"]).figure.get_size_inches()[0] == pytest.approx(
            85 / 25.4
        )
    assert plotting.means_heatmap(np.eye(2), ["a", "b"], ["c", "d"]).figure.get_size_inches()[0] > 3.35


def test_without_matplotlib_a_figure_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    for draw, arguments in (
        (plotting.dendrogram, (TREE,)),
        (plotting.correlation_pair, (np.eye(4), np.eye(4), HALVES)),
    ):
        with pytest.raises(ImportError, match=r"matplotlib is needed .* pip install 'blockmix\[app\]'"):
            draw(*arguments)


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda model, X: plotting.dendrogram(TREE, 7), "n_groups=7 must be from 1 to 6, the number of columns"),
        (lambda model, X: plotting.dendrogram(TREE, 0), "n_groups=0 must be from 1 to 6"),
        (lambda model, X: plotting.dendrogram(TREE, names=["a"]), "names has 1 entries for 6 columns"),
        (lambda model, X: plotting.correlation_heatmap(np.eye(3), HALVES), r"shape \(3, 3\) does not fit .* 4 columns"),
        (lambda model, X: plotting.checkerboard(X, np.zeros(3, int), HALVES), "does not fit 3 row labels"),
        (
            lambda model, X: GaussianBiclustering(2, 6, init=np.arange(120) % 2).fit(X).plot_profiles(),
            "no columns go together",
        ),
        (lambda model, X: GaussianBiclustering(1).fit(X).plot_differences(), "no column marks a cluster"),
        (lambda model, X: plotting.style("poster").__enter__(), "style 'poster' must be one of screen, paper"),
        (lambda model, X: model.plot_correlations(X, 2), "component=2 must be from 0 to 1"),
        (lambda model, X: GaussianBiclustering(2).plot_profiles(), "not fitted yet"),
        (lambda model, X: BlockDiagonalCovariance(2, grouping="greedy").fit(X).plot_dendrogram(), "has no tree"),
    ],
)
def test_what_cannot_be_drawn_is_refused(draw: Any, message: str, model: GaussianBiclustering, X: np.ndarray) -> None:
    with pytest.raises(ValueError, match=message):
        draw(model, X)
