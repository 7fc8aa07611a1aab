"""`compare` and `replicate` on two tables: of one distribution, and with a group that one of them lacks.

Not a result of the paper. Each table has 100 rows. Six of its p columns have a correlation of 0.5, or none; in the
second table this group may be removed, or its columns shuffled. A finding of `compare` is a group that *differs*; of
`replicate` a verdict *changed* or *not found*. The rules were shaped on seeds below 10 000, the figures of the .md are
of seeds above.
"""

from __future__ import annotations

import warnings

import numpy as np

from blockmix import BlockDiagonalCovariance, compare, replicate
from experiments.harness import Task, arguments, mean_by, run, show, write

CHANGES = ("none", "removed", "shuffled", "noise")
COLUMNS = (6, 12, 40)
ROWS, SIZE, CORRELATION = 100, 6, 0.5


def draw(rng: np.random.Generator, p: int, grouped: bool) -> np.ndarray:
    X = rng.standard_normal((ROWS, p))
    if grouped:
        common = rng.standard_normal((ROWS, 1))
        X[:, :SIZE] = np.sqrt(1 - CORRELATION) * X[:, :SIZE] + np.sqrt(CORRELATION) * common
    return X


def judge(task: Task) -> Task:
    rng, p, change = np.random.default_rng(task["seed"]), task["p"], task["change"]
    pair = {"one": draw(rng, p, change != "noise"), "other": draw(rng, p, change not in ("noise", "removed"))}
    if change == "shuffled":
        pair["other"] = rng.permuted(pair["other"], axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        models = {name: BlockDiagonalCovariance().fit(X) for name, X in pair.items()}
    groups = compare(models, pair, n_resamples=500, random_state=task["seed"]).groups
    held = replicate(models["one"], pair["other"], random_state=task["seed"]).groups
    refuted = held["verdict"].isin(["changed", "not found"])
    figures: Task = {
        "groups": len(groups),
        "differ": int(groups["differs"].sum()) if len(groups) else 0,
        "any_differs": bool(groups["differs"].any()) if len(groups) else False,
        "replicated": len(held),
        "refuted": int(refuted.sum()),
        "unclear": int((held["verdict"] == "unclear").sum()),
    }
    planted = groups[(groups["own"] == "one") & (groups["size"] >= SIZE - 1)]
    figures["named_by_compare"] = bool(len(planted) and planted["differs"].any())
    figures["named_by_replicate"] = bool(refuted[held["size"] >= SIZE - 1].any())
    return figures


def main() -> None:
    options = arguments(__doc__)
    n = options.runs or (200 if options.full else 10)
    draws = {change: n if change == "none" else -(-n // 4) for change in CHANGES}  # an error rate needs more of them
    tasks = [
        {"change": change, "p": p, "seed": 10_000 + seed}
        for change in CHANGES
        for p in COLUMNS
        for seed in range(draws[change])
    ]
    rows = run("parts", judge, tasks, options)
    named = ["named_by_compare", "named_by_replicate"]
    table = mean_by(
        rows, ("change", "p"), ("groups", "differ", "any_differs", "replicated", "refuted", "unclear", *named)
    )
    for line in table:
        line["share_differ"] = line["differ"] / line["groups"] if line["groups"] else 0.0
        line["share_refuted"] = line["refuted"] / line["replicated"] if line["replicated"] else 0.0
    show(table)
    write("parts", table, options)


if __name__ == "__main__":
    main()
