"""The command `blockmix`: row clusters and column groups of a table, without writing Python."""

from __future__ import annotations

import os
import platform
from importlib import metadata

from blockmix.command.output import main

__all__ = ["main", "show_versions"]


def show_versions() -> None:
    """Print the versions of Python, of blockmix and of the packages that it uses; paste them into a bug report."""
    needed = ("blockmix", "numpy", "scipy", "scikit-learn", "joblib", "threadpoolctl", "numba")
    extras = ("pandas", "pyarrow", "matplotlib", "typer", "rich", "openpyxl", "dask", "distributed", "anndata")
    lines = {"python": platform.python_version(), "system": platform.platform(), "processors": str(os.cpu_count())}
    for name in (*needed, *extras):
        try:
            lines[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            lines[name] = "not installed"
    for name, version in lines.items():
        print(f"{name:>14}: {version}")
