"""Two things timed in turns in one process: on a shared machine only their ratio means something.

Importing it also makes the data sets of `experiments` importable.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

PAUSE = 0.1  # seconds

sys.path.append(str(Path(__file__).parents[1]))  # last: the installed package wins


def in_turns(
    ours: Callable[[], object],
    theirs: Callable[[], object],
    turns: int,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[float, float, float]:
    """Median seconds of both, and the median of the ratios.

    BLAS threads keep a core busy for a while after their last product; the pause lets them fall asleep.
    """
    times = []
    for _ in range(turns):
        pair = []
        for function in (ours, theirs):
            time.sleep(PAUSE)
            start = clock()
            function()
            pair.append(clock() - start)
        times.append(pair)
    a, b = np.array(times).T
    return float(np.median(a)), float(np.median(b)), float(np.median(a / b))
