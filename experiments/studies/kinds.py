"""Number and kind of clusters: `select` with and without powers of the columns and heavy tails.

Not a result of the paper. `python -m experiments.studies.kinds [SEEDS]` draws tables of three clusters whose rows are
lognormal, gamma, negative binomial, normal or t, surveys of three kinds with a tenth of the answers missing, and tables
of one cluster, skewed or not; it prints how often the number of clusters is right, and the mean ARI. Seeds below 100
shaped the choice, those from 100 on judged it.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable

import numpy as np

from blockmix import select
from experiments.metrics import adjusted_rand

ROWS, COLUMNS, FIRST = 300, 6, 100
Drawn = tuple[np.ndarray, np.ndarray]


def lognormal(rng: np.random.Generator) -> Drawn:
    y, means = _classes(rng), rng.normal(size=(3, COLUMNS)) * 1.1
    common = 0.4 * rng.normal(size=(ROWS, 2))[:, np.arange(COLUMNS) % 2]
    return np.exp(means[y] + common + 0.35 * rng.normal(size=(ROWS, COLUMNS))), y


def gamma(rng: np.random.Generator) -> Drawn:
    y, shapes = _classes(rng), rng.uniform(2, 5, COLUMNS)
    return rng.gamma(shapes, size=(ROWS, COLUMNS)) * np.exp(1.3 * rng.normal(size=(3, COLUMNS)))[y], y


def counts(rng: np.random.Generator) -> Drawn:
    y, means = _classes(rng), np.exp(2.5 + 1.2 * rng.normal(size=(3, COLUMNS)))
    return rng.poisson(rng.gamma(5, 1 / 5, (ROWS, COLUMNS)) * means[y]).astype(float), y


def normal(rng: np.random.Generator) -> Drawn:
    y, means = _classes(rng), 2.2 * rng.normal(size=(3, COLUMNS))
    roots = rng.normal(size=(3, COLUMNS, COLUMNS)) / np.sqrt(COLUMNS) + 0.6 * np.eye(COLUMNS)
    return means[y] + np.einsum("nj,njk->nk", rng.normal(size=(ROWS, COLUMNS)), roots[y]), y


def heavy(rng: np.random.Generator) -> Drawn:
    y, means = _classes(rng), 3 * rng.normal(size=(3, COLUMNS))
    return means[y] + rng.normal(size=(ROWS, COLUMNS)) / np.sqrt(rng.chisquare(4, ROWS) / 4)[:, None], y


def survey(rng: np.random.Generator) -> Drawn:
    y = rng.choice(3, 400, p=[0.5, 0.3, 0.2])
    means = np.array([[2.2, 1.8, 3.8, 3.5], [3.6, 2.4, 3.0, 3.2], [4.0, 4.0, 1.9, 2.2]]).repeat(6, axis=1)
    common = 0.45 * rng.normal(size=(400, 4)).repeat(6, axis=1)
    X = np.clip(np.rint(means[y] + common + 0.6 * rng.normal(size=(400, 24))), 1, 5)
    X[rng.random(X.shape) < 0.1] = np.nan
    return X, y


def one_normal(rng: np.random.Generator) -> Drawn:
    n, p = int(rng.integers(60, 300)), int(rng.integers(3, 10))
    return rng.normal(size=(n, p)) @ rng.normal(size=(p, p)), np.zeros(n, dtype=int)


def one_skewed(rng: np.random.Generator) -> Drawn:
    X, y = one_normal(rng)
    return np.exp(0.7 * X / X.std(axis=0)), y


DESIGNS: tuple[Callable[[np.random.Generator], Drawn], ...] = (
    lognormal,
    gamma,
    counts,
    normal,
    heavy,
    survey,
    one_normal,
    one_skewed,
)


def _classes(rng: np.random.Generator) -> np.ndarray:
    return rng.choice(3, ROWS, p=[0.4, 0.35, 0.25])


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    warnings.simplefilter("ignore")
    print(f"{'design':12}{'own, shared: right':>20}{'ARI':>6}{'all kinds: right':>20}{'ARI':>6}")
    for design in DESIGNS:
        found = np.empty((2, n, 2))
        for i in range(n):
            X, y = design(np.random.default_rng([FIRST + i, len(design.__name__)]))
            for k, fixed in enumerate(({"columns": "linear", "tails": "normal"}, {})):
                best = select(X, range(1, 7), random_state=0, **fixed).best_
                same = best.n_components == len(np.unique(y))
                found[k, i] = same, adjusted_rand(y, best.model.row_labels_)
        shown = [f"{found[k, :, 0].mean():20.2f}{found[k, :, 1].mean():6.2f}" for k in (0, 1)]
        print(f"{design.__name__:12}{''.join(shown)}", flush=True)


if __name__ == "__main__":
    main()
