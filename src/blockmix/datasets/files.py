"""Files of the real data sets (sections 3.2 to 3.4 of the paper): finding, verifying, fetching and keeping them.

A `DataSet` names the files that may hold it, how each is verified, and its public source if there is one. `read`
returns its verified content, from disk or from the public source, whose answer is kept.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import os
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Literal, NamedTuple

from blockmix.files.archive import replacing

Folder = str | os.PathLike[str]


class CsvContent(NamedTuple):
    """Names of the columns, and a list of cells for each row."""

    header: list[str]
    cells: list[list[str]]


@dataclass(frozen=True)
class StoredFile:
    """A file that may hold a data set, and the digest that identifies it.

    Parameters
    ----------
    name : str
    digest : str
    kind : {"sha256", "values", "git"}
        What the digest is of: the bytes of the file; its values, whatever program wrote it; or the bytes as a git blob,
        for an original that is known by its blob id only.
    encoding : str
    """

    name: str
    digest: str
    kind: Literal["sha256", "values", "git"] = "sha256"
    encoding: str = "utf-8-sig"  # UTF-8, with the mark that spreadsheets write or without

    def text(self, content: bytes) -> str:
        """Decode the bytes of the file."""
        return (gzip.decompress(content) if self.name.endswith(".gz") else content).decode(self.encoding)


@dataclass(frozen=True)
class DataSet:
    """One data set: the files that may hold it, its label column, and where to get it.

    Parameters
    ----------
    name : str
    files : tuple of StoredFile
        In the order in which a folder is searched for them.
    target : str
        The column of the labels; it precedes the features.
    info : tuple of str
        Columns that are neither label nor feature; a file may lack them.
    remedy : str
        How a user can get the data, as an imperative.
    description : str
    public : str
        Name of the public source, "" if there is none.
    fetch : callable or None
        Downloads the content from the public source.
    """

    name: str
    files: tuple[StoredFile, ...]
    target: str
    info: tuple[str, ...]
    remedy: str
    description: str
    public: str = ""
    fetch: Callable[[], CsvContent] | None = None


def read(dataset: DataSet, data_home: Folder | None = None) -> CsvContent:
    """Verified content of a data set, from the first folder that has it, else from its public source.

    Parameters
    ----------
    dataset : DataSet
    data_home : path-like or None
        Folder to search first, and to keep a fetched file in.

    Returns
    -------
    CsvContent

    Raises
    ------
    FileNotFoundError
        No folder has the data set, and there is no public source or it does not answer.
    ValueError
        The file, or what the public source sent, is damaged or something else.
    """
    folders = search_path(data_home)
    for folder in folders:
        for file in dataset.files:
            if (path := folder / file.name).is_file():
                return _verified(dataset, file, path)
    return _fetched(dataset, folders)


def search_path(data_home: Folder | None = None) -> list[Path]:
    """Folders that are searched for data; fetched files go to the first.

    They are `data_home`, ``$BLOCKMIX_DATA``, ``~/blockmix_data`` and, in a source checkout, ``../shared/data``.

    Examples
    --------
    >>> search_path("here")[0].name
    'here'
    """
    named = [data_home, os.environ.get("BLOCKMIX_DATA"), Path.home() / "blockmix_data", CHECKOUT_DATA]
    return [Path(folder).expanduser() for folder in named if folder]


def checkout_data(module: Path) -> Path | None:
    """``../shared/data`` beside the checkout of a module; None without a checkout or such a folder.

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


def parse(text: str) -> CsvContent:
    r"""Header and cells of comma-separated text.

    Examples
    --------
    >>> parse('name,note\n1,"a, b"\n').cells
    [['1', 'a, b']]
    """
    reader = csv.reader(io.StringIO(text, newline=""))
    return CsvContent(next(reader, []), list(reader))


def values_sha256(content: CsvContent, info: tuple[str, ...] = ()) -> str:
    r"""Digest of the labels and features that depends neither on the order of the rows nor on how numbers are written.

    Numbers count to six significant digits, so a copy in single precision has the same digest.

    Parameters
    ----------
    content : CsvContent
    info : tuple of str
        Columns to leave out.

    Examples
    --------
    >>> one, other = parse("y,x\na,1\nb,2.5\n"), parse("y,id,x\nb,7,2.50\na,8,1e0\n")
    >>> values_sha256(one) == values_sha256(other, info=("id",))
    True
    """
    kept = [column for column, name in enumerate(content.header) if name not in info]
    # A row that is cut short must change the digest, not raise an error.
    lines = sorted(",".join(_canonical(row[column]) for column in kept if column < len(row)) for row in content.cells)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _canonical(cell: str) -> str:
    try:
        return f"{float(cell):.6g}"
    except ValueError:
        return cell


def _values(content: bytes, dataset: DataSet) -> str:
    return values_sha256(parse(content.decode("utf-8-sig", errors="replace")), dataset.info)


def _sha256(content: bytes, dataset: DataSet) -> str:
    return hashlib.sha256(content).hexdigest()


def _git(content: bytes, dataset: DataSet) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


# Name of the digest in messages, and its function.
_DIGESTS = {"sha256": ("sha256", _sha256), "values": ("sha256 of its values", _values), "git": ("git blob id", _git)}


def _verified(dataset: DataSet, file: StoredFile, path: Path) -> CsvContent:
    stored = path.read_bytes()
    what, digest = _DIGESTS[file.kind]
    if (found := digest(stored, dataset)) != file.digest:
        again = f"load the data set again, to fetch it from {dataset.public}" if dataset.fetch else dataset.remedy
        raise ValueError(
            f"{path} is damaged or not the data set {dataset.name}: the {what} should be {file.digest} but is {found}; "
            f"remove it and {again}."
        )
    content = parse(file.text(stored))
    if dataset.target not in content.header:
        raise ValueError(f"{path} holds the data set {dataset.name}, but has no column {dataset.target!r}.")
    return content


def _fetched(dataset: DataSet, folders: list[Path]) -> CsvContent:
    """Content of the public source, verified and kept in the first folder."""
    names = " or ".join(file.name for file in dataset.files)
    absent = f"the data set {dataset.name} ({names}) is in none of the folders {', '.join(map(str, folders))}"
    remedy = f"{dataset.remedy}, and put it into {folders[0]}."
    if dataset.fetch is None:
        raise FileNotFoundError(f"{absent}: {remedy}")
    try:
        content = dataset.fetch()
    except (OSError, HTTPException) as error:
        raise FileNotFoundError(f"{absent}, and {dataset.public} cannot be reached ({error}): {remedy}") from error
    except (ValueError, LookupError) as error:
        raise ValueError(f"{dataset.public} sent no readable data set {dataset.name} ({error}): {remedy}") from error
    file = next(file for file in dataset.files if file.kind == "values")
    if (found := values_sha256(content, dataset.info)) != file.digest:
        raise ValueError(
            f"{dataset.public} sent a damaged or another data set {dataset.name}, so {file.name} was not written: the "
            f"sha256 of its values should be {file.digest} but is {found}; try again later, or {remedy}"
        )
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([content.header, *content.cells])
    folders[0].mkdir(parents=True, exist_ok=True)
    with replacing(folders[0] / file.name) as stream:
        stream.write(text.getvalue().encode())
    return content
