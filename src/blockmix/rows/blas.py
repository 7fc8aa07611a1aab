"""BLAS threads: one while our own threads or Dask's workers read chunks, and afterwards what it was."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, ExitStack
from functools import cache

from threadpoolctl import ThreadpoolController


class _BlasHold:
    """One thread for BLAS from the first that asks for it to the last that lets go.

    The setting belongs to the process: were each of two fits on threads to restore what it had found, the one that
    began second would restore the limit of the first.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders = 0
        self._found = ExitStack()

    def __enter__(self) -> None:
        with self._lock:
            if self._holders == 0:
                self._found.enter_context(_controller().limit(limits=1, user_api="blas"))
            self._holders += 1

    def __exit__(self, *reason: object) -> None:
        with self._lock:
            self._holders -= 1
            if self._holders == 0:
                self._found.close()


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


_hold = _BlasHold()


def one_blas_thread() -> AbstractContextManager[None]:
    """Keep BLAS to one thread while our own threads work; the process's setting is restored."""
    return _hold
