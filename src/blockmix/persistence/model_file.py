"""Model files: an estimator as an archive of its class name, its parameters and its fitted state.

`save` and `load` are handed the classes that a file may hold; this module knows none of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from blockmix.persistence import archive
from blockmix.persistence.values import Codecs, Packer, unpacked

CHECKPOINT = "Checkpoint"  # in the place of a class: the file of an unfinished fit

# Gives the estimator of parameters and state, or raises an exception if there is none.
Restore = Callable[[dict[str, Any], dict[str, Any]], Any]


def save(model: Any, path: str | os.PathLike[str], values: Codecs) -> None:
    """Write an estimator to a file, which is replaced as a whole; the same model gives the same bytes.

    Parameters
    ----------
    model : estimator
        Fitted or not; `get_params` and `_state` give its content.
    path : path
        A file in an existing folder.
    values : Codecs
        Classes of the objects in the content.
    """
    write(path, type(model).__name__, {"parameters": model.get_params(deep=False), "state": model._state()}, values)


def load(path: str | os.PathLike[str], estimators: Mapping[str, Restore], values: Codecs) -> Any:
    """Read an estimator from a file that `save` has written.

    Parameters
    ----------
    path : path
    estimators : mapping
        How to restore each class of estimators, by name.
    values : Codecs
        Classes of the objects in the content.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    ValueError
        The file is damaged, holds something else, or was written by a newer version.
    """
    with archive.reading(path) as (document, arrays):
        name = document["class"]
        if name == CHECKPOINT:
            raise archive.Refusal("is the checkpoint of an unfinished fit: give it as checkpoint= to the same fit")
        if name not in estimators:
            raise archive.Refusal(f"holds a {name!r}, which this version of blockmix does not know")
        return estimators[name](*(unpacked(document[part], arrays, values) for part in ("parameters", "state")))


def write(path: str | os.PathLike[str], name: str, parts: Mapping[str, Mapping[str, Any]], values: Codecs) -> None:
    """Write named values, part by part, under the name of what they are."""
    packer = Packer(values)
    packed = {part: {key: packer.pack(value, key) for key, value in content.items()} for part, content in parts.items()}
    archive.write(path, {"blockmix": installed_version(), "class": name, **packed}, packer.arrays)


def installed_version() -> str:
    """The version of blockmix, or "unknown" where it runs from a folder without being installed."""
    try:
        return version("blockmix")
    except PackageNotFoundError:
        return "unknown"
