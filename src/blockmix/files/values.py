"""Values as JSON and arrays, and back, for files that cannot run code.

`pack` turns numbers, strings, containers, arrays and objects of known classes into JSON, in which the key "$" names the
class; `unpack` turns it back. `Codecs` is the table of the known classes. Anything else is refused.
"""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockmix.files.archive import PLAIN, Refusal, write_archive

TAG = "$"
METADATA = "_metadata_request"  # an attribute that scikit-learn's routing leaves, which is not stored
Places = dict[int, tuple[int, NDArray[Any]]]  # arrays of a file and their numbers, by id


@dataclass(frozen=True)
class Codec:
    """How objects of one class are stored: by default as the arguments of their constructor.

    Parameters
    ----------
    cls : type
    check : callable, optional
        Raises an exception for an object that is not valid.
    arguments : callable, optional
        Returns the arguments of an object, by name.
    build : callable, optional
        Returns the object with these arguments, or raises an exception; the class by default.
    name : str, optional
        Name in the file; that of the class by default.
    """

    cls: type
    check: Callable[[Any], object] | None = None
    arguments: Callable[[Any], dict[str, Any]] | None = None
    build: Callable[..., Any] | None = None
    name: str = ""


class Codecs:
    """The classes that a file may hold.

    Parameters
    ----------
    codecs : iterable of Codec
    otherwise : callable, optional
        Whether an object whose class is not in the table can be stored by its attributes. To load it, add the class.
    """

    def __init__(self, codecs: Iterable[Codec], otherwise: Callable[[Any], bool] = lambda value: False) -> None:
        self.by_name = {codec.name or codec.cls.__name__: codec for codec in [*_BUILT_IN, *codecs]}
        self._names = {codec.cls: name for name, codec in self.by_name.items()}
        self._otherwise = otherwise

    def extended(self, codecs: Iterable[Codec]) -> Codecs:
        """A table with more classes."""
        return Codecs([*self.by_name.values(), *codecs], self._otherwise)

    def arguments(self, value: Any) -> dict[str, Any] | None:
        """Name and arguments of a value that is neither JSON nor a plain array; None if it cannot be stored."""
        cls: type = type(value)
        if isinstance(value, np.generic):
            # Python has no equivalent of a long double.
            plain = value.dtype.kind == "U" or (value.dtype.kind in PLAIN and value.dtype.itemsize <= 8)
            cls = np.generic if plain else cls
        elif isinstance(value, np.ndarray) and not all(isinstance(item, str) for item in value.flat):
            return None
        if cls in self._names:
            name = self._names[cls]
            if (arguments := self.by_name[name].arguments) is not None:
                return {TAG: name, **arguments(value)}
            return {TAG: name, **{key: getattr(value, key) for key in inspect.signature(cls).parameters}}
        if cls.__name__ in self.by_name or not self._otherwise(value):
            return None
        return {TAG: cls.__name__, **{key: item for key, item in vars(value).items() if key != METADATA}}


def write_object(path: str | os.PathLike[str], content: Mapping[str, Any], codecs: Codecs) -> None:
    """Write an object as its attributes; the key "$" names its class."""
    arrays: Places = {}
    packed = {key: value if key == TAG else pack(value, key, codecs, arrays) for key, value in content.items()}
    write_archive(path, packed, (array for _, array in arrays.values()))


def pack(value: Any, where: str, codecs: Codecs, arrays: Places) -> Any:
    """Return JSON for a value and collect its arrays; an array that occurs twice is stored once.

    `where` names the value in an error.

    Examples
    --------
    >>> arrays = {}
    >>> pack((0.5, np.arange(3)), "value", Codecs([]), arrays)
    {'$': 'tuple', 'items': [0.5, {'$': 'array', 'place': 0}]}
    >>> list(arrays.values())
    [(0, array([0, 1, 2]))]
    """
    if value is None or type(value) in (bool, int, str) or (type(value) is float and math.isfinite(value)):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if type(value) is list:
        return [pack(item, where, codecs, arrays) for item in value]
    if isinstance(value, np.ndarray) and value.dtype.kind in PLAIN and value.dtype.itemsize > 0:
        return {TAG: "array", "place": arrays.setdefault(id(value), (len(arrays), value))[0]}
    known = codecs.arguments(value)
    if known is not None:
        return {key: item if key == TAG else pack(item, where, codecs, arrays) for key, item in known.items()}
    if hasattr(value, "__array__") and not isinstance(value, (np.ndarray, np.generic)):
        return pack(np.asarray(value), where, codecs, arrays)
    raise TypeError(
        f"{where} holds a {type(value).__name__}, which cannot be saved: give numbers, arrays or objects of "
        "blockmix, or pickle the model"
    )


def unpack(packed: Any, arrays: Mapping[int, NDArray[Any]], codecs: Codecs) -> Any:
    """Return the value that was packed as this JSON and these arrays."""
    if isinstance(packed, list):
        return [unpack(item, arrays, codecs) for item in packed]
    if not isinstance(packed, dict):
        return packed
    name = packed[TAG]
    if name == "array":
        return arrays[packed["place"]]
    if name not in codecs.by_name:
        raise Refusal(
            f"holds a {name!r}, which this version of blockmix does not know: update blockmix, or hand a class of "
            "your own to load(path, classes=[...])"
        )
    codec = codecs.by_name[name]
    build = codec.build or codec.cls
    value = build(**{key: unpack(item, arrays, codecs) for key, item in packed.items() if key != TAG})
    if codec.check is not None:
        codec.check(value)
    return value


def _scalar(type: str, value: Any) -> Any:
    dtype = np.dtype(type)
    if dtype.kind not in PLAIN:
        raise ValueError(f"{type!r} is not a type of numbers")
    return dtype.type(value)


def _strings(shape: list[int], items: list[str]) -> NDArray[Any]:
    if not all(isinstance(item, str) for item in items):
        raise ValueError("an array of strings holds something else")
    return np.array(items, dtype=object).reshape(shape)


_BUILT_IN = [
    Codec(tuple, None, lambda value: {"items": list(value)}, lambda items: tuple(items)),
    Codec(frozenset, None, lambda value: {"items": sorted(value)}, lambda items: frozenset(items)),
    Codec(dict, None, lambda value: {"items": [list(pair) for pair in value.items()]}, lambda items: dict(items)),
    Codec(range, None, lambda value: {"ends": [value.start, value.stop, value.step]}, lambda ends: range(*ends)),
    # nan and inf, which JSON does not have
    Codec(float, None, lambda value: {"text": repr(value)}, lambda text: float(text)),
    Codec(np.generic, None, lambda value: {"type": value.dtype.str, "value": value.item()}, _scalar, "scalar"),
    Codec(np.ndarray, None, lambda value: {"shape": list(value.shape), "items": list(value.flat)}, _strings, "strings"),
]
