"""Caveats of a selection: reasons why its best candidate may not be the best.

The rows of a table come in; warnings go out.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from blockmix.selection.trials import SelectionRow, SelectionWarning

Rows = Sequence[SelectionRow]


def warn(rows: Rows, best: SelectionRow | None, criterion: str, notes: list[Warning]) -> None:
    """Pass on the warnings of the fits, and warn of reasons why the best row may not be the best."""
    interrupted = any(isinstance(note, SelectionWarning) for note in notes)
    caveats = [] if interrupted else [SelectionWarning(text) for text in _caveats(rows, best, criterion)]
    for note in (*notes, *caveats):
        warnings.warn(note, stacklevel=3)


def _caveats(rows: Rows, best: SelectionRow | None, criterion: str) -> list[str]:
    """Reasons why the best row may not be the best."""
    if best is None:
        return [f"none of the {len(rows)} fits succeeded; the first {rows[0].outcome}"]
    found = []
    if best.degenerate:
        # The outcome names the component and the remedy, which depend on the estimator.
        found.append(f"all fits are degenerate, so their criteria say little; the best is {best.outcome}")
    found += [*_thin(rows, best, criterion), *_heavy(rows, best, criterion)]
    N, p = len(best.model.row_labels_), best.model.n_features_in_
    for name, limit in (("n_components", N), ("n_column_groups", p)):
        chosen = getattr(best, name)
        values = {getattr(row, name) for row in rows if isinstance(getattr(row, name), int)}
        if len(values) < 2 or chosen not in (min(values), max(values)) or chosen in (1, limit):
            continue
        beyond = (chosen + 1, min(chosen + 4, limit + 1)) if chosen == max(values) else (max(1, chosen - 3), chosen)
        found.append(
            f"the smallest {criterion} is at {name}={chosen}, the edge of {min(values)} … {max(values)} tried: "
            f"try more, by extend({name}=range({beyond[0]}, {beyond[1]})) of the table"
        )
    return found


def _thin(rows: Rows, best: SelectionRow, criterion: str) -> list[str]:
    """A warning if candidates that rest on a penalty were passed over."""
    passed = [row for row in rows if row.degenerate and row.value(criterion) < best.value(criterion)]
    if not passed:
        return []
    return [
        f"{len(passed)} of {len(rows)} candidates have a smaller {criterion} than the best, but components "
        f"with too few rows, so their {criterion} means nothing; the first is {passed[0].outcome}"
    ]


def _heavy(rows: Rows, best: SelectionRow, criterion: str) -> list[str]:
    """A warning if t components are preferred to normal ones."""
    if best.kind.get("tails") != "t":
        return []
    normal = [row.value(criterion) for row in rows if row.model is not None and row.model.tails == "normal"]
    if not normal:
        return []
    return [
        f'tails="t" has the smallest {criterion}, {best.value(criterion):.1f} against {min(normal):.1f}: some rows '
        "are far away, or the clusters are not normal. See outliers_ of the model, and count clusters with care: "
        f"{criterion} may pay for their tails with more clusters"
    ]
