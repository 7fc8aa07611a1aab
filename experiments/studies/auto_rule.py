"""The rules for the number of groups on the families A–D and the findings' designs: ARI of the selected partition.

A full run draws 50 data sets per design for "auto" (200 for the findings' designs, whose bar is narrower than the error
of 50) and 10 for "silhouette".
"""

from __future__ import annotations

import warnings
from typing import Any
from zlib import crc32

import numpy as np

from blockmix import BlockDiagonalCovariance
from experiments.figures import COLORS, save, sheet
from experiments.harness import Task, arguments, mean_by, run, show, write
from experiments.metrics import adjusted_rand
from experiments.studies.auto_designs import FAMILIES

RULES = ("auto", "silhouette")


def choose(task: Task) -> dict[str, float]:
    row = next(row for row in FAMILIES[task["family"]] if (row.name, row.n) == (task["design"], task["N"]))
    # A seed of its own for each design, the same for each rule.
    rng = np.random.default_rng([crc32(row.name.encode()), row.n, task["seed"]])
    X, labels = row.draw(rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = BlockDiagonalCovariance(task["rule"]).fit(X)
    return {"ari": adjusted_rand(labels, model.partition_), "K": float(model.n_groups_)}


def draw(families: list[Task], options: Any) -> None:
    title = "Rules for the number of column groups: ARI of the selected partition, mean of each family's designs"
    figure, ((ax,),) = sheet(1, 1, title, (10, 4))
    for i, rule in enumerate(RULES):
        heights = [line["ari"] for line in families if line["rule"] == rule]
        bars = ax.bar(np.arange(len(heights)) + 0.4 * (i - 0.5), heights, 0.38, color=COLORS[i], label=rule)
        ax.bar_label(bars, fmt="%.2f", fontsize=8)
    labels = [f"{line['family']}\n{line['runs']} designs" for line in families if line["rule"] == RULES[0]]
    ax.set_xticks(range(len(labels)), labels)
    ax.set(ylabel="adjusted Rand index", ylim=(0, 1.1))
    figure.legend(loc="outside lower center", ncols=2, title="rule")
    save(figure, "auto_rule", options)


def main() -> None:
    options = arguments(__doc__)
    runs = options.runs or (50 if options.full else 5)
    tasks = [
        {"family": family, "design": row.name, "N": row.n, "rule": rule, "seed": seed}
        for rule in RULES
        for family, rows in FAMILIES.items()
        for row in rows
        for seed in range(runs * (4 if family == "findings" else 1) if rule == "auto" else min(runs, 10))
    ]
    table = mean_by(run("auto_rule", choose, tasks, options), ["family", "design", "N", "rule"], ["ari", "K"])
    write("auto_rule", table, options)
    show([line for line in table if line["family"] == "findings" or line["rule"] == "auto"])
    families = mean_by(table, ["family", "rule"], ["ari"])
    draw(families, options)
    show([{**line, "rows": line.pop("runs")} for line in families])


if __name__ == "__main__":
    main()
