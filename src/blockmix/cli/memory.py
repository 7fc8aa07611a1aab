"""How much memory a fit needs, and how much there is."""

from __future__ import annotations

import os
from math import sqrt
from pathlib import Path

from blockmix.blocks.moments import worth_rows
from blockmix.cli.messages import note

# Matrices of p × p numbers, and copies of the table, at the peak of a fit, its regroup. With many columns and few rows
# only the distances are p × p; else scatter, covariance, correlation, its definite form, that in the order of the tree,
# and distances.
_MATRICES, _COPIES = 6, 4
_WIDE_MATRICES, _WIDE_COPIES = 1, 20
_PROGRAM = 0.25e9  # bytes of the process itself
_WIDE = 4000  # columns from which a fit is announced


def needed_memory(n_rows: int, n_columns: int) -> float:
    """Bytes that a fit with the default column groups needs, for N × p numbers.

    Examples
    --------
    >>> f"{needed_memory(100, 10_000) / 1e9:.1f} GB"
    '1.2 GB'
    >>> f"{needed_memory(4000, 10_000) / 1e9:.1f} GB"
    '6.3 GB'
    """
    wide = worth_rows(n_rows, n_columns)
    copies, matrices = (_WIDE_COPIES, _WIDE_MATRICES) if wide else (_COPIES, _MATRICES)
    return _PROGRAM + 8.0 * (copies * n_rows * n_columns + matrices * n_columns**2)


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
    fitting = int(sqrt(available / 2 / 8 / (_WIDE_MATRICES if worth_rows(n_rows, n_columns) else _MATRICES)))
    rounded = fitting // 1000 * 1000 or fitting
    raise MemoryError(
        f"{source} has {n_columns} columns, so a fit needs about {required / 1e9:.0f} GB of memory, and "
        f"{available / 1e9:.0f} GB are available: keep only those of largest variance, such as --top-variance {rounded}"
    )
