"""Loaders of the real data sets (sections 3.2 to 3.4 of the paper), in the style of scikit-learn.

Each returns a `Bunch` of data, target, names and description. `files` finds and verifies the files, `catalogue` lists
them, and `expression` prepares gene expression as the paper does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from sklearn import datasets as sklearn_datasets
from sklearn.utils import Bunch

from blockmix.datasets import catalogue
from blockmix.datasets.files import DataSet, Folder, read
from blockmix.rows.files import needed

# A Bunch, or the pair (data, target) with return_X_y.
Loaded = Any

WINES = ("Barolo", "Grignolino", "Barbera")
REGIONS = ("Southern Italy", "Sardinia", "Northern Italy")
SITES = ("cp", "im", "pp", "imU", "om", "omL", "imL", "imS")
TISSUES = ("normal", "tumor")
LEUKEMIAS = ("ALL", "AML")
BRANCHES = ("California", "HongKong", "Paris")


def load_wine(
    version: Literal["13", "27"] = "13",
    *,
    as_frame: bool = False,
    return_X_y: bool = False,
    data_home: Folder | None = None,
) -> Loaded:
    """Wines of three types: 178 rows, 13 or 27 chemical variables.

    Parameters
    ----------
    version : {"13", "27"}
        The 13 variables of scikit-learn, which the paper uses and which need no file, or all 27.
    as_frame : bool
        Return pandas objects.
    return_X_y : bool
        Return (data, target) instead of the Bunch.
    data_home : path-like or None
        Folder to search before ``$BLOCKMIX_DATA`` and ``~/blockmix_data``.

    Returns
    -------
    Bunch
        data (n, p), target (n,), target_names, feature_names, DESCR, info (other columns of the file, by name) and,
        with `as_frame`, frame (data and target).

    Examples
    --------
    >>> load_wine().data.shape
    (178, 13)
    """
    if _choice("version", version, ("13", "27")) == "27":
        return _numbers(catalogue.WINE, WINES, as_frame, return_X_y, data_home)
    if as_frame:
        needed("pandas", "app")
    bunch = sklearn_datasets.load_wine(as_frame=as_frame)
    return (bunch.data, bunch.target) if return_X_y else Bunch(**bunch, info={})


def load_olive(*, as_frame: bool = False, return_X_y: bool = False, data_home: Folder | None = None) -> Loaded:
    """Olive oils of three Italian regions: 572 rows, 8 fatty acids.

    Downloaded from Rdatasets if no folder has it. The nine areas are in ``info["area"]``.

    Parameters
    ----------
    as_frame : bool
        Return pandas objects.
    return_X_y : bool
        Return (data, target) instead of the Bunch.
    data_home : path-like or None
        Folder to search first, and to keep a fetched file in.

    Returns
    -------
    Bunch
        As for `load_wine`.
    """
    return _numbers(catalogue.OLIVE, REGIONS, as_frame, return_X_y, data_home)


def load_ecoli(*, as_frame: bool = False, return_X_y: bool = False, data_home: Folder | None = None) -> Loaded:
    """Proteins of eight localisation sites: 336 rows, 7 scores.

    Downloaded from OpenML (data set 39) if no folder has it.

    Parameters
    ----------
    as_frame : bool
        Return pandas objects.
    return_X_y : bool
        Return (data, target) instead of the Bunch.
    data_home : path-like or None
        Folder to search first, and to keep a fetched file in.

    Returns
    -------
    Bunch
        As for `load_wine`.
    """
    return _numbers(catalogue.ECOLI, SITES, as_frame, return_X_y, data_home)


def load_alon(*, as_frame: bool = False, return_X_y: bool = False, data_home: Folder | None = None) -> Loaded:
    """Gene expression of colon tissue, tumor or normal: 62 rows, 2000 raw intensities.

    Parameters
    ----------
    as_frame : bool
        Return pandas objects.
    return_X_y : bool
        Return (data, target) instead of the Bunch.
    data_home : path-like or None
        Folder to search first.

    Returns
    -------
    Bunch
        As for `load_wine`.
    """
    return _numbers(catalogue.ALON, TISSUES, as_frame, return_X_y, data_home)


def load_golub(
    version: Literal["38", "72"] = "38",
    *,
    as_frame: bool = False,
    return_X_y: bool = False,
    data_home: Folder | None = None,
) -> Loaded:
    """Gene expression of leukaemia, ALL or AML: 38 rows and 3051 genes, or 72 rows and 7129 raw intensities.

    Parameters
    ----------
    version : {"38", "72"}
        The 38 training patients, filtered, log10, each sample standardised; or all 72 patients, raw.
    as_frame : bool
        Return pandas objects.
    return_X_y : bool
        Return (data, target) instead of the Bunch.
    data_home : path-like or None
        Folder to search first.

    Returns
    -------
    Bunch
        As for `load_wine`.
    """
    dataset = {"38": catalogue.GOLUB38, "72": catalogue.GOLUB72}[_choice("version", version, ("38", "72"))]
    return _numbers(dataset, LEUKEMIAS, as_frame, return_X_y, data_home)


def load_tripadvisor(
    which: Literal["kaggle", "lara"] = "kaggle",
    *,
    as_frame: bool = False,
    return_X_y: bool = False,
    data_home: Folder | None = None,
) -> Loaded:
    """Hotel reviews and their ratings from 1 to 5.

    Parameters
    ----------
    which : {"kaggle", "lara"}
        The reviews of the paper, of which only a part is available unless one of the folders has the Kaggle original;
        or a substitute of full size, 20491 raw reviews of the corpus that the Kaggle file was drawn from.
    as_frame : bool
        Return pandas objects.
    return_X_y : bool
        Return (data, target) instead of the Bunch.
    data_home : path-like or None
        Folder to search first.

    Returns
    -------
    Bunch
        data (list of n documents), target (n ratings), target_names, feature_names, DESCR, info (other columns of the
        file, by name) and, with `as_frame`, frame (all columns; data and target are then two of them).
    """
    if _choice("which", which, ("kaggle", "lara")) == "lara":
        return _documents(catalogue.TRIPADVISOR_LARA, "review", as_frame, return_X_y, data_home)
    return _documents(catalogue.TRIPADVISOR, "Review", as_frame, return_X_y, data_home)


def load_disneyland(
    branch: Literal["Paris", "California", "HongKong"] | None = "Paris",
    *,
    as_frame: bool = False,
    return_X_y: bool = False,
    data_home: Folder | None = None,
) -> Loaded:
    """Reviews of Disneyland and their ratings from 1 to 5; only a part unless a folder has the Kaggle original.

    Parameters
    ----------
    branch : {"Paris", "California", "HongKong"} or None
        The park; None takes all three. The paper uses Paris.
    as_frame : bool
        Return pandas objects.
    return_X_y : bool
        Return (data, target) instead of the Bunch.
    data_home : path-like or None
        Folder to search first.

    Returns
    -------
    Bunch
        As for `load_tripadvisor`.
    """
    only = branch and {"Branch": f"Disneyland_{_choice('branch', branch, BRANCHES)}"}
    return _documents(catalogue.DISNEYLAND, "Review_Text", as_frame, return_X_y, data_home, only or {})


def _numbers(
    dataset: DataSet, classes: Sequence[str], as_frame: bool, return_X_y: bool, data_home: Folder | None
) -> Loaded:
    """Load features and class labels."""
    pandas = needed("pandas", "app") if as_frame else None  # before the file is read
    columns = _columns(dataset, data_home)
    names = [name for name in columns if name != dataset.target and name not in dataset.info]
    data: Any = np.array([columns[name] for name in names], dtype=np.float64).T.copy()
    target: Any = np.array([classes.index(label) for label in columns[dataset.target]], dtype=np.intp)
    frame = None
    if pandas:
        data, target = pandas.DataFrame(data, columns=names), pandas.Series(target, name="target")
        frame = pandas.concat([data, target], axis=1)
    if return_X_y:
        return data, target
    return _bunch(dataset, columns, data, target, frame, np.array(classes), names)


def _documents(
    dataset: DataSet,
    document: str,
    as_frame: bool,
    return_X_y: bool,
    data_home: Folder | None,
    only: dict[str, str] | None = None,
) -> Loaded:
    """Load texts and ratings; `only` keeps the rows with this value in this column."""
    pandas = needed("pandas", "app") if as_frame else None
    columns = _columns(dataset, data_home, only)
    data: Any = list(columns[document])
    target: Any = np.array(columns[dataset.target], dtype=np.intp)
    frame = None
    if pandas:
        frame = pandas.DataFrame({**columns, dataset.target: target})
        data, target = frame[document], frame[dataset.target]
    if return_X_y:
        return data, target
    return _bunch(dataset, columns, data, target, frame, np.array([dataset.target]), [document])


def _bunch(
    dataset: DataSet,
    columns: dict[str, tuple[str, ...]],
    data: Any,
    target: Any,
    frame: Any,
    target_names: Any,
    feature_names: list[str],
) -> Bunch:
    return Bunch(
        data=data,
        target=target,
        frame=frame,
        target_names=target_names,
        feature_names=feature_names,
        DESCR=dataset.description,
        info={name: np.array(columns[name]) for name in dataset.info if name in columns},
    )


def _columns(
    dataset: DataSet, data_home: Folder | None, only: dict[str, str] | None = None
) -> dict[str, tuple[str, ...]]:
    header, cells = read(dataset, data_home)
    for name, value in (only or {}).items():
        place = header.index(name)
        cells = [row for row in cells if row[place] == value]
    return dict(zip(header, zip(*cells, strict=True), strict=True))


def _choice(name: str, value: str, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise ValueError(f"{name}={value!r} is not one of {', '.join(map(repr, choices))}")
    return value
