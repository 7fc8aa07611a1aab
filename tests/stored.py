"""Saved models for the tests of persistence: comparing them, changing them, and how a file is refused."""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from blockmix import GaussianBiclustering, load


def two_clusters(n: int = 60) -> np.ndarray:
    """Rows in two clusters, six columns in three pairs."""
    rng = np.random.default_rng(4)
    X = rng.standard_normal((n, 6)) + np.repeat(rng.standard_normal((n, 3)), 2, axis=1)
    X[: n // 2] += 8
    return X


X = two_clusters()
MODEL = GaussianBiclustering(2, random_state=0).fit(X)


def same(a: Any, b: Any) -> bool:
    """Equal in value and type, through containers, arrays and attributes of values."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and bool(np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and same(list(a.values()), list(b.values()))
    if isinstance(a, np.random.RandomState):
        return same(a.get_state(), b.get_state())
    if isinstance(a, (float, np.floating)) and math.isnan(a):
        return math.isnan(b)
    if hasattr(a, "get_params"):
        return same(a.get_params(), b.get_params())
    if hasattr(a, "__dataclass_fields__"):
        return all(same(getattr(a, name), getattr(b, name)) for name in a.__dataclass_fields__)
    return bool(a == b)


def refusal(path: Path) -> str:
    """The one sentence with which load refuses a file, without the path."""
    with pytest.raises(ValueError) as caught:
        load(path)
    text = str(caught.value)
    assert text.startswith(f"{path} ")
    assert "\n" not in text
    return text.removeprefix(f"{path} ")


def members_of(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def tampered(
    folder: Path,
    change: Callable[[dict[str, Any]], object] = lambda document: None,
    members: dict[str, bytes] | None = None,
    compression: int = zipfile.ZIP_STORED,
    model: Any = MODEL,
) -> Path:
    """A saved model with a changed document and replaced or added members."""
    model.save(folder / "honest")
    content = members_of(folder / "honest")
    document = json.loads(content["model.json"])
    change(document)
    content |= {"model.json": json.dumps(document).encode()} | (members or {})
    with zipfile.ZipFile(folder / "tampered", "w", compression) as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    return folder / "tampered"


def set_in(document: Any, path: str, value: Any) -> None:
    *keys, last = path.split("/")
    for key in keys:
        document = document[int(key) if key.isdigit() else key]
    document[int(last) if last.isdigit() else last] = value
