"""Reports of saved models."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
from commands import fails, run, wine


def test_report_again(wine_csv: str, wine_model: str) -> None:
    first = Path("out/report.html").read_text()
    run("report", wine_model, wine_csv, "--label", "kind", "--out", "page.html")
    assert Path("out/report.html").read_text() == first
    assert "alcohol" in Path("page.html").read_text()
    wine()[:100].to_csv("less.csv", index=False)
    assert "less.csv has 100 rows, but the model was fitted to 178" in fails("report", wine_model, "less.csv")
    assert "does not exist: make it first" in fails("report", wine_model, "--out", "no/page.html")


def test_a_report_replaces_only_reports(wine_csv: str, wine_model: str) -> None:
    Path("notes.html").write_text("<html>my notes</html>")
    for page in (wine_csv, wine_model, "notes.html"):
        assert fails("report", wine_model, "--out", page) == (
            f"{page} is not a report of blockmix: give another name with --out"
        )
    Path("out/report.html").write_text("mine")
    assert "out/report.html is not a report" in fails("report", wine_model)
    for _ in range(2):
        run("report", wine_model, "--out", "page.html")


def shown(page: str) -> dict[str, Any]:
    """What a page holds, but for the time when it was written."""
    found = re.search(r'id="report-data">(.*?)</script>', Path(page).read_text(), re.DOTALL)
    assert found is not None
    document: dict[str, Any] = json.loads(found[1])
    del document["made"]["date"]
    return document


def test_report_without_a_file_is_the_page_of_the_fit(wine_csv: str) -> None:
    holes = wine()
    holes.loc[3, "ash"] = np.nan
    holes.to_csv("holes.csv", index=False)
    how = ("--drop-missing", "--drop", "hue", "--label", "kind", "--groups", "3", "--criterion", "icl", "--scale")
    run("select", "holes.csv", "--components", "2:3", *how, "--out", "all/wine")
    first = shown("all/wine/report.html")
    assert first["checkerboard"] and first["classes"] and first["selection"]["criterion"] == "icl"
    assert any("the edge of 2 … 3 tried" in text for text in first["warnings"])
    Path("all/wine/report.html").unlink()
    run("report", "all/wine/model.blockmix")
    assert shown("all/wine/report.html") == first
    run("fit", wine_csv, "--components", "2", "--out", "out")
    first = shown("out/report.html")
    os.chdir("all")  # the table lies beside the folder of the results, not here
    run("report", "../out/model.blockmix", "--out", "page.html")
    assert shown("page.html")["checkerboard"] == first["checkerboard"]


def test_report_does_not_replace_a_page_by_one_that_shows_less(wine_csv: str, wine_model: str) -> None:
    first = Path("out/report.html").read_text()
    wine()[:100].to_csv(wine_csv, index=False)
    sentence = (
        "out/report.html would lose what it shows of the data (wine.csv has 100 rows, but the model was fitted to 178)"
    )
    assert sentence in fails("report", wine_model)
    Path(wine_csv).unlink()
    assert "(the table that out/model.blockmix was fitted to, wine.csv, was not found)" in fails("report", wine_model)
    assert "was not found" in fails("report", wine_model, "--label", "kind")
    assert Path("out/report.html").read_text() == first
    assert "the page shows no data" in run("report", wine_model, "--out", "page.html").stderr
    assert not shown("page.html")["hasRows"]
    Path("out/summary.json").write_text("{")
    assert "no summary beside out/model.blockmix names the table" in fails("report", wine_model)
