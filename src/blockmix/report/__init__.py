"""`write_report`: one HTML file about a fitted model that opens offline."""

from blockmix.report.writing import write_report

__all__ = ["write_report"]
