"""The package itself: its names come when they are asked for, and not before."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import blockmix
from blockmix import BlockDiagonalCovariance, FactorBiclustering, GaussianBiclustering, TopicBiclustering


def in_a_new_process(code: str, *arguments: str) -> str:
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    return done.stdout


def test_import_takes_nothing_heavy() -> None:
    # Red if __init__ imports a module of the package at once.
    code = "import sys, blockmix; print(*{name.partition('.')[0] for name in sys.modules})"
    loaded = set(in_a_new_process(code).split())
    assert "blockmix" in loaded
    assert not loaded & {"numpy", "scipy", "sklearn", "pandas", "matplotlib", "typer", "rich", "anndata"}


def test_every_public_name_is_there_and_listed() -> None:
    # In a new process, because a module that another test has imported is an attribute by itself.
    code = "import blockmix; print(*(type(getattr(blockmix, name)).__name__ for name in blockmix.__all__))"
    assert len(in_a_new_process(code).split()) == len(blockmix.__all__)
    assert set(blockmix.__all__) <= set(dir(blockmix))
    assert blockmix.GaussianBiclustering is GaussianBiclustering


def test_editors_and_mypy_see_the_same_names() -> None:
    # Red if a name is added to __all__ but not to the imports under TYPE_CHECKING.
    source = ast.parse(Path(blockmix.__file__).read_text(encoding="utf-8"))
    imported = {
        alias.name
        for block in source.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert imported == {*blockmix.__all__, "anndata"}


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'GaussianMixture'"):
        blockmix.GaussianMixture  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        from blockmix import nothing  # noqa: F401


def test_star_import_has_all_names() -> None:
    names: dict[str, object] = {}
    exec("from blockmix import *", names)
    assert set(blockmix.__all__) <= set(names)


def test_the_bridge_to_anndata_is_an_attribute_but_does_not_take_its_name() -> None:
    assert in_a_new_process("import blockmix; print(blockmix.anndata.fit.__module__)").strip() == "blockmix.anndata"
    assert "anndata" not in blockmix.__all__


def test_a_model_is_loaded_where_its_class_was_not_used_yet(tmp_path: Path) -> None:
    # Red if load knows only the classes that are imported by then.
    X = np.random.default_rng(0).standard_normal((40, 4)) * [1, 2, 3, 4]
    texts = ["dirty carpet rude", "metro station near", "dirty smell rude", "friendly metro staff"] * 5
    # In this order no class brings the next one with it.
    models = [
        BlockDiagonalCovariance(2).fit(X),
        FactorBiclustering(1, 2, random_state=0).fit(X),
        GaussianBiclustering(1, 2).fit(X),
        TopicBiclustering(2, 3, random_state=0).fit(texts),
    ]
    paths = [str(tmp_path / f"{place}.blockmix") for place, _ in enumerate(models)]
    for model, path in zip(models, paths, strict=True):
        model.save(path)
    code = "import sys, blockmix; print(*(type(blockmix.load(path)).__name__ for path in sys.argv[1:]))"
    assert in_a_new_process(code, *paths).split() == [type(model).__name__ for model in models]


def test_all_places_name_one_version() -> None:
    # Red if a release forgets a place.
    root = Path(__file__).parents[1]
    places = {"pyproject.toml": r'^version = "(.+)"', "CITATION.cff": "^version: (.+)"}
    places["conda/meta.yaml"] = r'set version = "(.+)" %'
    for name, pattern in places.items():
        found = re.search(pattern, (root / name).read_text(encoding="utf-8"), re.MULTILINE)
        assert found is not None and found[1] == blockmix.__version__, name
