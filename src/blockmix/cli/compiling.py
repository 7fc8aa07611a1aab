"""The compiled loops are made ready before a fit, with a message if that takes a while."""

from __future__ import annotations

import threading
import warnings

import numpy as np

from blockmix.cli.messages import note
from blockmix.estimators.biclustering import GaussianBiclustering

_PATIENCE = 1.0  # seconds before a word: from the cache on disk it takes less


def compile_loops() -> None:
    """Compile the loops of a sweep, or load them from the cache, by a fit to a tiny table."""
    timer = threading.Timer(_PATIENCE, note, ["compiling (once)"])
    timer.daemon = True
    timer.start()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a fit that nobody asked for
            GaussianBiclustering(2, random_state=0, max_iter=2).fit(np.random.default_rng(0).standard_normal((40, 6)))
    finally:
        timer.cancel()
