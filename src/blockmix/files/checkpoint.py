"""Checkpoint: the file of an unfinished fit, from which the same fit resumes after its process was killed.

The loop hands in the state of a start after each iteration; the file holds the latest state of every start. A
checkpoint belongs to one fit: other settings or other rows are refused. Resuming gives the same result.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from joblib import hash as digest

from blockmix.files.archive import Refusal, reading, remove
from blockmix.files.values import TAG, Codecs, unpack, write_object
from blockmix.partition import FloatArray
from blockmix.rows import Chunk, Rows

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
        Their number, location and scale, and a random projection of each column identify the fit too.
    codecs : Codecs
        Classes of the states and of the objects in them.
    """

    def __init__(self, path: str | os.PathLike[str], estimator: Any, rows: Rows, codecs: Codecs) -> None:
        if not Path(path).absolute().parent.is_dir():
            raise FileNotFoundError(f"the folder of the checkpoint {path} does not exist: make it first")
        self._path = path
        self._codecs = codecs
        self._failed = False
        self._settings = _settings(estimator, rows)
        projections = rows.map_sum(_projections) / np.sqrt(rows.n_rows)
        self._columns = np.stack([rows.location, rows.scale, projections])
        self._states: dict[str, Any] = self._read() if Path(path).exists() else {}

    def state(self, start: str) -> Any:
        """The last state of a start, or None if it has not begun."""
        return self._states.get(start)

    def write(self, start: str, state: Any) -> None:
        """Store the state of a start; if that fails, the fit goes on with a warning, and the next state is tried."""
        self._states[start] = state
        content = {TAG: CHECKPOINT, "settings": self._settings, "columns": self._columns, "states": self._states}
        try:
            write_object(self._path, content, self._codecs)
        except OSError as error:
            if not self._failed:
                reason = f"the checkpoint {self._path} cannot be written ({error.strerror or error})"
                warnings.warn(f"{reason}: the fit goes on, but could not resume from here", stacklevel=2)
            self._failed = True

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
        (location, scale, projections), (mean, deviation, others) = self._columns.astype(float), columns
        moments = (np.abs(location - mean) <= 1e-5 * scale) & (np.abs(scale - deviation) <= 1e-5 * scale)
        # Other rows with the same moments differ by about 1; rounding of float32 sums stays well below.
        same = moments & (np.abs(projections - others) <= 1e-2)
        differs = f"is the checkpoint of a fit to other rows: column {np.argmin(same)} has other values"
        return "" if same.all() else differs


def _projections(chunk: Chunk) -> FloatArray:
    """Σ ±x of each standardized column of a chunk, with signs that a hash of the row's number decides, shape (p,)."""
    number = np.arange(chunk.place.start, chunk.place.start + len(chunk.X), dtype=np.uint64)
    signs = 1.0 - 2.0 * ((number * np.uint64(2654435761) >> np.uint64(16)) & np.uint64(1)).astype(float)
    return np.asarray(signs @ np.nan_to_num(chunk.values))


def _settings(estimator: Any, rows: Rows) -> dict[str, str]:
    """What identifies a fit, as text that can be compared and shown."""
    parameters = {name: _text(value) for name, value in estimator.get_params(deep=False).items() if name not in _FREE}
    table = {"rows": rows.n_rows, "columns": rows.n_columns, "weight": rows.total_weight, "type": rows.dtype}
    return parameters | {"estimator": type(estimator).__name__} | {name: str(value) for name, value in table.items()}


def _text(value: Any) -> str:
    text = repr(value)
    short = len(text) <= 80 and " at 0x" not in text and not isinstance(value, (np.ndarray, np.random.RandomState))
    # The settings of an object, not the object: its class may not be importable.
    return text if short else f"{type(value).__name__} {digest(getattr(value, '__dict__', value))}"
