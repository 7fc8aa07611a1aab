"""Random products of tables, options and sources of rows, each fitted and held to the laws of every fit.

A case is a seed. It draws a table (clusters, groups, ties, missing values, odd scales), parameters that may be
invalid, and a source of rows. What the estimator accepts must keep every law; what it refuses, it refuses by a
ValueError of one sentence.
"""

from __future__ import annotations

import signal
import tempfile
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

import blockmix
from blockmix import GaussianBiclustering
from experiments.harness import Task

SECONDS = 90  # after which a case is too slow
# What may be odd about a table, and how often it is.
ODD = dict.fromkeys(("skewed", "rounded", "0/1", "equal columns", "equal rows", "scales", "float32"), 0.15)
ODD |= {"sum of columns": 0.1, "constant": 0.04, "offset": 0.05, "outlier": 0.08, "missing": 0.35}
TIED = {"rounded", "0/1", "equal columns", "equal rows", "sum of columns"}
INVALID: tuple[tuple[str, Any], ...] = (
    *(("n_components", value) for value in (0, 2.5, "2", True)),
    *(("n_column_groups", value) for value in (0, 10_000, "many")),
    *(("tails", value) for value in ("heavy", None)),
    *(("shared_covariance", value) for value in ("no", 1)),
    *(("shrinkage", value) for value in (1.0, -0.1, "auto")),
    *(("tol", value) for value in (-1.0, float("nan"))),
    *(("block_model", value) for value in ("round", 0, None)),
    *(("common_factors", value) for value in (-1, 1.5, "few")),
    *(("init", value) for value in ("best", np.zeros(3), None)),
    ("grouping", "none"),
    ("max_iter", 0),
    ("n_init", 0),
)


class Slow(BaseException):
    """The case took longer than `SECONDS`."""


class Laws(dict[str, str]):
    """The laws that a case was held to: an empty text where one held, what was seen where it broke."""

    def check(self, law: str, holds: Any, seen: object = "") -> None:
        self[law] = self.get(law, "") or ("" if holds else str(seen)[:300] or "broken")


def tasks(full: bool, runs: int | None) -> list[Task]:
    return [{"seed": seed} for seed in range(runs or (3000 if full else 300))]


def draw(rng: np.random.Generator) -> tuple[np.ndarray, int, set[str]]:
    """A table, its number of clusters, and what is odd about it."""
    N, p = int(rng.choice([1, 2, 4, 8, 12, 20, 30, 50, 80, 120, 200])), int(rng.choice([1, 2, 3, 4, 6, 8, 10, 15, 30]))
    G = int(rng.choice([1, 1, 2, 2, 2, 3, 3, 4, 5]))
    factors = rng.standard_normal((N, max(1, p // 3)))
    X = rng.standard_normal((N, p)) + rng.uniform(0, 3) * factors[:, np.arange(p) % factors.shape[1]]
    X += rng.uniform(0, 6) * rng.standard_normal((G, p))[rng.integers(0, G, N)]
    odd = {kind for kind, share in ODD.items() if rng.random() < share}
    some, row, powers = rng.integers(p), rng.integers(N), rng.uniform(-1, 1, p) * (6 if "float32" in odd else 60)
    if "skewed" in odd:
        X = np.exp(np.clip(X, -30, 30))
    if "rounded" in odd:
        X = np.round(X, int(rng.integers(2)))
    if "0/1" in odd:
        X[:, : some + 1] = X[:, : some + 1] > 0
    if "equal columns" in odd:
        X[:, some] = X[:, 0]
    if "sum of columns" in odd and p > 2:
        X[:, -1] = X[:, :-1].sum(axis=1)
    if "equal rows" in odd:
        X[rng.random(N) < 0.5] = X[0]
    if "constant" in odd:
        X[:, some] = 1.5
    X[:, some] += 1e8 if "offset" in odd else 0.0
    X[row] *= 1e5 if "outlier" in odd else 1.0
    X *= 10.0**powers if "scales" in odd else 1.0
    if "missing" in odd:
        X[rng.random(X.shape) < rng.choice([0.01, 0.05, 0.2, 0.4, 0.7])] = np.nan
    return X.astype("float32" if "float32" in odd else "float64"), G, odd


def options(rng: np.random.Generator, N: int, p: int, G: int) -> dict[str, Any]:
    """Parameters of the estimator: valid ones, but for combinations that the table may forbid."""
    choices: dict[str, tuple[float, list[Any]]] = {
        "n_column_groups": (0.5, [1, min(2, p), min(3, p), p, "silhouette"]),
        "grouping": (0.3, ["hierarchical", "greedy", "relaxed"]),
        "block_model": (0.5, ["full", "tree", 1, 2, "auto"]),
        "shared_covariance": (0.3, [True]),
        "tails": (0.3, ["t"]),
        "shrinkage": (0.2, [0.0, 0.1, 0.5, 0.99]),
        "init": (0.5, ["kmeans", "labels", "labels"]),
        "n_init": (0.1, [2]),
        "common_factors": (0.5, [0, 1, 1, 2, 3]),
    }
    drawn = {
        name: values[rng.integers(len(values))] for name, (share, values) in choices.items() if rng.random() < share
    }
    if drawn.get("init") == "labels":
        drawn["init"] = rng.permutation(np.arange(N) % G)
    return {"n_components": G, "max_iter": int(rng.choice([1, 2, 5, 20, 60])), "random_state": 0} | drawn


def run(task: Task) -> Task:
    """The laws that a seed was held to, and how its fit ended."""
    rng, laws = np.random.default_rng(task["seed"]), Laws()
    X, G, odd = draw(rng)
    settings = options(rng, len(X), X.shape[1], G)
    wrong = dict([INVALID[rng.integers(len(INVALID))]]) if rng.random() < 0.1 else {}

    def too_slow(*_: object) -> None:
        raise Slow

    before = signal.signal(signal.SIGALRM, too_slow)
    signal.alarm(SECONDS)
    ended = "failed"
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            ended = held(laws, X, settings | wrong, odd, rng)
        stray = [str(w.message) for w in caught if not w.category.__module__.startswith(("blockmix", "sklearn.exc"))]
        laws.check("no stray warning", not stray, stray[:2])
        laws.check("an invalid parameter is refused", not wrong or ended == "refused", wrong)
    except Slow:
        laws.check(f"a case takes at most {SECONDS} s", False)
    except Exception:
        laws.check("no exception but a refusal", False, traceback.format_exc()[-300:])
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    shown = {name: value if np.ndim(value) == 0 else "array" for name, value in (settings | wrong).items()}
    return {"ended": ended, "laws": laws, "table": [*X.shape, *sorted(odd)], "options": str(shown)}


def held(laws: Laws, X: np.ndarray, settings: dict[str, Any], odd: set[str], rng: np.random.Generator) -> str:
    """Fit and check; returns how the fit ended."""
    given = X.copy()
    weights = rng.integers(0, 4, len(X)).astype(float) if rng.random() < 0.2 else None
    try:
        model = GaussianBiclustering(**settings).fit(X, sample_weight=weights)
    except ValueError as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        one = "\n" not in str(error).strip() and 10 < len(str(error)) < 500
        checked = "blockmix" in last.filename or "sklearn" in last.filename
        laws.check("a refusal is one sentence of ours", one and checked, f"{last.filename}:{last.lineno} {error}")
        laws.check("the table is left as it was", np.array_equal(given, X, equal_nan=True))
        return "refused"
    laws.check("the table is left as it was", np.array_equal(given, X, equal_nan=True))
    of_fit(laws, model, X, weights)
    of_rows(laws, model, X, weights)
    of_files(laws, model, X)
    of_options(laws, model)
    if weights is None:
        of_sources(laws, model, X, odd, rng)
        of_order(laws, model, X, odd, rng)
    return "fitted"


def precision(X: np.ndarray) -> float:
    return 1e-3 if X.dtype == np.float32 else 1e-6


def of_fit(laws: Laws, model: Any, X: np.ndarray, weights: np.ndarray | None) -> None:
    trace, total = model.log_likelihood_trace_, len(X) if weights is None else weights.sum()
    fall = -np.diff(trace).min(initial=0.0)
    laws.check("the trace never falls", fall <= precision(X) / 10 * (np.abs(trace).max() + total), (fall, trace[-1]))
    for name in ("weights_", "means_", "covariances_", "log_likelihood_", "n_parameters_"):
        laws.check("everything fitted is finite", np.isfinite(getattr(model, name)).all(), name)
    laws.check("the weights sum to 1", abs(model.weights_.sum() - 1) < 1e-4, model.weights_)
    covariances = model.covariances_.astype(float)
    deviations = np.sqrt(np.einsum("gjj->gj", covariances))
    correlations = covariances / (deviations[:, :, None] * deviations[:, None])
    laws.check("covariances are positive", np.linalg.eigvalsh(correlations).min() > -precision(X), correlations)


def of_rows(laws: Laws, model: Any, X: np.ndarray, weights: np.ndarray | None) -> None:
    P, labels, scores = model.predict_proba(X), model.predict(X), model.score_samples(X)
    laws.check("probabilities sum to 1", np.isfinite(P).all() and np.abs(P.sum(axis=1) - 1).max() < 1e-4, P[:2])
    best = P[np.arange(len(P)), labels] == P.max(axis=1)
    laws.check("labels are the most probable", best.all() and np.array_equal(labels, model.row_labels_), best.sum())
    counted = np.ones(len(X)) if weights is None else weights
    total = (counted * scores)[counted > 0].sum(dtype=float)
    near = np.isclose(total, model.log_likelihood_, rtol=precision(X), atol=precision(X) * counted.sum())
    laws.check("scores add up to the log-likelihood", near, (total, model.log_likelihood_))
    present = ~np.isnan(X)
    filled = model.impute(X)
    kept = np.array_equal(filled[present], X[present])
    laws.check("imputing keeps what is present and leaves nothing out", kept and np.isfinite(filled).all())
    rows = present.any(axis=1)
    laws.check("outlier scores are finite", np.isfinite(model.outlier_scores_[rows]).all(), model.outlier_scores_)
    laws.check("criteria are finite", np.isfinite([model.bic(X), model.aic(X), model.icl(X)]).all())


def of_files(laws: Laws, model: Any, X: np.ndarray) -> None:
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder, "model"))
        again = blockmix.load(Path(folder, "model"))
    same = np.array_equal(again.predict_proba(X), model.predict_proba(X))
    laws.check("a saved model is the same model", same and again.describe() == model.describe())


def of_options(laws: Laws, model: Any) -> None:
    groups, shape = model.n_column_groups, model.block_model
    if isinstance(groups, int):
        laws.check("as many groups as asked for", (model.n_column_groups_ == groups).all(), model.n_column_groups_)
    if shape == "tree" or isinstance(shape, int):
        smallest = 3 if shape == "tree" else 2 * shape + 2  # from which on the shape has fewer parameters than full
        sizes = [np.bincount(labels) for labels in model.column_labels_]
        full = [
            (name, int(c))
            for names, counts in zip(model.block_shapes_, sizes, strict=True)
            for name, c in zip(names, counts, strict=True)
            if name == "full" and c >= smallest
        ]
        laws.check("blocks have the shape asked for", not full, (shape, full[:3]))


def of_sources(laws: Laws, model: Any, X: np.ndarray, odd: set[str], rng: np.random.Generator) -> None:
    """The same rows in another layout, or from a file or chunks, give the same fit."""
    third = max(1, len(X) // 3)
    with tempfile.TemporaryDirectory() as folder:
        kind = str(rng.choice(["fortran", "strided", "frame", "npy", "parquet", "chunks", "sparse"]))
        names = [f"c{j}" for j in range(X.shape[1])]
        source: Any = {
            "fortran": lambda: np.asfortranarray(X),
            "strided": lambda: np.repeat(X, 2, axis=0)[::2],
            "frame": lambda: pd.DataFrame(X, columns=names),
            "npy": lambda: Path(folder, "X.npy"),
            "parquet": lambda: Path(folder, "X.parquet"),
            "chunks": lambda: lambda: (X[i : i + third] for i in range(0, len(X), third)),
            "sparse": lambda: sparse.csr_array(np.nan_to_num(X)) if not np.isnan(X).any() else X,
        }[kind]()
        if kind == "npy":
            np.save(source, X)
        if kind == "parquet":
            pd.DataFrame(X, columns=names).to_parquet(source, row_group_size=third)
        other = GaussianBiclustering(**model.get_params()).fit(source)
        whole = kind in ("fortran", "strided", "frame")
        law = "the layout of the table does not matter" if whole else "the source of the rows does not matter"
        a, b = (m.log_likelihood_trace_[-1 if whole or not isinstance(m.init, str) else 0] for m in (model, other))
        tolerance = precision(X)
        same = np.isclose(a, b, rtol=tolerance, atol=tolerance * len(X))
        # Last digits of a sum may lead by another way to the same end, and a likelihood that rests on the ridge, as the
        # fit then says, magnifies them. The rows must agree.
        end = abs(model.log_likelihood_trace_[-1] - other.log_likelihood_trace_[-1]) <= model.tol * len(X)
        resting = bool(model.few_rows_) or model.outcome_ == "degenerate"
        same |= (end or resting) and np.array_equal(model.row_labels_, other.row_labels_)
        if not same:  # where the last digits of the values decide, the source must give one of the ends they give
            noise = 1e-13 * np.random.default_rng(0).standard_normal((12, *X.shape))
            ends = [GaussianBiclustering(**model.get_params()).fit(X * (1 + part)) for part in noise]
            values = [m.log_likelihood_trace_[-1 if whole or not isinstance(m.init, str) else 0] for m in ends]
            same = np.isclose(values, b, rtol=tolerance, atol=tolerance * len(X)).any()
        laws.check(law, same, (kind, a, b))
        laws.check("predict repeats the labels of the fit", np.array_equal(other.predict(source), other.row_labels_))


def of_order(laws: Laws, model: Any, X: np.ndarray, odd: set[str], rng: np.random.Generator) -> None:
    """Rows and columns in another order give the same objective; ties, which order breaks, are left out."""
    if isinstance(model.init, str) or odd & TIED or X.dtype == np.float32 or model.grouping != "hierarchical":
        return
    rows, columns = rng.permutation(len(X)), rng.permutation(X.shape[1])
    permuted = GaussianBiclustering(**model.get_params() | {"init": model.init[rows]}).fit(X[rows][:, columns])
    a, b = model.log_likelihood_trace_[-1], permuted.log_likelihood_trace_[-1]
    laws.check("the order of rows and columns does not matter", np.isclose(a, b, rtol=1e-5, atol=1e-5 * len(X)), (a, b))
