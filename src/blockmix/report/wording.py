"""Wording: numbers and texts as the page shows them."""

from __future__ import annotations

from typing import Any

import numpy as np


def written(value: Any) -> str:
    """A parameter value as one short line."""
    if isinstance(value, np.ndarray):
        return f"array of shape {value.shape}"
    return short(" ".join(repr(value).split()))


def short(text: str, most: int = 120) -> str:
    """At most `most` characters: row names may be whole documents."""
    return text if len(text) <= most else text[: most - 1] + "…"


def grouped(number: float, digits: int = 0) -> str:
    """The number with narrow no-break spaces between thousands and a true minus sign, which never breaks off."""
    return f"{number:,.{digits}f}".replace(",", "\u202f").replace("-", "−")


def finite(value: float, digits: int = 3) -> float | None:
    """The number rounded, None if it is not finite."""
    return round(float(value), digits) if np.isfinite(value) else None


def counted(number: int, noun: str) -> str:
    """The number and its noun, in the plural unless it is one."""
    return f"{grouped(number)} {noun}{'' if number == 1 else 's'}"
