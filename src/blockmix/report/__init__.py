"""The report: one HTML file about a fitted model that opens offline; `write_report` makes it."""

from blockmix.report.writing import write_report

__all__ = ["write_report"]
