"""Saved models for the tests of files: comparing them, changing them, and how a file is refused."""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from blockmix import BlockDiagonalCovariance, FactorBiclustering, GaussianBiclustering, TopicBiclustering, load
from blockmix.blocks.blocks import Layout
from blockmix.grouping import GreedyGrouping, SilhouetteRule


def two_clusters(n: int = 60) -> np.ndarray:
    """Rows in two clusters, six columns in three pairs."""
    rng = np.random.default_rng(4)
    X = rng.standard_normal((n, 6)) + np.repeat(rng.standard_normal((n, 3)), 2, axis=1)
    X[: n // 2] += 8
    return X


X = two_clusters()
WIDE = np.tile(X, 6) + np.random.default_rng(1).standard_normal((60, 36))
TEXTS = ["good food staff pool", "dirty bathroom smell room", "nice food staff room", "bad bathroom smell pool"] * 10
MODELS: dict[str, tuple[Callable[[], Any], Any]] = {
    "mixture": (lambda: GaussianBiclustering(2, random_state=0), X),
    "shared": (lambda: GaussianBiclustering(2, SilhouetteRule(), shared_covariance=True, random_state=0), X),
    "float32": (lambda: GaussianBiclustering(2, 3, grouping=GreedyGrouping(), random_state=0), X.astype(np.float32)),
    "wide": (lambda: GaussianBiclustering(2, 9, shrinkage=0.1, random_state=0), WIDE),
    "shapes": (lambda: GaussianBiclustering(1, 1, block_model=1, random_state=0), X),
    "tails": (lambda: GaussianBiclustering(2, [3, 2], tails="t", random_state=0), X),
    "steps": (lambda: GaussianBiclustering(2, 3, random_state=0), np.round(X)),
    "factor": (lambda: FactorBiclustering(2, 3, random_state=0), X),
    "covariance": (lambda: BlockDiagonalCovariance(3, random_state=1), X[:30]),
    "one factor": (lambda: BlockDiagonalCovariance(1, block_model=1), X[:30].astype(np.float32)),
    "topics": (lambda: TopicBiclustering(2, 3, random_state=0), TEXTS),
}


@cache
def model(name: str = "mixture") -> Any:
    """A fitted model of the table above."""
    make, rows = MODELS[name]
    return make().fit(rows)


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
    if isinstance(a, (float, np.floating)) and math.isnan(a):
        return math.isnan(b)
    if hasattr(a, "get_params"):
        return same(vars(a), vars(b))
    if isinstance(a, Layout):
        return a.is_same(b) and a.n_sharing == b.n_sharing
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


def members_of(content: bytes) -> dict[str, bytes]:
    """The members of a zip file by name."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def zipped(members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    """A zip file with these members."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return stream.getvalue()


def npy(array: np.ndarray) -> bytes:
    """An array as the content of a .npy file, pickled if it holds objects."""
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=True)
    return stream.getvalue()


def tampered(folder: Path, path: str = "", value: Any = None, name: str = "mixture", **members: bytes) -> Path:
    """A saved model with another value at a path of its document; a callable changes the array there.

    Other members are replaced or added.
    """
    model(name).save(folder / "model")
    content = members_of((folder / "model").read_bytes())
    document = json.loads(content["model.json"])
    *keys, last = [int(key) if key.isdigit() else key for key in path.split("/")]
    tree = document
    for key in keys:
        tree = tree[key]
    if callable(value):
        member = f"arrays/{tree[last]['place']}.npy"
        content[member] = npy(value(np.load(io.BytesIO(content[member])).copy()))
    elif path:
        tree[last] = value
    content |= {"model.json": json.dumps(document).encode()} | members
    (folder / "tampered").write_bytes(zipped(content))
    return folder / "tampered"
