"""The command `blockmix`: row clusters and column groups of a table, without writing Python."""

from blockmix.command.output import main

__all__ = ["main"]
