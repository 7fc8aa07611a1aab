"""Correlations of the predicted groups of Alon 100 and Golub 150, observed and estimated (paper, figures 8 and 9).

Two fits of each set: the authors' settings on the authors' data, and our defaults on data standardized by sample.
Columns are in the order of the column groups. A table says in which column group of each row cluster the genes are that
the paper names, and how strongly they correlate there.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import Bunch

from blockmix import GaussianBiclustering, Partition
from blockmix.plotting import correlation_pair
from experiments.data import alon100, available, golub150
from experiments.figures import save, sheet
from experiments.harness import Task, arguments, show, write
from experiments.paper.contenders import authors
from experiments.paper.gene_sets import problem

NAMED = {"X53586": "integrin alpha 6", "X54942": "ckshs2", "X54941": "ckshs1"}
PAPER = {"X53586": (5, 1), "X54942": (5, 5), "X54941": (5, 3)}  # column group among tumors, among healthy samples


class Fit(NamedTuple):
    """A fitted mixture and the data it was fitted to."""

    settings: str
    bunch: Bunch
    model: GaussianBiclustering


SETS: dict[str, tuple[str, Callable[[], Bunch], Callable[[], Bunch]]] = {
    "Alon 100": ("alon100", alon100, lambda: alon100(scaled=True)),
    "Golub 150": ("golub150", golub150, golub150),
}


def fits(name: str) -> list[Fit]:
    _, theirs, ours = SETS[name]
    return [
        Fit("authors' settings", theirs(), authors(problem(name), 0)),
        Fit("our defaults", ours(), GaussianBiclustering(2, random_state=0).fit(ours().data)),
    ]


def majority(fit: Fit, g: int) -> str:
    """What most rows of component g are, and how many of how many."""
    target = np.asarray(fit.bunch.target)[fit.model.row_labels_ == g]
    values, counts = np.unique(target, return_counts=True)
    return f"{counts.max()} of {len(target)} {fit.bunch.target_names[values[counts.argmax()]]}"


def draw(name: str, both: list[Fit], options: Any) -> None:
    title = f"{name}: correlations of the genes in each row cluster, genes in group order"
    figure, axes = sheet(2, 4, title, (4.3, 4.4))
    for j, fit in enumerate(both):
        X, model = np.asarray(fit.bunch.data), fit.model
        for g in range(2):
            partition = Partition(model.column_labels_[g])
            observed = np.corrcoef(X[model.row_labels_ == g], rowvar=False)
            covariance = model.covariances_[g]
            deviations = np.sqrt(np.diagonal(covariance))
            estimated = covariance / np.outer(deviations, deviations)
            where = f"{fit.settings}, cluster {g + 1}: {majority(fit, g)}\n{partition.n_groups} column groups"
            pair = axes[g, 2 * j : 2 * j + 2]
            for ax in correlation_pair(observed, estimated, partition, title=where, colorbar=False, ax=pair):
                ax.title.set_fontsize(9)
    figure.colorbar(axes[0, 0].images[0], ax=axes, label="correlation", shrink=0.6)
    save(figure, f"correlations_{SETS[name][0]}", options)


def named_genes(both: list[Fit]) -> list[Task]:
    """One line per fit, row cluster and pair of the named genes: their column groups and their correlation."""
    table = []
    for fit in both:
        names = list(fit.bunch.feature_names)
        for g in range(2):
            rows = np.asarray(fit.bunch.data)[fit.model.row_labels_ == g]
            line: Task = {"settings": fit.settings, "row_cluster": majority(fit, g)}
            held = [gene for gene in NAMED if gene in names]
            for gene in NAMED:
                column = fit.model.column_labels_[g]
                line[gene] = str(column[names.index(gene)] + 1) if gene in held else "not selected"
            R = np.corrcoef(rows[:, [names.index(gene) for gene in held]], rowvar=False)
            line["mean_abs_correlation"] = float(np.abs(R[np.triu_indices(len(held), 1)]).mean())
            table.append(line)
    theirs = [{gene: str(groups[i]) for gene, groups in PAPER.items()} for i in range(2)]
    paper = [{"settings": "paper", "row_cluster": row} for row in ("most tumors", "most healthy")]
    return table + [a | b | {"mean_abs_correlation": ""} for a, b in zip(paper, theirs, strict=True)]


def overlaps(fit: Fit) -> list[Task]:
    """Size of each column group of the second row cluster, and how many of its genes are in each group of the first."""
    first, second = fit.model.column_labels_
    table = []
    for k in range(second.max() + 1):
        shared = np.bincount(first[second == k], minlength=first.max() + 1).tolist()
        line: Task = {f"group, {majority(fit, 1)}": k + 1, "genes": int((second == k).sum())}
        table.append(line | {f"in group {j + 1}, {majority(fit, 0)}": count for j, count in enumerate(shared)})
    return table


def main() -> None:
    options = arguments(__doc__)
    warnings.simplefilter("ignore")  # there are more genes than rows
    for name in available({name: load for name, (_, load, _) in SETS.items()}):
        both = fits(name)
        draw(name, both, options)
        if name == "Alon 100":
            table = named_genes(both)
            print("Column groups of " + ", ".join(f"{gene} ({what})" for gene, what in NAMED.items()))
            show(table)
            write("gene_groups", table, options)
        else:
            table = overlaps(both[0])
            print("Genes in a column group of one row cluster and of the other, authors' settings")
            show(table)
            write("gene_overlaps", table, options)


if __name__ == "__main__":
    main()
