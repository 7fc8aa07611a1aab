"""The figures of docs/trust.md, written from results/gate.csv: `python -m experiments.gate.report`."""

from __future__ import annotations

import csv
from pathlib import Path

from experiments.harness import RESULTS

PAGE = Path(__file__).parents[2] / "docs" / "trust.md"
BEGIN, END = "<!-- figures: python -m experiments.gate.report -->", "<!-- end of figures -->"
CLEAR, OVERLAPPING = "apart 8.0, ", "apart 4.0, "
# What a page says, the figure that measures it, and its clusters.
STATEMENTS = (
    ("rows said to be 99 % certain: too sure by", "overconfidence, stated 0.99 to 1", OVERLAPPING),
    ("rows said to be 80 to 95 % certain: too sure by", "overconfidence, stated 0.8 to 0.95", OVERLAPPING),
    ("`select` finds more clusters than there are", "more clusters than there are", CLEAR),
    ("`select` finds the right number", "right number of clusters", CLEAR),
    ("usual rows of the fit called outliers", "outliers, fitted rows", CLEAR),
    ("usual new rows called outliers", "outliers, new rows", CLEAR),
    ("rows with one wild value called outliers", "wild rows flagged", CLEAR),
    ("column groups called firm that are right", "firm groups that are right", CLEAR),
    ("filled values within their 90 % interval", "imputed values in their 90 % interval", CLEAR),
)
SIZES = [f"rows {rows}, missing {missing}" for missing in ("0.0", "0.3") for rows in (30, 60, 200)]
Lines = list[dict[str, str]]


def share(line: dict[str, str] | None) -> str:
    """A figure in percent, bold where it breaks its bar."""
    if line is None:
        return "–"
    value = 100 * float(line["value"])
    text = f"{value:.0f}" if abs(value) >= 1.95 else f"{value:.1f}".replace("-", "−")
    return f"**{text}**" if line["verdict"] == "broken" else text


def calibration(lines: Lines) -> list[str]:
    by = {(line["figure"], line["setting"]): line for line in lines if line["part"] == "calibration"}
    text = ["| percent | bar | 30 | 60 | 200 | 30* | 60* | 200* |", "|---|---|---|---|---|---|---|---|"]
    for words, figure, apart in STATEMENTS:
        cells = [by.get((figure, apart + size)) for size in SIZES]
        bar = next((cell["bar"] for cell in cells if cell), "").split()
        shown = f"{'≤' if bar[0] == '<=' else '≥'}{100 * float(bar[1]):g}" if bar else ""
        text.append(f"| {words} | {shown} | {' | '.join(map(share, cells))} |")
    return text


def noise(lines: Lines) -> list[str]:
    by = {(line["figure"], line["setting"]): line for line in lines if line["part"] == "noise"}
    heads, clusters, groups = ["noise, percent"], ["more than one cluster"], ["a column group"]
    for figure, setting in by:
        if figure == "more than one cluster":
            rows, columns, missing = (part.split()[1] for part in setting.split(", "))
            heads.append(f"{rows}×{columns}" + (f", {100 * float(missing):.0f} missing" if float(missing) else ""))
            clusters.append(share(by[figure, setting]))
            groups.append(share(by.get(("a group of columns, one table", setting))))
    planted = [share(line) for (figure, _), line in by.items() if figure == "planted clusters found"]
    rule = ["|---" * len(heads) + "|"]
    found = f"Three clusters of 15 rows, 6 deviations apart, in 4 and 8 columns: found in {' and '.join(planted)} %."
    rows_of = [f"| {' | '.join(cells)} |" for cells in (heads, clusters, groups)]
    return [rows_of[0], *rule, *rows_of[1:], "", found]


def figures(lines: Lines) -> str:
    """The part of the page between its markers."""
    if not lines:
        return "\nNo table of figures has been made yet: `make gate`.\n"
    made = {line["figure"]: line["value"] for line in lines if line["part"] == "made with"}
    form, date, ours, python = (made.pop(name) for name in ("form", "date", "blockmix", "python"))
    counts = []
    for part, words in (("laws", "checks of a law on random cases"), ("faults", "injected faults")):
        those = [line for line in lines if line["part"] == part]
        broken = sum(int(line["value"]) for line in those)
        counts.append(f"{sum(int(line['cases']) for line in those)} {words}, {broken} broken")
    head = f"{form.capitalize()} form, {date}, blockmix {ours}, Python {python}. {'; '.join(counts)}."
    return "\n".join(["", head, "", *calibration(lines), "", *noise(lines), ""])


def page(text: str, lines: Lines) -> str:
    """The page with the figures of a table."""
    before, rest = text.split(BEGIN)
    return before + BEGIN + "\n" + figures(lines) + "\n" + END + rest.split(END)[1]


def table(path: Path = RESULTS / "gate.csv") -> Lines:
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), table()), encoding="utf-8")
