"""Models in files: `load`, and whether the attributes of an estimator that was read from a file form a fitted model.

Types and shapes of the attributes are checked, and that they agree with each other; the objects in them were checked
when they were built (`stored`). Then the model is tried. What is not a valid model raises a ValueError.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from functools import partial
from numbers import Integral, Real
from operator import attrgetter
from typing import Any

import numpy as np

from blockmix.estimators.covariance import BlockDiagonalCovariance
from blockmix.estimators.discriminant import BlockDiscriminantAnalysis
from blockmix.estimators.factor import FactorBiclustering, check_letters
from blockmix.estimators.gaussian import GaussianBiclustering
from blockmix.estimators.stored import VALUES, is_label, is_real, require
from blockmix.estimators.terms import Lexicon
from blockmix.estimators.topics import TopicBiclustering
from blockmix.files.archive import Refusal, reading
from blockmix.files.checkpoint import CHECKPOINT
from blockmix.files.values import TAG, Codec, unpack
from blockmix.partition import Partition
from blockmix.rows import Resolution

# Fitted attributes by what they are: a type; the shape of finite numbers, in which a letter is the same length
# everywhere; or the length of labels, what they number, and the least one (a document without terms has topic −1).
_KINDS: dict[Any, str] = {
    bool: "converged_ _groups_chosen _is_embedded",
    str: "outcome_",
    Integral: "n_features_in_ n_vocabulary_ n_iter_",
    Real: "log_likelihood_",
    tuple: "loadings_ block_shapes_ splits_",
    list: "warnings_ few_rows_ starts_ topics_ term_groups_ group_names_ stable_terms_",
    np.ndarray: "log_likelihood_trace_ feature_names_in_ terms_ words_ importance_ classes_",
    Partition: "partition_",
    Resolution: "resolution_",
    Lexicon: "_lexicon",
    "G": "weights_ _parameters.weights",
    "Gp": "means_ _parameters.means",
    "p": "location_ scale_",
    "K": "_group_means",
    "N": "outlier_scores_",
    "B": "block_rows_",
    "D": "probabilities_",
    ("G", "G", 0): "components_",
    ("N", "G", 0): "row_labels_",
    ("N", "p", 0): "outlier_groups_",
    ("D", "G", -1): "labels_",
    ("t", "K", 0): "term_labels_",
    ("n", "D", 0): "without_terms_",
    ("u", "D", 0): "unclear_",
    ("r", "p", 0): "resolution_.columns",
    ("p", "p", 0): "partition_.labels",
}


def _check(model: Any) -> None:
    """Refuse an estimator whose fitted attributes are of other types or lengths, or do not work together."""
    state, lengths = vars(model), dict[str, int]()
    for kind, path in [(kind, path) for kind, names in _KINDS.items() for path in names.split()]:
        if path.partition(".")[0] not in state:
            continue
        value = attrgetter(path)(model)
        if isinstance(kind, type):
            require(isinstance(value, kind), f"{path} is a {type(value).__name__}")
            continue
        letters, *numbered = kind if isinstance(kind, tuple) else (kind,)
        shape: tuple[int, ...] = np.shape(value)
        expected = tuple(map(lengths.setdefault, letters, shape))
        require(len(shape) == len(letters) and shape == expected, f"{path} has shape {shape} instead of {expected}")
        if numbered:
            require(is_label(value, shape, lengths[numbered[0]], numbered[1]), f"{path} holds impossible labels")
        else:
            require(is_real(value, shape), f"{path} holds other than finite numbers")
    p = lengths.get("p", state.get("n_features_in_"))
    require(p == state.get("n_features_in_"), f"n_features_in_ is not {p}")
    names = state.get("feature_names_in_", np.empty(0))
    require(all(isinstance(name, str) for name in names) and names.shape in ((0,), (p,)), "names are not strings")
    if hasattr(model, "_letters"):
        check_letters(model._letters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that the rows below do not have
        _try(model)


def _try(model: Any) -> None:
    """Refuse a model that fails to say what it found, or to judge rows."""
    values: Any = 0.0
    if isinstance(model, TopicBiclustering):
        model.summary()
        if model._lexicon.vectorizer is not None and not model._is_embedded:
            texts = [" ".join(model.terms_)]
            values = [*model.predict_proba(texts)[0], *model.transform(texts)[0]]
    elif isinstance(model, BlockDiagonalCovariance):
        model.describe()
        values = model.mahalanobis(model.location_[None])
    else:
        means = getattr(model, "mixture_", model).means_
        values = model.describe(), model.predict(means), getattr(model, "outliers_", None)  # these must not fail
        values = model.predict_proba(means)
    require(np.isfinite(values).all(), "its probabilities are not finite")


def _restored(cls: Any, **attributes: Any) -> Any:
    """The estimator with these parameters and fitted attributes, checked."""
    names = cls._get_param_names()
    model = cls(**{name: attributes.pop(name) for name in names if name in attributes})
    for name, value in attributes.items():
        if not name.isidentifier() or name.startswith("__") or hasattr(cls, name):
            raise ValueError(f"{name!r} is not a fitted attribute")
        setattr(model, name, value)
    if any(name.endswith("_") or name == "_parameters" for name in attributes):
        _check(model)
    return model


_CLASSES = (
    BlockDiagonalCovariance,
    BlockDiscriminantAnalysis,
    FactorBiclustering,
    GaussianBiclustering,
    TopicBiclustering,
)
ESTIMATORS = {cls.__name__: Codec(cls, build=partial(_restored, cls)) for cls in _CLASSES}


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
        The file is damaged, holds something else, or was written by another version.
    """
    with reading(path) as (content, arrays):
        name = content[TAG]
        if name == CHECKPOINT:
            raise Refusal("is the checkpoint of an unfinished fit: give it as checkpoint= to the same fit")
        if name not in ESTIMATORS:
            raise Refusal(f"holds a {name!r}, which this version of blockmix does not know")
        return unpack(content, arrays, VALUES.extended([*ESTIMATORS.values(), *map(Codec, classes)]))
