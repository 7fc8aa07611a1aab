"""Modules of many columns and few rows: column groups by rule, in one covariance and within a mixture of two.

Modules of 20 to 35 columns with random signs among 150 columns, dense and autoregressive blocks, independent columns.
In the mixture each of two components has N rows and groups of its own. A full run makes 20 draws of each cell for the
default and 10 for the silhouette; wgcna.py made 5 for WGCNA.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from csv import DictReader
from typing import Any
from zlib import crc32

import numpy as np
from scipy.linalg import block_diag

from blockmix import BlockDiagonalCovariance, GaussianBiclustering
from experiments.figures import curves, save, sheet
from experiments.harness import RESULTS, Task, arguments, mean_by, run, show, write
from experiments.metrics import adjusted_rand

Rng = np.random.Generator
P = 150
APART = 1.0  # distance of the two means in every column: the rows are told apart, so that the groups are what is judged
ROWS = (30, 50, 100, 300)
FIRST_SEED = 1000  # rules were shaped on earlier ones
METHODS = {"default": "auto", "silhouette": "silhouette"}
WGCNA = RESULTS / "wgcna.csv"
KINDS = ("one covariance", "a mixture of two")
FIGURES = ["ari", "false", "groups", "seconds"]


def factors(q: int, low: float, high: float) -> Callable[[int, Rng], np.ndarray]:
    """Correlation of a module of q factors: communalities from low² to high², random signs."""

    def block(c: int, rng: Rng) -> np.ndarray:
        loadings = rng.standard_normal((c, q)) if q > 1 else rng.choice([-1.0, 1.0], (c, 1))
        loadings *= (rng.uniform(low, high, c) / np.linalg.norm(loadings, axis=1))[:, None]
        return loadings @ loadings.T + np.diag(1 - (loadings**2).sum(axis=1))

    return block


def dense(c: int, rng: Rng) -> np.ndarray:
    """Correlation of any rank: that of 2c random rows with a common factor."""
    X = rng.standard_normal((2 * c, c)) + 1.2 * rng.standard_normal((2 * c, 1)) * rng.choice([-1, 1], c)
    return np.corrcoef(X.T)


def autoregressive(c: int, rng: Rng) -> np.ndarray:
    """Correlation 0.8^|i − j|, random signs."""
    signs, steps = rng.choice([-1, 1], c), np.arange(c)
    return np.outer(signs, signs) * 0.8 ** np.abs(steps[:, None] - steps)


# Block, least and largest size, number of blocks; the other columns are independent.
DESIGNS: dict[str, tuple[Callable[[int, Rng], np.ndarray], int, int, int]] = {
    "equal": (factors(1, 0.67, 0.67), 20, 35, 4),
    "unequal": (factors(1, 0.4, 0.9), 20, 35, 4),
    "two factors": (factors(2, 0.7, 0.9), 20, 35, 4),
    "dense": (dense, 5, 10, 12),
    "AR(1)": (autoregressive, 20, 35, 4),
    "independent": (dense, 1, 1, 0),
}


def draw_rows(design: str, n_rows: int, rng: Rng) -> tuple[np.ndarray, np.ndarray]:
    """Rows (N, p) with columns in random order, and the group of each column (p,)."""
    block, least, largest, number = DESIGNS[design]
    sizes = rng.integers(least, largest + 1, number).tolist()
    sizes += [1] * (P - sum(sizes))
    L = block_diag(*(np.linalg.cholesky(block(c, rng)) if c > 1 else np.eye(1) for c in sizes))
    order = rng.permutation(P)
    X = rng.standard_normal((n_rows, P)) @ L.T
    return X[:, order], np.repeat(np.arange(len(sizes)), sizes)[order]


def table_rng(design: str, n_rows: int, seed: int) -> Rng:
    """The random numbers of one table."""
    return np.random.default_rng([crc32(design.encode()), n_rows, seed])


def recover(task: Task) -> dict[str, float]:
    # The same rows for each method.
    rng = table_rng(task["design"], task["N"], task["seed"])
    parts = [draw_rows(task["design"], task["N"], rng) for _ in range(1 if task["within"] == "one covariance" else 2)]
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        labels = _groups(parts, METHODS[task["method"]], task["seed"])
    seconds = time.process_time() - start
    each = [scores(truth, each_labels) for (_, truth), each_labels in zip(parts, labels, strict=True)]
    return dict(zip(FIGURES, np.mean(each, axis=0).tolist(), strict=False)) | {"seconds": seconds}


def _groups(parts: list[tuple[np.ndarray, np.ndarray]], rule: str, seed: int) -> list[np.ndarray]:
    """Column labels of each part: in its own covariance, or in the component that has most of its rows."""
    if len(parts) == 1:
        return [BlockDiagonalCovariance(rule).fit(parts[0][0]).partition_.labels]
    X = np.concatenate([rows + APART * g for g, (rows, _) in enumerate(parts)])
    model = GaussianBiclustering(2, rule, random_state=seed).fit(X)
    halves = np.split(model.row_labels_, 2)
    return [model.column_labels_[np.bincount(half, minlength=2).argmax()] for half in halves]


def scores(truth: np.ndarray, labels: np.ndarray) -> tuple[float, float, float]:
    """ARI, share of the columns alone in truth that were put in a group, and number of groups of several columns."""
    together = np.bincount(labels)
    alone = np.bincount(truth)[truth] == 1
    false = float((together[labels][alone] > 1).mean()) if alone.any() else 0.0
    return adjusted_rand(truth, labels), false, float((together > 1).sum())


def draw(table: list[Task], options: Any) -> None:
    kinds = list(dict.fromkeys(line["within"] for line in table))
    title = f"Column groups of {P} columns, mean of {table[0]['runs']} draws"
    figure, axes = sheet(len(kinds), len(DESIGNS), title, (3.4, 3.2))
    for (i, j), ax in np.ndenumerate(axes):
        design = list(DESIGNS)[j]
        lines = [line for line in table if (line["within"], line["design"]) == (kinds[i], design)]
        independent = design == "independent"
        curves(ax, lines, "N", "false" if independent else "ari", factor=100 if independent else 1)
        label = "columns in false groups, %" if independent else "adjusted Rand index"
        ax.set(
            title=f"{design}, {kinds[i]}",
            ylabel=label,
            xlabel="rows N",
            ylim=(-3, 103) if independent else (-0.03, 1.03),
        )
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    save(figure, "modules", options)


def wgcna() -> list[Task]:
    """What wgcna.py measured on five of the draws; WGCNA is given the rows of one component, within a mixture too."""
    with WGCNA.open() as file:
        lines = [
            {key: value if key == "design" else float(value) for key, value in line.items()}
            for line in DictReader(file)
        ]
    return [line | {"N": int(line["N"]), "method": "WGCNA", "within": within} for within in KINDS for line in lines]


def main() -> None:
    options = arguments(__doc__)
    runs = options.runs or (20 if options.full else 2)
    tasks = [
        {"within": within, "design": design, "method": method, "N": N, "seed": seed}
        for within in KINDS
        for design in DESIGNS
        for N in ROWS
        for method in METHODS
        for seed in range(FIRST_SEED, FIRST_SEED + (runs if method == "default" else min(runs, 10)))
    ]
    lines = run("modules", recover, tasks, options) + wgcna()
    table = mean_by(lines, ["within", "design", "method", "N"], FIGURES)
    # Apart: where there is nothing to find, the ARI is 1 or 0 and would distort the mean.
    independent = [line for line in table if line["design"] == "independent"]
    grouped = [line for line in table if line["design"] != "independent"]
    show(mean_by(grouped, ["within", "method", "N"], ["ari", "false", "seconds"]))
    show(mean_by(independent, ["within", "method", "N"], ["false", "groups"]))
    write("modules", table, options)
    draw(table, options)


if __name__ == "__main__":
    main()
