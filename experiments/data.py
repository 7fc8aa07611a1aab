"""The paper's real data sets (sections 3.2 to 3.4): loaders, and gene expression prepared as the paper clusters it.

A loader reads the files of README.md from the folder that $BLOCKMIX_DATA names, by default ../shared/data beside the
checkout, and returns a `Bunch` of data, target, target_names and feature_names. The paper does not state every step of
its preprocessing: those of `alon100` and its three siblings give the k-means results closest to its table.
"""

from __future__ import annotations

import csv
import gzip
import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from sklearn.datasets import load_wine
from sklearn.feature_selection import f_classif
from sklearn.preprocessing import StandardScaler
from sklearn.utils import Bunch

__all__ = [
    "alon100",
    "alon_full",
    "available",
    "clip_and_filter",
    "cohorts",
    "folder",
    "golub150",
    "golub_full",
    "load_alon",
    "load_disneyland",
    "load_ecoli",
    "load_golub",
    "load_olive",
    "load_tripadvisor",
    "load_wine",
    "select_by_f",
    "standardize",
    "standardize_samples",
]


def folder() -> Path:
    """The folder of the data files."""
    return Path(os.environ.get("BLOCKMIX_DATA", Path(__file__).parents[2] / "shared" / "data"))


def load_olive() -> Bunch:
    """Eight fatty acids of 572 olive oils from three Italian regions (Forina and Tiscornia 1982)."""
    regions = ("Southern Italy", "Sardinia", "Northern Italy")
    return _numbers("olive.csv.gz", "region", regions, others=("area", "region_code", "area_code"))


def load_ecoli() -> Bunch:
    """Seven scores of 336 proteins from eight sites of the cell (UCI).

    The columns lip and chg take two values each, so covariances are singular within most classes.
    """
    sites = ("cp", "im", "pp", "imU", "om", "omL", "imL", "imS")
    return _numbers("ecoli.csv.gz", "class", sites, others=("sequence_name",))


def load_alon() -> Bunch:
    """Raw intensities of 2000 genes in 62 samples of colon tissue, tumor or normal (Alon et al. 1999)."""
    return _numbers("alon.csv.gz", "label", ("normal", "tumor"), others=("sample", "tissue_code"))


def load_golub(patients: int = 38) -> Bunch:
    """Gene expression of leukemia, ALL or AML (Golub et al. 1999).

    The 38 training patients have 3051 genes, filtered, log10 and standardized per sample; all 72 have the raw
    intensities of 7129 probes.
    """
    name = {38: "golub.csv.gz", 72: "golub72.csv.gz"}[patients]
    return _numbers(name, "label", ("ALL", "AML"), others=("sample", "set", "cell"))


def load_tripadvisor(lara: bool = False) -> Bunch:
    """Hotel reviews and their ratings from 1 to 5.

    The paper's Kaggle file if it is there, else the 11477 of its 20491 reviews that are; with `lara` a substitute of
    full size, 20491 raw reviews of the corpus that the Kaggle file was drawn from (Wang, Lu and Zhai 2010).
    """
    if lara:
        return _documents(("tripadvisor_lara.csv.gz",), "review", "rating")
    return _documents(("tripadvisor_hotel_reviews.csv", "tripadvisor.csv.gz"), "Review", "Rating")


def load_disneyland() -> Bunch:
    """Reviews of Disneyland Paris and their ratings: the paper's Kaggle file if it is there, else a tenth of it."""
    bunch = _documents(("DisneylandReviews.csv", "disneyland.csv.gz"), "Review_Text", "Rating", "Branch")
    paris = bunch.others == "Disneyland_Paris"
    reviews = [text for text, kept in zip(bunch.data, paris, strict=True) if kept]
    return Bunch(data=reviews, target=bunch.target[paris])


def cohorts() -> dict[str, Path]:
    """Files of the gene-expression cohorts by name; each holds `X` and `labels`."""
    return {path.stem: path for path in sorted((folder() / "cohorts").glob("*.npz"))}


def standardize(X: np.ndarray) -> np.ndarray:
    """Standardize each column to mean 0 and variance 1; a constant column becomes 0."""
    return np.asarray(StandardScaler().fit_transform(X))


def standardize_samples(X: np.ndarray) -> np.ndarray:
    """Standardize each row to mean 0 and standard deviation 1, with denominator p − 1 as in R."""
    return np.asarray((X - X.mean(axis=1, keepdims=True)) / X.std(axis=1, ddof=1, keepdims=True))


def clip_and_filter(X: np.ndarray, ratio: float = 5, difference: float = 500) -> tuple[np.ndarray, np.ndarray]:
    """Clip intensities to [100, 16000] and keep the genes with max/min > ratio and max − min > difference.

    The defaults keep the 3051 genes of Golub's 38 patients and the 3571 of Dudoit et al. (2002) for all 72. Returns the
    clipped intensities of the genes kept, and their columns.
    """
    clipped = np.clip(X, 100, 16000)
    largest, smallest = clipped.max(axis=0), clipped.min(axis=0)
    columns = np.flatnonzero((largest > ratio * smallest) & (largest - smallest > difference))
    return clipped[:, columns], columns


def select_by_f(X: np.ndarray, y: np.ndarray, k: int) -> np.ndarray:
    """The k columns of largest ANOVA F between the classes, in ascending order; of equal columns the first.

    The selection uses the labels, so a clustering of these columns agrees with the classes more than it would
    otherwise.
    """
    varies = np.ptp(X, axis=0) > 0
    F = np.zeros(X.shape[1])
    # f_classif takes differences of sums of squares: centering keeps their digits.
    centered = X[:, varies] - X[:, varies].mean(axis=0)
    with np.errstate(divide="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # columns without variance within the classes
        F[varies] = np.abs(f_classif(centered, y)[0])  # rounding can make a sum of squares negative
    return np.sort(np.argsort(-F, kind="stable")[:k])


def alon100(scaled: bool = False) -> Bunch:
    """Alon₁₀₀: log10, 100 genes by F. K-means has ARI 0.518 (mean of 10 seeds), in the paper 0.510.

    With `scaled`, samples are standardized before the selection and genes after it, which is not in the paper but
    suits k-means (ARI 0.592) and mixtures best.
    """
    bunch = load_alon()
    X = standardize_samples(np.log10(bunch.data)) if scaled else np.log10(bunch.data)
    columns = select_by_f(X, bunch.target, 100)
    return _prepared(bunch, standardize(X[:, columns]) if scaled else X[:, columns], columns)


def golub150() -> Bunch:
    """Golub₁₅₀: 38 patients, 150 genes by F. K-means has ARI 0.893, in the paper 0.892."""
    bunch = load_golub()
    columns = select_by_f(bunch.data, bunch.target, 150)
    return _prepared(bunch, bunch.data[:, columns], columns)


def alon_full(scaled: bool = False) -> Bunch:
    """All 2000 genes of Alon, log10, standardized; with `scaled`, samples are standardized first.

    K-means has ARI −0.006, in the paper −0.002.
    """
    bunch = load_alon()
    X = standardize_samples(np.log10(bunch.data)) if scaled else np.log10(bunch.data)
    return _prepared(bunch, standardize(X), np.arange(X.shape[1]))


def golub_full() -> Bunch:
    """Golub, 72 patients × 3731 genes: clipped, max − min ≥ 500, log10, samples and then genes standardized.

    The paper's 2030 genes are not public. They were selected from these 3731, the set of McLachlan, Bean and Peel
    (2002). K-means has ARI 0.18, in the paper 0.162.
    """
    bunch = load_golub(72)
    X, columns = clip_and_filter(bunch.data, ratio=1, difference=499)  # integers: above 499 is at least 500
    return _prepared(bunch, standardize(standardize_samples(np.log10(X))), columns)


def available(sets: dict[str, Callable[[], object]]) -> list[str]:
    """Names of the data sets whose files are there; prints what is missing for the others."""
    names = []
    for name, load in sets.items():
        try:
            load()
            names.append(name)
        except FileNotFoundError as missing:
            print(f"Left out: {name}. {missing}")
    return names


def _numbers(name: str, target: str, classes: Sequence[str], others: Sequence[str]) -> Bunch:
    """Load features and class labels; `others` are columns that are neither, and a file may lack them."""
    columns = _columns((name,))
    features = [column for column in columns if column != target and column not in others]
    data = np.array([columns[column] for column in features], dtype=np.float64).T.copy()
    labels = np.array([classes.index(label) for label in columns[target]])
    return Bunch(data=data, target=labels, target_names=np.array(classes), feature_names=features)


def _documents(names: Sequence[str], text: str, rating: str, other: str = "") -> Bunch:
    columns = _columns(names)
    others = np.array(columns[other]) if other else None
    return Bunch(data=list(columns[text]), target=np.array(columns[rating], dtype=np.intp), others=others)


def _columns(names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Cells by column, from the first of the files that is there."""
    path = next((folder() / name for name in names if (folder() / name).is_file()), None)
    if path is None:
        raise FileNotFoundError(
            f"{' or '.join(names)} is not in {folder()}: see experiments/README.md for where to get it, and set "
            "BLOCKMIX_DATA to the folder it is in."
        )
    # Kaggle's Disneyland file alone is not UTF-8.
    encoding = "latin-1" if path.name == "DisneylandReviews.csv" else "utf-8-sig"
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding=encoding, newline="") as stream:
        header, *cells = csv.reader(stream)
    return dict(zip(header, zip(*cells, strict=True), strict=True))


def _prepared(bunch: Bunch, X: np.ndarray, columns: np.ndarray) -> Bunch:
    return Bunch(**{**bunch, "data": X, "feature_names": [bunch.feature_names[column] for column in columns]})
