"""`write_report` and `write_topics`: one HTML file about a fitted model that opens offline."""

from blockmix.report.writing import write_report, write_topics

__all__ = ["write_report", "write_topics"]
