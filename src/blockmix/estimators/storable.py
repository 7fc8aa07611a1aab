"""Storable: the method `save` of the estimators, and what of an estimator goes into a file."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from blockmix.estimators.stored_values import VALUES
from blockmix.persistence.model_file import save


class Storable:
    """An estimator that can be saved: its constructor only stores parameters, and its state is data.

    Deriving from it is enough for a class whose fitted attributes are arrays, numbers, strings, containers of them, or
    objects of the classes in `VALUES`. A class with other attributes overrides `_state` and `_restore`.
    """

    get_params: Callable[..., dict[str, Any]]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the estimator to a file that `blockmix.load` reads; an existing file is replaced as a whole."""
        if not type(self).__module__.startswith("blockmix."):
            raise TypeError(
                f"{type(self).__name__} is not an estimator of blockmix, so load would not know it: pickle it instead"
            )
        save(self, path, VALUES)

    def _state(self) -> dict[str, Any]:
        """Fitted attributes, by name, without scikit-learn's metadata requests."""
        parameters = self.get_params(deep=False)
        return {
            name: value for name, value in vars(self).items() if name not in parameters and name != "_metadata_request"
        }

    def _restore(self, state: dict[str, Any]) -> None:
        """Take over the attributes that `_state` gave."""
        for name, value in state.items():
            if not name.isidentifier() or name.startswith("__") or name in vars(self) or hasattr(type(self), name):
                raise ValueError(f"{name!r} is no fitted attribute")
            setattr(self, name, value)
