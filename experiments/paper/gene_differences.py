"""Groups of genes that differ between tumors and healthy tissue, and between ALL and AML (paper, section 3.2).

The paper reads off its figure 8 that X53586, X54942 and X54941 are together in tumors and apart in healthy tissue.
Here the classes are those of the samples, so that permuted rows are a test. One table has every pair of the named
genes, the other every group that differs. In log10 all genes of a sample rise and fall together with its overall
intensity; the second Alon set has the same 100 genes in units of each sample.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from blockmix import BlockDiscriminantAnalysis, compare
from experiments.data import alon100, available, golub150, load_alon, standardize_samples
from experiments.harness import Task, arguments, show, write
from experiments.paper.gene_correlations import NAMED


def alon_by_sample() -> Any:
    """The genes of Alon 100 with each sample standardized over all 2000 genes."""
    bunch, whole = alon100(), load_alon()
    columns = [list(whole.feature_names).index(name) for name in bunch.feature_names]
    bunch.data = standardize_samples(np.log10(whole.data))[:, columns]
    return bunch


SETS = {"Alon 100": alon100, "Alon 100 by sample": alon_by_sample, "Golub 150": golub150}


def main() -> None:
    options = arguments(__doc__)
    warnings.simplefilter("ignore")  # there are more genes than rows
    rows, pairs = list[Task](), list[Task]()
    for name in available(SETS):
        bunch: Any = SETS[name]()
        X, y = np.asarray(bunch.data), np.asarray(bunch.target_names)[bunch.target]
        model = BlockDiscriminantAnalysis(shared_covariance=False, tails="normal").fit(X, y)
        model.mixture_.feature_names_in_ = model.feature_names_in_ = np.array(bunch.feature_names, dtype=object)
        found = compare(model, X, y, n_resamples=options.runs or (10_000 if options.full else 500), random_state=0)
        figures = ["size", "fate", "kept", "r_own", "r_other", "difference", "low", "high", "p", "q"]
        genes = [gene for gene in NAMED if gene in bunch.feature_names]
        for line in found.groups.to_dict("records"):
            named = ", ".join(gene for gene in genes if gene in line["columns"].split(", "))
            rows.append({"set": name, "in": line["own"], "group": line["group"], "named": named})
            rows[-1] |= {key: line[key] for key in figures}
        for i, a in enumerate(genes):
            for b in genes[i + 1 :]:
                pairs.append({"set": name, "genes": f"{a}, {b}"})
                for part, partition, R in zip(found.parts, found.partitions, found.correlations, strict=True):
                    j, k = (list(bunch.feature_names).index(gene) for gene in (a, b))
                    together = partition.labels[j] == partition.labels[k]
                    pairs[-1] |= {f"r, {part}": float(R[j, k]), f"together, {part}": bool(together)}
        if genes:
            both = BlockDiscriminantAnalysis(1, shared_covariance=False, tails="normal")
            three = X[:, [list(bunch.feature_names).index(gene) for gene in genes]]
            line = compare(both.fit(three, y), three, y, n_resamples=2000, random_state=0).groups.iloc[1]
            words = f"mean |r| {line.r_own:.2f} in {line.own}, {line.r_other:.2f} in {line.other}"
            print(f"{name}: {', '.join(genes)}: {words}, {line.low:.2f} to {line.high:.2f}, p = {line.p:.3f}")
        print(f"{name}: {sum(found.groups['differs'])} of {len(found.groups)} differ")
    show(pairs)
    show([row for row in rows if row["q"] < 0.05 or row["named"]])
    write("gene_differences", rows, options)
    write("gene_pairs", pairs, options)


if __name__ == "__main__":
    main()
