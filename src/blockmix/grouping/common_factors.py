"""Common factors: what all columns share, Σ = ΛΛᵀ + Ψ with the column groups in Ψ (docs/adr/0020).

Groups that are correlated with each other through a few common factors are one group to any rule that looks at S. Here
the loadings Λ (p × q), the groups and their blocks Ψ are found together from a covariance S, by turns: EM for Λ and Ψ
in given groups, then the groups of what the factors leave, R = S − ΛΛᵀ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import chdtri

from blockmix.blocks.blocks import Blocks, Layout, best_blocks
from blockmix.blocks.moments import Covariance, DenseMatrix
from blockmix.grouping.grouping import HierarchicalGrouping
from blockmix.grouping.rules import SilhouetteRule
from blockmix.partition import FloatArray, Partition

MOST = 3  # common factors that "auto" tries
# Rows of a covariance that "auto" needs: BIC is too lenient in fewer. With 10 to 25 rows of a component and 60 genes
# the held-out log-likelihood per row fell by 20 to 280.
_FEW = 40
_OWN = 0.8  # of the squared loadings of a common factor may be in one group of many columns
_STEPS, _FIRST_STEPS = 30, 8  # of EM between two looks at the groups, and before the first
_FURTHER = 10  # times its last gain, what EM may still gain
_SINGULAR = 1e-12  # least eigenvalue of the covariance of common factors
_ROUNDS = 4  # looks at the groups
_ENDED = 2  # starts that are followed to their end
_RIDGE = 1e-6  # the least one of `moments.DenseMatrix.definite`
_ITERATIONS = 20  # of the power method
_WHOLE = 0.999  # of the variance of a column, at most, may be the common factors'
_CHANCE = 0.05  # of groups that are independent to be searched for common factors all the same
_TOLERANCE = 0.02  # fall of the deviance of all rows from which EM has settled: 0.01 of log-likelihood

Propose = Callable[[Any], Layout]


def common_step(blocks: Blocks, cross: FloatArray, weight: FloatArray) -> FloatArray:
    """New loadings Λ = VU^(−½), shape (distinct, p, q), with V = Sβᵀ and U = M⁻¹ + βSβᵀ.

    `cross` is Σz(x − μ)(x − μ)ᵀβᵀ, shape (distinct, p, q), of rows that weigh `weight` (distinct,). This is EM's step
    Λ = VU⁻¹ for factors of covariance U in place of I (PX-EM), so that with the blocks of S − ΛΛᵀ the likelihood rises.
    """
    scoring, V = blocks.scoring, cross / np.where(weight > 0, weight, 1)[:, None, None]
    values, vectors = np.linalg.eigh(scoring.rest + scoring.slopes @ V)
    values = np.maximum(values, _SINGULAR)  # below 0 by rounding in a component without rows
    return np.asarray(V @ ((vectors / np.sqrt(values)[:, None]) @ np.swapaxes(vectors, 1, 2)))


class Fit(NamedTuple):
    """Blocks, the deviance log|Σ| + tr Σ⁻¹S, and S₀βᵀ, shape (p, q); None without common factors."""

    blocks: Blocks
    deviance: float
    cross: FloatArray | None


@dataclass(frozen=True, eq=False)
class Scatter:
    """A covariance S of n rows, pseudo-rows included, and what is searched in it.

    Attributes
    ----------
    S : array of shape (p, p), or GramMatrix
    n_rows : float
    price, factor_price : float
        Log-likelihood that a parameter of the blocks, and of the common factors, must earn.
    kept, added : float
        S is kept · S₀ + added · I, where S₀ is that of the rows and the rest the prior's, which is one of Ψ.
    """

    S: Covariance
    n_rows: float
    price: float
    factor_price: float
    kept: float = 1.0
    added: float = 0.0

    @classmethod
    def of(cls, R: Covariance, n_rows: float, price: float, factor_price: float) -> Scatter:
        """That of a correlation, with a ridge that keeps what factors leave of each column above 0."""
        return cls(R.definite(), n_rows, price, factor_price, 1 / (1 + _RIDGE), _RIDGE / (1 + _RIDGE))

    def times(self, columns: FloatArray) -> FloatArray:
        """S₀ times columns, shape (p, q)."""
        dense = isinstance(self.S, DenseMatrix)
        products = self.S @ columns if dense else np.stack([self.S @ column for column in columns.T], axis=1)
        return np.asarray((products - self.added * columns) / self.kept)

    def without(self, loadings: FloatArray) -> Any:
        """What common factors leave, S − kept · ΛΛᵀ."""
        return self.S - type(self.S).of(np.sqrt(self.kept) * loadings.T)

    def fitted(self, layout: Layout, loadings: FloatArray | None, states: Mapping[int, FloatArray]) -> Fit:
        """Best blocks of what loadings (p, q) leave, in the shapes of a layout."""
        R = self.S if loadings is None else self.without(loadings)
        flat = R.gathered(layout.order[0], layout.blocks, layout.size)
        blocks, shaped = best_blocks(layout, flat, states, None if loadings is None else loadings[None])
        # log|Ψ| + tr Ψ⁻¹R of each block; for a full one the trace is the number of its columns.
        deviances = np.add.reduceat(2 * np.log(blocks.factors[layout.diagonal]) + 1, layout.blocks[:, 0])
        deviances[list(shaped)] = list(shaped.values())
        deviance, cross = float(deviances.sum()), None
        if loadings is not None:
            slopes, _, M, logdets, _ = (values[0] for values in blocks.scoring)
            cross = self.times(slopes.T)
            # tr Σ⁻¹S₀ = tr Ψ⁻¹S₀ − tr MβS₀βᵀ, and S₀ is what the factors leave and ΛΛᵀ.
            deviance += self.kept * float(logdets + np.trace(M) - len(M) - (M * (slopes @ cross)).sum())
        return Fit(blocks, deviance, cross)

    def objective(self, fit: Fit) -> float:
        """Log-likelihood and penalty of the prior, up to a constant, less prices."""
        layout = fit.blocks.layout
        paid = self.price * layout.n_parameters + layout.partition_price if self.price else 0.0
        return -0.5 * self.n_rows * fit.deviance - paid - self.factor_price * fit.blocks.n_loadings

    def settled(self, blocks: Blocks, n_steps: int = _STEPS, floor: float = -np.inf) -> Fit:
        """EM for loadings and blocks in the present groups; it ends early if it will not come near the floor."""
        fit = Fit(blocks, np.inf, self.times(blocks.scoring.slopes[0].T))
        for _ in range(n_steps):
            assert fit.cross is not None
            loadings = common_step(fit.blocks, fit.cross[None], np.ones(1))[0]
            new = self.fitted(blocks.layout, loadings, fit.blocks.states)
            gain, fit = self.n_rows * (fit.deviance - new.deviance), new
            if gain < _TOLERANCE or self.objective(fit) + _FURTHER * gain < floor:
                break
        return fit

    def first(self, layout: Layout, q: int) -> Blocks:
        """Blocks of S, with their best q common factors.

        For Ψ = LLᵀ these are LV(D − I)^½ with the leading eigenvalues D and vectors V of L⁻¹SL⁻ᵀ, by the power method.
        """
        blocks, rows = self.fitted(layout, None, {}).blocks, np.argsort(-self.S.row_squares(), kind="stable")[:q]
        values = np.array(self.S[rows].T, dtype=float)
        for _ in range(_ITERATIONS):
            solved = blocks.solved(values[None])[0]
            squares, rotation = np.linalg.eigh(values.T @ solved)
            # Of fewer rows than factors, or copies of a column, some squares are 0; of one row all are.
            solved = solved @ (rotation / np.sqrt(np.maximum(squares, max(1e-9 * squares[-1], 1e-200))))
            values = self.times(solved)
        D, rotation = np.linalg.eigh(solved.T @ values)
        scale = np.sqrt(np.maximum(D - 1, 1e-4) / np.maximum(D, 1e-4) ** 2)
        return replace(blocks, loadings=(values @ rotation * scale)[None])


def is_common(blocks: Blocks) -> bool:
    """Whether every common factor explains covariance between groups, and no column wholly.

    Of its squared loadings at least a fifth, and half of the share of the other columns, must be outside each group,
    where columns alone count as one: a factor that takes the place of a block leaves the columns of that block alone.
    """
    canonical, partition = blocks.canonical(), blocks.partition
    shares = canonical.common**2 / blocks.variances[:, None]
    if shares.shape[1] < blocks.loadings.shape[2] or shares.sum(axis=1).max() > _WHOLE:  # type: ignore[union-attr]
        return False
    labels = np.minimum(partition.labels, int((partition.sizes > 1).sum()))
    sums = np.stack([np.bincount(labels, share) for share in shares.T])
    most = np.minimum(_OWN, (1 + np.bincount(labels) / len(labels)) / 2)
    return bool((sums <= most * sums.sum(axis=1, keepdims=True)).all())


def are_independent(scatter: Scatter, groups: Layout) -> bool:
    """Whether the groups, none of more than half of the columns, may be independent by Box's likelihood ratio.

    Then there is nothing to explain between them, and no search, which takes longer than the rest of a small fit.
    """
    c, p, n = groups.distinct[0].sizes.astype(float), len(scatter.S), scatter.n_rows
    pairs = (p**2 - float((c**2).sum())) / 2
    scale = n - 1.5 - (p**3 - float((c**3).sum())) / (6 * pairs) if pairs else 0.0
    if c.max() > p / 2 or scale <= 0:
        return False
    blocks = scatter.fitted(Layout(groups.distinct), None, {}).blocks
    ratio = scale * (blocks.logdet - float(np.linalg.slogdet(np.asarray(scatter.S))[1]))
    return bool(ratio < chdtri(pairs, _CHANCE))


def best_common(
    scatter: Scatter, propose: Propose, groups: Layout, present: Blocks | None, least: int, most: int
) -> Fit:
    """Blocks on `least` to `most` common factors, with the largest objective.

    One more factor is tried as long as it pays. A factor beyond the least must explain covariance between groups.
    Starts matter: the groups without common factors, columns alone and, but for a wide table, those of the silhouette.

    Parameters
    ----------
    scatter : Scatter
    propose : callable
        Returns the layout of the groups of a covariance.
    groups : Layout
        Those proposed without common factors.
    present : Blocks or None
        Blocks, on common factors, to begin with as well.
    least, most : int
    """
    best, top, dense = scatter.fitted(groups, None, {}), -np.inf, isinstance(scatter.S, DenseMatrix)
    if not least:
        if scatter.n_rows < _FEW or (dense and are_independent(scatter, groups)):
            return best
        top = scatter.objective(best)
    alone = Layout((Partition.separate(len(scatter.S)),))
    # One full block leaves factors nothing to explain.
    layouts = [groups, alone] if 1 < groups.distinct[0].n_groups < len(scatter.S) else [alone]
    for q in range(max(least, 1), (most if dense or least else min(most, 1)) + 1):
        candidates = [scatter.first(layout, q) for layout in layouts]
        candidates += _standing_out(scatter, q) if dense else []
        if present is not None and present.n_common[0] == q:
            candidates.append(replace(present, loadings=present.common[None]))
        ends = (_regrouped(scatter, propose, scatter.settled(start, _FIRST_STEPS).blocks) for start in candidates)
        improved = False
        for fit in sorted((end for end in ends if end is not None), key=scatter.objective)[: -_ENDED - 1 : -1]:
            end = _alternated(scatter, propose, fit, top)
            value = scatter.objective(end)
            if value > top and (q == least or is_common(end.blocks)):
                best, top, improved = end, value, True
        if not improved:
            break
    return best


def _standing_out(scatter: Scatter, q: int) -> list[Blocks]:
    """Blocks of the groups of the silhouette, and of those of what the factors of these leave.

    With many rows the best cut of what imperfect factors leave is one group. The silhouette does not depend on rows.
    """
    layouts, found = list[Layout](), list[Blocks]()
    R: Any = scatter.S
    for _ in range(_ROUNDS):
        layout = Layout((SilhouetteRule().choose(R, scatter.n_rows, HierarchicalGrouping()).partition,))
        if any(layout.is_same(other) for other in layouts):
            break
        layouts.append(layout)
        found.append(scatter.settled(scatter.first(layout, q), _FIRST_STEPS).blocks)
        R = scatter.without(found[-1].common)
    return [found[0], *found[1:][-1:]]


def _regrouped(scatter: Scatter, propose: Propose, blocks: Blocks) -> Fit | None:
    """The loadings of blocks with the groups of what they leave; None if nothing loads."""
    loadings = blocks.common
    return scatter.fitted(propose(scatter.without(loadings)), loadings, {}) if loadings.any() else None


def _alternated(scatter: Scatter, propose: Propose, first: Fit, floor: float) -> Fit:
    """EM in groups, and new groups of what the factors leave, by turns while the objective rises."""
    fit = scatter.settled(first.blocks, floor=floor)
    for _ in range(_ROUNDS):
        new = _regrouped(scatter, propose, fit.blocks)
        if new is None or new.blocks.layout.is_same(fit.blocks.layout):
            break
        new = scatter.settled(new.blocks, floor=max(floor, scatter.objective(fit)))
        if scatter.objective(new) <= scatter.objective(fit) + 1e-9 * scatter.n_rows:
            break
        fit = new
    return fit
