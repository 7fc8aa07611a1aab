"""Models in files: `load`, and whether the attributes of an estimator that was read from a file form a fitted model.

Types and shapes of the attributes are checked, and that they agree with each other; the objects in them were checked
when they were built (`stored`). What is not a valid model raises a ValueError.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np

from blockmix.blocks.blocks import Blocks
from blockmix.em.factor import FactorParameters
from blockmix.em.parameters import Parameters
from blockmix.estimators.covariance import BlockDiagonalCovariance
from blockmix.estimators.discriminant import BlockDiscriminantAnalysis
from blockmix.estimators.factor import FactorBiclustering, check_letters
from blockmix.estimators.gaussian import GaussianBiclustering
from blockmix.estimators.importance import Topic
from blockmix.estimators.mixture import Mixture
from blockmix.estimators.smoothing import SmoothMixture, Space
from blockmix.estimators.stored import VALUES, is_label, is_positive, is_real, require
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
    "G": "weights_",
    "Gp": "means_",
    "p": "location_ scale_",
    "K": "shrinkage_ _group_means",
    "N": "outlier_scores_",
    "B": "block_rows_",
    "D": "probabilities_",
    ("G", "G", 0): "components_",
    ("N", "G", 0): "row_labels_",
    ("D", "G", -1): "labels_",
    ("t", "K", 0): "term_labels_",
    ("n", "D", 0): "without_terms_",
    ("u", "D", 0): "unclear_",
    bool: "converged_ _groups_chosen _is_embedded",
    str: "outcome_",
    Integral: "n_features_in_ n_vocabulary_ n_iter_",
    Real: "log_likelihood_",
    tuple: "loadings_ block_shapes_ splits_",
    list: "warnings_ few_rows_ starts_ topics_ term_groups_ group_names_ stable_terms_",
    np.ndarray: "log_likelihood_trace_ feature_names_in_ terms_ words_ importance_",
    Partition: "partition_",
    Resolution: "resolution_",
    Lexicon: "_lexicon",
}
_MIXTURE = "n_features_in_ weights_ means_ row_labels_ resolution_ log_likelihood_ n_iter_ converged_ outcome_ starts_"


def _lengths(model: Any, needed: str) -> dict[str, int]:
    """Check each attribute by itself, and return the lengths by letter."""
    state, lengths = vars(model), dict[str, int]()
    missing = [name for name in needed.split() if name not in state]
    require(not missing, f"{', '.join(missing)} missing")
    for kind, name in [(kind, name) for kind, names in _KINDS.items() for name in names.split() if name in state]:
        value = state[name]
        if isinstance(kind, type):
            require(isinstance(value, kind), f"{name} is a {type(value).__name__}")
            continue
        letters, *numbered = kind if isinstance(kind, tuple) else (kind,)
        shape: tuple[int, ...] = np.shape(value)
        require(len(shape) == len(letters), f"{name} has shape {shape}")
        expected = tuple(map(lengths.setdefault, letters, shape))
        require(shape == expected, f"{name} has shape {shape} instead of {expected}")
        if numbered:
            require(is_label(value, shape, lengths[numbered[0]], numbered[1]), f"{name} holds impossible labels")
        else:
            require(is_real(value, shape), f"{name} holds other than finite numbers")
    for name, length in (("feature_names_in_", lengths.get("p")), ("terms_", lengths.get("t"))):
        right = name not in state or (state[name].shape == (length,) and _all(state[name], str))
        require(right, f"{name} is not {length} strings")
    return lengths


def _check_gaussian(model: GaussianBiclustering) -> None:
    """Refuse a mixture whose attributes are not those of its parameters."""
    lengths = _lengths(
        model, f"{_MIXTURE} _parameters _groups_chosen block_rows_ outlier_scores_ outlier_groups_ n_values_"
    )
    parameters, N, p = model._parameters, lengths["N"], lengths["p"]
    require(isinstance(parameters, Parameters), "there is no mixture")
    _check_columns(model, p)
    n_blocks = len(parameters.blocks.layout.distinct_blocks)
    require(model.block_rows_.shape == (n_blocks,), f"block_rows_ are not those of {n_blocks} blocks")
    require(is_label(model.n_values_, (N,), p + 1), "n_values_ holds impossible numbers")
    n_groups = max(partition.n_groups for partition in parameters.blocks.layout.partitions)
    require(is_label(model.outlier_groups_, (N,), n_groups), "outlier_groups_ holds impossible labels")
    pairs = ((parameters.weights, model.weights_), (parameters.means, model.means_))
    same = all(np.array_equal(values.astype(public.dtype), public) for values, public in pairs)
    require(same, "weights_ or means_ are not those of the mixture")
    with np.errstate(over="ignore"):
        deviations = parameters.blocks.factors[parameters.blocks.layout.diagonal].astype(model.means_.dtype)
    require(is_positive(deviations), "a covariance is beyond the range of means_")


def _check_columns(model: Any, p: int) -> None:
    require(model.n_features_in_ == p, f"n_features_in_ is not {p}")
    require((model.resolution_.columns < p).all(), f"resolution_ is not that of {p} columns")


def _check_factor(model: FactorBiclustering) -> None:
    """Refuse a factor mixture whose attributes are not those of its parameters."""
    lengths = _lengths(model, f"{_MIXTURE} _parameters location_ scale_ _letters")
    parameters = model._parameters
    require(isinstance(parameters, FactorParameters), "there is no mixture")
    _check_columns(model, lengths["p"])
    check_letters(model._letters)
    require(is_positive(model.scale_), "scale_ is not above 0")
    require(parameters.means.shape == (lengths["G"], lengths["p"]), "the mixture has other components or columns")
    means = parameters.means * model.scale_ + model.location_
    near = np.abs(means - model.means_) <= 1e-5 * (np.abs(model.means_) + np.abs(model.location_) + model.scale_)
    same = near.all() and np.allclose(parameters.weights, model.weights_, atol=1e-5)
    require(same, "weights_ or means_ are not those of the mixture")


def _check_block_diagonal(model: BlockDiagonalCovariance) -> None:
    """Refuse a covariance whose groups, location and blocks do not fit together."""
    needed = "n_features_in_ location_ partition_ blocks_ shrinkage_ loadings_ block_shapes_ linkage_"
    lengths = _lengths(model, needed)
    p, blocks, shapes, loadings = lengths["p"], model.blocks_, model.block_shapes_, model.loadings_
    require(isinstance(blocks, Blocks) and model.partition_ == blocks.partition, "blocks_ has other groups")
    require(model.n_features_in_ == blocks.partition.n_columns == p, f"n_features_in_ is not {p}")
    require(lengths["K"] == blocks.partition.n_groups, "shrinkage_ is not one number per group")
    sizes = blocks.partition.sizes.tolist()
    require(_all(shapes, str) and len(shapes) == len(sizes), "block_shapes_ is not one name per group")
    suit = [
        Q is None or (np.ndim(Q) == 2 and is_real(Q, (c, Q.shape[1]))) for Q, c in zip(loadings, sizes, strict=False)
    ]
    require(len(loadings) == len(sizes) and all(suit), "loadings_ is not one array per group, or None")
    require(model.linkage_ is None or is_real(model.linkage_, (p - 1, 4)), "linkage_ is not a tree of the columns")


def _check_topics(model: TopicBiclustering) -> None:
    """Refuse topics that do not fit the mixture, the terms or the vocabulary."""
    lengths = _lengths(
        model,
        "labels_ probabilities_ components_ term_labels_ terms_ importance_ _group_means term_groups_ group_names_ "
        "topics_ words_ without_terms_ unclear_ stable_terms_ agreement_ mixture_ _space _columns _lexicon "
        "n_vocabulary_ _is_embedded",
    )
    G, K, t = (lengths[letter] for letter in "GKt")
    words, mixture, space = len(model._lexicon.columns), model.mixture_, model._space
    if space is None:
        require(
            isinstance(mixture, Mixture) and mixture.means_.shape == (G, t), "the mixture has other topics or terms"
        )
    else:
        fits = isinstance(space, Space) and isinstance(mixture, SmoothMixture)
        require(fits and mixture.means.shape == (G, len(space.mean)), "the mixture has other topics or dimensions")
        require(model._is_embedded or len(space.axes) == words, "the vectors are those of other words")
    require(is_label(model._columns, (t,), words), "the vocabulary has other terms")
    require(model.words_.shape == (words,) and _all(model.words_, str), "the vocabulary has other terms")
    require(model.agreement_ is None or isinstance(model.agreement_, Real), "agreement_ is not a number")
    require(sorted(model.components_.tolist()) == list(range(G)), "components_ does not name each component once")
    require(is_positive(model._group_means), "a group of terms has no weight")
    # A topic without documents has a row of NaN.
    require(is_real(np.nan_to_num(model.importance_), (G, K)), "importance_ is not a table of topics and groups")
    sizes = len(model.topics_), len(model.term_groups_), len(model.group_names_)
    require(sizes == (G, K, K), f"there are not {G} topics and {K} groups of terms")
    require(_all(model.topics_, Topic) and _all(model.group_names_, str), "a topic or the name of a group is missing")


def _check_discriminant(model: BlockDiscriminantAnalysis) -> None:
    """Refuse a classifier whose classes are not the components of its mixture."""
    missing = [name for name in ("classes_", "mixture_", "n_features_in_") if name not in vars(model)]
    require(not missing, f"{', '.join(missing)} missing")
    mixture, classes = model.mixture_, model.classes_
    require(isinstance(mixture, GaussianBiclustering) and hasattr(mixture, "weights_"), "there is no mixture")
    right = isinstance(classes, np.ndarray) and classes.shape == mixture.weights_.shape
    require(right, f"there are not {len(mixture.weights_)} classes")
    require(mixture.n_features_in_ == model.n_features_in_, "the mixture has other columns")


def _all(values: Iterable[object], cls: type) -> bool:
    return all(isinstance(value, cls) for value in values)


def _restored(cls: Any, check: Callable[[Any], None], **attributes: Any) -> Any:
    """The estimator with these parameters and fitted attributes, checked."""
    names = cls._get_param_names()
    model = cls(**{name: attributes.pop(name) for name in names if name in attributes})
    for name, value in attributes.items():
        if not name.isidentifier() or name.startswith("__") or hasattr(cls, name):
            raise ValueError(f"{name!r} is not a fitted attribute")
        setattr(model, name, value)
    if any(name.endswith("_") or name == "_parameters" for name in attributes):
        check(model)
    return model


ESTIMATORS = {
    cls.__name__: Codec(cls, build=partial(_restored, cls, check))
    for cls, check in (
        (BlockDiagonalCovariance, _check_block_diagonal),
        (BlockDiscriminantAnalysis, _check_discriminant),
        (FactorBiclustering, _check_factor),
        (GaussianBiclustering, _check_gaussian),
        (TopicBiclustering, _check_topics),
    )
}


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
