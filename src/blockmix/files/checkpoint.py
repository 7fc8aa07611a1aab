"""Checkpoint: the file of an unfinished fit, from which the same fit resumes after its process was killed.

The loop hands in the state of a start after each iteration; the file holds the latest state of every start. A
checkpoint belongs to one fit: other settings or other rows are refused. Resuming gives the same result.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from joblib import hash as digest

from blockmix.files.archive import Refusal, reading, remove
from blockmix.files.values import TAG, Codecs, unpack, write_object
from blockmix.rows import Rows

CHECKPOINT = "Checkpoint"  # in the place of a class: the file of an unfinished fit

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
    codecs : Codecs
        Classes of the states and of the objects in them.
    """

    def __init__(self, path: str | os.PathLike[str], estimator: Any, rows: Rows, codecs: Codecs) -> None:
        self._path = path
        self._codecs = codecs
        self._settings = _settings(estimator, rows)
        self._columns = np.stack([rows.location, rows.scale])
        self._states: dict[str, Any] = self._read() if Path(path).exists() else {}

    def state(self, start: str) -> Any:
        """The last state of a start, or None if it has not begun."""
        return self._states.get(start)

    def write(self, start: str, state: Any) -> None:
        """Store the state of a start."""
        self._states[start] = state
        content = {TAG: CHECKPOINT, "settings": self._settings, "columns": self._columns, "states": self._states}
        write_object(self._path, content, self._codecs)

    def remove(self) -> None:
        """Remove the file: the fit has ended."""
        remove(self._path)

    def _read(self) -> dict[str, Any]:
        """The states in the file, if they belong to this fit."""
        remedy = "give another checkpoint, or remove the file"
        with reading(self._path) as (content, arrays):
            if content[TAG] != CHECKPOINT:
                raise Refusal(f"holds a saved {content[TAG]}: {remedy}")
            settings, columns = (unpack(content[key], arrays, self._codecs) for key in ("settings", "columns"))
            if difference := self._difference(settings, columns.astype(float)):
                raise Refusal(f"{difference}: {remedy}")
            states: dict[str, Any] = unpack(content["states"], arrays, self._codecs)
            return states

    def _difference(self, settings: dict[str, str], columns: np.ndarray) -> str:
        """Why the checkpoint belongs to another fit; empty if it belongs to this one."""
        for name, value in self._settings.items():
            if settings.get(name) != value:
                return f"is the checkpoint of a fit with {name}={settings.get(name)}, this one has {name}={value}"
        location, scale = self._columns.astype(float)
        same = (np.abs(columns - self._columns) <= 1e-5 * scale).all(axis=0)
        if same.all():
            return ""
        j = int(np.argmin(same))
        return (
            f"is the checkpoint of a fit to other rows: column {j} had mean {columns[0, j]:g} and deviation "
            f"{columns[1, j]:g}, here it has {location[j]:g} and {scale[j]:g}"
        )


def _settings(estimator: Any, rows: Rows) -> dict[str, str]:
    """What identifies a fit, as text that can be compared and shown."""
    parameters = {name: _text(value) for name, value in estimator.get_params(deep=False).items() if name not in _FREE}
    return parameters | {
        "estimator": type(estimator).__name__,
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
