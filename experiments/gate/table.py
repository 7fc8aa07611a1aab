"""The gate's table: one line for each figure in each setting, with its bar and whether it holds.

Laws hold in every case. Figures of calibration and of noise are means over independent tables: a bar counts as broken
only where sampling error cannot explain it.
"""

from __future__ import annotations

import subprocess
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from importlib import metadata
from itertools import zip_longest
from platform import python_version

import numpy as np
from scipy.stats import binom, t

import blockmix
from experiments.harness import RESULTS, Task

LEVEL = 1e-3  # of a one-sided test against a bar: many of them are made
# The largest (<=) or smallest (>=) mean that is acceptable, by the beginning of the figure's name; others have no bar.
BARS: dict[str, tuple[str, float]] = {
    "more than one cluster": ("<=", 0.05),
    "a group of columns": ("<=", 0.05),
    "planted clusters found": (">=", 0.95),
    "more clusters than there are": ("<=", 0.05),
    "overconfidence, stated 0.99": ("<=", 0.02),
    "overconfidence": ("<=", 0.1),
    "outliers": ("<=", 0.003),
    "wild rows flagged": (">=", 0.9),
    "firm groups": (">=", 0.9),
    "imputed values": (">=", 0.8),
    "covariances that collapse in silence": ("<=", 0.0),
    "fits that fail": ("<=", 0.0),
}
HEADS = ("part", "figure", "setting", "cases", "value", "bar", "verdict", "note")
PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "pandas", "pyarrow")


def guarded(measured: Callable[[Task], Task], task: Task) -> Task:
    """Figures of one table; a fit that fails is a figure too, so that the gate runs to its end."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return measured(task) | {"fits that fail": 0.0}
        except Exception as error:
            return {"fits that fail": 1.0, "error": repr(error)[:300]}


def made_with(full: bool) -> list[Task]:
    """Lines that say when, from which commit and with which packages the table was made."""
    words = ["git", "describe", "--always", "--dirty"]
    done = subprocess.run(words, cwd=RESULTS, capture_output=True, text=True, check=False)
    facts = {
        "form": "full" if full else "quick",
        "date": datetime.now(UTC).date().isoformat(),
        "blockmix": f"{blockmix.__version__} {done.stdout.strip()}".strip(),
        "python": python_version(),
    } | {name: metadata.version(name) for name in PACKAGES}
    return [line("made with", name, "", "", value) for name, value in facts.items()]


def line(*values: object) -> Task:
    return dict(zip_longest(HEADS, values, fillvalue=""))


def of_laws(rows: list[Task]) -> list[Task]:
    """A line for each law: the cases that were held to it and how many broke it, with the first seeds that did."""
    laws: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for row in rows:
        for law, seen in row["laws"].items():
            laws[law].append((row["seed"], seen))
    lines = []
    for law, cases in sorted(laws.items()):
        broken = [f"seed {seed}" for seed, seen in cases if seen]
        lines.append(line("laws", law, "", len(cases), len(broken), "0", verdict_of(broken), ", ".join(broken[:5])))
    return lines


def of_faults(rows: list[Task]) -> list[Task]:
    """A line for each operation: the faults injected into it and how many did harm, with the first of them."""
    lines = []
    for operation in dict.fromkeys(row["operation"] for row in rows):
        cases = [row for row in rows if row["operation"] == operation]
        broken = [f"{row['kind']} {n} {row['error']}: {seen}" for row in cases for n, seen in row["broken"].items()]
        faults = sum(row["faults"] for row in cases)
        lines.append(
            line("faults", operation, "", faults, len(broken), "0", verdict_of(broken), "".join(broken[:1])[:200])
        )
    return lines


def verdict_of(broken: list[str]) -> str:
    return "broken" if broken else "holds"


def of_means(part: str, rows: list[Task], keys: Iterable[str], names: set[str]) -> list[Task]:
    """A line for each figure among the `names` and each combination of values of the keys."""
    groups: dict[str, dict[str, list[float]]] = {name: defaultdict(list) for name in sorted(names)}
    keys = tuple(keys)
    for row in rows:
        setting = ", ".join(f"{key} {row[key]}" for key in keys if key in row)
        for name in names & row.keys():
            groups[name][setting].append(row[name])
    lines = []
    for name, settings in groups.items():
        bar = next((bar for begin, bar in BARS.items() if name.startswith(begin)), None)
        shown = "" if bar is None else f"{bar[0]} {bar[1]:g}"
        for setting, values in settings.items():
            error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
            mean = float(np.mean(values))
            lines.append(line(part, name, setting, len(values), mean, shown, judged(values, bar), f"± {error:.2g}"))
    return lines


def judged(values: list[float], bar: tuple[str, float] | None) -> str:
    """Whether the mean of independent values keeps a bar.

    Zeros and ones are tested by the binomial distribution, other values by Student's t, at `LEVEL`.

    >>> judged([1.0] * 8 + [0.0] * 12, ("<=", 0.05)), judged([1.0] * 2 + [0.0] * 18, ("<=", 0.05))
    ('broken', 'within error')
    >>> judged([0.0] * 20, ("<=", 0.05)), judged([0.8, 0.81, 0.79, 0.8, 0.8, 0.8], (">=", 0.9))
    ('holds', 'broken')
    """
    if bar is None:
        return ""
    # Turned so that large values break the bar.
    x, limit = (np.array(values), bar[1]) if bar[0] == "<=" else (-np.array(values), -bar[1])
    if x.mean() <= limit:
        return "holds"
    n = len(x)
    if np.isin(values, (0.0, 1.0)).all():
        chance = binom.sf(x.sum() - 1, n, limit) if bar[0] == "<=" else binom.cdf(-x.sum(), n, -limit)
    else:
        error = x.std(ddof=1) / np.sqrt(n) if n > 1 else np.inf
        chance = t.sf((x.mean() - limit) / max(error, 1e-12), max(n - 1, 1))
    return "broken" if chance < LEVEL else "within error"
