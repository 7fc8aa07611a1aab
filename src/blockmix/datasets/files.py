"""Where the real data sets come from (the data of sections 3.2 to 3.4 of the paper).

A `Table` names the files that may hold one data set, how each is verified, and its public source if there is one.
A table and a folder come in; the verified header and cells come out, read from disk or fetched once into the cache.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Literal, NamedTuple

Folder = str | os.PathLike[str]


class Rows(NamedTuple):
    """The text of a table: the names of its columns and one list of cells per row."""

    header: list[str]
    cells: list[list[str]]


@dataclass(frozen=True)
class StoredFile:
    """A file that may hold a data set, and the digest by which it is recognised.

    Parameters
    ----------
    name : str
    digest : str
    kind : {"sha256", "values", "git"}
        What the digest is of: the bytes of the file; the values of the table, whatever program wrote it; or the
        bytes as git names them, for an original that is known by its blob id only.
    encoding : str
    """

    name: str
    digest: str
    kind: Literal["sha256", "values", "git"] = "sha256"
    encoding: str = "utf-8-sig"  # plain UTF-8 too: what spreadsheets write starts with a mark

    def text(self, content: bytes) -> str:
        """The table as text."""
        return (gzip.decompress(content) if self.name.endswith(".gz") else content).decode(self.encoding)


@dataclass(frozen=True)
class Table:
    """One data set: the files that may hold it, its label columns, and where it can be had.

    Parameters
    ----------
    name : str
    files : tuple of StoredFile
        In the order in which a folder is searched for them.
    target : str
        The column of the labels; it comes before the features.
    info : tuple of str
        Columns that are neither label nor feature; a file may lack them.
    remedy : str
        What a user can do to have the data, as an imperative.
    description : str
    public : str
        Name of the public source, "" if there is none.
    fetch : callable or None
        Reads the public source and returns its `Rows`.
    """

    name: str
    files: tuple[StoredFile, ...]
    target: str
    info: tuple[str, ...]
    remedy: str
    description: str
    public: str = ""
    fetch: Callable[[], Rows] | None = None


def read(table: Table, data_home: Folder | None = None) -> Rows:
    """Verified rows of a table, from the first folder that has it, else from its public source.

    Parameters
    ----------
    table : Table
    data_home : path-like or None
        Folder to look in first, and to put a fetched file into.

    Returns
    -------
    Rows

    Raises
    ------
    FileNotFoundError
        No folder has a file of the table, and it has no public source or that does not answer.
    ValueError
        The file, or what the public source sent, is damaged or is another one.
    """
    folders = search_path(data_home)
    for folder in folders:
        for file in table.files:
            if (path := folder / file.name).is_file():
                return _verified(table, file, path)
    return _fetched(table, folders)


def search_path(data_home: Folder | None = None) -> list[Path]:
    """Folders in which data are looked for, the one that fetched files go to first.

    They are `data_home`, ``$BLOCKMIX_DATA``, ``~/blockmix_data`` and, for a source checkout, ``../shared/data``.

    Examples
    --------
    >>> search_path("here")[0].name
    'here'
    """
    named = [data_home, os.environ.get("BLOCKMIX_DATA"), Path.home() / "blockmix_data", CHECKOUT_DATA]
    return [Path(folder).expanduser() for folder in named if folder]


def checkout_data(module: Path) -> Path | None:
    """``../shared/data`` beside the checkout that a module lies in; None without a checkout or such a folder.

    Parameters
    ----------
    module : Path
        A file of ``<checkout>/src/blockmix/datasets``.
    """
    package, root = module.resolve().parents[1], module.resolve().parents[3]
    data = root.parent / "shared" / "data"
    is_checkout = package == root / "src" / "blockmix" and (root / "pyproject.toml").is_file()
    return data if is_checkout and data.is_dir() else None


CHECKOUT_DATA = checkout_data(Path(__file__))


def parse(text: str) -> Rows:
    r"""Header and cells of comma-separated text.

    Examples
    --------
    >>> parse('name,note\n1,"a, b"\n').cells
    [['1', 'a, b']]
    """
    reader = csv.reader(io.StringIO(text, newline=""))
    return Rows(next(reader, []), list(reader))


def values_sha256(rows: Rows, info: tuple[str, ...] = ()) -> str:
    r"""Digest of the labels and features, the same whatever the order of the rows and the way numbers are written.

    Numbers count to six significant digits: a copy that went through single precision is still a copy.

    Parameters
    ----------
    rows : Rows
    info : tuple of str
        Columns to leave out.

    Examples
    --------
    >>> one, other = parse("y,x\na,1\nb,2.5\n"), parse("y,id,x\nb,7,2.50\na,8,1e0\n")
    >>> values_sha256(one) == values_sha256(other, info=("id",))
    True
    """
    kept = [column for column, name in enumerate(rows.header) if name not in info]
    # A row cut short keeps the cells it has: it must give another digest, not an error of its own.
    lines = sorted(",".join(_canonical(row[column]) for column in kept if column < len(row)) for row in rows.cells)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _canonical(cell: str) -> str:
    try:
        return f"{float(cell):.6g}"
    except ValueError:
        return cell


def _sha256(content: bytes, table: Table) -> str:
    return hashlib.sha256(content).hexdigest()


def _values(content: bytes, table: Table) -> str:
    return values_sha256(parse(content.decode("utf-8-sig", errors="replace")), table.info)


def _git(content: bytes, table: Table) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


# Words for the message, and the measure itself.
CHECKS: dict[str, tuple[str, Callable[[bytes, Table], str]]] = {
    "sha256": ("sha256", _sha256),
    "values": ("sha256 of its values", _values),
    "git": ("git blob id", _git),
}


def _verified(table: Table, file: StoredFile, path: Path) -> Rows:
    content = path.read_bytes()
    what, measure = CHECKS[file.kind]
    if (found := measure(content, table)) != file.digest:
        raise ValueError(
            f"{path} is damaged or not the data set {table.name}: the {what} should be {file.digest} but is {found}; "
            f"remove it and {_again(table)}."
        )
    rows = parse(file.text(content))
    if table.target not in rows.header:
        raise ValueError(f"{path} holds the data set {table.name}, but none of its columns is named {table.target!r}.")
    return rows


def _again(table: Table) -> str:
    return f"load the data set again, to fetch it from {table.public}" if table.fetch else table.remedy


def _fetched(table: Table, folders: list[Path]) -> Rows:
    """Rows of the public source, verified and then kept in the first folder."""
    names = " or ".join(file.name for file in table.files)
    absent = f"the data set {table.name} ({names}) is in none of the folders {', '.join(map(str, folders))}"
    todo = f"{table.remedy}, and put it into {folders[0]}."
    if table.fetch is None:
        raise FileNotFoundError(f"{absent}: {todo}")
    try:
        rows = table.fetch()
    except (OSError, HTTPException) as error:
        raise FileNotFoundError(f"{absent}, and {table.public} cannot be reached ({error}): {todo}") from error
    except (ValueError, LookupError) as error:
        raise ValueError(f"{table.public} sent no readable data set {table.name} ({error}): {todo}") from error
    file = next(file for file in table.files if file.kind == "values")
    if (found := values_sha256(rows, table.info)) != file.digest:
        raise ValueError(
            f"{table.public} sent a damaged or another data set {table.name}, so {file.name} was not written: the "
            f"sha256 of its values should be {file.digest} but is {found}; try again later, or {todo}"
        )
    _write(folders[0] / file.name, rows)
    return rows


def _write(path: Path, rows: Rows) -> None:
    """Write a table under a temporary name and rename it: whoever sees the file sees all of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f"{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as stream:
            csv.writer(stream, lineterminator="\n").writerows([rows.header, *rows.cells])
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
