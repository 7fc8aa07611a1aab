"""Reading a file into numeric columns, row names and columns of text."""

from blockmix.cli.reading.formats import read_table
from blockmix.cli.reading.table import InputTable

__all__ = ["InputTable", "read_table"]
