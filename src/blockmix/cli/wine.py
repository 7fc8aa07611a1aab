"""Wine: the table of the demo, as if it had been read from a file."""

from __future__ import annotations

from blockmix.cli.tables import Table
from blockmix.cli.tables.table import RowNumbers
from blockmix.datasets import load_wine


def wine_table() -> Table:
    """178 wines of three cultivars, 13 measurements."""
    wine = load_wine()
    cultivars = [str(wine.target_names[k]) for k in wine.target]
    return Table("wine", tuple(wine.feature_names), wine.data, RowNumbers(len(wine.data)), {"cultivar": [*cultivars]})
