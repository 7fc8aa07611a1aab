"""How much memory a fit needs, and how much there is."""

from __future__ import annotations

import os
from math import sqrt
from pathlib import Path

from blockmix.cli.messages import note

# Matrices of p × p numbers at the peak of a fit, its regroup: scatter, covariance, correlation, its definite form, that
# in the order of the tree, and distances. Measured with 5000 columns: 6.0.
_MATRICES = 6
_WIDE = 4000  # columns from which a fit is announced
_COPIES = 4  # of the table: itself, a copy for the starts, and what the fit needs


def needed_memory(n_rows: int, n_columns: int) -> float:
    """Bytes that a fit needs, for N × p numbers.

    Examples
    --------
    >>> f"{needed_memory(100, 10_000) / 1e9:.1f} GB"
    '4.8 GB'
    """
    return 8.0 * (_COPIES * n_rows * n_columns + _MATRICES * n_columns**2)


def available_memory() -> float:
    """Bytes of memory that are free; those of the machine, or infinitely many, if the system does not say more."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(1024.0 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, ValueError, StopIteration):
        pass
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):  # Windows
        return float("inf")


def check_memory(source: str, n_rows: int, n_columns: int) -> None:
    """Say how much memory a wide table needs; raise a MemoryError if there is not as much."""
    required, available = needed_memory(n_rows, n_columns), available_memory()
    if required <= available or n_columns < n_rows:  # fewer columns are no remedy for too many rows
        if n_columns >= _WIDE:
            few = _WIDE // 2
            note(
                f"{n_columns} columns: a fit needs about {required / 1e9:.1f} GB of memory; --top-variance {few} would "
                f"need {needed_memory(n_rows, few) / 1e9:.1f} GB and a fraction of the time"
            )
        return
    fitting = int(sqrt(available / 2 / 8 / _MATRICES))
    rounded = fitting // 1000 * 1000 or fitting
    raise MemoryError(
        f"{source} has {n_columns} columns, so a fit needs about {required / 1e9:.0f} GB of memory, and "
        f"{available / 1e9:.0f} GB are available: keep only those of largest variance, such as --top-variance {rounded}"
    )
