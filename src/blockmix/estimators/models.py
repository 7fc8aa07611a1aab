"""Models in files: `load`, and whether the attributes of an estimator that was read from a file form a fitted model.

A file may hold anything, so types and shapes are checked, and that the attributes agree with each other. The objects in
them were checked when they were built (`stored`). What is not a valid model raises a ValueError.
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
from blockmix.estimators.factor import FactorBiclustering, check_letters
from blockmix.estimators.gaussian import GaussianBiclustering
from blockmix.estimators.importance import Topic
from blockmix.estimators.stored import VALUES, is_label, is_positive, is_real, require, restore_state
from blockmix.estimators.terms import Lexicon, default_vectorizer
from blockmix.estimators.topics import TopicBiclustering
from blockmix.files import checkpoint as model_file
from blockmix.files.archive import Refusal
from blockmix.rows import Resolution

# Fitted attributes that are arrays, by shape: a letter stands for the same length in all of them.
_NUMBERS = {
    "weights_": "G",
    "means_": "Gp",
    "location_": "p",
    "scale_": "p",
    "shrinkage_": "K",
    "_group_means": "K",
    "outlier_scores_": "N",
}
_STRINGS = {"feature_names_in_": "p", "terms_": "t"}
# Labels: their own length, the length of what they number, and the least; a document without terms has the topic −1.
_LABELS = {
    "components_": ("G", "G", 0),
    "row_labels_": ("N", "G", 0),
    "labels_": ("N", "G", -1),
    "term_labels_": ("t", "K", 0),
    "without_terms_": ("n", "N", 0),
}
_TYPES: dict[str, type] = {
    "n_features_in_": Integral,
    "n_vocabulary_": Integral,
    "n_iter_": Integral,
    "converged_": bool,
    "outcome_": str,
    "log_likelihood_": Real,
    "common_correlation_": Real,
    "loadings_": tuple,
    "block_shapes_": tuple,
    "log_likelihood_trace_": np.ndarray,
    "warnings_": list,
    "starts_": list,
    "topics_": list,
    "term_groups_": list,
    "group_names_": list,
}


def _check_attributes(model: Any, *needed: str) -> dict[str, int]:
    """Check the attributes that are named above, and return the lengths by letter."""
    state, lengths = vars(model), dict[str, int]()
    absent = [name for name in needed if name not in state]
    require(not absent, f"{', '.join(absent)} missing")

    def shape(name: str, letters: str) -> tuple[int, ...]:
        found: tuple[int, ...] = np.shape(state[name])
        require(len(found) == len(letters), f"{name} has shape {found}")
        known = tuple(map(lengths.setdefault, letters, found))
        require(found == known, f"{name} has shape {found} instead of {known}")
        return found

    for name in filter(state.__contains__, _NUMBERS):
        require(is_real(state[name], shape(name, _NUMBERS[name])), f"{name} holds other than finite numbers")
    for name in filter(state.__contains__, _STRINGS):
        shape(name, _STRINGS[name])
        require(_all(state[name], str), f"{name} holds other than strings")
    for name in filter(state.__contains__, _LABELS):
        letters, numbered, least = _LABELS[name]
        found = is_label(state[name], shape(name, letters), lengths[numbered], least)
        require(found, f"{name} holds impossible labels")
    for name in filter(state.__contains__, _TYPES):
        require(isinstance(state[name], _TYPES[name]), f"{name} is a {type(state[name]).__name__}")
    return lengths


def _check_mixture(model: Any, *needed: str) -> dict[str, int]:
    lengths = _check_attributes(model, "n_features_in_", "weights_", "means_", "row_labels_", "_parameters", *needed)
    require(model.n_features_in_ == lengths["p"], f"n_features_in_ is not {lengths['p']}")
    if "resolution_" in vars(model):  # not in files of version 0.1
        resolution = model.resolution_
        known = isinstance(resolution, Resolution) and (resolution.columns < lengths["p"]).all()
        require(known, f"resolution_ is not that of {lengths['p']} columns")
    return lengths


def check_gaussian(model: GaussianBiclustering) -> None:
    """Refuse a mixture whose attributes are not those of its parameters."""
    lengths = _check_mixture(model)
    parameters = model._parameters
    require(isinstance(parameters, Parameters), "there is no mixture")
    if "n_values_" in vars(model):
        known = is_label(model.n_values_, (lengths["N"],), lengths["p"] + 1)
        require(known, "n_values_ holds impossible numbers")
    if "outlier_groups_" in vars(model):  # not in files of earlier versions
        most = max(partition.n_groups for partition in parameters.blocks.layout.partitions)
        known = is_label(model.outlier_groups_, (lengths["N"],), most)
        require(known, "outlier_groups_ holds impossible labels")
    pairs = ((parameters.weights, model.weights_), (parameters.means, model.means_))
    same = all(np.array_equal(values.astype(public.dtype), public) for values, public in pairs)
    require(same, "weights_ or means_ are not those of the mixture")
    with np.errstate(over="ignore"):
        deviations = parameters.blocks.factors[parameters.blocks.layout.diagonal].astype(model.means_.dtype)
    require(is_positive(deviations) and np.isfinite(deviations).all(), "a covariance is beyond the range of means_")


def check_factor(model: FactorBiclustering) -> None:
    """Refuse a factor mixture whose attributes are not those of its parameters."""
    lengths = _check_mixture(model, "location_", "scale_", "_letters")
    parameters = model._parameters
    require(isinstance(parameters, FactorParameters), "there is no mixture")
    check_letters(model._letters)
    require(is_positive(model.scale_), "scale_ is not above 0")
    require(parameters.means.shape == (lengths["G"], lengths["p"]), "the mixture has other components or columns")
    means = parameters.means * model.scale_ + model.location_
    near = np.abs(means - model.means_) <= 1e-5 * (np.abs(model.means_) + np.abs(model.location_) + model.scale_)
    same = near.all() and np.allclose(parameters.weights, model.weights_, atol=1e-5)
    require(same, "weights_ or means_ are not those of the mixture")


def check_block_diagonal(model: BlockDiagonalCovariance) -> None:
    """Refuse a covariance whose groups, location and blocks do not fit together."""
    lengths = _check_attributes(
        model,
        "n_features_in_",
        "location_",
        "partition_",
        "blocks_",
        "shrinkage_",
        "loadings_",
        "block_shapes_",
        "common_correlation_",
    )
    p, blocks = lengths["p"], model.blocks_
    require(isinstance(blocks, Blocks) and model.partition_ == blocks.partition, "blocks_ has other groups")
    require(model.n_features_in_ == blocks.partition.n_columns == p, f"n_features_in_ is not {p}")
    require(lengths["K"] == blocks.partition.n_groups, "shrinkage_ is not one number per group")
    sizes, shapes, loadings = blocks.partition.sizes.tolist(), model.block_shapes_, model.loadings_
    require(_all(shapes, str) and len(shapes) == len(sizes), "block_shapes_ is not one name per group")
    known = len(loadings) == len(sizes) and all(map(_is_loading, loadings, sizes))
    require(known, "loadings_ is not one array per group, or None")
    tree = vars(model).get("linkage_")
    require(tree is None or is_real(tree, (p - 1, 4)), "linkage_ is no tree of the columns")


def _is_loading(loading: Any, c: int) -> bool:
    return loading is None or (np.ndim(loading) == 2 and is_real(loading, (c, loading.shape[1])))


def check_topics(model: TopicBiclustering) -> None:
    """Refuse topics that do not fit the mixture, the terms or the vocabulary."""
    needed = ("labels_", "components_", "term_labels_", "terms_", "importance_", "_group_means", "term_groups_")
    lengths = _check_attributes(
        model, *needed, "group_names_", "topics_", "without_terms_", "mixture_", "_lexicon", "n_vocabulary_"
    )
    G, K, t = (lengths[letter] for letter in "GKt")
    require(model.mixture_.means_.shape == (G, t), "the mixture has other topics or terms")
    require(sorted(model.components_.tolist()) == list(range(G)), "components_ does not name each component once")
    require(is_positive(model._group_means), "a group of terms has no weight")
    # A topic without documents has a row of NaN.
    require(is_real(np.nan_to_num(model.importance_), (G, K)), "importance_ is not a table of topics and groups")
    sizes = len(model.topics_), len(model.term_groups_), len(model.group_names_)
    require(sizes == (G, K, K), f"there are not {G} topics and {K} groups of terms")
    require(_all(model.topics_, Topic) and _all(model.group_names_, str), "a topic or the name of a group is missing")
    lexicon = model._lexicon
    v, vectorizer, idf = lexicon.n_vocabulary, lexicon.vectorizer, getattr(lexicon.weighting, "idf_", None)
    require(isinstance(v, int) and is_label(lexicon.columns, (t,), v), "the terms are not in the vocabulary")
    require(idf is None or is_real(idf, (v,)), f"there are not {v} weights of terms")
    if vectorizer is not None:
        words = vectorizer.vocabulary
        require(_all(words, str) and len(set(words)) == len(words) == v, f"the vocabulary has not {v} terms")


def _all(values: Iterable[object], cls: type) -> bool:
    return all(isinstance(value, cls) for value in values)


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
    restore_state(model, state)
    if any(name.endswith("_") for name in vars(model)) or hasattr(model, "_parameters"):
        check(model)
    return model


def _restored_topics(parameters: dict[str, Any], state: dict[str, Any]) -> TopicBiclustering:
    """The estimator from what its method `save` has written: the mixture and the lexicon as plain values."""
    if "mixture_" in state:
        state["mixture_"] = _restored(GaussianBiclustering, check_gaussian, *state["mixture_"])
        vectorizer = default_vectorizer(parameters["stop_words"], parameters["ngrams"])
        state["_lexicon"] = Lexicon.unpacked(state["_lexicon"], vectorizer)
    model: TopicBiclustering = _restored(TopicBiclustering, check_topics, parameters, state)
    return model


ESTIMATORS: dict[str, model_file.Restore] = {
    cls.__name__: partial(_restored, cls, check)
    for cls, check in (
        (BlockDiagonalCovariance, check_block_diagonal),
        (FactorBiclustering, check_factor),
        (GaussianBiclustering, check_gaussian),
    )
} | {"TopicBiclustering": _restored_topics}
