"""Row clusters of labelled tables beside K-means, Ward, Gaussian mixtures and mclust.

Not a result of the paper. `python -m experiments.benchmark FOLDER`: the folder holds tables as csv or csv.gz with a
column of classes, or as npz with `X` and `labels`. Text columns and constant ones are left out, the others
standardized; only blockmix takes missing values, the others get medians. Gaussian mixtures have ten starts, and of the
four types of covariance the one of smallest BIC; of more than 100 columns, they and mclust are given five principal
components, as is usual. mclust runs where R has it.

Each method gets the true number of clusters; those that can then choose it themselves, from 1 to 9. Every run is a line
of the result file, and a second call computes only what is missing there: give another file for another version.
"""

from __future__ import annotations

import argparse
import csv
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import joblib
import numpy as np
import pandas as pd
from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.decomposition import PCA
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

from blockmix import GaussianBiclustering, select
from experiments.data import standardize
from experiments.metrics import adjusted_rand

CLASS_NAMES = ("class", "label", "labels", "target", "y", "type", "species", "group")
TYPES = ("full", "tied", "diag", "spherical")
AHEAD = 0.02  # difference of ARI from which a table counts as won or lost
_MIXTURE_COLUMNS = 100  # above which the Gaussian mixtures are given principal components
_R_SCRIPT = Path(__file__).parent / "studies" / "mclust.R"


class Table(NamedTuple):
    """Standardized columns, NaN where a value is missing, and the class of each row."""

    X: np.ndarray
    classes: np.ndarray

    @property
    def filled(self) -> np.ndarray:
        return standardize(np.where(np.isnan(self.X), np.nanmedian(self.X, axis=0), self.X))


Clustered = tuple[int, float]  # number of clusters, ARI


def read(path: Path, label: str | None) -> Table:
    """The table of a file; without a name the class is the first column called like one, or the last."""
    if path.suffix == ".npz":
        with np.load(path) as stored:
            frame, classes = pd.DataFrame(stored["X"].astype(float)), stored["labels"]
    else:
        frame = pd.read_csv(path)
        names = [name for name in frame.columns if str(name).lower() in CLASS_NAMES]
        name = label or (names or [frame.columns[-1]])[0]
        if name not in frame.columns:
            raise ValueError(f"{path.name} has no column {name}: name the classes by --label")
        classes = frame.pop(name)
    known = ~pd.isna(classes)
    X = frame.select_dtypes("number")[np.asarray(known)].to_numpy(float)
    X = X[:, np.nanstd(X, axis=0) > 0]
    X = (X - np.nanmean(X, axis=0)) / np.nanstd(X, axis=0)
    return Table(X, np.asarray(classes)[known].astype(str))


def fitted(table: Table, numbers: list[int], seed: int) -> Clustered:
    model = GaussianBiclustering(numbers[0], random_state=seed).fit(table.X)
    return model.n_components, adjusted_rand(table.classes, model.row_labels_)


def selected(table: Table, numbers: list[int], seed: int) -> Clustered:
    best = select(table.X, numbers, random_state=seed).best_
    return best.n_components, adjusted_rand(table.classes, best.model.row_labels_)


def kmeans(table: Table, numbers: list[int], seed: int) -> Clustered:
    labels = KMeans(numbers[0], n_init=10, random_state=seed).fit_predict(table.filled)
    return numbers[0], adjusted_rand(table.classes, labels)


def ward(table: Table, numbers: list[int], seed: int) -> Clustered:
    return numbers[0], adjusted_rand(table.classes, AgglomerativeClustering(numbers[0]).fit_predict(table.filled))


def mixture(table: Table, numbers: list[int], seed: int) -> Clustered:
    X = table.filled
    X = X if X.shape[1] <= _MIXTURE_COLUMNS else PCA(5, random_state=seed).fit_transform(X)
    models = []
    for G, kind in product(numbers, TYPES):
        try:
            models.append(GaussianMixture(G, covariance_type=kind, n_init=10, random_state=seed).fit(X))
        except ValueError:  # a covariance has collapsed
            continue
    best = min(models, key=lambda model: float(model.bic(X)))
    return best.n_components, adjusted_rand(table.classes, best.predict(X))


def mclust(table: Table, numbers: list[int], seed: int) -> Clustered:
    X = table.filled
    X = X if X.shape[1] <= _MIXTURE_COLUMNS else PCA(5, random_state=seed).fit_transform(X)
    frame = pd.DataFrame(X)
    frame.insert(0, "class", table.classes)
    with tempfile.TemporaryDirectory() as folder:
        frame.to_csv(Path(folder) / "table.csv", index=False)
        command = ["Rscript", str(_R_SCRIPT), folder, f"{numbers[0]}:{numbers[-1]}", str(seed)]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    (line,) = csv.DictReader(printed.splitlines())
    return int(line["chosen"]), float(line["ari"])


Method = Callable[[Table, list[int], int], Clustered]
METHODS: dict[str, Method] = {
    "blockmix": fitted,
    "blockmix select": selected,
    "K-means": kmeans,
    "Ward": ward,
    "Gaussian mixtures": mixture,
    "mclust": mclust,
}
CHOOSING = ("blockmix select", "Gaussian mixtures", "mclust")
FIELDS = ("table", "rows", "columns", "classes", "method", "G", "seed", "chosen", "ari", "seconds", "failure")
Line = dict[str, Any]


def run(path: Path, label: str | None, method: str, G: str, most: int, seed: int) -> Line:
    """One line of the result file."""
    table = read(path, label)
    classes = len(np.unique(table.classes))
    line: Line = {"table": path.name, "rows": len(table.X), "columns": table.X.shape[1], "classes": classes}
    line |= {"method": method, "G": G, "seed": seed, "chosen": "", "ari": "", "failure": ""}
    begin = time.perf_counter()
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        try:
            numbers = [classes] if G == "true" else list(range(1, most + 1))
            chosen, ari = METHODS[method](table, numbers, seed)
            line |= {"chosen": chosen, "ari": round(ari, 4)}
        except Exception as error:
            line["failure"] = " ".join(str(error).split())[:200] or type(error).__name__
    return line | {"seconds": round(time.perf_counter() - begin, 2)}


def summary(lines: list[Line]) -> str:
    """Means over tables with standard errors, and wins and losses against blockmix, as Markdown."""
    frame = pd.DataFrame(lines)
    frame["ari"] = pd.to_numeric(frame["ari"])
    text = []
    for G in ("true", "chosen"):
        part = frame[frame["G"] == G]
        ari = part.pivot_table(index="table", columns="method", values="ari")
        ours = "blockmix" if G == "true" else "blockmix select"
        if ours not in ari:
            continue
        heads = f"| {G} G | tables | mean ARI | difference of {ours} | ahead, behind |"
        text += ["", heads + (" right G | one cluster |" if G == "chosen" else "") + " median s |"]
        text.append("|---" * (text[-1].count("|") - 1) + "|")
        for method in (name for name in METHODS if name in ari):
            values = ari[method].dropna()
            less = (ari[ours] - ari[method]).dropna()
            cells = [method, str(len(values)), f"{values.mean():.3f} ± {_error(values):.3f}"]
            ahead = f"{(less > AHEAD).sum()}, {(less < -AHEAD).sum()}"
            cells += ["", ""] if method == ours else [f"{less.mean():+.3f} ± {_error(less):.3f}", ahead]
            of_method = part[part["method"] == method]
            if G == "chosen":
                runs = of_method[of_method["ari"].notna()]
                right, one = (pd.to_numeric(runs["chosen"]) == other for other in (pd.to_numeric(runs["classes"]), 1))
                cells += [f"{flags.groupby(runs['table']).mean().sum():.1f}" for flags in (right, one)]
            cells.append(f"{pd.to_numeric(of_method['seconds']).median():.1f}")
            text.append("| " + " | ".join(cells) + " |")
    return "\n".join(text[1:])


def _error(values: pd.Series) -> float:
    """Standard error of the mean over tables."""
    return float(values.std() / np.sqrt(len(values)))


def by_table(lines: list[Line]) -> str:
    """ARI of each table and method, mean over seeds, at the true and at the chosen G."""
    frame = pd.DataFrame(lines)
    for name in ("ari", "chosen", "classes", "rows", "columns"):
        frame[name] = pd.to_numeric(frame[name])
    order = [(G, method) for G in ("true", "chosen") for method in METHODS]
    wide = frame.pivot_table(index=["table", "rows", "columns", "classes"], columns=["G", "method"], values="ari")
    wide = wide[[column for column in order if column in wide]].round(2)
    if ("chosen", CHOOSING[0]) in wide:
        ours = frame[frame["method"].eq(CHOOSING[0]) & frame["G"].eq("chosen")]
        wide["G"] = ours.groupby(list(wide.index.names))["chosen"].mean()
    return str(wide.to_string())


def has_mclust() -> bool:
    """Whether R is here and has the package."""
    if shutil.which("Rscript") is None:
        return False
    return subprocess.run(["Rscript", "-e", "library(mclust)"], capture_output=True).returncode == 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--label", help="name of the column of classes (default: class and the like, or the last)")
    parser.add_argument("--out", type=Path, default=Path("benchmark.csv"), help="result file (default: benchmark.csv)")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS), metavar="METHOD")
    parser.add_argument("--tables", nargs="+", help="names of tables to run (default: all)")
    parser.add_argument("--G", nargs="+", choices=("true", "chosen"), default=["true", "chosen"])
    parser.add_argument("--most", type=int, default=9, help="largest number of clusters to choose (default: 9)")
    parser.add_argument("--seeds", type=int, default=1, help="number of seeds (default: 1)")
    parser.add_argument("--rows", type=int, default=sys.maxsize, help="leave out tables of more rows")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes (default: all cores)")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    paths = [path for folder in options.folders for end in ("csv", "csv.gz", "npz") for path in folder.glob(f"*.{end}")]
    paths = [path for path in sorted(paths) if options.tables is None or path.name.split(".")[0] in options.tables]
    if not paths:
        sys.exit(f"no csv, csv.gz or npz file in {', '.join(map(str, options.folders))}")
    methods = [name for name in options.methods if name != "mclust" or has_mclust()]
    if len(methods) < len(options.methods):
        print("mclust is left out: there is no R with the package mclust here", file=sys.stderr)
    done: list[Line] = []
    if options.out.exists():
        with options.out.open(newline="") as file:
            done = [line for line in csv.DictReader(file) if line["failure"] == ""]
    keys = {(line["table"], line["method"], line["G"], str(line["seed"])) for line in done}
    tasks = [
        (path, options.label, method, G, options.most, seed)
        for seed, path, method, G in product(range(options.seeds), paths, methods, options.G)
        if (G == "true" or method in CHOOSING) and (path.name, method, G, str(seed)) not in keys
    ]
    tasks = [task for task in tasks if len(read(task[0], task[1]).X) <= options.rows]
    with options.out.open("w", newline="") as file:  # anew, so that half a line of a killed run is gone
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(done)
        file.flush()
        pool = joblib.Parallel(n_jobs=options.jobs, return_as="generator_unordered")
        for number, line in enumerate(pool(joblib.delayed(run)(*task) for task in tasks), start=1):
            writer.writerow(line)
            file.flush()
            done.append(line)
            place = f"{line['table']}, {line['method']}, {line['G']} G"
            print(f"{number}/{len(tasks)}  {place}: {line['failure'] or line['ari']}", file=sys.stderr)
    print(by_table(done))
    print()
    print(summary(done))


if __name__ == "__main__":
    main()
