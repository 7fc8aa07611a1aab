"""For the whole suite: the same examples of Hypothesis in every run, no clock, and one browser for all pages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from browsing import chromium
from hypothesis import settings

settings.register_profile("blockmix", deadline=None, derandomize=True, max_examples=40)
settings.register_profile("search", deadline=None, max_examples=500)  # pytest --hypothesis-profile=search
settings.load_profile("blockmix")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium: a process can drive only one."""
    with chromium() as launched:
        yield launched
