"""Extras: packages that only some parts of blockmix need, and that are not always installed.

The name of a module comes in; the module goes out, or one sentence that says how to install it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


def needed(module: str, extra: str) -> Any:
    """Import a module, or say which extra of the package brings it.

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
