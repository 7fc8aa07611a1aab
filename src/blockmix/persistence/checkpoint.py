"""Checkpoint: a fit on its way, in a file from which it can go on after the process was killed.

States of the starts come in, one after each sweep; a file goes out, in the format of saved models and never half
written. It is of one fit: other settings or other rows are refused. What is left of the fit gives the same result.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
from joblib import hash as digest

from blockmix.em.loop import LoopState
from blockmix.persistence.atomic import remove
from blockmix.persistence.model_file import Storable, load, save
from blockmix.rows import Rows
from blockmix.structure.types import FloatArray

_ASIDE = {"checkpoint", "verbose", "n_jobs"}  # parameters that do not change the result


class FitOnItsWay(Storable):
    """What the file holds: the settings of the fit, location and scale of its columns (2, p), waypoints by start."""

    settings: dict[str, str]
    columns: FloatArray
    waypoints: dict[str, LoopState[Any]]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """No parameters."""
        return {}

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return []


class Checkpoint:
    """The file of a fit: opened when the fit begins, written after every sweep, removed at the end."""

    def __init__(self, path: str | os.PathLike[str], estimator: Any, rows: Rows) -> None:
        self._path = path
        self._turn = threading.Lock()  # starts may run on threads
        self._fit = FitOnItsWay()
        self._fit.settings = _settings(estimator, rows)
        self._fit.columns = np.stack([rows.location, rows.scale])
        self._fit.waypoints = {}
        if Path(path).exists():
            self._fit.waypoints = self._found().waypoints

    def state(self, leg: str) -> LoopState[Any] | None:
        """Where a part of the race stood when the process ended, if it had begun."""
        return self._fit.waypoints.get(leg)

    def save(self, leg: str, here: LoopState[Any]) -> None:
        """Write where a part of the race stands."""
        with self._turn:
            # A copy of the trace, which grows: another start may write it between a value and its parameters.
            self._fit.waypoints[leg] = here
            save(self._fit, self._path)

    def remove(self) -> None:
        """Remove the file: the fit is at its end."""
        remove(self._path)

    def _found(self) -> FitOnItsWay:
        """The fit in the file, if it is this one."""
        found = load(self._path)
        remedy = "give another checkpoint, or remove the file"
        if not isinstance(found, FitOnItsWay):
            raise ValueError(f"checkpoint {self._path} holds a saved {type(found).__name__}: {remedy}")
        for name, value in self._fit.settings.items():
            if found.settings.get(name) != value:
                raise ValueError(
                    f"checkpoint {self._path} is of a fit with {name}={found.settings.get(name)}, this one has "
                    f"{name}={value}: {remedy}"
                )
        ours, theirs = self._fit.columns.astype(float), found.columns.astype(float)
        j = np.flatnonzero((np.abs(ours - theirs) > 1e-5 * ours[1]).any(axis=0))
        if len(j):
            raise ValueError(
                f"checkpoint {self._path} is of other rows, column {j[0]} had mean {theirs[0, j[0]]:g} and deviation "
                f"{theirs[1, j[0]]:g} there, and {ours[0, j[0]]:g} and {ours[1, j[0]]:g} here: {remedy}"
            )
        return found


def _settings(estimator: Any, rows: Rows) -> dict[str, str]:
    """What decides the result, as text that can be compared and told."""
    parameters = {name: _text(value) for name, value in estimator.get_params(deep=False).items() if name not in _ASIDE}
    return parameters | {
        "model": type(estimator).__name__,
        "rows": str(rows.n_rows),
        "columns": str(rows.n_columns),
        "weight": repr(rows.total_weight),
        "type": str(rows.location.dtype),
    }


def _text(value: Any) -> str:
    text = repr(value)
    short = len(text) <= 80 and " at 0x" not in text and not isinstance(value, (np.ndarray, np.random.RandomState))
    return text if short else f"{type(value).__name__} {digest(value)}"
