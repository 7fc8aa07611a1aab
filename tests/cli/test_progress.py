"""Progress bars on a terminal."""

from __future__ import annotations

import re

from commands import in_a_terminal, large_csv


def test_a_terminal_shows_bars_with_the_time_left() -> None:
    arguments = ("fit", large_csv(), "--components", "2", "--init", "kmeans", "--max-iter", "3", "--out", "out")
    seen, code = in_a_terminal(*arguments)
    assert code == 0, seen
    assert re.search(r"reading large.csv .* MB [-\d:]+ left", seen)
    assert re.search(r"fitting 2 row clusters.* \d/3 [-\d:]+ left at most", seen)
    assert "writing the report" in seen
    assert "warning: EM stopped at --max-iter 3 before it converged: raise --max-iter" in seen
