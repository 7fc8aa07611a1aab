"""Compile the loops of a fit in advance, with a message if they are not cached on disk."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from blockmix.cli.messages import note
from blockmix.cli.signals import n_arrived, raise_dropped
from blockmix.estimators.gaussian import GaussianBiclustering


def compile_loops() -> None:
    """Compile the loops of a sweep, or load them from the cache, by a fit to a tiny table."""
    from numba.core import event

    before = n_arrived()
    with warnings.catch_warnings(), event.install_listener("numba:compile", _listener(before)):
        warnings.simplefilter("ignore")  # this fit is not the one that was asked for
        GaussianBiclustering(2, random_state=0, max_iter=2).fit(np.random.default_rng(0).standard_normal((40, 6)))
    raise_dropped(before)


def _listener(before: int) -> Any:
    """A listener to the compiler that announces it once and raises dropped signals, beyond the first `before`."""
    from numba.core import event

    class Listener(event.Listener):
        said = False

        def on_start(self, event: object) -> None:
            raise_dropped(before)
            if not self.said:
                note("compiling (once)")
                self.said = True

        def on_end(self, event: object) -> None:
            raise_dropped(before)

    return Listener()
