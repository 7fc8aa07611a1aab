"""Traits: what is known of the rows and was left out of the fit, such as a condition, a sex or a date.

The page shows them as colors of the map, as strips beside the checkerboard, and as shares and means by cluster.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from blockmix.metrics import adjusted_rand
from blockmix.partition import BoolArray, FloatArray, IntArray

_LISTED = 20  # classes; the smallest of more are added up
# Missing values of Python, NumPy and pandas by their text: pandas.NA cannot be compared with anything.
_MISSING = dict.fromkeys(("None", "nan", "NaN", "NaT", "<NA>"), "")


class Trait(NamedTuple):
    """One property of the rows.

    Attributes
    ----------
    name : str
    classes : list of str or None
        Its classes, the smallest of many as one; None for numbers.
    values : array of shape (N,)
        Index of the class, −1 if unknown; or numbers, NaN if unknown; days since 1970 of a date.
    is_date : bool
    """

    name: str
    classes: list[str] | None
    values: FloatArray | IntArray
    is_date: bool = False

    @property
    def known(self) -> BoolArray:
        """Which rows have a value, shape (N,)."""
        return np.asarray(np.isfinite(self.values) if self.classes is None else self.values >= 0)

    @property
    def is_told(self) -> bool:
        """Whether it has several values, and fewer classes than would name the rows."""
        classes = self.classes or ()
        values = self.values[self.known]
        return len(values) > 0 and values.min() < values.max() and not (classes and classes[-1].endswith(" others"))


def trait_of(name: str, given: ArrayLike) -> Trait:
    """A trait from one value per row; None, NaN and an empty string mean unknown.

    Up to 20 different values are classes, of more numbers and dates are numbers.

    Examples
    --------
    >>> trait = trait_of("sex", ["m", None, "f", float("nan"), "m"])
    >>> trait.classes, trait.values.tolist()
    (['f', 'm'], [1, -1, 0, -1, 1])
    """
    cells = np.asarray(given, dtype=object)
    if cells.ndim != 1:
        raise ValueError(f"{name} has shape {cells.shape}: give one value per row")
    texts = [cell if isinstance(cell, str) else _MISSING.get(str(cell), str(cell)) for cell in cells.tolist()]
    names = sorted({*texts} - {""}, key=lambda text: (_number(text), text))
    if len(names) > _LISTED:
        numbers = np.array([_number(text) for text in texts])
        if np.isfinite(numbers).all() or not any(np.isnan(_number(text)) for text in names):
            return Trait(name, None, np.where(np.isfinite(numbers), numbers, np.nan))
        try:
            dates = np.array([text or "NaT" for text in texts], dtype="datetime64[s]")
            return Trait(name, None, np.where(np.isnat(dates), np.nan, dates.astype(float) / 86_400), True)
        except ValueError:
            pass
    number = {text: k for k, text in enumerate(names)} | {"": -1}
    codes = np.array([number[text] for text in texts], dtype=np.intp)
    if len(names) > _LISTED:
        kept = np.sort(np.argsort(-np.bincount(codes[codes >= 0]), kind="stable")[: _LISTED - 1])
        places = np.full(len(names) + 1, len(kept))
        places[[*kept, -1]] = [*range(len(kept)), -1]
        names, codes = [*(names[k] for k in kept), f"{len(names) - len(kept)} others"], places[codes]
    return Trait(name, names, codes)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return np.nan


def trait_section(trait: Trait, labels: IntArray, G: int, sample: IntArray) -> dict[str, Any]:
    """Rows by cluster and class, or mean and deviation by cluster, and the color of each row of the sample."""
    values, is_known = trait.values, trait.known
    known, clusters = values[is_known], labels[is_known]
    made: dict[str, Any] = {"name": trait.name, "classes": trait.classes, "unknown": int((~is_known).sum())}
    if trait.classes is None:
        low, high = np.quantile(known, [0.02, 0.98]).tolist()
        parts = [known[clusters == g] for g in range(G)]
        means = [float(f"{part.mean():.6g}") if len(part) else None for part in parts]
        between = sum(len(part) * (part.mean() - known.mean()) ** 2 for part in parts if len(part))
        share = float(between / max(float(((known - known.mean()) ** 2).sum()), 1e-300))
        made |= {"low": low, "high": high, "date": trait.is_date, "means": means, "effect": ["η²", round(share, 3)]}
    else:
        C = len(trait.classes)
        counts = np.bincount(clusters * C + known, minlength=G * C).reshape(G, C)
        made |= {"counts": counts.tolist(), "ari": round(adjusted_rand(known, clusters), 3) if C > 1 else None}
        made["effect"] = ["V", round(_cramer(counts), 3)]
    return made | {"codes": b64encode(trait_codes(trait)[sample].tobytes()).decode("ascii")}


def trait_codes(trait: Trait) -> NDArray[np.uint8]:
    """One byte per row: 0 is unknown, from 1 on the class, or the number between its 2 and 98 % quantile."""
    if trait.classes is not None:
        return np.asarray(trait.values + 1, dtype=np.uint8)
    low, high = np.nanquantile(trait.values, [0.02, 0.98])
    levels = 1 + np.rint(254 * np.clip((trait.values - low) / max(high - low, 1e-300), 0, 1))
    return np.asarray(np.nan_to_num(levels, nan=0.0), dtype=np.uint8)


def trait_lines(trait: Trait, order: IntArray, bins: IntArray) -> str:
    """The codes of the lines of the checkerboard: the most frequent class of the rows of each, or their mean."""
    codes = trait_codes(trait)[order].astype(np.intp)
    line = np.repeat(np.arange(len(bins) - 1), np.diff(bins))
    if trait.classes is None:
        seen = np.bincount(line, codes > 0, len(bins) - 1)
        lines = np.rint(np.bincount(line, codes, len(bins) - 1) / np.maximum(seen, 1))
    else:
        counts = np.zeros((len(bins) - 1, len(trait.classes) + 1))
        np.add.at(counts, (line, codes), 1)
        lines = counts.argmax(axis=1)
    return b64encode(lines.astype(np.uint8).tobytes()).decode("ascii")


def _cramer(counts: IntArray) -> float:
    """Cramér's V of a table of counts: √(χ² / (n (min(rows, columns) − 1)))."""
    kept = counts[counts.sum(axis=1) > 0][:, counts.sum(axis=0) > 0].astype(float)
    if min(kept.shape, default=0) < 2:
        return 0.0
    expected = np.outer(kept.sum(axis=1), kept.sum(axis=0)) / kept.sum()
    return float(np.sqrt(((kept - expected) ** 2 / expected).sum() / kept.sum() / (min(kept.shape) - 1)))


def traits_of(given: Mapping[str, Any] | None) -> list[Trait]:
    """The traits that say something: those with a value for some row."""
    found = [trait_of(str(name), given[name]) for name in given] if given is not None else []
    return [trait for trait in found if trait.known.any()]
