"""Tables: what people keep in files, as numbers, names and the columns that are neither."""

from blockmix.cli.tables.formats import read_table
from blockmix.cli.tables.table import Reading, Table

__all__ = ["Reading", "Table", "read_table"]
