"""How time and memory of one EM iteration and of one regroup grow, with fitted exponents.

    OMP_NUM_THREADS=1 python benchmarks/growth.py [docs/images/growth.svg]

One of rows N, columns p (in groups of ten, and in one block), components G and groups K varies over three decades. Time
is that of the processor; memory is the peak of what NumPy allocates. An exponent is the slope between the last two
points of a line, where fixed costs no longer hide it.
"""

from __future__ import annotations

import sys
import time
import tracemalloc
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from blockmix.blocks.blocks import Blocks, Layout
from blockmix.blocks.moments import as_matrix
from blockmix.em.parameters import Parameters, Prior
from blockmix.em.sweep import maximize, sweep
from blockmix.grouping import BestCut, HierarchicalGrouping
from blockmix.grouping.common_factors import MOST, Scatter, best_common
from blockmix.grouping.grouping import layout_of
from blockmix.partition import Partition, bic_price
from blockmix.rows import ArrayRows, one_blas_thread

SIZES = {  # line: (sizes, N, p, G, columns per group)
    "rows": ([300, 3000, 30_000, 300_000], None, 10, 3, 5),
    "columns in groups of ten": ([10, 100, 1000, 5000], 300, None, 2, 10),
    "columns in one block": ([10, 100, 1000], 1000, None, 2, None),
    "components": ([1, 10, 100, 1000], 2000, 10, None, 5),
    "groups of 1000 columns": ([1, 10, 100, 1000], 500, 1000, 2, None),
}


def iteration(n: int, p: int, G: int, K: int) -> Callable[[], object]:
    """A sweep over n rows and an M-step, with G components whose p columns are in K groups."""
    rng = np.random.default_rng(0)
    rows = ArrayRows.standardized(rng.standard_normal((n, p)))
    layout = Layout((Partition(np.arange(p) * K // p),) * G)
    factors = np.zeros(layout.size)
    factors[layout.diagonal] = 1
    parameters = Parameters(np.full(G, 1 / G), rng.standard_normal((G, p)), Blocks(layout, factors))
    return lambda: maximize(sweep(rows, parameters), parameters, Prior(0.0, 1.0))


def regroup(p: int, common: bool) -> Callable[[], object]:
    """The best groups of a correlation of p columns in modules of ten, or the search for common factors in them."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, p)) + np.repeat(rng.standard_normal((500, -(-p // 10))), 10, axis=1)[:, :p]
    S = as_matrix(np.corrcoef((X + common * rng.standard_normal((500, 1))).T))

    def groups(R: Any) -> Layout:
        return layout_of(BestCut().choose(R, 500, HierarchicalGrouping()))

    if not common:
        return lambda: groups(S)
    found, price = groups(S), bic_price(500)
    return lambda: best_common(Scatter.of(S, 500, price, price), groups, found, None, 0, MOST)


def cost(run: Callable[[], object]) -> tuple[float, float]:
    """Seconds of processor time, the least of three, and the peak of the memory in MB."""
    seconds = []
    for _ in range(3):
        start = time.process_time()
        run()
        seconds.append(time.process_time() - start)
    tracemalloc.start()
    run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return min(seconds), peak / 1e6


def measured() -> dict[str, tuple[list[int], np.ndarray]]:
    """Sizes and costs of each line."""
    lines = {}
    for name, (sizes, n, p, G, width) in SIZES.items():
        costs = []
        for size in sizes:
            columns = p or size
            K = size if "groups of 1000" in name else columns // width if width else 1
            costs.append(cost(iteration(n or size, columns, G or size, K)))
        lines[name] = sizes, np.array(costs)
    for name, sizes in (("regroup, columns", [10, 100, 1000, 5000]), ("common factors, columns", [10, 100, 1000])):
        lines[name] = sizes, np.array([cost(regroup(p, "common" in name)) for p in sizes])
    return lines


def exponents(sizes: list[int], costs: np.ndarray) -> np.ndarray:
    """Slopes of time and memory between the last two points."""
    return np.log(costs[-1] / costs[-2]) / np.log(sizes[-1] / sizes[-2])


def draw(lines: dict[str, tuple[list[int], np.ndarray]], path: str) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for name, (sizes, costs) in lines.items():
        for panel, (axis, values, slope) in enumerate(zip(axes, costs.T, exponents(sizes, costs), strict=True)):
            axis.loglog(sizes, values, marker="o", ms=3, label=f"{name if panel == 0 else ''} ^{slope:.2f}".strip())
    for axis, label in zip(axes, ("seconds of processor time", "peak memory, MB"), strict=True):
        axis.set(xlabel="size", ylabel=label)
        axis.legend(fontsize=6, frameon=False)
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    with one_blas_thread():
        found = measured()
    for name, (sizes, costs) in found.items():
        seconds, peak = exponents(sizes, costs)
        figures = ", ".join(f"{size}: {s:.3g} s {m:.3g} MB" for size, (s, m) in zip(sizes, costs, strict=True))
        print(f"{name}: time ^{seconds:.2f}, memory ^{peak:.2f} ({figures})")
    if len(sys.argv) > 1:
        draw(found, sys.argv[1])
