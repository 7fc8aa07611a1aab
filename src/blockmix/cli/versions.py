"""Versions of Python, of blockmix and of what it depends on, for a bug report."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version

_NEEDED = ("blockmix", "numpy", "scipy", "scikit-learn", "joblib", "threadpoolctl", "numba")
_EXTRAS = ("pandas", "pyarrow", "matplotlib", "typer", "rich", "openpyxl", "dask", "distributed", "anndata")


def show_versions() -> None:
    """Print the versions of Python, of blockmix and of the packages that it uses; paste them into a bug report."""
    lines = {"python": platform.python_version(), "system": platform.platform(), "processors": str(os.cpu_count())}
    lines |= {name: _version(name) for name in (*_NEEDED, *_EXTRAS)}
    for name, found in lines.items():
        print(f"{name:>14}: {found}")


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
