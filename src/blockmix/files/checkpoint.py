"""Checkpoint: the file of an unfinished fit, from which the same fit resumes after its process was killed.

The loop hands in the state of a start after each iteration; the file holds the latest state of every start. A
checkpoint belongs to one fit: other settings or other rows are refused. Resuming gives the same result.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from joblib import hash as digest

from blockmix.files import archive
from blockmix.files.archive import Refusal, reading, remove
from blockmix.files.values import Codecs, Packer, unpacked
from blockmix.rows import Rows

# Parameters that may change between the runs. More iterations are a reason to resume a fit.
_FREE = {"max_iter"}


class Checkpoint:
    """States of the starts of one fit, in a file that is replaced as a whole each time one of them changes.

    Parameters
    ----------
    path : path
        States are read from the file if it exists.
    estimator : estimator
        Its parameters identify the fit, except those that do not change the course of EM.
    rows : Rows
        Number, location and scale of the rows identify the fit too.
    values : Codecs
        Classes of the states and of the objects in them.
    """

    def __init__(self, path: str | os.PathLike[str], estimator: Any, rows: Rows, values: Codecs) -> None:
        self._path = path
        self._values = values
        self._lock = threading.Lock()  # starts may run on threads
        self._fit: dict[str, Any] = {
            "settings": _settings(estimator, rows),
            "columns": np.stack([rows.location, rows.scale]),
        }
        self._states: dict[str, Any] = self._read() if Path(path).exists() else {}

    def state(self, start: str) -> Any:
        """The last state of a start, or None if it has not begun."""
        return self._states.get(start)

    def write(self, start: str, state: Any) -> None:
        """Store the state of a start."""
        with self._lock:
            self._states[start] = state
            write(self._path, CHECKPOINT, {"fit": self._fit, "states": self._states}, self._values)

    def remove(self) -> None:
        """Remove the file: the fit has ended."""
        remove(self._path)

    def _read(self) -> dict[str, Any]:
        """The states in the file, if they are of this fit."""
        remedy = "give another checkpoint, or remove the file"
        with reading(self._path) as (document, arrays):
            if document["class"] != CHECKPOINT:
                raise Refusal(f"holds a saved {document['class']}: {remedy}")
            difference = self._difference(unpacked(document["fit"], arrays, self._values))
            if difference:
                raise Refusal(f"{difference}: {remedy}")
            return unpacked(document["states"], arrays, self._values)

    def _difference(self, other: dict[str, Any]) -> str:
        """Why the checkpoint belongs to another fit, or nothing if it belongs to this one."""
        for name, value in self._fit["settings"].items():
            found = other["settings"].get(name)
            if found != value:
                return f"is the checkpoint of a fit with {name}={found}, this one has {name}={value}"
        ours, theirs = (fit["columns"].astype(float) for fit in (self._fit, other))
        same = (np.abs(ours - theirs) <= 1e-5 * ours[1]).all(axis=0)
        if same.all():
            return ""
        j = int(np.argmin(same))
        return (
            f"is the checkpoint of a fit to other rows: column {j} had mean {theirs[0, j]:g} and deviation "
            f"{theirs[1, j]:g}, here it has {ours[0, j]:g} and {ours[1, j]:g}"
        )


def _settings(estimator: Any, rows: Rows) -> dict[str, str]:
    """What identifies a fit, as text that can be compared and shown."""
    parameters = {name: _text(value) for name, value in estimator.get_params(deep=False).items() if name not in _FREE}
    return parameters | {
        "model": type(estimator).__name__,
        "rows": str(rows.n_rows),
        "columns": str(rows.n_columns),
        "weight": repr(rows.total_weight),
        "type": str(rows.dtype),
    }


def _text(value: Any) -> str:
    text = repr(value)
    short = len(text) <= 80 and " at 0x" not in text and not isinstance(value, (np.ndarray, np.random.RandomState))
    # The settings of an object, not the object: its class may not be importable.
    return text if short else f"{type(value).__name__} {digest(getattr(value, '__dict__', value))}"


CHECKPOINT = "Checkpoint"  # in the place of a class: the file of an unfinished fit

# Gives the estimator of parameters and state, or raises an exception if there is none.
Restore = Callable[[dict[str, Any], dict[str, Any]], Any]


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
