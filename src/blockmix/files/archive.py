"""Atomic files: a file is written under a temporary name in the same folder and renamed when it is complete."""

from __future__ import annotations

import glob
import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from uuid import uuid4
from zipfile import ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray


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


def write_vectors(path: str | os.PathLike[str], parts: Iterable[NDArray[Any]], dtype: np.dtype[Any]) -> None:
    """Concatenate vectors in one `.npy` file without holding all of them in memory."""

    def write_header(length: int) -> None:
        # NumPy pads headers, so that the final length fits in the place of the first.
        stream.seek(0)
        npy.write_array_header_1_0(
            stream, {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": (length,)}
        )

    with replacing(path) as stream:
        write_header(0)
        begin = stream.tell()
        for part in parts:
            stream.write(np.ascontiguousarray(part, dtype).data)
        write_header((stream.tell() - begin) // dtype.itemsize)


def remove(path: str | os.PathLike[str]) -> None:
    """Remove a file, if it exists, and partial files left by a killed process."""
    target = Path(os.path.realpath(path))
    for file in [target, *target.parent.glob(f".{glob.escape(target.name)}.*.part")]:
        file.unlink(missing_ok=True)


# A program that reads format n reads all earlier formats and refuses later ones.
FORMAT = 1

_DOCUMENT = "model.json"
_ARRAY = re.compile(r"arrays/(0|[1-9]\d{0,8})\.npy")
_LONGEST = 300  # characters of an error message; a hostile file could make it any length


class Refusal(Exception):
    """Why a file is refused: the rest of a sentence that begins with its path."""


def write(path: str | os.PathLike[str], content: Mapping[str, Any], arrays: Sequence[NDArray[Any]]) -> None:
    """Write JSON content and arrays; the same content gives the same bytes."""
    document = {"format": FORMAT, **content}
    with replacing(path) as stream, ZipFile(stream, "w", ZIP_STORED) as archive:
        archive.writestr(ZipInfo(_DOCUMENT), json.dumps(document, indent=1, allow_nan=False))
        for place, array in enumerate(arrays):
            with archive.open(ZipInfo(f"arrays/{place}.npy"), "w", force_zip64=True) as member:
                npy.write_array(member, array, allow_pickle=False)


@contextmanager
def reading(path: str | os.PathLike[str]) -> Iterator[tuple[dict[str, Any], dict[int, NDArray[Any]]]]:
    """Read the document and the arrays of a file for use in the block.

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
            message = " ".join(f"{type(error).__name__}: {error}".split())[:_LONGEST]
            raise ValueError(f"{path} is damaged ({message}): save the model again") from error


def _read(stream: IO[bytes], size: int) -> tuple[dict[str, Any], dict[int, NDArray[Any]]]:
    try:
        archive = ZipFile(stream)
    except BadZipFile:
        raise Refusal(_not_a_zip_file(stream)) from None
    with archive:
        members = archive.infolist()
        _check_members(members, size)
        document = json.loads(archive.read(_DOCUMENT))
        _check_format(document["format"])
        places = {member: _ARRAY.fullmatch(member.filename) for member in members}
        return document, {int(place[1]): _array(archive, member) for member, place in places.items() if place}


def _check_members(members: list[ZipInfo], size: int) -> None:
    names = [member.filename for member in members]
    if _DOCUMENT not in names:
        raise Refusal("is a zip file, but no model was saved in it")
    for member in members:
        if member.filename != _DOCUMENT and not _ARRAY.fullmatch(member.filename):
            raise Refusal(f"holds {member.filename[:_LONGEST]!r}, which is no part of a saved model")
        if member.compress_type != ZIP_STORED or member.compress_size != member.file_size:
            raise Refusal(f"holds {member.filename} compressed: it was not written by blockmix")
    # The directory of a zip file may list the same bytes many times.
    if sum(member.file_size for member in members) > size or len(set(names)) < len(names):
        raise Refusal("holds more than its own size: it was not written by blockmix")


def _check_format(number: object) -> None:
    if type(number) is not int or number < 1:
        raise ValueError(f"{number!r} is no format number")
    if number > FORMAT:
        raise Refusal(f"has format {number}, this blockmix reads up to {FORMAT}: update blockmix")


def _array(archive: ZipFile, info: ZipInfo) -> NDArray[Any]:
    with archive.open(info) as member:
        first = npy.read_magic(member)
        shape, _, dtype = npy.read_array_header_1_0(member) if first == (1, 0) else npy.read_array_header_2_0(member)
        # Checked before anything is allocated: a header may claim any size.
        claimed = math.prod(shape) * dtype.itemsize
        if not is_plain(dtype) or min(shape, default=0) < 0 or claimed != info.file_size - member.tell():
            raise ValueError(f"{info.filename} does not hold the array that its header describes")
    with archive.open(info) as member:
        values: NDArray[Any] = npy.read_array(member, allow_pickle=False)
    if dtype.kind == "U":
        values.tolist()  # raises for bytes that are no characters
    return values.astype(dtype.newbyteorder("="), copy=False)


def is_plain(dtype: np.dtype[Any]) -> bool:
    """Whether a type is defined by its bytes alone: numbers, booleans and strings."""
    return dtype.kind in "biufU" and dtype.itemsize > 0


def _not_a_zip_file(stream: IO[bytes]) -> str:
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
