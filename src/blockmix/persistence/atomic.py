"""Atomic files: a file is written under a temporary name in the same folder and renamed when it is complete."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

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
