"""Caveats of a selection: reasons why its best candidate may not be the best.

A table comes in; warnings go out.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from blockmix.selection.trials import SelectionRow, SelectionWarning

if TYPE_CHECKING:
    from blockmix.selection.table import SelectionTable


def warn(table: SelectionTable, notes: list[Warning]) -> None:
    """Pass on the warnings of the fits, and warn of reasons why the best row may not be the best."""
    interrupted = any(isinstance(note, SelectionWarning) for note in notes)
    caveats = [] if interrupted else [SelectionWarning(text) for text in _caveats(table)]
    for note in (*notes, *caveats):
        warnings.warn(note, stacklevel=3)


def _caveats(table: SelectionTable) -> list[str]:
    """Reasons why the best row may not be the best."""
    best = table._best_or_none()
    if best is None:
        return [f"none of the {len(table.rows)} fits succeeded; the first {table.rows[0].outcome}"]
    found = []
    if best.degenerate:
        # The outcome names the component and the remedy, which depend on the estimator.
        found.append(f"all fits are degenerate, so their criteria say little; the best is {best.outcome}")
    found += [*_thin(table, best), *_heavy(table, best)]
    N, p = len(best.model.row_labels_), best.model.n_features_in_
    for name, limit in (("n_components", N), ("n_column_groups", p)):
        chosen = getattr(best, name)
        values = {getattr(row, name) for row in table.rows if isinstance(getattr(row, name), int)}
        if len(values) < 2 or chosen not in (min(values), max(values)) or chosen in (1, limit):
            continue
        beyond = (chosen + 1, min(chosen + 4, limit + 1)) if chosen == max(values) else (max(1, chosen - 3), chosen)
        found.append(
            f"the smallest {table.criterion} is at {name}={chosen}, the edge of {min(values)} … {max(values)} tried: "
            f"try more, by extend({name}=range({beyond[0]}, {beyond[1]})) of the table"
        )
    return found


def _thin(table: SelectionTable, best: SelectionRow) -> list[str]:
    """A warning if candidates that rest on a penalty were passed over."""
    passed = [row for row in table.rows if row.degenerate and table._value(row) < table._value(best)]
    if not passed:
        return []
    return [
        f"{len(passed)} of {len(table.rows)} candidates have a smaller {table.criterion} than the best, but components "
        f"with too few rows, so their {table.criterion} means nothing; the first is {passed[0].outcome}"
    ]


def _heavy(table: SelectionTable, best: SelectionRow) -> list[str]:
    """A warning if t components are preferred to normal ones."""
    if best.kind.get("tails") != "t":
        return []
    normal = [table._value(row) for row in table.rows if row.kind["tails"] == "normal" and not row.degenerate]
    if not normal:
        return []
    return [
        f'tails="t" has the smallest {table.criterion}, {table._value(best):.1f} against {min(normal):.1f}: some rows '
        "are far away, or the clusters are not normal. See outliers_ of the model, and count clusters with care: "
        f"{table.criterion} may pay for their tails with more clusters"
    ]
