"""Features multiply: shapes × factors × tails × powers × missing values × shared covariance × type × weights × source.

The trace never falls, the scores of the rows sum to the log-likelihood, and rows that are read in chunks give the fit
of the whole table. What does not go together is refused by name.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fits import Fit
from missing import with_missing
from optional import package
from sources import NAMES, as_npy, as_parquet, assert_same_fit, pieces_of, table

from blockmix import BlockDiagonalCovariance, FactorBiclustering, GaussianBiclustering, TopicBiclustering
from blockmix.partition import FloatArray
from blockmix.rows import rows as chunks_module

SOURCES: dict[str, Any] = {
    "npy": as_npy,
    "factory": lambda X, folder: pieces_of(X),
    "parquet": lambda X, folder: as_parquet(X, folder / "X.parquet"),
    "dask": lambda X, folder: package("dask.array").from_array(X, chunks=(90, 4)),
}
AXES: dict[str, tuple[Any, ...]] = {
    "shape": ("auto", "full", 1, "tree"),
    "tails": ("normal", "t"),
    "share": (0.0, 0.1),
    "shared": (False, True),
    "dtype": ("f8", "f4"),
}
COMBINATIONS = list(product(*AXES.values()))


def rows(share: float, dtype: str) -> FloatArray:
    X = with_missing(table(240), share, np.random.default_rng(1))
    if share:
        X[7] = np.nan
    return X.astype(dtype)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(tuple(AXES), COMBINATIONS)
def test_every_combination_keeps_the_laws(
    shape: Any, tails: str, share: float, shared: bool, dtype: str, tmp_path: Path
) -> None:
    # Weights, sources, powers and common factors come by turns, so that each meets every value of the other axes.
    X, combination = rows(share, dtype), (shape, tails, share, shared, dtype)
    places = [values.index(value) for values, value in zip(AXES.values(), combination, strict=True)]
    source = list(SOURCES)[COMBINATIONS.index(combination) % 3]  # Dask has a test of its own
    weights = np.random.default_rng(2).integers(0, 3, 240) if sum(places) % 2 else None
    columns = ("linear", "power")[(sum(places) // 2 + places[-1]) % 2]
    X = np.exp(X / 3) if columns == "power" else X
    settings: dict[str, Any] = {"block_model": shape, "tails": tails, "shared_covariance": shared, "columns": columns}
    settings["max_iter"] = 40
    settings["common_factors"] = (0, 1, "auto")[COMBINATIONS.index(combination) // 2 % 3]
    model = GaussianBiclustering(2, random_state=0, **settings).fit(X, sample_weight=weights)
    trace, single = model.log_likelihood_trace_, dtype == "f4"
    assert np.isfinite(trace).all()
    assert np.diff(trace).min(initial=0) >= -(1e-5 if single else 1e-10) * np.abs(trace).max()
    scores = model.score_samples(X).astype(float)
    total = scores.sum() if weights is None else weights @ scores
    assert total == pytest.approx(model.log_likelihood_, rel=1e-5 if single else 1e-10)
    assert np.isfinite(model.impute(X)).all()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks_module, "_CHUNK_NUMBERS", 64 * 6)
        again = GaussianBiclustering(2, random_state=0, **settings)
        again.fit(SOURCES[source](X, tmp_path), sample_weight=weights)
    if not single:  # in single precision sums of chunks differ in the sixth digit, and so may the number of iterations
        assert_same_fit(again, model, rtol=1e-7)
    assert again.log_likelihood_ == pytest.approx(model.log_likelihood_, rel=1e-4 if single else 1e-9)


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_of_rows_with_missing_values_gives_the_same_fit(source: str, tmp_path: Path) -> None:
    # In Parquet a missing value is a null.
    X = with_missing(table(700), 0.1, np.random.default_rng(0))
    settings: dict[str, Any] = {"random_state": 0, "tol": 1e-8, "rounding": False}
    model = Fit(2, **settings).fit(X)
    given = SOURCES[source](X, tmp_path)
    assert_same_fit(Fit(2, **settings).fit(given), model)
    assert np.allclose(model.score_samples(given), model.score_samples(X), rtol=1e-12)
    assert np.allclose(model.impute(given), model.impute(X), rtol=1e-12)


MISSING = rows(0.1, "f8")
REFUSED: dict[str, tuple[Any, str]] = {
    "factors": (lambda path: FactorBiclustering(2, 2).fit(MISSING), r"column 0 \(\d+\).*use GaussianBiclustering"),
    "factors of a file": (lambda path: FactorBiclustering(2, 2).fit(as_npy(MISSING, path)), "has nan in column"),
    "topics": (lambda path: TopicBiclustering(2).fit(np.abs(MISSING)), "entry nan"),
    "stability of a covariance": (
        lambda path: BlockDiagonalCovariance(2).fit(table(240)).stability(MISSING),
        r"missing values: use the stability of GaussianBiclustering\(1\)",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_take_missing_values_says_so(case: str, tmp_path: Path) -> None:
    call, sentence = REFUSED[case]
    with pytest.raises(ValueError, match=sentence):
        call(tmp_path)


def test_names_of_columns_are_in_refusals() -> None:
    pd = package("pandas")
    with pytest.raises(ValueError, match=r"NaN or infinity in column age \(\d+\)"):
        FactorBiclustering(2, 2).fit(pd.DataFrame(MISSING, columns=NAMES))
