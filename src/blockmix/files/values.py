"""Values as JSON and arrays, and back, for files that cannot run code.

`Packer` turns numbers, strings, containers, arrays and objects of known classes into JSON, in which the key "$" names
the class; `unpack` turns it back. `Codecs` is the table of the known classes. Anything else is refused.
"""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockmix.files.archive import Refusal, is_plain

_TAG = "$"


@dataclass(frozen=True)
class Codec:
    """How objects of one class are stored: as the arguments that build them again.

    Parameters
    ----------
    name : str
        Name in the file, which stays when the class is renamed.
    cls : type
    arguments : callable
        Gives the arguments of an object, by name.
    build : callable
        Gives the object of these arguments, or raises an exception if there is none.
    """

    name: str
    cls: type
    arguments: Callable[[Any], dict[str, Any]]
    build: Callable[..., Any]


def stored(cls: type, check: Callable[[Any], object] | None = None, fields: Mapping[str, str] = {}) -> Codec:
    """Codec of a dataclass, or of another class whose constructor only stores its arguments.

    Parameters
    ----------
    cls : type
    check : callable, optional
        Raises an exception for an object that cannot be.
    fields : mapping
        Arguments that have another name in the file: name in the code → name in the file.
    """
    in_file = {name: fields.get(name, name) for name in _argument_names(cls)}
    in_code = {name: key for key, name in in_file.items()}

    def arguments(value: Any) -> dict[str, Any]:
        return {in_file.get(key, key): item for key, item in _arguments(value).items()}

    def build(**arguments: Any) -> Any:
        value = cls(**{in_code.get(name, name): item for name, item in arguments.items()})
        if check is not None:
            check(value)
        return value

    return Codec(cls.__name__, cls, arguments, build)


def _argument_names(cls: type) -> set[str]:
    return set(inspect.signature(cls).parameters)


def _arguments(value: Any) -> dict[str, Any]:
    if hasattr(value, "get_params"):
        return dict(value.get_params(deep=False))
    if is_dataclass(value):
        return {name: getattr(value, name) for name in value.__dataclass_fields__}
    return dict(vars(value))


class Codecs:
    """The classes that a file may hold.

    Parameters
    ----------
    codecs : iterable of Codec
    open_to : tuple of protocols
        Objects that satisfy one of them are stored whatever their class is. To load them, add the class.
    """

    def __init__(self, codecs: Iterable[Codec], open_to: tuple[type, ...] = ()) -> None:
        self._by_name = {codec.name: codec for codec in [*_BUILT_IN, *codecs]}
        self._by_class = {codec.cls: codec for codec in self._by_name.values()}
        self._open_to = open_to

    def with_classes(self, classes: Iterable[type]) -> Codecs:
        """A table with more classes."""
        return Codecs([*self._by_name.values(), *map(stored, classes)], self._open_to)

    def named(self, name: str) -> Codec:
        """The codec of that name in the file."""
        if name not in self._by_name:
            raise Refusal(
                f"holds a {name!r}, which this version of blockmix does not know: update blockmix, or hand a class of "
                "your own to load(path, classes=[...])"
            )
        return self._by_name[name]

    def of(self, value: Any) -> Codec | None:
        """The codec of a value that is neither JSON nor an array of numbers, or None if it cannot be stored."""
        if isinstance(value, np.generic):
            # Python has no equal of a long double.
            fits = value.dtype.itemsize <= 8 or value.dtype.kind == "U"
            return self._by_name["scalar"] if is_plain(value.dtype) and fits else None
        if isinstance(value, np.ndarray):
            return self._by_name["strings"] if all(isinstance(item, str) for item in value.flat) else None
        cls: type = type(value)
        if cls not in self._by_class and isinstance(value, self._open_to) and cls.__name__ not in self._by_name:
            codec = stored(cls)
            return codec if _argument_names(cls) >= set(codec.arguments(value)) else None
        return self._by_class.get(cls)


class Packer:
    """Turns values into JSON and collects their arrays; an array that occurs twice is stored once.

    Examples
    --------
    >>> packer = Packer(Codecs([]))
    >>> packer.pack((0.5, np.arange(3)), "value")
    {'$': 'tuple', 'items': [0.5, {'$': 'array', 'place': 0}]}
    >>> packer.arrays
    [array([0, 1, 2])]
    """

    def __init__(self, codecs: Codecs) -> None:
        self.arrays: list[NDArray[Any]] = []
        self._places: dict[int, int] = {}
        self._codecs = codecs

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
        codec = self._codecs.of(value)
        if codec is None and hasattr(value, "__array__") and not isinstance(value, (np.ndarray, np.generic)):
            return self.pack(np.asarray(value), where)
        if codec is None:
            raise TypeError(
                f"{where} holds a {type(value).__name__}, which cannot be saved: give numbers, arrays or objects of "
                "blockmix, or pickle the model"
            )
        return {_TAG: codec.name, **{key: self.pack(item, where) for key, item in codec.arguments(value).items()}}

    def _place(self, array: NDArray[Any]) -> int:
        if id(array) not in self._places:
            self._places[id(array)] = len(self.arrays)
            self.arrays.append(array)
        return self._places[id(array)]


def unpack(packed: Any, arrays: Mapping[int, NDArray[Any]], codecs: Codecs) -> Any:
    """Return the value that was packed as this JSON and these arrays."""
    if isinstance(packed, list):
        return [unpack(item, arrays, codecs) for item in packed]
    if not isinstance(packed, dict):
        return packed
    name = packed[_TAG]
    if name == "array":
        return arrays[packed["place"]]
    codec = codecs.named(name)
    return codec.build(**{key: unpack(item, arrays, codecs) for key, item in packed.items() if key != _TAG})


def unpacked(content: dict[str, Any], arrays: Mapping[int, NDArray[Any]], codecs: Codecs) -> dict[str, Any]:
    """Unpack each of several named values."""
    return {name: unpack(value, arrays, codecs) for name, value in content.items()}


def _scalar(type: str, value: Any) -> Any:
    dtype = np.dtype(type)
    if not is_plain(dtype):
        raise ValueError(f"{type!r} is no type of a number")
    return dtype.type(value)


def _strings(shape: list[int], items: list[str]) -> NDArray[Any]:
    if not all(isinstance(item, str) for item in items):
        raise ValueError("an array of strings holds something else")
    return np.array(items, dtype=object).reshape(shape)


def _generator_state(rng: np.random.RandomState) -> dict[str, Any]:
    state: Any = rng.get_state(legacy=False)
    if state["bit_generator"] != "MT19937":
        raise TypeError(f"a RandomState on {state['bit_generator']} cannot be saved: give random_state a whole number")
    return {"key": state["state"]["key"], "at": state["state"]["pos"], "gauss": [state["has_gauss"], state["gauss"]]}


def _generator(key: NDArray[Any], at: int, gauss: list[Any]) -> np.random.RandomState:
    has_gauss, value = gauss
    # NumPy does not check the position and would read beyond the key.
    if key.shape != (624,) or key.dtype.kind != "u" or not 0 <= at <= 624:
        raise ValueError("a RandomState has 624 numbers and a position among them")
    if has_gauss not in (0, 1) or not math.isfinite(value):
        raise ValueError(f"{gauss!r} is no state of a RandomState")
    rng = np.random.RandomState()
    rng.set_state(("MT19937", key.astype(np.uint32), at, has_gauss, value))
    return rng


_BUILT_IN = [
    Codec("tuple", tuple, lambda value: {"items": list(value)}, lambda items: tuple(items)),
    Codec("frozenset", frozenset, lambda value: {"items": sorted(value)}, lambda items: frozenset(items)),
    Codec("dict", dict, lambda value: {"items": [list(pair) for pair in value.items()]}, lambda items: dict(items)),
    Codec("range", range, lambda value: {"ends": [value.start, value.stop, value.step]}, lambda ends: range(*ends)),
    # nan and inf, which JSON does not have
    Codec("float", float, lambda value: {"text": repr(value)}, lambda text: float(text)),
    Codec("scalar", np.generic, lambda value: {"type": value.dtype.str, "value": value.item()}, _scalar),
    Codec("strings", np.ndarray, lambda value: {"shape": list(value.shape), "items": list(value.flat)}, _strings),
    Codec("RandomState", np.random.RandomState, _generator_state, _generator),
]
