"""Density: log π_g f_g of the rows of a chunk, and which rows a component has to do with (paper, section 3, E-step).

A chunk and parameters come in; the joint densities go out, and the parts of the chunk that count for each component.
Where clusters are apart an eighth of the columns tells that a row is not of a component, and the rest is left out.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from blockmix.em.block.parameters import Look, Parameters
from blockmix.structure.types import BoolArray, FloatArray, IntArray

# A row far from everything, z · d², adds less than a rounding error below this up to d = 10⁷ deviations. Where clusters
# are apart most pairs of a row and a component are below it.
NEGLIGIBLE = 1e-30
_FEW = 2**16  # numbers up to which one call for all rows and components is faster than to leave out some
_MANY = 2**23  # numbers up to which x − μ of all components is held at once: 64 MB


class _Scratch(threading.local):
    """Arrays that a thread uses again for every chunk: fresh ones of a megabyte cost more in page faults than work."""

    def __init__(self) -> None:
        self._held: dict[str, FloatArray] = {}

    def array(self, place: str, shape: tuple[int, ...], dtype: np.dtype[np.floating[Any]]) -> FloatArray:
        """An array of that shape, with anything in it, that stays valid until the same place is asked for again."""
        size = math.prod(shape)
        held = self._held.get(place)
        if held is None or held.dtype != dtype or held.size < size:
            held = self._held[place] = np.empty(size, dtype)
        return held[:size].reshape(shape)


scratch = _Scratch()


@dataclass(frozen=True, eq=False)
class Part:
    """Rows of a chunk that a component may explain: their numbers (a,) and x − μ_g, shape (p, a), in scratch.

    A part of all components has x − μ of all of them, shape (G, p, a).
    """

    component: int | slice
    rows: IntArray | slice
    centered: FloatArray


def log_joint(values: FloatArray, parameters: Parameters) -> FloatArray:
    """Log π_g f_g(x) without the constant −(p/2) log 2π, shape (G, m), of a chunk (p, m).

    Entries that are below the largest of their row by more than log 10³⁰ may be too large, but not by so much that they
    come nearer than that.
    """
    return explained(values, parameters)[0]


def posterior(joint: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Responsibilities (G, m) and log-density (m,) from log π_g f_g, in log space (paper, eq. z)."""
    top = joint.max(axis=0)
    z = np.exp(joint - top)
    total = z.sum(axis=0)
    z /= total
    return z, top + np.log(total)


def explained(values: FloatArray, parameters: Parameters) -> tuple[FloatArray, list[Part] | None]:
    """`log_joint`, and the parts of the chunk outside of which responsibilities are negligible; None if unknown."""
    with np.errstate(divide="ignore"):
        level = (np.log(parameters.weights) - 0.5 * parameters.logdets).astype(values.dtype)
    layout = parameters.layout
    if layout.whole and len(level) * values.size <= _MANY:
        centered = _centered(values, parameters.means)
        distances = _white_squares(centered, parameters.whiteners[0]).sum(axis=1)
        return level[:, None] - 0.5 * distances.astype(values.dtype, copy=False), _everything(centered)
    if layout.whole or layout.shared or values.size <= _FEW:
        return level[:, None] - 0.5 * _distances(values, parameters), None
    first, rest = parameters.looks
    joint = np.tile(level[:, None], values.shape[1])
    _take_away(joint, values, parameters.means, first)
    # What a row has still to come from its own component is about one per column: pairs that this leaves in doubt.
    ahead = 0.5 * sum(look.columns.size for look in rest) / len(joint)
    doubtful = np.count_nonzero(joint > joint.max(axis=0) - (ahead - math.log(NEGLIGIBLE)))
    if 4 * (doubtful - values.shape[1]) > joint.size - values.shape[1]:
        _take_away(joint, values, parameters.means, rest)
        return joint, None
    return joint, _completed(joint, values, parameters)


def active(values: FloatArray, means: FloatArray, z: FloatArray, together: bool) -> Iterator[Part]:
    """The parts of a chunk in which responsibilities z (G, m) are not negligible; all components in one if they may."""
    if together and len(means) * values.size <= _FEW:
        yield from _everything(_centered(values, means))
        return
    for g, mean in enumerate(means):
        rows = np.flatnonzero(z[g] > NEGLIGIBLE)
        if 2 * len(rows) > values.shape[1]:
            held = scratch.array("own", values.shape, values.dtype)
            yield Part(g, slice(None), np.subtract(values, mean[:, None], out=held))
        else:
            yield _part(g, rows, values, mean, scratch.array("own", (len(values), len(rows)), values.dtype))


def _centered(values: FloatArray, means: FloatArray) -> FloatArray:
    """X − μ_g of all rows and components, shape (G, p, m), in scratch."""
    centered = scratch.array("block", (len(means), *values.shape), values.dtype)
    return np.subtract(values, means[:, :, None], out=centered)


def _everything(centered: FloatArray) -> list[Part]:
    """All rows for all components: one part where they are few numbers, one of each component where they are many."""
    every = slice(None)
    if centered.size <= _FEW:
        return [Part(every, every, centered)]
    return [Part(g, every, own) for g, own in enumerate(centered)]


def _part(g: int, rows: IntArray, values: FloatArray, mean: FloatArray, out: FloatArray) -> Part:
    np.take(values, rows, axis=1, out=out, mode="clip")
    out -= mean.astype(out.dtype, copy=False)[:, None]
    return Part(g, rows, out)


def _take_away(joint: FloatArray, values: FloatArray, means: FloatArray, looks: list[Look]) -> None:
    """Subtract half the squared distances in some blocks, of all rows, from the joint densities."""
    for look in looks:
        joint[look.component] -= 0.5 * _distance(values, look.columns, look.whiteners, means[look.component])


def _completed(joint: FloatArray, values: FloatArray, parameters: Parameters) -> list[Part] | None:
    """Complete the joint densities, in place, first of each row's likeliest component, then of those still in reach.

    Rows far from all components keep many of them in reach: then the parts are passed one by one, and not kept.
    """
    likeliest, every = joint.argmax(axis=0), np.arange(joint.shape[1])
    parts = _parts("own", likeliest[np.newaxis] == np.arange(len(joint))[:, np.newaxis], values, parameters)
    for part in parts:
        _complete(joint, part, parameters)
    reached = joint > joint[likeliest, every] + joint.dtype.type(math.log(NEGLIGIBLE))
    reached[likeliest, every] = False
    if 4 * np.count_nonzero(reached) > reached.size:
        for g, rows in enumerate(map(np.flatnonzero, reached)):
            out = scratch.array("other", (len(values), len(rows)), values.dtype)
            _complete(joint, _part(g, rows, values, parameters.means[g], out), parameters)
        return None
    other = _parts("other", reached, values, parameters)
    for part in other:
        _complete(joint, part, parameters)
    return parts + other


def _parts(place: str, chosen: BoolArray, values: FloatArray, parameters: Parameters) -> list[Part]:
    """The rows chosen for each component, (G, m), centered at its mean."""
    p, (owner, rows) = len(values), np.nonzero(chosen)
    held = scratch.array(place, (p * len(rows),), values.dtype)
    bounds = np.searchsorted(owner, np.arange(len(chosen) + 1)).tolist()
    parts = []
    for g, (first, last) in enumerate(pairwise(bounds)):
        if first < last:
            out = held[p * first : p * last].reshape(p, -1)
            parts.append(_part(g, rows[first:last], values, parameters.means[g], out))
    return parts


def _complete(joint: FloatArray, part: Part, parameters: Parameters) -> None:
    """Subtract half the squared distances in the blocks not yet looked at from the joint densities of a part."""
    rest = np.zeros(part.centered.shape[1], dtype=joint.dtype)
    for look in parameters.looks[1]:
        if look.component == part.component:
            rest += _distance(part.centered, look.columns, look.whiteners)
    joint[part.component, part.rows] -= 0.5 * rest


def _distances(values: FloatArray, parameters: Parameters) -> FloatArray:
    """(x − μ)ᵀ Σ⁻¹ (x − μ) of all rows and components, shape (G, m)."""
    distances = np.zeros((len(parameters.weights), values.shape[1]), dtype=values.dtype)
    for stack, W in zip(parameters.layout.stacks, parameters.whiteners, strict=True):
        for g, own in stack.spans.items():
            distances[g] += _distance(values, stack.columns[own], W[own], parameters.means[g])
    return distances


def _distance(values: FloatArray, columns: IntArray, W: FloatArray, mean: FloatArray | None = None) -> FloatArray:
    """The same for the blocks (b, c) of one component, shape (m,); without a mean the values are centered already."""
    block = scratch.array("block", (*columns.shape, values.shape[1]), values.dtype)
    np.take(values, columns, axis=0, out=block, mode="clip")
    if mean is not None:
        block -= mean[columns][:, :, None]
    return np.asarray(_white_squares(block, W).reshape(-1, values.shape[1]).sum(axis=0))


def _white_squares(block: FloatArray, W: FloatArray) -> FloatArray:
    """Squares of the whitened entries of centered blocks (b, c, m)."""
    white = scratch.array("white", block.shape, np.result_type(W, block))
    np.multiply(W, block, out=white) if block.shape[1] == 1 else np.matmul(W, block, out=white)
    return np.multiply(white, white, out=white)  # einsum would hold the interpreter: a fifth of a sweep on two threads
