"""Column groups of a fitted mixture when the rows are weighed at random (Gamma(2) weights).

Rows, parameters and random weights come in; the groups that each weighing gives go out. The responsibilities stay those
of the fit. Statistics add up, so many rows are first summed in buckets, and a weighing is a weighted sum of these.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np

from blockmix.em.block import BlockFamily
from blockmix.em.parameters import Density, Parameters
from blockmix.em.sweep import Statistics, chunk_scatter, full_scatter
from blockmix.partition import FloatArray, IntArray, Partition
from blockmix.rows import Chunk, Rows

BUCKETS = 256
_LEAST_BUCKETS = 16
_NUMBERS = 2**25  # of the statistics of all buckets: 256 MB


@dataclass(frozen=True, eq=False)
class Buckets:
    """Statistics with full scatters of each bucket of rows; they add up bucket by bucket."""

    each: tuple[Statistics, ...]

    def __add__(self, other: Buckets) -> Buckets:
        return Buckets(tuple(a + b for a, b in zip(self.each, other.each, strict=True)))


def resampled_groups(
    rows: Rows,
    parameters: Parameters,
    family: BlockFamily,
    n_resamples: int,
    units: IntArray | None,
    rng: np.random.Generator,
) -> Iterator[list[Partition]]:
    """The column groups of each distinct covariance, for each of some random weighings of the rows.

    Parameters
    ----------
    rows : Rows
        Standardized.
    parameters : Parameters
        Of these rows.
    family : BlockFamily
    n_resamples : int
    units : array of shape (N,) or None
        Number of the unit, from 0 on, whose rows share a weight; each row is one of its own by default.
    rng : Generator
    """
    n_units = rows.n_rows if units is None else int(units.max()) + 1
    each = len(parameters.blocks.layout.distinct) * rows.n_columns**2
    n_buckets = min(BUCKETS, n_units)
    if n_buckets * each > _NUMBERS and rows.is_array:
        yield from _from_rows(rows, parameters, family, n_resamples, units, n_units, rng)
        return
    n_buckets = min(n_buckets, max(_LEAST_BUCKETS, _NUMBERS // each))
    density = parameters.density(rows.has_missing)
    function = partial(
        _chunk_buckets,
        density=density,
        n_covariances=len(parameters.blocks.layout.distinct),
        units=units,
        n_buckets=n_buckets,
    )
    buckets = rows.map_sum(function).each
    stacked: dict[str, Any] = {field.name: _stack(buckets, field.name) for field in fields(Statistics)}
    step = max(1, _NUMBERS // each)
    for start in range(0, n_resamples, step):
        weights = draw(min(step, n_resamples - start), n_buckets, rng)
        summed = {name: np.tensordot(weights, values, 1) for name, values in stacked.items() if values is not None}
        for b in range(len(weights)):
            found = Statistics(**{name: values[b] for name, values in summed.items()})
            yield family.proposals(found, parameters)


def draw(n_resamples: int, n_units: int, rng: np.random.Generator) -> FloatArray:
    """Random weights of mean 1 of each unit in each resample: Gamma(2) over their mean, shape (resamples, units)."""
    weights = rng.standard_gamma(2, (n_resamples, n_units))
    return np.asarray(weights / weights.mean(axis=1, keepdims=True))


def _from_rows(
    rows: Any,
    parameters: Parameters,
    family: BlockFamily,
    n_resamples: int,
    units: IntArray | None,
    n_units: int,
    rng: np.random.Generator,
) -> Iterator[list[Partition]]:
    """Weigh the rows themselves: where statistics of buckets would be larger than many passes are slow."""
    for _ in range(n_resamples):
        weights = draw(1, n_units, rng)[0]
        weighed = replace(rows, weights=rows.weights * (weights if units is None else weights[units]))
        yield family.proposals(full_scatter(weighed, parameters), parameters)


def _chunk_buckets(
    chunk: Chunk, density: Density, n_covariances: int, units: IntArray | None, n_buckets: int
) -> Buckets:
    """Statistics of the buckets of a chunk; rows are spread over buckets by a hash of their number or unit."""
    number = np.arange(chunk.place.start, chunk.place.start + len(chunk.X)) if units is None else units[chunk.place]
    code = number if number.max() < n_buckets else (number * 2654435761 % 2**32) % n_buckets
    order = np.argsort(code, kind="stable")
    parts = np.split(order, np.searchsorted(code[order], np.arange(1, n_buckets)))
    components = range(len(density.level))
    return Buckets(tuple(chunk_scatter(chunk.take(part), density, n_covariances, components, None) for part in parts))


def _stack(buckets: tuple[Statistics, ...], name: str) -> FloatArray | None:
    values = [getattr(bucket, name) for bucket in buckets]
    return None if values[0] is None else np.stack(values)
