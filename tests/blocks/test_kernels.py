"""Compiled loops run where they cannot be stored."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
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


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="folders have no owner here")
@pytest.mark.parametrize("mode", [0o700, 0o755])
def test_loops_are_stored_in_a_temporary_folder_that_nobody_else_can_write_to(
    mode: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # Red if the folder of another user, who could put code there, is read.
    folder = tmp_path / f"blockmix-{os.getuid()}"
    folder.mkdir()
    folder.chmod(mode)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [caching.UserProvidedCacheLocator])
    monkeypatch.setattr(kernels.config, "CACHE_DIR", "")
    for once in (kernels._warn_not_stored, kernels._temporary_folder):
        once.cache_clear()
    if mode == 0o700:
        assert kernels.jit()(lambda x: x + 1)(1.5) == 2.5
        assert list(folder.rglob("*.nbi"))
    else:
        with pytest.warns(UserWarning, match="set NUMBA_CACHE_DIR to a folder"):
            kernels.jit()(lambda x: x + 1)
        assert not list(folder.iterdir())
    kernels._temporary_folder.cache_clear()
