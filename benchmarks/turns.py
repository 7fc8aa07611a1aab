"""Two things timed in turns in one process: on a shared machine only their ratio means something."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np


def in_turns(
    ours: Callable[[], object],
    theirs: Callable[[], object],
    turns: int,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[float, float, float]:
    """Median seconds of both, and the median of the ratios."""
    times = []
    for _ in range(turns):
        start = clock()
        ours()
        middle = clock()
        theirs()
        times.append((middle - start, clock() - middle))
    a, b = np.array(times).T
    return float(np.median(a)), float(np.median(b)), float(np.median(a / b))
