"""The real data sets are what their documentation says, and a missing or damaged file is an error that helps."""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import sys
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from email.message import Message
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.response import addinfourl

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from blockmix import datasets
from blockmix.datasets import catalogue, files
from blockmix.datasets.files import CsvContent, DataSet, StoredFile

STORED = [folder for folder in files.search_path() if (folder / "golub72.csv.gz").is_file()]
needs_data = pytest.mark.skipif(not STORED, reason="the data are in none of the folders: set BLOCKMIX_DATA")

LOADERS: list[tuple[Callable[..., Any], dict[str, str]]] = [
    (datasets.load_wine, {"version": "27"}),
    (datasets.load_olive, {}),
    (datasets.load_ecoli, {}),
    (datasets.load_alon, {}),
    (datasets.load_golub, {"version": "38"}),
    (datasets.load_golub, {"version": "72"}),
    (datasets.load_tripadvisor, {"which": "kaggle"}),
    (datasets.load_tripadvisor, {"which": "lara"}),
    (datasets.load_disneyland, {}),
]


class Shelf(urllib.request.HTTPSHandler):
    """The Internet of a test: an address https://host/path is the file host/path of a folder, or out of reach."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def https_open(self, request: urllib.request.Request) -> addinfourl:
        path = self.folder / str(request.host) / request.selector.lstrip("/")
        if not path.is_file():
            raise URLError("no route to host")
        response = addinfourl(path.open("rb"), Message(), request.full_url, 200)
        response.msg = "OK"
        return response


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "internet"
    urllib.request.install_opener(urllib.request.build_opener(Shelf(folder)))
    yield folder
    urllib.request.install_opener(None)


@pytest.fixture
def nowhere(tmp_path: Path, shelf: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without the data and off line; returns its home."""
    home = tmp_path / "home"
    home.mkdir()
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(home))
    monkeypatch.delenv("BLOCKMIX_DATA", raising=False)
    monkeypatch.setattr(files, "CHECKOUT_DATA", None)
    return home


def below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def put(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def write_csv(path: Path, rows: list[list[str]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows(rows)
    return path


def rdatasets_csv(rows: CsvContent) -> list[list[str]]:
    """Olive oils in the layout of Rdatasets: numbered rows, no codes, per cent."""
    acids = rows.header[-8:]
    cells = [[str(i), *row[:2], *(f"{int(x) / 100:g}" for x in row[-8:])] for i, row in enumerate(rows.cells, 1)]
    return [["rownames", "region", "area", *acids], *cells]


# What the files hold.


@needs_data
@pytest.mark.parametrize(
    ("load", "shape", "counts"),
    [
        (datasets.load_wine, (178, 13), {"class_0": 59, "class_1": 71, "class_2": 48}),
        (partial(datasets.load_wine, "27"), (178, 27), {"Barolo": 59, "Grignolino": 71, "Barbera": 48}),
        (datasets.load_olive, (572, 8), {"Southern Italy": 323, "Sardinia": 98, "Northern Italy": 151}),
        (
            datasets.load_ecoli,
            (336, 7),
            {"cp": 143, "im": 77, "pp": 52, "imU": 35, "om": 20, "omL": 5, "imL": 2, "imS": 2},
        ),
        (datasets.load_alon, (62, 2000), {"normal": 22, "tumor": 40}),
        (datasets.load_golub, (38, 3051), {"ALL": 27, "AML": 11}),
        (partial(datasets.load_golub, "72"), (72, 7129), {"ALL": 47, "AML": 25}),
        (datasets.alon100, (62, 100), {"normal": 22, "tumor": 40}),
        (partial(datasets.alon100, standardize=True), (62, 100), {"normal": 22, "tumor": 40}),
        (datasets.golub150, (38, 150), {"ALL": 27, "AML": 11}),
        (datasets.alon_full, (62, 2000), {"normal": 22, "tumor": 40}),
        (datasets.golub_full, (72, 3731), {"ALL": 47, "AML": 25}),
    ],
)
def test_shapes_and_classes(load: Callable[[], Any], shape: tuple[int, int], counts: dict[str, int]) -> None:
    bunch = load()
    assert bunch.data.shape == shape and bunch.data.dtype == np.float64 and np.isfinite(bunch.data).all()
    assert len(bunch.feature_names) == len(set(bunch.feature_names)) == shape[1]
    assert dict(zip(bunch.target_names.tolist(), np.bincount(bunch.target).tolist(), strict=True)) == counts
    assert bunch.DESCR and bunch.frame is None
    assert {len(column) for column in bunch.info.values()} <= {shape[0]}


@needs_data
@pytest.mark.parametrize(
    ("load", "counts"),
    [
        (datasets.load_tripadvisor, [820, 899, 978, 2992, 5788]),
        (partial(datasets.load_tripadvisor, "lara"), [1552, 1918, 2219, 6234, 8568]),
        (datasets.load_disneyland, [93, 106, 213, 384, 633]),
    ],
)
def test_documents_and_ratings(load: Callable[[], Any], counts: list[int]) -> None:
    bunch = load()
    assert isinstance(bunch.data, list) and all(isinstance(document, str) and document for document in bunch.data)
    assert np.bincount(bunch.target, minlength=6).tolist() == [0, *counts]
    assert len(bunch.data) == len(bunch.target)


@needs_data
def test_branches_of_disneyland() -> None:
    sizes = {branch: len(datasets.load_disneyland(branch).data) for branch in ("Paris", "California", "HongKong", None)}
    assert sizes == {"Paris": 1429, "California": 1834, "HongKong": 932, None: 4195}
    assert set(datasets.load_disneyland("HongKong").info["Branch"]) == {"Disneyland_HongKong"}


@needs_data
def test_wine_of_13_is_in_wine_of_27() -> None:
    # Red if rows or columns of the file are shuffled against the labels.
    few, many = datasets.load_wine(), datasets.load_wine("27")
    assert_array_equal(few.target, many.target)
    equal = (np.abs(few.data[:, :, None] - many.data[:, None, :]) < 2e-6).all(axis=0)  # one cell differs by 1e-6
    assert equal.sum(axis=1).tolist() == [1] * 13
    assert set(many.info["year"]) <= {str(year) for year in range(1970, 1980)}


@needs_data
def test_golub_of_38_follows_from_golub_of_72() -> None:
    # Red if a step is left out, if the deviation is taken with N, or if a bound of the filter is not strict.
    raw, ready = datasets.load_golub("72"), datasets.load_golub("38")
    train = raw.info["set"] == "train"
    X, columns = datasets.clip_and_filter(raw.data[train])
    X = datasets.standardize_samples(datasets.log10_expression(X))
    assert [raw.feature_names[column] for column in columns] == ready.feature_names
    assert np.abs(X - ready.data).max() < 5.1e-6  # the file has five decimals
    assert_array_equal(raw.target[train], ready.target)


@needs_data
def test_filters_keep_the_published_genes() -> None:
    with gzip.open(STORED[0] / "golub72_genes.csv.gz", "rt", encoding="utf-8", newline="") as stream:
        genes = list(csv.DictReader(stream))
    raw = datasets.load_golub("72")
    assert raw.feature_names == [gene["column"] for gene in genes]
    kept = datasets.clip_and_filter(raw.data)[1]
    assert kept.tolist() == [i for i, gene in enumerate(genes) if gene["in_merged_3571"] == "1"]
    wanted = [gene["column"] for gene in genes if gene["in_merged_3731"] == "1"]
    assert datasets.golub_full().feature_names == wanted


@needs_data
def test_alon_keeps_its_repeated_columns() -> None:
    bunch = datasets.load_alon()
    assert len(np.unique(bunch.data, axis=1).T) == 2000 - 9
    assert [bunch.feature_names.index(gene) + 1 for gene in ("X53586", "X54942", "X54941")] == [1679, 1730, 1904]
    assert_array_equal(bunch.target == 1, bunch.info["tissue_code"].astype(int) < 0)
    assert np.abs(datasets.alon_full().data.std(axis=0) - 1).max() < 1e-9


@needs_data
@pytest.mark.parametrize(
    ("load", "ari", "n_seeds", "tolerance"),
    [
        (lambda: scaled(datasets.load_wine()), 0.899, 1, 0.02),
        (lambda: scaled(datasets.load_olive()), 0.448, 1, 0.02),
        (datasets.alon100, 0.518, 10, 0.02),
        (partial(datasets.alon100, standardize=True), 0.592, 1, 0.02),
        (datasets.golub150, 0.893, 1, 0.02),
        (datasets.alon_full, -0.006, 1, 0.02),
        (datasets.golub_full, 0.181, 4, 0.03),  # single seeds: 0.16 to 0.21
    ],
    ids=["wine", "olive", "alon100", "alon100-standardized", "golub150", "alon", "golub"],
)
def test_k_means_has_the_figures_of_the_study(
    load: Callable[[], Any], ari: float, n_seeds: int, tolerance: float
) -> None:
    # Red if the paper's preprocessing changes: raw and scaled, Alon has 0.00.
    bunch = load()
    models = [KMeans(len(bunch.target_names), n_init=10, random_state=seed) for seed in range(n_seeds)]
    scores = [adjusted_rand_score(bunch.target, model.fit_predict(bunch.data)) for model in models]
    assert np.mean(scores) == pytest.approx(ari, abs=tolerance)


def scaled(bunch: Any) -> Any:
    bunch.data = datasets.scale(bunch.data)
    return bunch


@needs_data
@pytest.mark.parametrize(("load", "options"), [(datasets.load_wine, {}), *LOADERS[:-2], LOADERS[-1]])  # lara is slow
def test_frames_and_pairs_hold_the_same(load: Callable[..., Any], options: dict[str, str]) -> None:
    import pandas

    plain, framed = load(**options), load(**options, as_frame=True)
    assert isinstance(framed.target, pandas.Series)
    assert framed.feature_names == plain.feature_names
    assert framed.data.to_numpy().tolist() == list_of(plain.data)
    assert_array_equal(framed.target.to_numpy(), plain.target)
    assert set(framed.frame.columns) >= {*plain.feature_names, framed.target.name}
    X, y = load(**options, return_X_y=True)
    assert list_of(X) == list_of(plain.data)
    assert_array_equal(y, plain.target)
    assert load(**options, return_X_y=True, as_frame=True)[0].equals(framed.data)


def list_of(data: Any) -> list[Any]:
    return data if isinstance(data, list) else data.tolist()


@pytest.mark.parametrize(("load", "options"), [(datasets.load_wine, {}), *LOADERS])
def test_frames_without_pandas(
    load: Callable[..., Any], options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"^pandas is needed and not installed: pip install 'blockmix\[app\]'$"):
        load(**options, as_frame=True)


@needs_data
def test_arrays_need_no_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert datasets.load_ecoli().data.shape == (336, 7)
    assert len(datasets.load_disneyland().data) == 1429


@pytest.mark.parametrize(
    ("load", "message"),
    [
        (partial(datasets.load_wine, "14"), "version='14' is not one of '13', '27'"),
        (partial(datasets.load_golub, 72), "version=72 is not one of '38', '72'"),
        (partial(datasets.load_tripadvisor, "yelp"), "which='yelp' is not one of 'kaggle', 'lara'"),
        (partial(datasets.load_disneyland, "Tokyo"), "branch='Tokyo' is not one of 'California', 'HongKong', 'Paris'"),
    ],
)
def test_unknown_choices(load: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        load()


# The steps of the preprocessing.


def literal_f(x: np.ndarray, y: np.ndarray) -> float:
    groups = [x[y == label] for label in np.unique(y)]
    between = sum(len(group) * (group.mean() - x.mean()) ** 2 for group in groups) / (len(groups) - 1)
    return between / (sum(((group - group.mean()) ** 2).sum() for group in groups) / (len(x) - len(groups)))


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_columns_are_selected_by_f(offset: float) -> None:
    # Red if sums of squares are taken about 0: at 1e6 their differences are rounding.
    rng = np.random.default_rng(0)
    y = np.array(["a", "b", "c"])[rng.integers(3, size=40)]
    X = rng.standard_normal((40, 30)) + 50 * rng.uniform(size=30) + np.outer(y == "b", rng.uniform(size=30)) + offset
    F = np.array([literal_f(x, y) for x in X.T])
    for k in (1, 7, 30):
        selected, columns = datasets.select_by_f(X, y, k)
        assert columns.tolist() == sorted(np.argsort(-F)[:k].tolist())
        assert_array_equal(selected, X[:, columns])


def test_f_of_constant_and_of_equal_columns() -> None:
    # Red if 0/0 is not 0, or if a tie is not broken by position.
    y = [0, 0, 1, 1]
    X = np.column_stack([np.full(4, 7.1), [1, 2, 3, 4], [1, 2, 3, 4], [0, 0, 1, 1], np.full(4, 0.0)])
    assert datasets.select_by_f(X, y, 1)[1].tolist() == [3]  # no spread within: infinite
    assert datasets.select_by_f(X, y, 2)[1].tolist() == [1, 3]
    assert datasets.select_by_f(X, y, 3)[1].tolist() == [1, 2, 3]


def test_f_survives_rounding() -> None:
    # Red if a sum of squares that should be 0 and is rounded below it decides the sign of F.
    rng = np.random.default_rng(0)
    values, y = rng.uniform(size=(3, 200)), np.repeat([0, 1], 3)
    equal = np.concatenate([values, rng.permuted(values, axis=0)])  # the same mean in both classes
    apart = np.repeat(rng.uniform(size=(2, 200)), 3, axis=0)  # no spread within
    assert datasets.select_by_f(np.hstack([equal, apart]), y, 200)[1].tolist() == list(range(200, 400))


def test_scale_and_standardize() -> None:
    X = np.random.default_rng(1).uniform(1, 9, size=(20, 5))
    X[:, 3] = 0.1
    S = datasets.scale(X)
    assert_allclose(S.mean(axis=0), 0, atol=1e-12)
    assert_allclose(S.var(axis=0), [1, 1, 1, 0, 1], atol=1e-12)
    rows = datasets.standardize_samples(X)
    assert_allclose(rows.mean(axis=1), 0, atol=1e-12)
    assert_allclose(rows.std(axis=1, ddof=1), 1, atol=1e-12)


def test_clip_and_filter_bounds_are_strict() -> None:
    X = np.array([[100.0, 100.0, 200.0, 99.0, 0.0], [600.0, 601.0, 1000.0, 601.0, 1e6]])
    clipped, columns = datasets.clip_and_filter(X)
    assert columns.tolist() == [1, 3, 4]
    assert clipped.tolist() == [[100, 100, 100], [601, 601, 16000]]


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (lambda: datasets.log10_expression([[1.0, -214.0]]), "the smallest is -214: clip them first"),
        (lambda: datasets.standardize_samples([[1.0, 2.0], [3.0, 3.0]]), "sample 1 is constant"),
        (lambda: datasets.select_by_f(np.eye(4), [0, 0, 1, 1], 5), "k=5 must lie between 1 and the 4 columns of X"),
        (lambda: datasets.select_by_f(np.eye(4), [0, 0, 0, 0], 1), "at least 2 classes"),
        (lambda: datasets.select_by_f(np.eye(4), [0, 1, 2, 3], 1), "fewer than rows, got 4"),
    ],
)
def test_steps_say_what_is_wrong(step: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        step()


# Files that are absent, damaged, or made elsewhere.


@pytest.mark.parametrize(
    ("load", "words"),
    [
        (partial(datasets.load_wine, "27"), ["wine.csv.gz", "MBCbook", "wine27"]),
        (datasets.load_olive, ["olive.csv.gz", "Rdatasets cannot be reached (", "no route to host", "R package pgmm"]),
        (datasets.load_ecoli, ["ecoli.csv.gz", "OpenML (data set 39) cannot be reached (", "UCI Machine Learning"]),
        (datasets.load_alon, ["alon.csv.gz", "Colon of the R package plsgenomics"]),
        (datasets.alon_full, ["alon.csv.gz", "Colon of the R package plsgenomics"]),
        (datasets.load_golub, ["golub.csv.gz", "leukemia of the R package plsgenomics"]),
        (partial(datasets.load_golub, "72"), ["golub72.csv.gz", "Golub_Merge", "golubEsets"]),
        (
            datasets.load_tripadvisor,
            ["tripadvisor_hotel_reviews.csv", "Kaggle", "andrewmvd/trip-advisor-hotel-reviews"],
        ),
        (partial(datasets.load_tripadvisor, "lara"), ["tripadvisor_lara.csv.gz", "not published", "which='kaggle'"]),
        (datasets.load_disneyland, ["DisneylandReviews.csv", "Kaggle", "arushchillar/disneyland-reviews"]),
    ],
)
def test_absent_data_are_one_sentence_that_helps(load: Callable[..., Any], words: list[str], nowhere: Path) -> None:
    folder = nowhere.parent / "my data"
    with pytest.raises(FileNotFoundError) as caught:
        load(data_home=folder)
    sentence = str(caught.value)
    assert sentence.endswith(f", and put it into {folder}.") and "\n" not in sentence
    assert f"is in none of the folders {folder}, {nowhere / 'blockmix_data'}" in sentence
    assert [word for word in words if word not in sentence] == []
    assert not folder.exists() and below(nowhere) == []


def test_wine_of_scikit_learn_is_always_there(nowhere: Path) -> None:
    assert datasets.load_wine().data.shape == (178, 13)


@pytest.mark.parametrize("cut", [20, -5])
@pytest.mark.parametrize(
    ("load", "dataset"),
    [
        (datasets.load_alon, catalogue.ALON),
        (datasets.load_olive, catalogue.OLIVE),
        (datasets.load_ecoli, catalogue.ECOLI),
    ],
)
def test_a_truncated_file_is_an_error(load: Callable[..., Any], dataset: DataSet, cut: int, nowhere: Path) -> None:
    content = gzip.compress(b"label,x\n" + b"tumor,1\n" * 50, mtime=0)[:cut]
    path = put(nowhere / "data" / dataset.files[0].name, content)
    with pytest.raises(ValueError, match="is damaged or not the data set") as caught:
        load(data_home=path.parent)
    sentence = str(caught.value)
    assert sentence.startswith(str(path)) and "\n" not in sentence
    assert f"the sha256 should be {dataset.files[0].digest} but is {hashlib.sha256(content).hexdigest()}" in sentence
    remedy = f"load the data set again, to fetch it from {dataset.public}" if dataset.public else dataset.remedy
    assert sentence.endswith(f"remove it and {remedy}.")
    assert path.read_bytes() == content


@needs_data
def test_one_changed_byte_is_an_error(nowhere: Path) -> None:
    content = bytearray((STORED[0] / "olive.csv.gz").read_bytes())
    content[len(content) // 2] ^= 1
    path = put(nowhere / "olive.csv.gz", bytes(content))
    with pytest.raises(ValueError, match=hashlib.sha256(content).hexdigest()):
        datasets.load_olive(data_home=path.parent)


@needs_data
@pytest.mark.parametrize("change", ["", "value", "label", "short row", "no rows"])
def test_a_table_made_elsewhere_is_known_by_its_values(change: str, nowhere: Path) -> None:
    """An export from R: other order of the rows, single precision, no year and no class."""
    header, cells = files.parse(gzip.decompress((STORED[0] / "wine.csv.gz").read_bytes()).decode())
    rows = [[row[0], *(str(np.float64(np.float32(cell))) for cell in row[3:])] for row in reversed(cells)]
    if change == "value":
        rows[3][4] = str(float(rows[3][4]) + 0.01)
    if change == "label":
        rows[3][0] = "Barolo"
    if change == "short row":
        rows[-1].pop()
    if change == "no rows":
        rows = []
    write_csv(nowhere / "wine.csv", [[header[0], *header[3:]], *rows])
    if change:
        with pytest.raises(ValueError, match="the sha256 of its values should be 251d3a75e2c0"):
            datasets.load_wine("27", data_home=nowhere)
        return
    bunch = datasets.load_wine("27", data_home=nowhere)
    assert bunch.target[::-1].tolist() == datasets.load_wine().target.tolist()
    assert bunch.info == {}
    write_csv(nowhere / "wine.csv", [["Type", *header[3:]], *rows])
    with pytest.raises(ValueError, match="but has no column 'type'"):
        datasets.load_wine("27", data_home=nowhere)


def test_originals_of_kaggle_are_known_by_their_blob_id(nowhere: Path) -> None:
    path = put(nowhere / "tripadvisor_hotel_reviews.csv", "hello\n")
    with pytest.raises(
        ValueError, match=f"the git blob id should be {catalogue.TRIPADVISOR.files[0].digest} but is ce01"
    ):
        datasets.load_tripadvisor(data_home=nowhere)
    file = StoredFile(path.name, "ce013625030ba8dba906f756967f9e9ca394464a", "git")  # git hash-object
    dataset = replace(catalogue.TRIPADVISOR, files=(file,), target="hello")
    assert files.read(dataset, nowhere) == CsvContent(["hello"], [])
    reviews = put(nowhere / "DisneylandReviews.csv", "Rating,Review_Text\n5,soirée\n".encode("latin-1"))
    content = reviews.read_bytes()
    blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    dataset = replace(catalogue.DISNEYLAND, files=(replace(catalogue.DISNEYLAND.files[0], digest=blob),))
    assert files.read(dataset, nowhere).cells == [["5", "soirée"]]


# Folders and public files.

TOY = [["rownames", "region", "area", "oleic"], ["1", "Sardinia", "Inland", "73.1"], ["2", "Umbria", "Hill", "70"]]
TOY_CONTENT = CsvContent(["region", "area", "oleic"], [["Sardinia", "Inland", "7310"], ["Umbria", "Hill", "7000"]])


def toy_data_set(url: str, digest: str = files.values_sha256(TOY_CONTENT, ("area",))) -> DataSet:
    fetch = partial(catalogue.olive_of_rdatasets, url)
    return replace(catalogue.OLIVE, files=(StoredFile("toy.csv", digest, "values"),), fetch=fetch)


def test_folders_are_searched_in_order(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = toy_data_set((nowhere / "absent.csv").as_uri())
    named, variable, cache, checkout = (nowhere / name for name in ("named", "variable", "blockmix_data", "checkout"))
    monkeypatch.setenv("BLOCKMIX_DATA", "~/variable")
    monkeypatch.setattr(files, "CHECKOUT_DATA", checkout)
    assert files.search_path(named) == [named, variable, cache, checkout]
    for folder in (checkout, cache, variable, named):  # each one hides those before it
        rows = [["region", "area", "oleic"], ["Sardinia", folder.name, "7310"], ["Umbria", "", "7000"]]
        write_csv(folder / "toy.csv", rows)
        assert files.read(dataset, named).cells[0][1] == folder.name


def test_shared_data_are_those_beside_a_checkout(tmp_path: Path) -> None:
    module = put(tmp_path / "repo" / "src" / "blockmix" / "datasets" / "files.py", "")
    assert files.checkout_data(module) is None
    put(tmp_path / "repo" / "pyproject.toml", "")
    assert files.checkout_data(module) is None
    (tmp_path / "shared" / "data").mkdir(parents=True)
    assert files.checkout_data(module) == (tmp_path / "shared" / "data").resolve()
    installed = put(tmp_path / "repo" / "site-packages" / "blockmix" / "datasets" / "files.py", "")
    assert files.checkout_data(installed) is None


def test_what_is_fetched_is_kept(nowhere: Path) -> None:
    source = write_csv(nowhere / "served" / "olive.csv", TOY)
    dataset, home = toy_data_set(source.as_uri()), nowhere / "kept" / "here"
    assert files.read(dataset, home) == TOY_CONTENT
    assert below(home) == ["toy.csv"]
    source.unlink()
    assert files.read(dataset, home) == TOY_CONTENT


@pytest.mark.parametrize(
    ("served", "error"),
    [
        (TOY[:2], "so toy.csv was not written: the sha256 of its values should be"),
        ([*TOY[:2], ["2", "Umbria"]], "so toy.csv was not written"),
        ([*TOY[:2], ["2", "Umbria", "Hill", "7?"]], "sent no readable data set"),
        ([["<!doctype html>"], ["Not found"]], "sent no readable data set"),
        ([], "sent no readable data set"),
    ],
)
def test_a_failed_fetch_leaves_nothing(served: list[list[str]], error: str, nowhere: Path) -> None:
    source = write_csv(nowhere / "served" / "olive.csv", served)
    home = nowhere / "home"
    with pytest.raises(ValueError, match=error) as caught:
        files.read(toy_data_set(source.as_uri()), home)
    assert str(caught.value).endswith(f"and put it into {home}.")
    assert not home.exists()


def test_a_failed_write_leaves_nothing(nowhere: Path) -> None:
    source = write_csv(nowhere / "served" / "olive.csv", TOY)
    home = nowhere / "home"
    (home / "toy.csv" / "in the way").mkdir(parents=True)
    with pytest.raises(ValueError, match=r"toy\.csv is a folder"):
        files.read(toy_data_set(source.as_uri()), home)
    assert below(home) == ["toy.csv", "toy.csv/in the way"]


@needs_data
def test_olive_of_rdatasets_is_olive(nowhere: Path, shelf: Path) -> None:
    rows = files.parse(gzip.decompress((STORED[0] / "olive.csv.gz").read_bytes()).decode())
    write_csv(shelf / catalogue.RDATASETS_OLIVE.removeprefix("https://"), rdatasets_csv(rows))
    bunch = datasets.load_olive()
    assert below(nowhere) == ["blockmix_data", "blockmix_data/olive.csv"]
    stored = datasets.load_olive(data_home=STORED[0])
    assert_array_equal(bunch.data, stored.data)
    assert_array_equal(bunch.target, stored.target)
    assert_array_equal(bunch.info["area"], stored.info["area"])
    assert_array_equal(datasets.load_olive().data, stored.data)


@needs_data
def test_ecoli_of_openml_is_ecoli(nowhere: Path, shelf: Path) -> None:
    header, cells = files.parse(gzip.decompress((STORED[0] / "ecoli.csv.gz").read_bytes()).decode())
    serve_openml(shelf, header[2:], [[*row[2:], row[0]] for row in cells])
    bunch = datasets.load_ecoli()
    assert below(nowhere) == ["blockmix_data", "blockmix_data/ecoli.csv"]
    stored = datasets.load_ecoli(data_home=STORED[0])
    assert_array_equal(bunch.data, stored.data)
    assert_array_equal(bunch.target, stored.target)
    assert bunch.feature_names == stored.feature_names
    assert_array_equal(datasets.load_ecoli().data, stored.data)


@needs_data
def test_another_ecoli_of_openml_is_an_error(nowhere: Path, shelf: Path) -> None:
    # The variant in which two classes were merged: right in shape, wrong in content.
    header, cells = files.parse(gzip.decompress((STORED[0] / "ecoli.csv.gz").read_bytes()).decode())
    serve_openml(shelf, header[2:], [[*row[2:], row[0].replace("imS", "imL")] for row in cells])
    with pytest.raises(ValueError, match=r"OpenML \(data set 39\) sent a damaged or another data set ecoli"):
        datasets.load_ecoli()
    assert below(nowhere) == []


def serve_openml(shelf: Path, features: list[str], rows: list[list[str]]) -> None:
    """The four answers of OpenML's interface that scikit-learn asks for, as files."""
    classes = ",".join(Counter(row[-1] for row in rows))
    lines = ["@relation ecoli", *(f"@attribute {name} numeric" for name in features), f"@attribute class {{{classes}}}"]
    arff = "\n".join([*lines, "@data", *(",".join(row) for row in rows), ""])
    description = {
        "id": "39",
        "name": "ecoli",
        "version": "1",
        "format": "ARFF",
        "status": "active",
        "description": "",
        "url": "https://www.openml.org/data/v1/download/39/ecoli.arff",
        "md5_checksum": hashlib.md5(arff.encode()).hexdigest(),
    }
    columns = [
        {
            "index": str(index),
            "name": name,
            "data_type": "nominal" if name == "class" else "numeric",
            "is_target": str(name == "class").lower(),
            "is_ignore": "false",
            "is_row_identifier": "false",
            "number_of_missing_values": "0",
        }
        for index, name in enumerate([*features, "class"])
    ]
    qualities = [{"name": "NumberOfInstances", "value": str(len(rows))}]
    host = shelf / "www.openml.org"
    interface = host / "api" / "v1" / "json" / "data"
    put(interface / "39", json.dumps({"data_set_description": description}))
    put(interface / "features" / "39", json.dumps({"data_features": {"feature": columns}}))
    put(interface / "qualities" / "39", json.dumps({"data_qualities": {"quality": qualities}}))
    put(host / "data" / "v1" / "download" / "39" / "ecoli.arff", arff)
