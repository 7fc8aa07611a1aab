"""Sums of statistics, taken pairwise in a tree that depends only on the number of parts.

The same chunks therefore give the same sum wherever they are stored.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any, Protocol, Self, TypeVar


class Summable(Protocol):
    """Statistics that add up."""

    def __add__(self: S, other: S) -> S:
        """Statistics of both sets of rows."""
        ...


S = TypeVar("S", bound=Summable)


class Additive:
    """Statistics, a dataclass, whose fields add up one by one; a field that is None stays None."""

    def __add__(self, other: Self) -> Self:
        one: Any = self
        pairs = ((getattr(self, field.name), getattr(other, field.name)) for field in fields(one))
        return type(self)(*(None if a is None or b is None else a + b for a, b in pairs))


def total(parts: Iterable[S]) -> S:
    """Sum of at least one part: of pairs, then of pairs of pairs; rounding grows with the logarithm of their number.

    Examples
    --------
    >>> total("abcdefg")  # ((ab)(cd))((ef)g)
    'abcdefg'
    """
    waiting: list[tuple[int, S]] = []  # sums of 2^level parts, the level falling
    for part in parts:
        level, found = 0, part
        while waiting and waiting[-1][0] == level:
            level, found = level + 1, waiting.pop()[1] + found
        waiting.append((level, found))
    _, found = waiting.pop()
    while waiting:
        found = waiting.pop()[1] + found
    return found
