"""Files that are never half-written: they have another name in the same folder until they are complete.

A path comes in; a stream to write to goes out, and what was written takes the place of the path at the end.
"""

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
    """Open a file that replaces `path` as a whole when the block ends, and is removed if it ends with an error.

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
    """Write vectors one after the other as one vector in a `.npy` file, as a whole or not at all."""

    def head(length: int) -> None:
        # NumPy leaves room in a header for a length that grows: it can be written again at the end.
        stream.seek(0)
        npy.write_array_header_1_0(
            stream, {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": (length,)}
        )

    with replacing(path) as stream:
        head(0)
        begin = stream.tell()
        for part in parts:
            stream.write(np.ascontiguousarray(part, dtype).data)
        length = (stream.tell() - begin) // dtype.itemsize
        head(length)


def remove(path: str | os.PathLike[str]) -> None:
    """Remove a file, if it is there, and what a process that was killed has left of writing it."""
    target = Path(os.path.realpath(path))
    for left in [target, *target.parent.glob(f".{glob.escape(target.name)}.*.part")]:
        left.unlink(missing_ok=True)
