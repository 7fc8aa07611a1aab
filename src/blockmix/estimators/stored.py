"""Stored values: the table of the objects that a saved model may hold, what makes each of them valid, and `save_model`.

A file may hold anything, so an object is checked when it is built.
"""

from __future__ import annotations

import os
from numbers import Real
from typing import Any

import numpy as np

from blockmix.blocks.blocks import Blocks, Layout, block_of
from blockmix.blocks.shapes import BlockModel, FactorBlock, FullBlock, TreeBlock
from blockmix.em.factor import FactorParameters
from blockmix.em.loop import LoopState
from blockmix.em.parameters import Parameters
from blockmix.estimators.importance import Topic
from blockmix.files.checkpoint import write
from blockmix.files.values import Codec, Codecs, stored
from blockmix.grouping import GROUPINGS, RULES, Grouping, Rule
from blockmix.partition import FloatArray, IntArray, Partition
from blockmix.rows import Resolution

# Least diagonal entry of a Cholesky factor, relative to its row. Factors of singular matrices have about 1e-8.
_LEAST_PIVOT = 1e-12
_WEIGHT_ROUNDING = 1e-3


def require(condition: object, sentence: str) -> None:
    """Raise a ValueError with the sentence unless the condition holds."""
    if not condition:
        raise ValueError(sentence)


def is_real(values: Any, shape: tuple[int, ...]) -> bool:
    """Whether values are an array of finite numbers in single or double precision, of that shape."""
    return (
        isinstance(values, np.ndarray)
        and values.dtype in (np.float32, np.float64)
        and values.shape == shape
        and bool(np.isfinite(values).all())
    )


def is_positive(values: FloatArray) -> bool:
    """Whether all values are above 0 and have a finite inverse."""
    return bool((values >= np.finfo(values.dtype).tiny).all())


def is_label(values: Any, shape: tuple[int, ...], n_labels: int, least: int = 0) -> bool:
    """Whether values are an array of labels least … n_labels − 1, of that shape."""
    return (
        isinstance(values, np.ndarray)
        and values.dtype.kind in "iu"
        and values.shape == shape
        and bool((values >= least).all() and (values < n_labels).all())
    )


def _blocks_arguments(blocks: Blocks) -> dict[str, Any]:
    layout = blocks.layout
    labels = np.array([partition.labels for partition in layout.distinct])
    arguments: dict[str, Any] = {"labels": labels, "n_sharing": layout.n_sharing, "factors": blocks.factors}
    return arguments | ({"shapes": layout.shapes, "states": dict(blocks.states)} if layout.shapes else {})


def _blocks(
    labels: IntArray,
    n_sharing: int,
    factors: FloatArray,
    shapes: tuple[tuple[BlockModel, ...], ...] = (),
    states: dict[int, FloatArray] | None = None,
) -> Blocks:
    """Blocks of these groups; refuses factors that are not lower triangular or nearly singular."""
    require(
        np.ndim(labels) == 2 and is_label(labels, labels.shape, labels.shape[1]), "groups of columns are not labels"
    )
    require(
        type(n_sharing) is int and n_sharing >= 1 and (n_sharing == 1 or len(labels) == 1), "covariances are not shared"
    )
    partitions = [Partition(row) for row in labels]
    same = all(np.array_equal(partition.labels, row) for partition, row in zip(partitions, labels, strict=True))
    require(same, "groups are not numbered by size")
    sizes = [int(c) for partition in partitions for c in partition.sizes]
    if shapes:
        _check_shapes(shapes, states or {}, partitions, sizes)
    layout = Layout(partitions, shapes, n_sharing)
    require(is_real(factors, (layout.size,)) and factors.dtype == np.float64, "blocks are not finite numbers")
    for place in layout.distinct_blocks.tolist():
        L = block_of(factors, *place)
        pivots, largest = np.diagonal(L), np.abs(L).max(axis=1)
        require(not np.triu(L, 1).any(), "a Cholesky factor is not lower triangular")
        require(is_positive(pivots) and (pivots > _LEAST_PIVOT * largest).all(), "a block is not positive definite")
    return Blocks(layout, factors, states or {})


def _check_shapes(
    shapes: tuple[tuple[BlockModel, ...], ...],
    states: dict[int, FloatArray],
    partitions: list[Partition],
    sizes: list[int],
) -> None:
    """Refuse shapes that are not one per block, and states that do not suit the columns of their block."""
    require(
        [len(models) for models in shapes] == [partition.n_groups for partition in partitions],
        f"there is not one shape for each of the {len(sizes)} blocks",
    )
    models = [model for row in shapes for model in row]
    require(all(isinstance(model, BlockModel) for model in models), "a shape is not a BlockModel")
    for b, state in states.items():
        numbered = isinstance(b, int) and 0 <= b < len(sizes) and np.ndim(state) == 2
        require(numbered and is_real(state, state.shape), f"the state of block {b} holds other than finite numbers")
        require(models[b].accepts(state, sizes[b]), f"the state of block {b} does not suit its {sizes[b]} columns")


def _check_mixture(parameters: Parameters) -> None:
    """Refuse weights, means, blocks and degrees of freedom that do not fit together."""
    G, p = _check_components(parameters.weights, parameters.means)
    blocks, freedom = parameters.blocks, parameters.degrees_of_freedom
    suits = isinstance(blocks, Blocks) and len(blocks.layout.partitions) == G and blocks.layout.order.shape[1] == p
    require(suits, f"the covariances are not those of {G} components and {p} columns")
    positive = freedom is None or (is_real(freedom, (G,)) and is_positive(freedom))
    require(positive, f"there are not {G} degrees of freedom above 0")


def _check_factor_block(block: FactorBlock) -> None:
    require(type(block.n_factors) is int and block.n_factors >= 1, f"a block has {block.n_factors!r} factors")


def _check_resolution(resolution: Resolution) -> None:
    """Refuse places that compiled loops would look up beyond the arrays, and variances that are none."""
    columns, first, values = resolution.columns, resolution.first, resolution.values
    D, n = len(columns), len(values)
    require(is_label(columns, (D,), 2**31) and is_label(first, (D + 1,), n + 1), "the resolution has no columns")
    # It is estimated from some 2000 rows, so a column has no more values.
    sizes = np.diff(first.astype(np.int64))
    right = (np.diff(columns.astype(np.int64)) > 0).all() and ((sizes >= 1) & (sizes <= 4096)).all()
    require(right and first[0] == 0 and first[-1] == n, "the resolution does not belong to columns in order")
    positive = is_real(resolution.variances, (n,)) and (resolution.variances >= 0).all()
    require(is_real(values, (n,)) and positive, "the resolution holds other than finite numbers")


def _check_factor_mixture(parameters: FactorParameters) -> None:
    """Refuse what is not a factor mixture: sizes that differ, negative variances, unknown groups."""
    G, p = _check_components(parameters.weights, parameters.means)
    t, d = parameters.factor_variances, parameters.noise
    require(np.ndim(t) == 2 and is_real(t, (G, t.shape[1])) and (t >= 0).all(), "factor variances are not all ≥ 0")
    require(is_real(d, (G, p)) and is_positive(d), "noise variances are not all > 0")
    require(is_label(parameters.labels, (G, p), t.shape[1]), f"groups of columns are not 0 … {t.shape[1] - 1}")


def _check_components(weights: FloatArray, means: FloatArray) -> tuple[int, int]:
    """Numbers of components and columns of weights (G,) that sum to 1 and means (G, p)."""
    require(np.ndim(weights) == 1 and is_real(weights, (len(weights),)), "weights are no vector of finite numbers")
    total = float(weights.sum(dtype=float))
    require(
        (weights >= 0).all() and abs(total - 1) < _WEIGHT_ROUNDING,
        f"weights are negative or sum to {total:g} instead of 1",
    )
    G = len(weights)
    require(
        np.ndim(means) == 2 and means.shape[1] > 0 and is_real(means, (G, means.shape[1])),
        f"means are no finite numbers for {G} components",
    )
    return G, means.shape[1]


def _check_topic(topic: Topic) -> None:
    numbers = (topic.size, topic.share, topic.mean_rating or 0, *topic.documents)
    require(all(isinstance(number, Real) for number in numbers), "a topic has a size that is no number")
    require(all(isinstance(name, str) for name in topic.top_groups), "a topic has a group without a name")


VALUES = Codecs(
    [
        stored(Partition),
        Codec("Blocks", Blocks, _blocks_arguments, _blocks),
        stored(Parameters, _check_mixture),
        stored(FactorParameters, _check_factor_mixture, fields={"factor_variances": "factors"}),
        stored(LoopState),
        stored(Resolution, _check_resolution),
        stored(FullBlock),
        stored(FactorBlock, _check_factor_block),
        stored(TreeBlock),
        stored(Topic, _check_topic),
        *map(stored, GROUPINGS.values()),
        *map(stored, RULES.values()),
    ],
    open_to=(Grouping, Rule, BlockModel),
)


def save_model(estimator: Any, path: str | os.PathLike[str], state: dict[str, Any] | None = None) -> None:
    """Write an estimator to a file that `load` reads, by default with its `fitted_state`; an old file is replaced."""
    if not type(estimator).__module__.startswith("blockmix."):
        raise TypeError(
            f"{type(estimator).__name__} is not an estimator of blockmix, so load would not know it: pickle it instead"
        )
    state = fitted_state(estimator) if state is None else state
    content = {"parameters": estimator.get_params(deep=False), "state": state}
    write(path, type(estimator).__name__, content, VALUES)


def fitted_state(estimator: Any) -> dict[str, Any]:
    """Fitted attributes, by name, without scikit-learn's metadata requests."""
    parameters = estimator.get_params(deep=False)
    return {
        name: value for name, value in vars(estimator).items() if name not in parameters and name != "_metadata_request"
    }


def restore_state(estimator: Any, state: dict[str, Any]) -> None:
    """Take over the attributes that `fitted_state` gave."""
    for name, value in state.items():
        taken = name in vars(estimator) or hasattr(type(estimator), name)
        if not name.isidentifier() or name.startswith("__") or taken:
            raise ValueError(f"{name!r} is not a fitted attribute")
        setattr(estimator, name, value)
