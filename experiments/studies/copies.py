"""Exact copies of a column, and columns that are independent: is the copy in the group of its original?

Ten independent columns of one distribution, and a copy of the first: `BlockDiagonalCovariance()` must put the two in
one group. Without the copy it must find no groups. A full run makes 60 tables of each kind.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from zlib import crc32

import numpy as np

from blockmix import BlockDiagonalCovariance
from experiments.harness import Task, arguments, mean_by, run, show, write

Rng = np.random.Generator
COLUMNS = 10


def one_wild_row(N: int, rng: Rng) -> np.ndarray:
    X = rng.standard_normal((N, COLUMNS))
    X[0] *= 1000
    return X


DRAWS: dict[str, Callable[[int, Rng], np.ndarray]] = {
    "normal": lambda N, rng: rng.standard_normal((N, COLUMNS)),
    "t, 3 df": lambda N, rng: rng.standard_t(3, (N, COLUMNS)),
    "t, 2 df": lambda N, rng: rng.standard_t(2, (N, COLUMNS)),
    "lognormal, sd 1": lambda N, rng: np.exp(rng.standard_normal((N, COLUMNS))),
    "lognormal, sd 2": lambda N, rng: np.exp(2 * rng.standard_normal((N, COLUMNS))),
    "Poisson(0.1)": lambda N, rng: rng.poisson(0.1, (N, COLUMNS)).astype(float),
    "normal, a row × 1000": one_wild_row,
}


def table(kind: str, N: int, seed: int) -> np.ndarray:
    """A table without constant columns, which are refused."""
    rng = np.random.default_rng([crc32(kind.encode()), N, seed])
    X = DRAWS[kind](N, rng)
    while not X.std(axis=0).all():
        X = DRAWS[kind](N, rng)
    return X


def look(task: Task) -> dict[str, float]:
    X = table(task["columns"], task["N"], task["seed"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        labels = BlockDiagonalCovariance().fit(np.column_stack([X, X[:, 0]])).column_labels_
        alone = BlockDiagonalCovariance().fit(X).n_groups_ == COLUMNS
    return {"together": float(labels[0] == labels[-1]), "false": float(not alone)}


def main() -> None:
    options = arguments(__doc__)
    runs = options.runs or (60 if options.full else 10)
    tasks = [{"columns": kind, "N": N, "seed": seed} for kind in DRAWS for N in (50, 100, 1000) for seed in range(runs)]
    means = mean_by(run("copies", look, tasks, options), ["columns", "N"], ["together", "false"])
    show(means)
    write("copies", means, options)


if __name__ == "__main__":
    main()
