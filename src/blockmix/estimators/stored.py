"""Stored values: the objects that a file may hold, what makes each of them valid, and `save_model`.

A file may hold anything, so an object is checked when it is built: compiled loops must get neither NaN nor an index
beyond an array.
"""

from __future__ import annotations

import inspect
import os
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.preprocessing import FunctionTransformer

from blockmix.blocks.blocks import Blocks, Layout
from blockmix.blocks.shapes import BlockModel, FactorBlock, FullBlock, TreeBlock
from blockmix.em.factor import FactorParameters
from blockmix.em.loop import LoopState
from blockmix.em.parameters import Parameters
from blockmix.estimators.importance import Topic
from blockmix.estimators.smoothing import SmoothMixture, Space
from blockmix.estimators.terms import PAIR, Lexicon, RelativeTfidf, default_vectorizer
from blockmix.files.values import METADATA, TAG, Codec, Codecs, write_object
from blockmix.grouping import GROUPINGS, RULES, Grouping, Rule
from blockmix.grouping.rules import Split
from blockmix.partition import FloatArray, Partition
from blockmix.rows import Resolution
from blockmix.rows.powers import Powers

# Least diagonal entry of a Cholesky factor, relative to its row. Factors of singular matrices have about 1e-8.
_LEAST_PIVOT = 1e-12
_WEIGHT_ROUNDING = 1e-3


def require(condition: object, sentence: str) -> None:
    """Raise a ValueError with the sentence unless the condition holds."""
    if not condition:
        raise ValueError(sentence)


def is_real(values: Any, shape: tuple[int, ...]) -> bool:
    """Whether values are an array of finite numbers in single or double precision, of that shape."""
    real = isinstance(values, np.ndarray) and values.dtype in (np.float32, np.float64) and values.shape == shape
    return real and bool(np.isfinite(values).all())


def is_positive(values: FloatArray) -> bool:
    """Whether all values are above 0 and finite, and have a finite inverse."""
    return bool(((values >= np.finfo(values.dtype).tiny) & np.isfinite(values)).all())


def is_label(values: Any, shape: tuple[int, ...], n_labels: int, least: int = 0) -> bool:
    """Whether values are an array of labels least … n_labels − 1, of that shape."""
    whole = isinstance(values, np.ndarray) and values.dtype.kind in "iu" and values.shape == shape
    return whole and bool((values >= least).all() and (values < n_labels).all())


def _blocks_arguments(blocks: Blocks) -> dict[str, Any]:
    labels, states = np.array([partition.labels for partition in blocks.layout.distinct]), dict(blocks.states)
    others = {"shapes": blocks.layout.shapes, "states": states, "loadings": blocks.loadings}
    return {"labels": labels, "factors": blocks.factors, **others}


def _blocks(labels: Any, factors: Any, shapes: Any, states: Any, loadings: Any) -> Blocks:
    """Blocks of these groups and shapes, which no components share, checked.

    Cholesky factors that are not finite, not lower triangular or nearly singular are refused.
    """
    right = np.ndim(labels) == 2 and labels.size and is_label(labels, labels.shape, labels.shape[1])
    require(right, "groups are not labels of columns")
    partitions = [Partition(row) for row in labels]
    require(np.array_equal([each.labels for each in partitions], labels), "groups are not numbered by size")
    right = isinstance(shapes, tuple) and (not shapes or list(map(len, shapes)) == [P.n_groups for P in partitions])
    require(right, "there is not one shape for each block")
    models = [model for row in shapes for model in row]
    require(all(isinstance(model, BlockModel) for model in models), "a shape is not a BlockModel")
    layout = Layout(partitions, shapes)
    sizes = layout.distinct_blocks[:, 1] - layout.distinct_blocks[:, 0]
    double = is_real(factors, (layout.size,)) and factors.dtype == np.float64
    require(double, f"blocks are not {layout.size} finite numbers in double precision")
    lengths = np.repeat(sizes, sizes)  # of the rows of all blocks, which lie one after the other
    pivots, largest = factors[layout.diagonal], np.maximum.reduceat(np.abs(factors), np.cumsum(lengths) - lengths)
    above = np.arange(layout.size) > np.repeat(layout.diagonal, lengths)
    require(not factors[above].any(), "a Cholesky factor is not lower triangular")
    require(is_positive(pivots) and (pivots > _LEAST_PIVOT * largest).all(), "a block is not positive definite")
    for b, state in states.items():
        numbered = isinstance(b, int) and 0 <= b < len(models) and np.ndim(state) == 2
        require(numbered and is_real(state, state.shape), f"the state of block {b} holds other than finite numbers")
        require(models[b].accepts(state, int(sizes[b])), f"the state of block {b} does not suit its {sizes[b]} columns")
    q = np.shape(loadings)[2] if np.ndim(loadings) == 3 else 0
    right = 0 < q < labels.shape[1] and is_real(loadings, (*labels.shape, q)) and loadings.dtype == np.float64
    require(loadings is None or right, "common factors are not loadings of columns")
    return Blocks(layout, factors, states, loadings)


def _mixture(weights: Any, means: Any, blocks: Any, degrees_of_freedom: Any, powers: Any) -> Parameters:
    """The mixture of these blocks, checked; a single covariance is shared by all components.

    How many share it is not stored: a number in a small file could ask for any amount of memory.
    """
    G, p = _check_components(weights, means)
    right = isinstance(blocks, Blocks) and len(blocks.layout.distinct) in (1, G) and blocks.layout.order.shape[1] == p
    require(right, f"the covariances are not those of {G} components and {p} columns")
    if len(blocks.layout.distinct) < G:
        blocks = replace(blocks, layout=Layout(blocks.layout.distinct, blocks.layout.shapes, G))
    freedom = degrees_of_freedom
    require(freedom is None or (is_real(freedom, (G,)) and is_positive(freedom)), "degrees of freedom are not above 0")
    given = [values for values in (weights, means, freedom) if values is not None]
    require(all(values.dtype == np.float64 for values in given), "parameters are not in double precision")
    right = powers is None or (isinstance(powers, Powers) and len(powers.exponents) == p)
    require(right, f"the powers are not those of {p} columns")
    return Parameters(weights, means, blocks, freedom, powers)


def _check_powers(powers: Powers) -> None:
    arrays = [powers.exponents, powers.origin, powers.step, powers.location, powers.scale]
    p = np.size(powers.exponents)
    require(all(is_real(values, (p,)) and values.dtype == np.float64 for values in arrays), "powers are not finite")
    require((np.abs(powers.exponents - 1) <= 1).all(), "an exponent is not between 0 and 2")
    require(is_positive(powers.step) and is_positive(powers.scale), "the scale of a power is not above 0")


def _check_resolution(resolution: Resolution) -> None:
    """Refuse positions that compiled loops would look up beyond the arrays, and variances that are negative."""
    columns, first, values = resolution.columns, resolution.first, resolution.values
    D, n = len(columns), len(values)
    # Compiled loops would mix unsigned positions with signed ones to floating point.
    numbered = is_label(columns, (D,), 2**31) and is_label(first, (D + 1,), n + 1)
    require(numbered and columns.dtype.kind == first.dtype.kind == "i", "the resolution has no columns")
    # It is estimated from some 2000 rows, so a column has no more values.
    sizes = np.diff(first.astype(np.int64))
    right = (np.diff(columns.astype(np.int64)) > 0).all() and ((sizes >= 1) & (sizes <= 4096)).all()
    require(right and first[0] == 0 and first[-1] == n, "the resolution does not belong to columns in order")
    positive = is_real(resolution.variances, (n,)) and (resolution.variances >= 0).all()
    require(is_real(values, (n,)) and positive, "the resolution holds other than finite numbers")


def _check_factor_mixture(parameters: FactorParameters) -> None:
    """Refuse arrays whose sizes differ, negative variances and unknown groups."""
    G, p = _check_components(parameters.weights, parameters.means)
    t, d = parameters.factor_variances, parameters.noise
    require(np.ndim(t) == 2 and is_real(t, (G, t.shape[1])) and (t >= 0).all(), "factor variances are not all ≥ 0")
    require(is_real(d, (G, p)) and is_positive(d), "noise variances are not all > 0")
    require(is_label(parameters.labels, (G, p), t.shape[1]), f"groups of columns are not 0 … {t.shape[1] - 1}")


def _check_components(weights: FloatArray, means: FloatArray) -> tuple[int, int]:
    """Numbers of components and columns of weights (G,) that sum to 1 and means (G, p)."""
    require(np.ndim(weights) == 1 and is_real(weights, (len(weights),)), "weights are not a vector of finite numbers")
    G, total = len(weights), float(weights.sum(dtype=float))
    sound = (weights >= 0).all() and abs(total - 1) < _WEIGHT_ROUNDING
    require(sound, f"weights are negative or sum to {total:g} instead of 1")
    finite = np.ndim(means) == 2 and means.shape[1] > 0 and is_real(means, (G, means.shape[1]))
    require(finite, f"means are not finite numbers for {G} components")
    return G, means.shape[1]


def _lexicon_arguments(lexicon: Lexicon) -> dict[str, Any]:
    # The vectorizer is the default one: another is a parameter of the estimator, which cannot be saved.
    v, words = lexicon.vectorizer, None
    if v is not None:
        terms = [str(term) for term in v.get_feature_names_out()]
        words = terms, v.stop_words, v.ngram_range[1], v.token_pattern == PAIR
    others = {"columns": lexicon.columns, "n_vocabulary": lexicon.n_vocabulary, "unit": lexicon.unit}
    return {"words": words, "idf": getattr(lexicon.weighting, "idf_", None), **others}


def _lexicon(words: Any, idf: Any, columns: Any, n_vocabulary: Any, unit: Any) -> Any:
    """The lexicon with the default vectorizer and these weights of terms, checked."""
    v, weighting, vectorizer = n_vocabulary, FunctionTransformer(accept_sparse=True), None
    require(isinstance(v, int) and is_label(columns, (np.size(columns),), v), "the terms are not in the vocabulary")
    require(idf is None or is_real(idf, (v,)), f"there are not {v} weights of terms")
    if idf is not None:
        weighting = TfidfTransformer(norm=None) if unit else RelativeTfidf()
        weighting.idf_ = idf
    if words is not None:
        vocabulary, stop_words, ngrams, characters = words
        different = all(isinstance(word, str) for word in vocabulary) and len(set(vocabulary)) == len(vocabulary) == v
        require(different, f"the vocabulary does not have {v} terms")
        vectorizer = default_vectorizer(stop_words, ngrams, characters).set_params(vocabulary=vocabulary)
    return Lexicon(vectorizer, weighting, columns, v, unit)


def _has_plain_attributes(value: Any) -> bool:
    """Whether an object is an estimator of the package, or a user's grouping, rule or shape that load can build."""
    cls = type(value)
    if cls.__module__.startswith("blockmix.estimators."):
        return True
    fitting = hasattr(value, "__dict__") and isinstance(value, (Grouping, Rule, BlockModel))
    return fitting and inspect.signature(cls).parameters.keys() >= vars(value).keys() - {METADATA}


VALUES = Codecs(
    [
        Codec(Partition),
        Codec(Blocks, None, _blocks_arguments, _blocks),
        Codec(Parameters, build=_mixture),
        Codec(Powers, _check_powers),
        Codec(FactorParameters, _check_factor_mixture),
        Codec(Resolution, _check_resolution),
        Codec(FactorBlock, lambda block: require(type(block.n_factors) is int and block.n_factors > 0, "no factors")),
        *map(Codec, (LoopState, Split, FullBlock, TreeBlock, Topic, Space, SmoothMixture)),
        Codec(Lexicon, None, _lexicon_arguments, _lexicon),
        *map(Codec, (*GROUPINGS.values(), *RULES.values())),
    ],
    _has_plain_attributes,
)


def save_model(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write an estimator to a file that `load` reads; an existing file is replaced as a whole."""
    name = type(estimator).__name__
    if not type(estimator).__module__.startswith("blockmix."):
        raise TypeError(f"{name} is not an estimator of blockmix, so load would not know it: pickle it instead")
    content = {TAG: name, **vars(estimator)}
    content.pop(METADATA, None)
    write_object(path, content, VALUES)
