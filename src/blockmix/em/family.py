"""The protocol of a family of mixtures: the six things that the EM loop asks of it, and how it scores rows.

A family is made for the rows of one fit and holds the settings of the model. Its parameters and statistics are frozen
values of its own; the loop knows of them only what the protocols here say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

from blockmix.rows import Chunk, Rows
from blockmix.structure.types import FloatArray, IntArray


class MixtureParameters(Protocol):
    """Parameters of a mixture in standardized columns."""

    @property
    def weights(self) -> FloatArray:
        """Weights of the components, shape (G,)."""
        ...

    @property
    def means(self) -> FloatArray:
        """Means of the components, shape (G, p)."""
        ...

    def moved(self, weights: FloatArray, means: FloatArray) -> Self:
        """The same covariances with other weights and means."""
        ...


class SweepStatistics(Protocol):
    """What a sweep over the rows learns."""

    @property
    def weight(self) -> FloatArray:
        """Sum of the responsibilities of each component, shape (G,)."""
        ...


P = TypeVar("P", bound=MixtureParameters)
S = TypeVar("S", bound=SweepStatistics)


@dataclass(frozen=True, eq=False)
class Regroup(Generic[P]):
    """Parameters in column groups that were just proposed and judged.

    Attributes
    ----------
    parameters : parameters after the M-step, in the new groups or in the old ones
    changed : bool
        Whether the groups changed for a gain worth another look once EM has settled again.
    memory : frozenset of str
        Proposals that have been tried and need not be tried again.
    """

    parameters: P
    changed: bool
    memory: frozenset[str] = frozenset()


class Family(Protocol[P, S]):
    """A family of mixtures with column groups."""

    def first(self, rows: Rows, z: FloatArray) -> Regroup[P]:
        """Parameters from responsibilities z, shape (N, G), with the first column groups."""
        ...

    def layouts(self, n_columns: int, judged: bool) -> Mapping[str, Family[P, S]]:
        """Return the family with each kind of first column groups worth a start, by name.

        "one group" and "alone" (every column) are members of the family that other groups are compared with; one group
        only where a full covariance can be judged.
        """
        ...

    def sweep(self, rows: Rows, parameters: P) -> S:
        """E-step: read every row once, and return statistics that add up."""
        ...

    def objective(self, statistics: S, parameters: P) -> float:
        """Log-likelihood + penalties − price of the parameters that a sweep was made with; EM never lowers it."""
        ...

    def maximize(self, statistics: S, parameters: P) -> P:
        """M-step in the present column groups."""
        ...

    def regroup(self, rows: Rows, parameters: P, statistics: S, enough: float, memory: frozenset[str]) -> Regroup[P]:
        """M-step in new column groups where they raise the objective, else in the present ones.

        `enough` is the gain from which the groups count as changed.
        """
        ...

    def thin(self, parameters: P, spare: int = 0) -> IntArray:
        """Components with at most `spare` rows more than they need."""
        ...

    def resting(self, parameters: P) -> IntArray:
        """Thin components whose likelihood rests on a penalty or a floor."""
        ...

    def loose(self, tol: float) -> float:
        """Tolerance per row at which the groups are first revised: exact convergence in groups to come is wasted."""
        ...

    def log_joint(self, chunk: Chunk, parameters: P) -> FloatArray:
        """Log π_g f_g of the rows of a chunk in standardized columns, shape (m, G)."""
        ...
