"""Sources: wherever the rows are stored, fits, predictions and samples are the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sources import (
    NAMES,
    SOURCES,
    as_npy,
    assert_same_fit,
    every_source,
    pieces_of,
    table,
)

from blockmix import FactorBiclustering, GaussianBiclustering
from blockmix.rows import opened


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blockmix.rows.rows._CHUNK_NUMBERS", 1)  # chunks of 64 rows


# The same rows, the same fit.


@every_source
@pytest.mark.parametrize(
    "setting", [{}, {"shared_covariance": True}, {"n_column_groups": 2, "init": "random", "n_init": 2}]
)
def test_a_fit_is_the_same_from_every_source(kind: str, setting: dict[str, Any], tmp_path: Path) -> None:
    X = table()
    expected = GaussianBiclustering(2, random_state=0, **setting).fit(X)
    assert_same_fit(GaussianBiclustering(2, random_state=0, **setting).fit(SOURCES[kind](X, tmp_path)), expected)


@every_source
@pytest.mark.filterwarnings("ignore::blockmix.GroupingWarning")
def test_the_factor_mixture_is_the_same_from_every_source(kind: str, tmp_path: Path) -> None:
    X = table()
    expected = FactorBiclustering(2, 2, random_state=0).fit(X)
    assert_same_fit(FactorBiclustering(2, 2, random_state=0).fit(SOURCES[kind](X, tmp_path)), expected)


@every_source
def test_predictions_and_scores_are_the_same_from_every_source(kind: str, tmp_path: Path) -> None:
    X, new = table(), table(333, seed=1)
    model = GaussianBiclustering(2, 2, random_state=0).fit(X)
    given = SOURCES[kind](new, tmp_path)
    counts = np.random.default_rng(0).integers(0, 3, len(new))
    assert np.array_equal(model.predict(given), model.predict(new))
    assert_allclose(model.predict_proba(given), model.predict_proba(new), atol=1e-12)
    assert_allclose(model.score_samples(given), model.score_samples(new), rtol=1e-12)
    assert model.score(given) == pytest.approx(model.score_samples(new).mean(), rel=1e-12)
    for name in ("bic", "aic", "icl"):
        criterion = getattr(model, name)
        assert criterion(given, sample_weight=counts) == pytest.approx(criterion(new, sample_weight=counts), rel=1e-12)


@every_source
def test_labels_are_written_to_a_file(kind: str, tmp_path: Path) -> None:
    X = table()
    model = GaussianBiclustering(2, 2, random_state=0).fit(X)
    expected, given, file = model.predict(X), SOURCES[kind](X, tmp_path), tmp_path / "labels.npy"
    found = model.predict(given, out=file)
    assert isinstance(found, np.memmap)
    assert np.array_equal(found, expected)
    assert np.array_equal(np.load(file), expected)
    assert np.load(file).dtype == np.int8
    assert model.fit(given).row_labels_.dtype == (np.intp if kind == "array" else np.int32)


@every_source
def test_weights_count_rows_in_every_source(kind: str, tmp_path: Path) -> None:
    X = table()
    weights = np.random.default_rng(0).integers(0, 3, len(X)).astype(float)
    expected = GaussianBiclustering(2, 2, random_state=0).fit(X, sample_weight=weights)
    found = GaussianBiclustering(2, 2, random_state=0).fit(SOURCES[kind](X, tmp_path), sample_weight=weights)
    assert_same_fit(found, expected)
    assert (weights == 0).any()


@every_source
def test_float32_stays_float32_and_whole_numbers_become_float64(kind: str, tmp_path: Path) -> None:
    for dtype, expected in ((np.float32, np.float32), (np.int64, np.float64)):
        folder = tmp_path / np.dtype(dtype).name
        folder.mkdir()
        model = GaussianBiclustering(2, 2, random_state=0).fit(SOURCES[kind](table().astype(dtype), folder))
        assert model.means_.dtype == model.covariances_.dtype == expected
        assert model.score_samples(SOURCES[kind](table(), folder)).dtype == expected


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok", "bsr"])
@pytest.mark.parametrize("container", [sparse.coo_array, sparse.coo_matrix])
def test_every_form_of_a_sparse_matrix_is_taken(form: str, container: Any) -> None:
    X = table(200)
    given = container(X).asformat(form)
    model = GaussianBiclustering(2, 2, random_state=0).fit(given)
    assert_same_fit(model, GaussianBiclustering(2, 2, random_state=0).fit(X))
    assert np.array_equal(model.predict(given), model.row_labels_)
    assert model.predict_proba(given).shape == (200, 2)


# More rows than the start takes.


@pytest.mark.parametrize(("kind", "init"), [("npy", "kmeans"), ("csr", "random"), ("factory", "portfolio")])
def test_a_start_from_a_sample_ends_where_the_start_from_all_rows_ends(
    kind: str, init: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blockmix.estimators.mixture._SAMPLE_ROWS", 250)
    X = table(1000)
    whole = GaussianBiclustering(2, 2, tol=1e-8, max_iter=1000, random_state=0, rounding=False).fit(X)
    found = GaussianBiclustering(2, 2, tol=1e-8, max_iter=1000, random_state=0, init=init, rounding=False)
    found.fit(SOURCES[kind](X, tmp_path))
    order = np.argsort(found.means_[:, 0])
    assert_allclose(found.means_[order], np.sort(whole.means_, axis=0), atol=1e-2)
    assert found.log_likelihood_ == pytest.approx(whole.log_likelihood_, rel=1e-6)
    assert (np.diff(found.log_likelihood_trace_) > -1e-6).all()


def test_the_sample_depends_on_the_seed_alone(tmp_path: Path) -> None:
    X = table()
    rows = [opened(SOURCES[kind](X, tmp_path)).measured() for kind in ("npy", "factory", "memmap")]
    drawn = [found.sample(50, np.random.RandomState(3)).X for found in rows]
    assert np.array_equal(drawn[0], drawn[1])
    assert np.array_equal(drawn[0], drawn[2])
    assert not np.array_equal(drawn[0], rows[0].sample(50, np.random.RandomState(4)).X)
    assert len({tuple(row) for row in drawn[0]} & {tuple(row) for row in X}) == 50


def test_every_row_that_counts_is_drawn_as_often() -> None:
    # Red if the sample takes the first rows, or rows of weight 0.
    X = np.arange(200.0)[:, None] * [1, -1]
    weights = (np.arange(200) % 4 > 0).astype(float)
    rows = opened(sparse.csr_array(X), weights).measured()
    drawn = np.concatenate([rows.sample(30, np.random.RandomState(seed)).X[:, 0] for seed in range(200)])
    counts = np.bincount(drawn.astype(int), minlength=200)
    assert (counts[::4] == 0).all()
    assert (np.abs(counts[weights > 0] - 40) < 5 * np.sqrt(40 * 0.8)).all()
    sample = rows.sample(30, np.random.RandomState(0))
    assert (np.diff(sample.X[:, 0]) > 0).all()
    assert (sample.weights == 1).all()
    assert len(rows.sample(160, np.random.RandomState(0)).X) == 150
    assert len(rows.sample(200, np.random.RandomState(0)).X) == 200


def test_a_given_start_is_taken_row_by_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blockmix.estimators.mixture._SAMPLE_ROWS", 100)
    X = table()
    labels = np.where(X[:, 0] > 1, "high", "low")
    z = np.random.default_rng(0).dirichlet([1, 1], len(X))
    for init in (labels, z):
        expected = GaussianBiclustering(2, 2, init=init, rounding=False).fit(X)
        assert_same_fit(GaussianBiclustering(2, 2, init=init, rounding=False).fit(as_npy(X, tmp_path)), expected)
    with pytest.raises(ValueError, match=r"^init has shape \(699,\): give labels of shape \(700,\) or "):
        GaussianBiclustering(2, 2, init=labels[1:]).fit(as_npy(X, tmp_path))


@pytest.mark.parametrize("change", [{}, {"n_column_groups": 3}])
def test_a_warm_start_reads_other_rows_from_anywhere(
    change: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blockmix.estimators.mixture._SAMPLE_ROWS", 300)
    model = GaussianBiclustering(2, 2, warm_start=True, random_state=0).fit(table())
    model.set_params(**change).fit(as_npy(table(seed=5), tmp_path))
    assert model.starts_[0][0] == "warm"
    assert model.n_column_groups_.tolist() == [change.get("n_column_groups", 2)] * 2


# Names.


def test_names_of_columns_are_kept_and_compared(tmp_path: Path) -> None:
    X = table()
    frames = pieces_of(pd.DataFrame(X, columns=NAMES))
    model = GaussianBiclustering(2, 2, random_state=0).fit(frames)
    assert model.feature_names_in_.tolist() == NAMES
    assert np.array_equal(model.predict(pd.DataFrame(X, columns=NAMES)), model.predict(as_npy(X, tmp_path)))
    swapped = pieces_of(pd.DataFrame(X, columns=NAMES[::-1]))
    with pytest.raises(ValueError, match=r"^column 0 of X is 'income' and was 'age' in the fit: choose the same"):
        model.predict(swapped)
    with pytest.raises(ValueError, match=r"^X has 5 columns, but GaussianBiclustering was fitted to 6: "):
        model.predict(pieces_of(X[:, 1:]))
    assert not hasattr(model.fit(as_npy(X, tmp_path)), "feature_names_in_")
