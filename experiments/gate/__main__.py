"""The gate before a release: laws on random products, injected faults, calibration, and tables of noise.

`make gate` runs everything and writes results/gate.csv; `make gate-quick` takes five minutes. Either ends with exit
code 1 if a law is broken, or a bar beyond sampling error. A killed run resumes; runs of other code are not reused.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from experiments.gate import calibration, faults, fuzz, noise, table
from experiments.harness import Task, arguments, folder, run, show, write

PARTS = {"laws": fuzz, "faults": faults, "noise": noise, "calibration": calibration}
ROOT = Path(__file__).parents[2]
SETTINGS = {"seed", "shape", "tails", "missing", "shared", "rows", "apart", "columns", "planted", "error"}


def digest(part: str) -> str:
    """A name for the code that is measured and for the code that measures."""
    code = hashlib.sha1()
    for path in [*sorted(ROOT.glob("src/blockmix/**/*.py")), Path(str(PARTS[part].__file__))]:
        code.update(path.read_bytes())
    return code.hexdigest()[:8]


def lines_of(part: str, rows: list[Task]) -> list[Task]:
    if part == "laws":
        return table.of_laws(rows)
    if part == "faults":
        return table.of_faults(rows)
    names = {name for row in rows for name in row} - SETTINGS
    if part == "noise":
        return table.of_means(part, rows, ("rows", "columns", "missing", "planted"), names)
    margins = [("apart", "rows", "missing"), ("apart", "shape"), ("apart", "tails"), ("apart", "shared")]
    return [line for keys in margins for line in table.of_means(part, rows, keys, names)]


def main() -> None:
    options = arguments(__doc__)
    lines = table.made_with(options.full)
    for part, module in PARTS.items():
        rows = run(f"gate_{part}_{digest(part)}", module.run, module.tasks(options.full, options.runs), options)
        lines += lines_of(part, rows)
        broken = [line for line in lines if line["part"] == part and line["verdict"] == "broken"]
        print(f"{part}: {len(rows)} runs, {len(broken)} figures broken", flush=True)
        if broken:
            show(broken)
    write("gate", lines, options)
    print(f"Written: {folder(options) / 'gate.csv'}")
    sys.exit(any(line["verdict"] == "broken" for line in lines))


if __name__ == "__main__":
    main()
