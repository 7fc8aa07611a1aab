"""Extras: optional packages that only parts of blockmix need.

`needed` imports one of them, or raises an error that names the extra to install.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


def needed(module: str, extra: str) -> Any:
    """Import a module, or raise an ImportError that names the extra to install.

    Examples
    --------
    >>> needed("no_such_module", "app")
    Traceback (most recent call last):
    ImportError: no_such_module is needed and not installed: pip install 'blockmix[app]'
    """
    try:
        return import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise ImportError(f"{package} is needed and not installed: pip install 'blockmix[{extra}]'") from None
