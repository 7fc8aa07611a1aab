"""Compiled loops run where they cannot be stored."""

from __future__ import annotations

from typing import Any

import pytest
from numba.core import caching

from blockmix.blocks import kernels


def full(*arguments: Any) -> None:
    raise OSError("No space left on device")


@pytest.mark.parametrize(
    ("owner", "name", "value"),
    [(caching.CacheImpl, "_locator_classes", []), (caching.IndexDataCacheFile, "save", full)],
    ids=["nowhere to write", "full disk"],
)
def test_loops_run_where_they_cannot_be_stored(
    owner: type, name: str, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Red if Numba's own exceptions get through, or if each loop warns.
    monkeypatch.setattr(owner, name, value)
    kernels._warn_not_stored.cache_clear()
    with pytest.warns(UserWarning, match="set NUMBA_CACHE_DIR to a folder") as caught:
        first, second = kernels.jit()(lambda x: x + 1), kernels.jit()(lambda x: x + 2)
        assert (first(1.5), second(1.5)) == (2.5, 3.5)
    assert len(caught) == 1
