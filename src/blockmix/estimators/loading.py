"""Loading: `load` reads an estimator from a file; the table of the estimators that a file may hold."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from blockmix.estimators.biclustering import GaussianBiclustering
from blockmix.estimators.covariance import BlockDiagonalCovariance
from blockmix.estimators.factor import FactorBiclustering
from blockmix.estimators.stored_values import VALUES
from blockmix.estimators.topics.biclustering import TopicBiclustering
from blockmix.estimators.validity import check_block_diagonal, check_factor, check_gaussian, check_topics
from blockmix.persistence import model_file
from blockmix.persistence.archive import Refusal


def load(path: str | os.PathLike[str], classes: Iterable[type] = ()) -> Any:
    """Read an estimator from a file that its method `save` has written.

    A file cannot run code: it holds numbers, text and objects of a fixed set of classes.

    Parameters
    ----------
    path : path
    classes : iterable of type
        Groupings and rules of your own that the model was given.

    Returns
    -------
    estimator
        Equal to the saved one in its parameters and in everything it predicts.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    ValueError
        The file is damaged, holds something else, or was written by a newer version.
    """
    return model_file.load(path, ESTIMATORS, VALUES.with_classes(classes))


def _restored(cls: Any, check: Callable[[Any], None], parameters: dict[str, Any], state: dict[str, Any]) -> Any:
    """The estimator with these parameters and this fitted state, checked."""
    unknown = sorted(set(parameters) - set(cls._get_param_names()))
    if unknown:
        raise Refusal(f"has a parameter {unknown[0]!r}, which this version of blockmix does not know: update blockmix")
    model = cls(**parameters)
    model._restore(state)
    if any(name.endswith("_") for name in vars(model)) or hasattr(model, "_parameters"):
        check(model)
    return model


ESTIMATORS: dict[str, model_file.Restore] = {
    cls.__name__: partial(_restored, cls, check)
    for cls, check in (
        (BlockDiagonalCovariance, check_block_diagonal),
        (FactorBiclustering, check_factor),
        (GaussianBiclustering, check_gaussian),
        (TopicBiclustering, check_topics),
    )
}
