"""Packages of the extras: `make test` installs all of them, so that their tests run on every fresh machine."""

from __future__ import annotations

import importlib
import os
from typing import Any

import pytest


def package(name: str) -> Any:
    """Import a package; without it tests are skipped where fewer extras were chosen, and fail where CI runs."""
    if os.environ.get("CI"):
        return importlib.import_module(name)
    return pytest.importorskip(name, reason=f"{name} is not installed: make test installs it")
