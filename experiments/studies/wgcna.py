"""WGCNA on the tables of modules.py, five draws a cell: results/wgcna.csv, which modules.py shows beside its own rules.

Needs R with the package WGCNA (Debian: r-base-core, r-cran-wgcna). Its soft threshold is that of pickSoftThreshold, 6
where that finds none; modules have at least 5 columns. It is given the rows of one component, in a mixture too.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from experiments.harness import write
from experiments.studies.modules import DESIGNS, FIRST_SEED, ROWS, scores, table_rng
from experiments.studies.modules import draw_rows as draw

DRAWS = 5


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
    folder.mkdir(exist_ok=True)
    cells = [(design, N, seed) for seed in range(FIRST_SEED, FIRST_SEED + DRAWS) for N in ROWS for design in DESIGNS]
    drawn = {cell: draw(cell[0], cell[1], table_rng(*cell)) for cell in cells}
    for number, (X, _) in enumerate(drawn.values()):
        np.savetxt(folder / f"{number:03d}.csv", X, delimiter=",")
    subprocess.run(["Rscript", str(Path(__file__).with_suffix(".R")), str(folder)], check=True)
    table = []
    for number, ((design, N, seed), (_, truth)) in enumerate(drawn.items()):
        labels = np.loadtxt(folder / f"{number:03d}.labels", dtype=int)
        alone = labels == 0
        labels[alone] = labels.max() + 1 + np.arange(alone.sum())
        figures = dict(zip(("ari", "false", "groups"), scores(truth, labels), strict=True))
        seconds = float((folder / f"{number:03d}.seconds").read_text())
        table.append({"design": design, "N": N, "seed": seed, **figures, "seconds": seconds})
    write("wgcna", table, SimpleNamespace(full=True))


if __name__ == "__main__":
    main()
