"""The data sets of the experiments are those of the paper, and a missing file is an error that helps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from experiments import data

needs_data = pytest.mark.skipif(
    not (data.folder() / "golub72.csv.gz").is_file(), reason=f"the data sets are not in {data.folder()}"
)


def scaled(bunch: Any) -> Any:
    bunch.data = data.standardize(bunch.data)
    return bunch


@needs_data
@pytest.mark.parametrize(
    ("load", "shape", "counts", "ari", "n_seeds"),
    [
        (lambda: scaled(data.load_wine()), (178, 13), [59, 71, 48], 0.899, 1),
        (lambda: scaled(data.load_olive()), (572, 8), [323, 98, 151], 0.448, 1),
        (lambda: scaled(data.load_ecoli()), (336, 7), [143, 77, 52, 35, 20, 5, 2, 2], 0.505, 10),
        (data.alon100, (62, 100), [22, 40], 0.518, 10),
        (lambda: data.alon100(scaled=True), (62, 100), [22, 40], 0.592, 1),
        (data.golub150, (38, 150), [27, 11], 0.893, 1),
        (data.alon_full, (62, 2000), [22, 40], -0.006, 1),
        (data.golub_full, (72, 3731), [47, 25], 0.181, 4),  # single seeds: 0.16 to 0.21
    ],
    ids=["wine", "olive", "ecoli", "alon100", "alon100-scaled", "golub150", "alon", "golub"],
)
def test_k_means_has_the_figures_of_the_study(
    load: Callable[[], Any], shape: tuple[int, int], counts: list[int], ari: float, n_seeds: int
) -> None:
    # Red if a step of the preprocessing is left out (Alon without log10 has 0.00) or the labels are shuffled.
    bunch = load()
    assert bunch.data.shape == shape and len(set(bunch.feature_names)) == shape[1]
    assert np.bincount(bunch.target).tolist() == counts
    models = [KMeans(len(counts), n_init=10, random_state=seed) for seed in range(n_seeds)]
    scores = [adjusted_rand_score(bunch.target, model.fit_predict(bunch.data)) for model in models]
    assert np.mean(scores) == pytest.approx(ari, abs=0.03)


@needs_data
@pytest.mark.parametrize(
    ("load", "counts"),
    [
        (data.load_tripadvisor, [820, 899, 978, 2992, 5788]),
        (lambda: data.load_tripadvisor(lara=True), [1552, 1918, 2219, 6234, 8568]),
        (data.load_disneyland, [93, 106, 213, 384, 633]),
    ],
)
def test_every_review_has_a_rating(load: Callable[[], Any], counts: list[int]) -> None:
    bunch = load()
    assert len(bunch.data) == len(bunch.target) and all(bunch.data)
    assert np.bincount(bunch.target, minlength=6).tolist() == [0, *counts]


def test_a_missing_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BLOCKMIX_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=rf"^olive\.csv\.gz is not in {tmp_path}: .* set BLOCKMIX_DATA to"):
        data.load_olive()


def literal_f(x: np.ndarray, y: np.ndarray) -> float:
    groups = [x[y == label] for label in np.unique(y)]
    between = sum(len(group) * (group.mean() - x.mean()) ** 2 for group in groups) / (len(groups) - 1)
    return float(between / (sum(((group - group.mean()) ** 2).sum() for group in groups) / (len(x) - len(groups))))


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_columns_are_selected_by_f(offset: float) -> None:
    # Red if sums of squares are taken about 0: at 1e6 their differences are rounding.
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=40)
    X = rng.standard_normal((40, 30)) + 50 * rng.uniform(size=30) + np.outer(y == 1, rng.uniform(size=30)) + offset
    F = np.array([literal_f(x, y) for x in X.T])
    X[:, 3] = 7.1  # constant: F = 0
    F[3] = 0
    for k in (1, 7, 30):
        assert data.select_by_f(X, y, k).tolist() == sorted(np.argsort(-F)[:k].tolist())


def test_bounds_of_the_filter_are_strict() -> None:
    X = np.array([[100.0, 100.0, 200.0, 99.0, 0.0], [600.0, 601.0, 1000.0, 601.0, 1e6]])
    clipped, columns = data.clip_and_filter(X)
    assert columns.tolist() == [1, 3, 4]
    assert clipped.tolist() == [[100, 100, 100], [601, 601, 16000]]
