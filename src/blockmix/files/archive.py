"""Archives: files of one JSON value and arrays, written atomically and read without trust.

A file is written under a temporary name in the same folder and renamed when it is complete. A file that is read may be
damaged or hostile: its size is checked before memory is allocated, and nothing in it can run code.
"""

from __future__ import annotations

import glob
import json
import math
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from uuid import uuid4
from zipfile import ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from numpy.lib import format as npy
from numpy.typing import NDArray

FORMAT = 3
PLAIN = "biufU"  # kinds of types that are defined by their bytes alone: numbers, booleans and strings

_DOCUMENT = "model.json"
_ARRAY = re.compile(r"arrays/(0|[1-9]\d{0,8})\.npy")
_REPEATED = 8  # times that an array may be used on average; `save` writes one that occurs twice once
_MAX_MESSAGE = 300  # characters; a hostile file could make it any length


class Refusal(Exception):
    """Why a file is refused: the rest of a sentence that begins with its path."""


class Arrays(dict[int, NDArray[Any]]):
    """The arrays of a file by number.

    What is built from an array may be as large as it is, so the bytes handed out are limited: a small file cannot fill
    the memory by naming one array many times.
    """

    def __init__(self, arrays: dict[int, NDArray[Any]]) -> None:
        super().__init__(arrays)
        self._left = _REPEATED * (1_000_000 + sum(array.nbytes for array in arrays.values()))

    def __getitem__(self, place: int) -> NDArray[Any]:
        array = super().__getitem__(place)
        self._left -= array.nbytes
        if self._left < 0:
            raise Refusal("names the same array too often: it was not written by blockmix")
        return array


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file that replaces `path` at the end of the block, or is removed if the block raises an exception.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder, "a.txt")) as stream:
    ...         size = stream.write(b"whole")
    ...     Path(folder, "a.txt").read_text()
    'whole'
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise ValueError(f"{path} is a folder: give the name of a file")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"the folder of {path} does not exist: make it first")
    scratch = target.with_name(f".{target.name}.{uuid4().hex}.part")
    try:
        with scratch.open("xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(scratch, target)
    finally:
        scratch.unlink(missing_ok=True)


def remove(path: str | os.PathLike[str]) -> None:
    """Remove a file, if it exists, and partial files left by a killed process."""
    target = Path(os.path.realpath(path))
    for file in [target, *target.parent.glob(f".{glob.escape(target.name)}.*.part")]:
        file.unlink(missing_ok=True)


def write_archive(path: str | os.PathLike[str], content: Any, arrays: Iterable[NDArray[Any]]) -> None:
    """Write a JSON value and arrays; the same content gives the same bytes."""
    with replacing(path) as stream, ZipFile(stream, "w", ZIP_STORED) as archive:
        document = json.dumps({"format": FORMAT, "content": content}, indent=1, allow_nan=False)
        archive.writestr(ZipInfo(_DOCUMENT), document)
        for place, array in enumerate(arrays):
            with archive.open(ZipInfo(f"arrays/{place}.npy"), "w", force_zip64=True) as member:
                npy.write_array(member, array, allow_pickle=False)


@contextmanager
def reading(path: str | os.PathLike[str]) -> Iterator[tuple[Any, Arrays]]:
    """Read the JSON value and the arrays of a file for use in the block.

    Whatever a damaged or hostile file raises, here or in the block, becomes one ValueError that begins with the path.
    """
    file = Path(path)
    if file.is_dir():
        raise ValueError(f"{path} is a folder: give the file that a model was saved in")
    if not file.exists():
        raise FileNotFoundError(f"{path} does not exist")
    with file.open("rb") as stream:
        try:
            yield _read(stream, file.stat().st_size)
        except Refusal as refusal:
            raise ValueError(f"{path} {refusal}") from None
        except Exception as error:
            message = " ".join(f"{type(error).__name__}: {error}".split())[:_MAX_MESSAGE]
            raise ValueError(f"{path} is damaged ({message}): save the model again") from error


def _read(stream: IO[bytes], size: int) -> tuple[Any, Arrays]:
    try:
        archive = ZipFile(stream)
    except BadZipFile:
        stream.seek(0)
        if stream.read(2) == b"PK":
            raise Refusal("is truncated: copy it again or save the model again") from None
        raise Refusal("is not a saved model: load opens only what save has written") from None
    with archive:
        members = archive.infolist()
        _check_members(members, size)
        document = json.loads(archive.read(_DOCUMENT))
        if document["format"] != FORMAT:
            raise Refusal("was saved by another version of blockmix: load it with that version, or fit the model again")
        places = {member: _ARRAY.fullmatch(member.filename) for member in members}
        arrays = {int(place[1]): _array(archive, member) for member, place in places.items() if place}
        return document["content"], Arrays(arrays)


def _check_members(members: list[ZipInfo], size: int) -> None:
    names = [member.filename for member in members]
    if _DOCUMENT not in names:
        raise Refusal("is a zip file, but no model was saved in it")
    for member in members:
        if member.filename != _DOCUMENT and not _ARRAY.fullmatch(member.filename):
            raise Refusal(f"holds {member.filename[:_MAX_MESSAGE]!r}, which is not part of a saved model")
        if member.compress_type != ZIP_STORED or member.compress_size != member.file_size:
            raise Refusal(f"holds {member.filename} compressed: it was not written by blockmix")
    # The directory of a zip file may list the same bytes many times.
    if sum(member.file_size for member in members) > size or len(set(names)) < len(names):
        raise Refusal("holds more than its own size: it was not written by blockmix")


def _array(archive: ZipFile, info: ZipInfo) -> NDArray[Any]:
    with archive.open(info) as member:
        read = npy.read_array_header_1_0 if npy.read_magic(member) == (1, 0) else npy.read_array_header_2_0
        shape, _, dtype = read(member)
        # Checked before anything is allocated: a header may claim any size.
        plain, claimed = dtype.kind in PLAIN and dtype.itemsize > 0, math.prod(shape) * dtype.itemsize
        if not plain or min(shape, default=0) < 0 or claimed != info.file_size - member.tell():
            raise ValueError(f"{info.filename} does not hold the array that its header describes")
    with archive.open(info) as member:
        values: NDArray[Any] = npy.read_array(member, allow_pickle=False)
    if dtype.kind == "U":
        values.tolist()  # raises for bytes that are not characters
    return values.astype(dtype.newbyteorder("="), copy=False)
