"""How often the column groups and the clusters of a model come back: measured with a bar, and as lines of csv."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from blockmix.cli import results
from blockmix.cli.data import Data
from blockmix.cli.messages import note, warnings_collected
from blockmix.cli.options import MoreOptions
from blockmix.cli.progress import progress_bar
from blockmix.cli.reading.large import LargeTable
from blockmix.estimators.covariance import BlockDiagonalCovariance
from blockmix.estimators.stability import Stability

_GROUP_HEAD = ("component", "columns", "size", "again", "split", "joined", "joined_with", "weakest", "in_words")
_CLUSTER_HEAD = ("component", "rows", "stability", "dissolved", "certainty", "in_words")


def measure(
    model: Any, data: Data, options: MoreOptions, seed: int, units: Sequence[Any] | None = None
) -> tuple[Stability, bool]:
    """Weigh the rows at random and group and cluster them again; a large table is not clustered again.

    Returns what was found, and whether Ctrl-C cut it short.
    """
    settings: dict[str, Any] = {"n_resamples": options.resamples, "random_state": seed, "units": units}
    if not isinstance(model, BlockDiagonalCovariance):
        large = isinstance(data.table, LargeTable)
        if large and options.refits:
            note("the clusters of a large table are not fitted again: only the column groups are resampled")
        settings["n_refits"] = 0 if large else options.refits
    several = len(getattr(model, "weights_", ())) > 1  # one cluster is not fitted again
    total, done = options.resamples + several * settings.get("n_refits", 0), 0
    with warnings_collected(), progress_bar("weighing the rows at random", total) as bar:

        def weighed(count: int, _: int) -> None:
            nonlocal done
            done = count
            bar.update(done)

        found: Stability = model.stability(data.X, **settings, callback=weighed)
    if done < total:
        note(f"blockmix: interrupted after {done} of {total} random weighings: the results come from these")
    return found, done < total


def write_stability(folder: Path, found: Stability, raw: bool) -> list[str]:
    """Write the tables of groups and clusters; returns their names."""
    results.write_csv(folder / results.GROUPS, _GROUP_HEAD, _group_lines(found), raw)
    if found.clusters is None:
        return [results.GROUPS]
    lines = [
        (c.component, c.rows, *(f"{share:.3f}" for share in (c.stability, c.dissolved, c.certainty)), c.verdict)
        for c in found.clusters
    ]
    results.write_csv(folder / results.CLUSTERS, _CLUSTER_HEAD, lines, raw)
    return [results.CLUSTERS, results.GROUPS]


def _group_lines(found: Stability) -> Iterator[tuple[Any, ...]]:
    for group in found.groups:
        shares = (f"{share:.3f}" for share in (group.again, group.split, group.joined))
        columns = "; ".join(group.columns)
        words = found.words(group)
        yield group.component, columns, len(group.columns), *shares, group.joined_with or "", group.weakest, words
