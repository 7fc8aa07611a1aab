"""Changed files: a mutated model loads and works, or is refused with one ValueError, at no great cost.

BLOCKMIX_FUZZ=100000 tries more mutations than the usual 2000.
"""

from __future__ import annotations

import copy
import io
import json
import os
import re
import time
import tracemalloc
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from stored import two_clusters

from blockmix import (
    BlockDiagonalCovariance,
    FactorBiclustering,
    GaussianBiclustering,
    TopicBiclustering,
    load,
)
from blockmix.grouping import BestCut, GreedyGrouping

N_MUTATIONS = int(os.environ.get("BLOCKMIX_FUZZ", "2000"))
PARTS = 8

X = two_clusters()
TEXTS = ["good food staff pool", "dirty bathroom smell room", "nice food staff room", "bad bathroom smell pool"] * 10
MODELS: dict[str, Callable[[], Any]] = {
    "mixture": lambda: GaussianBiclustering(2, random_state=np.random.RandomState(0)).fit(X),
    "shared": lambda: GaussianBiclustering(2, BestCut(), shared_covariance=True, random_state=0).fit(X),
    "float32": lambda: GaussianBiclustering(2, 3, grouping=GreedyGrouping(), random_state=0).fit(X.astype(np.float32)),
    "wide": lambda: GaussianBiclustering(2, 9, shrinkage=0.1, random_state=0).fit(np.tile(X, 6) + noise(36)),
    "shapes": lambda: GaussianBiclustering(2, block_model="auto", random_state=0).fit(np.tile(X, 6) + noise(36)),
    "steps": lambda: GaussianBiclustering(2, 3, random_state=0).fit(np.round(X)),
    "factor": lambda: FactorBiclustering(2, 3, random_state=0).fit(X),
    "covariance": lambda: BlockDiagonalCovariance(1, block_model=1).fit(X[:30]),
    "topics": lambda: TopicBiclustering(2, 3, random_state=0).fit(TEXTS, np.arange(40) % 2),
}

Rng = np.random.Generator
JSON_VALUES = [
    None,
    True,
    0,
    -1,
    1,
    2,
    7,
    10**9,
    10**30,
    0.5,
    -1.5,
    1e308,
    1e-320,
    "",
    "x",
    "auto",
    [],
    [[]],
    {},
    {"$": ""},
]
JSON_VALUES += [{"$": "float", "text": text} for text in ("nan", "inf", "-inf")] + [{"$": "array", "place": 0}]
NUMBERS = [0, -1, 1, 2, 1e9, -1e100, 1e100, 1e-100, 1e-320, np.nan, np.inf, -np.inf]


def noise(p: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal((60, p))


def flip(content: bytes, rng: Rng) -> bytes:
    changed = bytearray(content)
    for place in rng.integers(len(changed), size=rng.integers(1, 9)):
        changed[place] ^= int(rng.integers(1, 256))
    return bytes(changed)


def cut(content: bytes, rng: Rng) -> bytes:
    """Truncate, or leave out, repeat or double a piece."""
    a, b = sorted(rng.integers(len(content) + 1, size=2))
    pieces = [content[:a], content[:a] + content[b:], content[:b] + content[a:], content + content[a:b]]
    return pieces[rng.integers(4)]


def patch_directory(content: bytes, rng: Rng) -> bytes:
    """Change a field of an entry in the directory: method, sizes, offset, lengths."""
    changed = bytearray(content)
    entry = rng.choice([match.start() for match in re.finditer(b"PK\x01\x02", content)])
    field = rng.choice([8, 10, 20, 24, 28, 30, 32, 42])
    changed[entry + field] = int(rng.choice([0, 1, 8, 12, 14, 255]))
    return bytes(changed)


def zipped(members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return stream.getvalue()


def members(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def swap(content: bytes, rng: Rng) -> bytes:
    """Exchange, drop, rename, repeat or compress members."""
    parts = members(content)
    a, b = rng.choice(list(parts), size=2, replace=False)
    match rng.integers(5):
        case 0:
            parts[a], parts[b] = parts[b], parts[a]
        case 1:
            parts[a] = parts[b]
        case 2:
            del parts[a]
        case 3:
            parts[f"arrays/{rng.integers(100)}.npy"] = parts.pop(a)
        case 4:
            return zipped(parts, int(rng.choice([zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])))
    return zipped(parts)


def change_array(content: bytes, rng: Rng) -> bytes:
    """Reshape, convert, shorten, lengthen or overwrite an array."""
    parts = members(content)
    name = str(rng.choice([name for name in parts if name.endswith(".npy")]))
    array = np.load(io.BytesIO(parts[name]))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        changed = change(array, rng)
    stream = io.BytesIO()
    np.save(stream, changed, allow_pickle=False)
    return zipped(parts | {name: stream.getvalue()})


def change(array: np.ndarray, rng: Rng) -> np.ndarray:
    match rng.integers(8):
        case 0:
            return array.reshape(-1)
        case 1:
            return array[None]
        case 2:
            return array.T.copy()
        case 3:
            return array.astype(rng.choice(["f4", "f8", ">f8", "f2", "i8", "u1", "b1", "U8", "i4"]))
        case 4:
            return array[: rng.integers(len(array) + 1)]
        case 5:
            return np.concatenate([array, array])
        case 6:
            return rng.permutation(array.ravel()).reshape(array.shape)
    changed = array.copy()
    if changed.size:
        changed.flat[rng.integers(changed.size)] = np.array(rng.choice(NUMBERS)).astype(array.dtype)
    return changed


def nodes(tree: Any) -> list[tuple[Any, Any]]:
    """All places in a document: container and key."""
    found: list[tuple[Any, Any]] = []
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else []
    for key, value in items:
        found += [(tree, key), *nodes(value)]
    return found


def change_document(content: bytes, rng: Rng) -> bytes:
    """Replace, remove, rename or exchange values of the document."""
    parts = members(content)
    document = json.loads(parts["model.json"])
    places = nodes(document)
    for _ in range(rng.integers(1, 3)):
        tree, key = places[rng.integers(len(places))]
        other, place = places[rng.integers(len(places))]
        action = rng.integers(5)
        if action == 0:
            tree[key] = copy.deepcopy(other[place])
        elif action == 1 and isinstance(tree, dict):
            tree.pop(key, None)
        elif action == 2 and isinstance(tree, dict):
            tree[str(rng.choice(["x", "predict", "_state", "__class__", "means_"]))] = tree.pop(key, None)
        else:
            tree[key] = JSON_VALUES[rng.integers(len(JSON_VALUES))]
        places = nodes(document)
    return zipped(parts | {"model.json": json.dumps(document).encode()})


MUTATIONS = [flip, cut, patch_directory, swap, change_array, change_array, change_document, change_document]


def use(name: str, model: Any) -> list[Any]:
    """What a user may ask of a loaded model."""
    if name == "topics":
        return [model.predict(TEXTS[:8]), model.predict_proba(TEXTS[:8]), model.transform(TEXTS[:8]), model.summary()]
    rows = np.tile(X, 6) + noise(36) if name in ("wide", "shapes") else np.round(X) if name == "steps" else X
    if name == "covariance":
        return [model.mahalanobis(rows), model.score(rows), model.covariance_, model.describe()]
    return [
        *(model.predict(rows), model.predict_proba(rows), model.score_samples(rows), model.bic(rows)),
        *(model.covariances_, model.rows_, model.describe(), model.n_parameters_),
    ]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    path = tmp_path_factory.mktemp("saved") / "model"
    contents = {}
    for name, make in MODELS.items():
        make().save(path)
        contents[name] = path.read_bytes()
    return contents


@pytest.mark.parametrize("part", range(PARTS))
def test_a_mutated_model_works_or_is_refused(part: int, saved: dict[str, bytes], tmp_path: Path) -> None:
    path, n_loaded, seeds = tmp_path / "model", 0, range(part, N_MUTATIONS, PARTS)
    for seed in seeds:
        rng = np.random.default_rng(seed)
        name = list(saved)[rng.integers(len(saved))]
        path.write_bytes(MUTATIONS[rng.integers(len(MUTATIONS))](saved[name], rng))
        model, seconds, peak = measured(path)
        assert seconds < 1 and peak < 100e6, f"mutation {seed}: {seconds:.1f} s, {peak / 1e6:.0f} MB"
        if model is not None:
            n_loaded += 1
            assert_works(name, model, seed)
    # Red if the mutations were harmless, or if files were refused for how the test writes them.
    assert n_loaded < len(seeds) / 2 and (n_loaded > 0 or len(seeds) < 100)


def measured(path: Path) -> tuple[Any, float, int]:
    """The model or None, processor time, and the peak of the memory that Python and NumPy allocate."""
    tracemalloc.start()
    begin, model = time.process_time(), None
    try:
        model = load(path)
    except ValueError as error:
        assert str(error).startswith(f"{path} ") and "\n" not in str(error)
    seconds, peak = time.process_time() - begin, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return model, seconds, peak


def assert_works(name: str, model: Any, seed: int) -> None:
    try:
        results = use(name, model)
    except NotFittedError:
        return  # the whole state is gone: a model that is not fitted says so
    except Exception as error:
        raise AssertionError(f"mutation {seed} of {name} loads but does not work") from error
    for result in results:
        assert isinstance(result, str) or np.isfinite(result).all(), f"mutation {seed} of {name}"
