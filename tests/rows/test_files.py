"""Sources: wherever the rows are stored, fits, predictions and samples are the same; names of columns are compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from fits import Fit
from numpy.testing import assert_allclose
from scipy import sparse
from sources import NAMES, SOURCES, as_npy, assert_same_fit, every_source, pieces_of, table

from blockmix import FactorBiclustering, GaussianBiclustering
from blockmix.rows import opened
from blockmix.rows.files import FORMATS, source_of


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blockmix.rows.rows._CHUNK_NUMBERS", 1)  # chunks of 64 rows


# The same rows, the same fit


@every_source
@pytest.mark.filterwarnings("ignore:columns .* form a group with negative")
def test_a_fit_is_the_same_from_every_source_and_weights_count_rows(kind: str, tmp_path: Path) -> None:
    X = table()
    weights = np.random.default_rng(0).integers(0, 3, len(X)).astype(float)
    for model, counts in (
        (GaussianBiclustering(2, random_state=0), None),
        (GaussianBiclustering(2, 2, random_state=0, shared_covariance=True), weights),
        (FactorBiclustering(2, 2, random_state=0), weights),
    ):
        again = type(model)(**model.get_params()).fit(SOURCES[kind](X, tmp_path), sample_weight=counts)
        assert_same_fit(again, model.fit(X, sample_weight=counts))
        assert again.row_labels_.dtype == (np.intp if kind == "array" else np.int32)


@every_source
def test_predictions_and_scores_are_the_same_from_every_source(kind: str, tmp_path: Path) -> None:
    X, new, file = table(), table(333, seed=1), tmp_path / "labels.npy"
    model = GaussianBiclustering(2, 2, random_state=0).fit(X)
    given = SOURCES[kind](new, tmp_path)
    counts = np.random.default_rng(0).integers(0, 3, len(new))
    labels = model.predict(given, out=file)
    assert isinstance(labels, np.memmap) and np.load(file).dtype == np.int8
    assert np.array_equal(labels, model.predict(new)) and np.array_equal(np.load(file), labels)
    assert_allclose(model.predict_proba(given), model.predict_proba(new), atol=1e-12)
    assert_allclose(model.score_samples(given), model.score_samples(new), rtol=1e-12)
    assert model.score(given) == pytest.approx(model.score_samples(new).mean(), rel=1e-12)
    for name in ("bic", "aic", "icl"):
        criterion = getattr(model, name)
        assert criterion(given, sample_weight=counts) == pytest.approx(criterion(new, sample_weight=counts), rel=1e-12)


@every_source
def test_float32_stays_float32_and_whole_numbers_become_float64(kind: str, tmp_path: Path) -> None:
    for dtype, expected in ((np.float32, np.float32), (np.int64, np.float64)):
        folder = tmp_path / np.dtype(dtype).name
        folder.mkdir()
        model = GaussianBiclustering(2, 2, random_state=0).fit(SOURCES[kind](table().astype(dtype), folder))
        assert model.means_.dtype == model.covariances_.dtype == expected
        assert model.score_samples(SOURCES[kind](table(), folder)).dtype == expected


@pytest.mark.parametrize("form", ["csc", "coo", "lil", "dok", "bsr"])
@pytest.mark.parametrize("container", [sparse.coo_array, sparse.coo_matrix])
def test_every_form_of_a_sparse_matrix_is_taken(form: str, container: Any) -> None:
    X = table(200)
    given = container(X).asformat(form)
    model = GaussianBiclustering(2, 2, random_state=0).fit(given)
    assert_same_fit(model, GaussianBiclustering(2, 2, random_state=0).fit(X))
    assert np.array_equal(model.predict(given), model.row_labels_)


@pytest.mark.parametrize("kind", ["npy", "parquet", "arrow", "parquet folder"])
def test_the_format_of_a_path_is_decided_by_its_suffix(kind: str, tmp_path: Path) -> None:
    # Red if a suffix is compared as it is written: .NPY is a .npy file.
    path: Path = SOURCES[kind](table(), tmp_path)
    if path.suffix:
        assert path.suffix in FORMATS
        path = path.rename(path.with_suffix(path.suffix.upper()))
    source = source_of(path)
    assert (source.n_rows, source.n_columns) == (700, 6)
    assert_allclose(np.concatenate([piece.read() for piece in source.pieces()]), table())


# More rows than the start takes


def test_the_sample_depends_on_the_seed_alone(tmp_path: Path) -> None:
    X = table()
    rows = [opened(SOURCES[kind](X, tmp_path)).measured() for kind in ("npy", "factory", "memmap")]
    drawn = [each.sample(50, np.random.RandomState(3)).X for each in rows]
    assert np.array_equal(drawn[0], drawn[1]) and np.array_equal(drawn[0], drawn[2])
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
    assert (np.diff(sample.X[:, 0]) > 0).all() and (sample.weights == 1).all()
    assert [len(rows.sample(size, np.random.RandomState(0)).X) for size in (160, 200)] == [150, 200]


@pytest.mark.parametrize("kind", ["npy", "csr", "factory"])
def test_a_start_from_a_sample_ends_where_the_start_from_all_rows_ends(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blockmix.estimators.fitting._SAMPLE_ROWS", 250)
    X = table(1000)
    settings: dict[str, Any] = {"tol": 1e-8, "max_iter": 1000, "random_state": 0, "rounding": False, "init": "kmeans"}
    whole = Fit(2, 2, **settings).fit(X)
    model = Fit(2, 2, **settings).fit(SOURCES[kind](X, tmp_path))
    assert_allclose(np.sort(model.means_, axis=0), np.sort(whole.means_, axis=0), atol=1e-2)
    assert model.log_likelihood_ == pytest.approx(whole.log_likelihood_, rel=1e-6)


def test_a_given_start_is_taken_row_by_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blockmix.estimators.fitting._SAMPLE_ROWS", 100)
    X = table()
    labels = np.where(X[:, 0] > 1, "high", "low")
    for init in (labels, np.random.default_rng(0).dirichlet([1, 1], len(X))):
        expected = Fit(2, 2, init=init, rounding=False).fit(X)
        assert_same_fit(Fit(2, 2, init=init, rounding=False).fit(as_npy(X, tmp_path)), expected)
    with pytest.raises(ValueError, match=r"^init has shape \(699,\): give labels of shape \(700,\) or "):
        GaussianBiclustering(2, 2, init=labels[1:]).fit(as_npy(X, tmp_path))


def test_names_of_columns_are_kept_and_compared(tmp_path: Path) -> None:
    X = table()
    model = GaussianBiclustering(2, 2, random_state=0).fit(pieces_of(pd.DataFrame(X, columns=NAMES)))
    assert model.feature_names_in_.tolist() == NAMES
    assert np.array_equal(model.predict(pd.DataFrame(X, columns=NAMES)), model.predict(as_npy(X, tmp_path)))
    with pytest.raises(ValueError, match=r"^column 0 of X is 'income' and was 'age' in the fit: choose the same"):
        model.predict(pieces_of(pd.DataFrame(X, columns=NAMES[::-1])))
    with pytest.raises(ValueError, match=r"^X has 5 columns, but GaussianBiclustering was fitted to 6: "):
        model.predict(pieces_of(X[:, 1:]))
    assert not hasattr(model.fit(as_npy(X, tmp_path)), "feature_names_in_")
