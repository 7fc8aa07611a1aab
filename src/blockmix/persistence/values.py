"""Packing: values as JSON and a list of arrays, and back, for files that cannot run code.

Numbers, strings, sequences, arrays and objects of a closed set of classes come in; JSON, in which the key "$" names the
class, goes out. The set: groupings and rules, frozen dataclasses of this package, and seeds. Anything else is refused.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from blockmix.em.block.parameters import Parameters, assemble
from blockmix.grouping.registry import GROUPINGS, RULES
from blockmix.structure.blocks import BlockCovariance

_TAG = "$"


class Packer:
    """Turns values into JSON and collects their arrays; an array that is met twice is kept once.

    Examples
    --------
    >>> packer = Packer()
    >>> packer.pack((0.5, np.arange(3)), "value")
    {'$': 'tuple', 'items': [0.5, {'$': 'array', 'place': 0}]}
    >>> packer.arrays
    [array([0, 1, 2])]
    """

    def __init__(self) -> None:
        self.arrays: list[NDArray[Any]] = []
        self._places: dict[int, int] = {}

    def pack(self, value: Any, where: str) -> Any:
        """Return JSON for a value; `where` names it in an error."""
        if value is None or type(value) in (bool, int, str) or (type(value) is float and math.isfinite(value)):
            return value
        if isinstance(value, os.PathLike):
            return os.fspath(value)
        if type(value) is list:
            return [self.pack(item, where) for item in value]
        if isinstance(value, np.ndarray) and is_plain(value.dtype):
            return {_TAG: "array", "place": self._place(value)}
        name = _kind(value)
        if name is None and hasattr(value, "__array__") and not isinstance(value, (np.ndarray, np.generic)):
            return self.pack(np.asarray(value), where)
        if name is None:
            raise TypeError(
                f"{where} holds a {type(value).__name__}, which cannot be saved: give numbers, arrays or objects of "
                "blockmix, or pickle the model"
            )
        arguments = _KINDS[name].arguments(value) if name in _KINDS else _fields(value)
        return {_TAG: name, **{key: self.pack(item, where) for key, item in arguments.items()}}

    def _place(self, array: NDArray[Any]) -> int:
        if id(array) not in self._places:
            self._places[id(array)] = len(self.arrays)
            self.arrays.append(array)
        return self._places[id(array)]


def unpack(packed: Any, array: Callable[[int], NDArray[Any]]) -> Any:
    """Return the value of a piece of JSON, with the array of each place.

    Raises
    ------
    LookupError
        For the name of a class that is not in the set.
    """
    if isinstance(packed, list):
        return [unpack(item, array) for item in packed]
    if not isinstance(packed, dict):
        return packed
    name = packed[_TAG]
    if name == "array":
        return array(packed["place"])
    build = _KINDS[name].build if name in _KINDS else _value_class(name)
    if build is None:
        raise UnknownClass(name)
    return build(**{key: unpack(item, array) for key, item in packed.items() if key != _TAG})


class UnknownClass(LookupError):
    """The name of a class that this version of the package does not have."""


def is_plain(dtype: np.dtype[Any]) -> bool:
    """Whether bytes are all there is to it: numbers, truth values and strings."""
    return dtype.kind in "biufU" and dtype.itemsize > 0


class _Kind(NamedTuple):
    """A class, its values as arguments, and what makes a value of the arguments."""

    cls: type
    arguments: Callable[[Any], dict[str, Any]]
    build: Callable[..., Any]


def _kind(value: Any) -> str | None:
    """The name of the kind of a value that is neither JSON itself nor an array of numbers."""
    if isinstance(value, np.generic):
        # A long double has no equal among Python's floats.
        return "scalar" if is_plain(value.dtype) and (value.dtype.itemsize <= 8 or value.dtype.kind == "U") else None
    if isinstance(value, np.ndarray):
        return "strings" if all(isinstance(item, str) for item in value.flat) else None
    cls: type = type(value)
    return _NAMES.get(cls) or (cls.__name__ if _value_class(cls.__name__) is cls else None)


def _fields(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in fields(value)}


def _value_class(name: str) -> type | None:
    """The frozen dataclass of this package with that name; nothing is imported to find it."""
    modules = [module for key, module in sys.modules.items() if key.startswith("blockmix.")]
    found = {vars(module).get(name) for module in modules if isinstance(vars(module).get(name), type)}
    values = [cls for cls in found if is_dataclass(cls) and cls.__module__.startswith("blockmix.")]
    frozen = [cls for cls in values if cls.__dataclass_params__.frozen]  # type: ignore[union-attr]
    return frozen[0] if len(frozen) == 1 and isinstance(frozen[0], type) else None


def _scalar(type: str, value: Any) -> Any:
    dtype = np.dtype(type)
    if not is_plain(dtype):
        raise ValueError(f"{type!r} is no type of a number")
    return dtype.type(value)


def _strings(shape: list[int], items: list[str]) -> NDArray[Any]:
    return np.array(items, dtype=object).reshape(shape)


def _seed(rng: np.random.RandomState) -> dict[str, Any]:
    state: Any = rng.get_state(legacy=False)
    if state["bit_generator"] != "MT19937":
        raise TypeError(f"a RandomState on {state['bit_generator']} cannot be saved: give random_state a whole number")
    return {"key": state["state"]["key"], "at": state["state"]["pos"], "gauss": [state["has_gauss"], state["gauss"]]}


def _seeded(key: NDArray[Any], at: int, gauss: list[Any]) -> np.random.RandomState:
    if key.shape != (624,) or not 0 <= at <= 624:  # NumPy itself does not look, and would read beyond the key
        raise ValueError("a RandomState has 624 numbers and a place among them")
    rng = np.random.RandomState()
    rng.set_state(("MT19937", key.astype(np.uint32), at, *gauss))
    return rng


def _mixture(parameters: Parameters) -> dict[str, Any]:
    # By component, because how a layout stacks the blocks depends on sizes that a later version may choose differently.
    distinct = parameters.covariances[:1] if parameters.layout.shared else parameters.covariances
    return {"weights": parameters.weights, "means": parameters.means, "covariances": distinct}


def _assembled(weights: NDArray[Any], means: NDArray[Any], covariances: tuple[BlockCovariance, ...]) -> Parameters:
    return assemble(weights, means, covariances * (len(weights) if len(covariances) == 1 else 1))


_KINDS: dict[str, _Kind] = {
    "tuple": _Kind(tuple, lambda value: {"items": list(value)}, lambda items: tuple(items)),
    "dict": _Kind(dict, lambda value: {"items": [list(pair) for pair in value.items()]}, lambda items: dict(items)),
    "frozenset": _Kind(frozenset, lambda value: {"items": sorted(value)}, lambda items: frozenset(items)),
    "range": _Kind(range, lambda value: {"ends": [value.start, value.stop, value.step]}, lambda ends: range(*ends)),
    "float": _Kind(float, lambda value: {"text": repr(value)}, lambda text: float(text)),  # nan, inf: JSON has neither
    "scalar": _Kind(np.generic, lambda value: {"type": value.dtype.str, "value": value.item()}, _scalar),
    "strings": _Kind(np.ndarray, lambda value: {"shape": list(value.shape), "items": list(value.flat)}, _strings),
    "RandomState": _Kind(np.random.RandomState, _seed, _seeded),
    "Parameters": _Kind(Parameters, _mixture, _assembled),
} | {
    cls.__name__: _Kind(cls, lambda value: dict(value.get_params(deep=False)), cls)
    for cls in (*GROUPINGS.values(), *RULES.values())
}
_NAMES = {kind.cls: name for name, kind in _KINDS.items()}
