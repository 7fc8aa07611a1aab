"""The command and texts without any known word: they are listed, without a topic."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from blockmix.cli.app import app


def test_texts_without_known_words_have_no_topic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    low, high = ["dirty carpet", "rude manager", "smell smoke"], ["metro station", "friendly staff", "lovely view"]
    texts = [f"{words[i % 3]} {words[i // 3 % 3]}" for words in (low, high) for i in range(45)] + ["12 345"]
    with Path("reviews.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["review"], *([text] for text in texts)])
    how = ["topics", "reviews.csv", "--text", "review", "--topics", "2", "--groups", "3", "--out", "out"]
    done = CliRunner().invoke(app, how)
    assert done.exit_code == 0, done.stderr
    assert "1 document without any of the terms: no topic" in done.stdout
    predicted = CliRunner().invoke(app, ["predict", "out/model.blockmix", "reviews.csv", "--text", "review", "--json"])
    assert predicted.exit_code == 0, predicted.stderr
    found = json.loads(predicted.stdout)
    assert sum(found["sizes"]) == 90
    assert list(found["assignments"][-1].values())[1:] == [-1, 0]
    assert Path("out/rows.csv").read_text().endswith(",-1,0\n")
