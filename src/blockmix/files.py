"""Files that are never half-written: they have another name in the same folder until they are complete.

A path comes in; a stream to write to goes out, and what was written takes the place of the path at the end.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from uuid import uuid4


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
    scratch = target.with_name(f".{uuid4().hex}.part")
    try:
        with scratch.open("xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(scratch, target)
    finally:
        scratch.unlink(missing_ok=True)
