"""Scores: a signed number for each row and column group, the module eigengene of genomics.

A score is a linear function of the columns of its group: the posterior mean of the factor of a one-factor block, else
the first principal axis of the block's correlation. Columns that stand alone have none. Scores follow from means and
`Blocks`, so every model with column groups has them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from scipy import sparse
from scipy.linalg import cho_solve, eigh
from scipy.special import softmax
from sklearn import get_config

from blockmix.blocks.blocks import Blocks, block_of
from blockmix.em.parameters import Density, Parameters, filled
from blockmix.estimators.tables import group_numbers
from blockmix.partition import BoolArray, FloatArray, IntArray, column_names
from blockmix.rows import Chunk, Rows, one_blas_thread
from blockmix.rows.files import needed

T = TypeVar("T")


class Axis(NamedTuple):
    """How the score of a group follows from its columns.

    Attributes
    ----------
    component : int
        Row cluster, or −1 if the groups are those of all clusters.
    group : int
        Its number, the same in all clusters for groups that share most columns.
    columns : array of shape (c,)
    weights : array of shape (c,)
        The score is their product with the centered columns; its variance under the model is 1.
    loadings : array of shape (c,)
        Correlation of each column with the score.
    name : str
        The column with the largest loading and the number of the others, such as "cluster 1: flavanoids +4".
    """

    component: int
    group: int
    columns: IntArray
    weights: FloatArray
    loadings: FloatArray
    name: str


# The mean of a component, its density if values may be missing, and the weights of its scores, shape (p, K).
Part = tuple[FloatArray, Density | None, Any]


def axes_of(model: Any, component: int | None = None) -> list[Axis]:
    """The axes of all groups of two or more columns of a fitted model, or of those of one component."""
    names, numbers, single = column_names(model), group_numbers(model), isinstance(model.blocks_, Blocks)
    pairs = [(model.blocks_, model.loadings_)] if single else list(zip(model.blocks_, model.loadings_, strict=True))
    if component is not None and not 0 <= component < len(pairs):
        raise ValueError(f"component={component!r} must be from 0 to {len(pairs) - 1}, or None for the scores of all")
    several = len(pairs) > 1 and not getattr(model, "shared_covariance", False)
    axes, given = [], getattr(model, "names_", {})
    for g, (blocks, loadings) in enumerate(pairs if several else pairs[:1]):
        places = zip(blocks.partition.groups, blocks.layout.distinct_blocks.tolist(), loadings, strict=True)
        for columns, place, factors in places:
            if len(columns) > 1 and component in (None, g if several else component):
                factor = factors[:, 0] if factors is not None and factors.shape[1] == 1 else None
                L, common = block_of(blocks.factors, *place), blocks.common[columns]
                L = np.linalg.cholesky(L @ L.T + common @ common.T) if common.size else L
                weights, correlations = axis(L, factor)
                first = names[columns[np.abs(np.round(correlations, 9)).argmax()]]
                number = int(numbers[g, columns[0]])
                group = given.get(f"group {number + 1}", f"{first} +{len(columns) - 1}")
                cluster = f"cluster {g + 1}"
                name = f"{given.get(cluster, cluster)}: {group}" if several else str(group)
                axes.append(Axis(g if several else -1, number, columns, weights, correlations, name))
    return axes


def axis(L: FloatArray, factor: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    """Weights of the score of a block Σ = LLᵀ, shape (c,), and the correlations of its columns with it.

    w ∝ Σ⁻¹λ with one factor of loadings λ; without, w ∝ D⁻¹v for the first axis v of the correlation D⁻¹ΣD⁻¹. Signs
    are such that most columns, or else their sum, or else the first, correlate positively.

    Examples
    --------
    >>> weights, correlations = axis(np.linalg.cholesky([[1.0, 0.6], [0.6, 1.0]]), None)
    >>> correlations.round(4)
    array([0.8944, 0.8944])
    """
    deviations = np.sqrt((L**2).sum(axis=1))
    if factor is not None and factor.any():
        weights = cho_solve((L, True), factor)
    else:
        scaled = L / deviations[:, None]
        weights = eigh(scaled @ scaled.T, subset_by_index=[len(L) - 1] * 2)[1][:, 0] / deviations
    weights = weights / np.linalg.norm(L.T @ weights)
    correlations = L @ (L.T @ weights) / deviations
    balance = np.sign(np.round(correlations, 9)).sum() or round(float(correlations.sum()), 9) or correlations[0]
    sign = -1 if balance < 0 else 1
    return sign * weights, sign * correlations


def scores(
    rows: Rows, axes: Sequence[Axis], means: FloatArray, blocks: Sequence[Blocks], scorer: Any, unknown: float = 0.0
) -> FloatArray:
    """Scores of rows in the units of the axes, shape (N, number of axes), with missing values expected.

    E(wᵀ(x − μ_g) | x_o, g), and for axes that belong to all components the mean of these over a row's probabilities,
    Σ_g z_g E(wᵀ(x − μ_g) | x_o, g). A row without any value in a group has the expected score, 0, or another `unknown`.
    """
    common, parts = all(one.component < 0 for one in axes), []
    for g, (mean, block) in enumerate(zip(means.astype(float), blocks, strict=True)):
        own = [one for one in axes if one.component in (g, -1)]
        if own:
            density = Parameters(np.ones(1), mean[None], block).density(missing=True) if rows.has_missing else None
            first = np.cumsum([0, *(len(one.columns) for one in own)])
            cells = np.concatenate([one.weights for one in own]), np.concatenate([one.columns for one in own]), first
            parts.append((mean, density, sparse.csc_array(cells, shape=(len(mean), len(own)))))
    dtype = means.dtype
    if not parts:
        return np.empty((rows.measured().n_rows, 0), dtype=dtype)
    of_chunk = partial(_scores_of_chunk, parts=parts, scorer=scorer if common and len(parts) > 1 else None)
    with one_blas_thread(), np.errstate(over="ignore"):
        values, known = (np.concatenate(tables) for tables in zip(*rows.map(of_chunk), strict=True))
        limit = np.finfo(dtype).max  # the scores of rows beyond all others are finite too
        return np.where(known, np.clip(values, -limit, limit), unknown).astype(dtype)


def _scores_of_chunk(
    chunk: Chunk, parts: Sequence[Part], scorer: Callable[[Chunk], FloatArray] | None
) -> tuple[FloatArray, BoolArray]:
    """Scores of the rows of a chunk, those of the parts side by side or their mean if there is a scorer.

    Also whether the row has a value in the group.
    """
    every, tables, known = np.arange(len(chunk.X)), [], []
    present = ~np.isnan(chunk.X)
    for mean, density, weights in parts:
        if chunk.has_missing and density is not None:
            centered = filled(chunk, density, 0, every, np.ones((2, len(every))))[0]
        else:
            centered = chunk.values - mean
        tables.append(np.asarray(centered @ weights))
        known.append(present @ (weights != 0) > 0)
    if scorer is None:
        return np.concatenate(tables, axis=1), np.concatenate(known, axis=1)
    return np.asarray(np.einsum("mg,gmk->mk", softmax(scorer(chunk), axis=1), np.stack(tables))), known[0]


def framed(model: Any, values: FloatArray, X: Any, axes: Sequence[Axis]) -> Any:
    """The scores as an array, or as the data frame that `set_output` or scikit-learn's configuration asks for."""
    kind = getattr(model, "_sklearn_output_config", {}).get("transform", get_config()["transform_output"])
    names = [one.name for one in axes]
    if kind == "pandas":
        return needed("pandas", "app").DataFrame(values, columns=names, index=getattr(X, "index", None))
    return values if kind == "default" else needed("polars", "app").DataFrame(values, schema=names, orient="row")


def as_output(model: T, kind: str | None) -> T:
    """The model, which remembers what its scores are returned as."""
    if kind not in (None, "default", "pandas", "polars"):
        raise ValueError(f'transform={kind!r} must be "default", "pandas" or "polars"')
    if kind is not None:
        vars(model)["_sklearn_output_config"] = {"transform": kind}
    return model
