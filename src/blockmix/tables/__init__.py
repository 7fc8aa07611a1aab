"""Tables: what people keep in files, as numbers, names and the columns that are neither."""

from blockmix.tables.formats import read_table
from blockmix.tables.table import Reading, Table

__all__ = ["Reading", "Table", "read_table"]
