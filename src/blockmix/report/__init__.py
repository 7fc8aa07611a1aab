"""`write_report` and `write_topics`: one HTML file about a fitted model that opens offline."""

from blockmix.report.topics import write_topics
from blockmix.report.writing import write_report

__all__ = ["write_report", "write_topics"]
