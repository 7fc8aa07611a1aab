"""Convergence of EM: Aitken's rule as an object, and the ways in which a fit can end (paper, section 3).

Values of the objective come in, one per iteration; whether the limit that they approach is near goes out.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Outcome(Enum):
    """How a fit ended."""

    CONVERGED = "converged"
    ITERATION_LIMIT = "iteration limit"
    DEGENERATE = "degenerate"
    INTERRUPTED = "interrupted"


@dataclass
class Aitken:
    """Stops when the limit extrapolated from the last three values is within `tol` of the last one.

    With a = (l₃ − l₂) / (l₂ − l₁) the limit is l₂ + (l₃ − l₂) / (1 − a). It is trusted for 0 < a < 1; otherwise the
    last gain itself must be below `tol`.

    Examples
    --------
    >>> rule = Aitken(tol=0.01)
    >>> [rule.settled(1 - 0.5**t) for t in range(9)]
    [False, False, False, False, False, False, False, True, True]
    """

    tol: float
    values: tuple[float, ...] = ()

    def settled(self, value: float) -> bool:
        """Take the next value; say whether the sequence has settled."""
        self.values = (*self.values[-2:], value)
        if len(self.values) < 2:
            return False
        gain = self.values[-1] - self.values[-2]
        if len(self.values) == 2:
            return abs(gain) < 1e-3 * self.tol
        before = self.values[-2] - self.values[-3]
        rate = gain / before if before != 0 else 0.0
        left = gain * rate / (1 - rate) if 0 < rate < 1 else gain
        return abs(left) < self.tol
