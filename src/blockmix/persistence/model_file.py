"""Storage: a fitted estimator in one file of arrays and text, which cannot run code when it is loaded.

An estimator comes in and a zip file goes out, and back: `.npy` members hold the arrays, `model.json` the class, its
parameters and the rest of its state. A class says what its state is by `_state` and `_restore`.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, Any
from zipfile import ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from numpy.lib import format as npy
from numpy.typing import NDArray

import blockmix
from blockmix.persistence.atomic import replacing
from blockmix.persistence.values import Packer, UnknownClass, is_plain, unpack

# The format of the file. Who reads format n reads all formats up to n, and refuses what comes after.
FORMAT = 1

_DOCUMENT = "model.json"
_MEMBER = re.compile(r"model\.json|arrays/\d+\.npy")
_ESTIMATORS: dict[str, type[Storable]] = {}


class Storable:
    """An estimator that can be saved: its constructor only stores parameters, and its state is data.

    Deriving from it is enough for a class of this package whose fitted attributes are arrays, numbers, strings,
    sequences of them, or frozen dataclasses of this package. A class with other insides overrides the two methods
    `_state` and `_restore`.
    """

    get_params: Callable[..., dict[str, Any]]
    _get_param_names: Callable[[], list[str]]

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if cls.__module__.partition(".")[0] == "blockmix":
            _ESTIMATORS[cls.__name__] = cls

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the estimator to a file that `blockmix.load` reads; a file that is there is replaced as a whole."""
        save(self, path)

    def _state(self) -> dict[str, Any]:
        """What fitting has added, by attribute; scikit-learn's requests for metadata are not kept."""
        parameters = self.get_params(deep=False)
        return {
            name: value for name, value in vars(self).items() if name not in parameters and name != "_metadata_request"
        }

    def _restore(self, state: dict[str, Any]) -> None:
        """Take over the state that `_state` told."""
        for name, value in state.items():
            setattr(self, name, value)


def save(model: Storable, path: str | os.PathLike[str]) -> None:
    """Write an estimator to a file.

    Until the file is complete it has another name in the same folder, so there is never half a file. The same model
    gives the same bytes.

    Parameters
    ----------
    model : estimator of this package
        Fitted or not.
    path : path
        A file in a folder that exists; any ending.
    """
    document, arrays = _packed(model)
    with replacing(path) as stream:
        _write(stream, document, arrays)


def load(path: str | os.PathLike[str]) -> Any:
    """Read an estimator from a file that `save` has written.

    No code comes from the file: classes are looked up in this package by name, and arrays of objects are refused.

    Parameters
    ----------
    path : path
        The file.

    Returns
    -------
    estimator
        Equal to the saved one in its parameters and in everything it predicts.

    Raises
    ------
    FileNotFoundError
        No file is there.
    ValueError
        The file is something else, is damaged, or was written by a newer version.
    """
    file = Path(path)
    if file.is_dir():
        raise ValueError(f"{path} is a folder: give the file that a model was saved in")
    if not file.exists():
        raise FileNotFoundError(f"{path} does not exist")
    with file.open("rb") as stream:
        try:
            try:
                archive = ZipFile(stream)
            except BadZipFile:
                raise _Refusal(_stranger(stream)) from None
            with archive:
                return _unpacked(archive, file.stat().st_size)
        except _Refusal as refusal:
            raise ValueError(f"{path} {refusal}") from None
        except UnknownClass as unknown:
            raise ValueError(f"{path} {_unknown(unknown.args[0])}") from None
        except Exception as error:  # whatever a hostile or damaged file can raise
            raise ValueError(f"{path} is damaged ({type(error).__name__}: {error}): save the model again") from error


class _Refusal(Exception):
    """The rest of a sentence that begins with the path."""


def _packed(model: Storable) -> tuple[dict[str, Any], list[NDArray[Any]]]:
    """The document and the arrays of an estimator."""
    name = type(model).__name__
    if _ESTIMATORS.get(name) is not type(model):
        raise TypeError(f"{name} is not an estimator of blockmix, so load would not know it: pickle it instead")
    packer = Packer()
    parameters = {key: packer.pack(value, key) for key, value in model.get_params(deep=False).items()}
    state = {key: packer.pack(value, key) for key, value in model._state().items()}
    document = {
        "format": FORMAT,
        "blockmix": installed_version(),
        "class": name,
        "parameters": parameters,
        "state": state,
    }
    return document, packer.arrays


def _write(stream: IO[bytes], document: dict[str, Any], arrays: list[NDArray[Any]]) -> None:
    # Stored, not compressed: the numbers would not shrink, and a file that is never larger than it looks is no bomb.
    with ZipFile(stream, "w", ZIP_STORED) as archive:
        archive.writestr(ZipInfo(_DOCUMENT), json.dumps(document, indent=1, allow_nan=False))
        for place, array in enumerate(arrays):
            with archive.open(ZipInfo(_member(place)), "w", force_zip64=True) as member:
                npy.write_array(member, array, allow_pickle=False)


def _unpacked(archive: ZipFile, size: int) -> Storable:
    """The estimator in an archive of so many bytes."""
    members = archive.infolist()
    if _DOCUMENT not in archive.namelist():
        raise _Refusal("is a zip file, but no model was saved in it")
    strange = [member.filename for member in members if not _MEMBER.fullmatch(member.filename)]
    if strange:
        raise _Refusal(f"holds {strange[0]!r}, which is no part of a saved model")
    if sum(member.file_size for member in members) > size:
        raise _Refusal("holds more than its own size: it was not written by blockmix")
    document = json.loads(archive.read(_DOCUMENT))
    if type(document["format"]) is not int or document["format"] < 1:
        raise ValueError(f"{document['format']!r} is no number of a format")
    if document["format"] > FORMAT:
        raise _Refusal(f"has format {document['format']}, this blockmix reads up to {FORMAT}: update blockmix")
    cls = _estimator(document["class"])
    read = cache(lambda place: _array(archive, place))
    parameters = {name: unpack(value, read) for name, value in document["parameters"].items()}
    unknown = sorted(set(parameters) - set(cls._get_param_names()))
    if unknown:
        raise _Refusal(f"has a parameter {unknown[0]!r}, which this version of blockmix does not know: update blockmix")
    model = cls(**parameters)
    model._restore({_attribute(name): unpack(value, read) for name, value in document["state"].items()})
    return model


def _estimator(name: str) -> type[Storable]:
    """The class of that name, imported if it is a public one that nobody has used yet."""
    if name in blockmix.__all__:
        getattr(blockmix, name)
    if name not in _ESTIMATORS:
        raise UnknownClass(name)
    return _ESTIMATORS[name]


def _array(archive: ZipFile, place: int) -> NDArray[Any]:
    info = archive.getinfo(_member(place))
    with archive.open(info) as member:
        first = npy.read_magic(member)
        shape, _, dtype = npy.read_array_header_1_0(member) if first == (1, 0) else npy.read_array_header_2_0(member)
        # Looked at before anything is allocated: a header may claim any size.
        claimed = math.prod(shape) * dtype.itemsize
        if not is_plain(dtype) or min(shape, default=0) < 0 or claimed != info.file_size - member.tell():
            raise ValueError(f"{info.filename} does not hold the numbers that its header says")
    with archive.open(info) as member:
        values: NDArray[Any] = npy.read_array(member, allow_pickle=False)
    return values


def _member(place: int) -> str:
    return f"arrays/{place}.npy"


def _attribute(name: str) -> str:
    if not name.isidentifier() or name.startswith("__"):
        raise ValueError(f"{name!r} is no attribute")
    return name


def _unknown(name: object) -> str:
    return f"holds a {name!r}, which this version of blockmix does not know"


def _stranger(stream: IO[bytes]) -> str:
    """What a file that is not a zip file seems to be."""
    stream.seek(0)
    begin = stream.read(4)
    if not begin:
        return "is empty"
    if begin.startswith(b"PK"):
        return "is truncated: copy it again or save the model again"
    if begin.startswith(b"\x80"):
        return "is a pickle, which could run code: load opens only what save has written"
    return "is not a saved model: load opens only what save has written"


def installed_version() -> str:
    """The version of blockmix, or "unknown" where it runs from a folder without being installed."""
    try:
        return version("blockmix")
    except PackageNotFoundError:
        return "unknown"
