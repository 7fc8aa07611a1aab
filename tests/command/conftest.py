from __future__ import annotations

from pathlib import Path

import pytest
from commands import run, wine

import blockmix


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands write to the working folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BLOCKMIX_TRACEBACK", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(Path(blockmix.__file__).parents[1]))  # a relative path would not work here


@pytest.fixture
def wine_csv() -> str:
    wine().to_csv("wine.csv", index=False)
    return "wine.csv"


@pytest.fixture
def wine_model(wine_csv: str) -> str:
    run("fit", wine_csv, "--components", "3", "--label", "kind", "--out", "out")
    return "out/model.blockmix"
