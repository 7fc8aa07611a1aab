"""Results on request: heavy tails, far rows, stability, figures, checkpoints."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import command, fails, in_a_terminal, lines_of, run, summary_of, wine
from matplotlib import image

import blockmix


def far_wine() -> None:
    frame = wine()
    frame.loc[5, ["ash", "hue"]] = [60.0, 40.0]
    frame.to_csv("far.csv", index=False)


@pytest.mark.parametrize("tails", ["normal", "t"])
def test_far_rows_are_listed_with_their_worst_group(tails: str) -> None:
    far_wine()
    done = run("fit", "far.csv", "--components", "3", "--tails", tails, "--out", "out")
    rows = lines_of("out/rows.csv")
    model = blockmix.load("out/model.blockmix")
    assert model.tails == tails
    np.testing.assert_allclose([float(row["outlier_score"]) for row in rows], model.outlier_scores_, rtol=1e-3)
    assert [row["outlier"] == "yes" for row in rows] == model.outliers_.tolist()
    assert summary_of("out")["outliers"] == model.outliers_.sum()
    if tails == "t":
        # A normal component would rather stretch to reach the row.
        assert summary_of("out")["farthest"][0]["row"] == "w5"
        assert "  w5: cluster " in done.stdout
        worst = rows[5]["farthest_group"]
        names = (
            model.feature_names_in_[model.column_labels_[int(rows[5]["cluster"])] == int(worst)]
            if worst.isdigit()
            else [worst]
        )
        assert {"ash", "hue"} & set(names)
    assert run("predict", "out/model.blockmix", "far.csv").stdout == Path("out/rows.csv").read_text()


def test_stability_with_a_fit_and_afterwards(wine_csv: str) -> None:
    few = ("--resamples", "10", "--refits", "2")
    done = run("fit", wine_csv, "--components", "3", "--stability", *few, "--out", "out")
    assert {"groups.csv", "clusters.csv"} <= {path.name for path in Path("out").iterdir()}
    assert "of 10" in done.stdout
    assert "not whether the model is right" in done.stdout
    groups, clusters = lines_of("out/groups.csv"), lines_of("out/clusters.csv")
    assert [int(line["rows"]) for line in clusters] == summary_of("out")["sizes"]
    for line in groups:
        assert int(line["size"]) == len(line["columns"].split("; ")) > 1
        assert line["in_words"].startswith(f"{round(10 * float(line['again']))} of 10")
    run("stability", "out/model.blockmix", *few)
    # The same seed: the same resamples, whether the model was just fitted or loaded.
    assert Path("out/stability/groups.csv").read_text() == Path("out/groups.csv").read_text()
    assert Path("out/stability/clusters.csv").read_text() == Path("out/clusters.csv").read_text()
    assert '"stability"' in Path("out/stability/report.html").read_text()
    run("fit", wine_csv, "--components", "3", "--out", "out")
    assert not Path("out/groups.csv").exists()  # that of the fit before would be another's
    assert Path("out/stability/groups.csv").exists()


def test_stability_of_the_candidates(wine_csv: str) -> None:
    few = ("--components", "1:2", "--stability", "--resamples", "2")
    done = run("select", wine_csv, *few, "--refits", "1", "--out", "out")
    lines = lines_of("out/selection.csv")
    assert lines[0]["least_stable"] == "1.0"
    assert 0.5 < float(lines[1]["least_stable"]) <= 1
    assert "Nothing here shows that there is one too few." in done.stdout
    page = Path("out/report.html").read_text()
    assert "Nothing here shows that there is one too few." in page
    again = run("report", "out/model.blockmix")  # from summary.json
    assert "the page does not show the stability: blockmix stability out/model.blockmix writes one" in again.stderr
    assert page.count('"leastStable":') == Path("out/report.html").read_text().count('"leastStable":') == 2
    assert "Nothing here shows" in Path("out/report.html").read_text()
    run("fit", wine_csv, *few, "--refits", "0", "--out", "out")
    assert "least_stable" not in lines_of("out/selection.csv")[0]


def test_ctrl_c_keeps_the_fit_and_the_weighings_that_are_done(wine_csv: str) -> None:
    arguments = ("fit", wine_csv, "--components", "2", "--stability", "--refits", "0", "--resamples", "100000")
    seen, code = in_a_terminal(*arguments, "--out", "out", until="weighing the rows")
    assert code == 130, seen
    assert Path("out/model.blockmix").exists()
    assert "of 100000 random weighings: the results come from these" in seen or "best model so far" in seen
    run("stability", "out/model.blockmix", "--resamples", "2", "--refits", "0")


def test_stability_of_a_covariance_and_of_units(wine_csv: str) -> None:
    run("covariance", wine_csv, "--groups", "4", "--stability", "--resamples", "5", "--out", "cov")
    assert {line["component"] for line in lines_of("cov/groups.csv")} == {"0"}
    assert not Path("cov/clusters.csv").exists()
    how = ("--units", "kind", "--resamples", "5", "--out", "units", "--json")
    found = json.loads(run("stability", "cov/model.blockmix", wine_csv, *how).stdout)
    assert found["units"] == "kind"
    assert found["resamples"] == 5
    pd.read_csv(wine_csv).assign(patient=["a", None] * 89).to_csv("patients.csv", index=False)
    assert "units has missing values" in fails("stability", "cov/model.blockmix", "patients.csv", "--units", "patient")
    Path("cov/stability").mkdir()
    Path("cov/stability/groups.csv").write_text("mine")
    assert "has a groups.csv that is not the result" in fails("stability", "cov/model.blockmix")


def test_figures_are_written_and_replaced_together(wine_csv: str) -> None:
    run("fit", wine_csv, "--components", "2", "--figures", "png,svg,pdf", "--out", "out")
    names = sorted(path.stem for path in Path("out").glob("figure-*.png"))
    assert names == [
        f"figure-{name}" for name in ("checkerboard", "correlations-0", "correlations-1", "groups", "trace")
    ]
    for name in names:
        pixels = image.imread(f"out/{name}.png")
        assert pixels.shape[1] == int(85 / 25.4 * 300)  # one column of a journal
        np.testing.assert_allclose(pixels[..., 0], pixels[..., 1], atol=1e-6)  # no colors
        assert Path(f"out/{name}.pdf").read_bytes().startswith(b"%PDF")
        assert "<svg" in Path(f"out/{name}.svg").read_text()
    assert set(summary_of("out")["files"]) == {path.name for path in Path("out").iterdir()}
    run("fit", wine_csv, "--components", "1", "--figures", "svg", "--out", "out")
    assert sorted(path.name for path in Path("out").glob("figure-*")) == [
        "figure-checkerboard.svg",
        "figure-correlations-0.svg",
        "figure-trace.svg",
    ]
    Path("own").mkdir()
    Path("own/figure-trace.svg").write_text("mine")
    sentence = fails("fit", wine_csv, "--components", "1", "--figures", "svg", "--out", "own")
    assert "own has a figure-trace.svg that is not the result of an earlier run" in sentence
    run("covariance", wine_csv, "--groups", "4", "--figures", "png", "--out", "cov")
    assert Path("cov/figure-dendrogram.png").exists()
    assert run("fit", wine_csv, "--figures", "bmp", code=2).stderr.endswith("'bmp' is not one of pdf, svg, png\n")


def slow_npy() -> str:
    """Clusters that overlap, so that a fit takes many iterations."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60_000, 12))
    X[:30_000] += 0.3
    np.save("slow.npy", X)
    return "slow.npy"


def begun(*arguments: str, checkpoint: str) -> subprocess.Popen[str]:
    """A fit that has written its checkpoint a few times."""
    listening = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # tests in the background ignore Ctrl-C
    process = subprocess.Popen(
        command(*arguments), stderr=subprocess.PIPE, text=True, stdout=subprocess.DEVNULL, preexec_fn=listening
    )
    seen: set[int] = set()
    end = time.monotonic() + 120
    while len(seen) < 3 and time.monotonic() < end:
        time.sleep(0.005)
        if os.path.exists(checkpoint):
            seen.add(os.stat(checkpoint).st_mtime_ns)
    assert len(seen) == 3
    return process


def test_a_killed_fit_resumes_and_an_interrupted_one_is_kept() -> None:
    file = slow_npy()
    fit = ("fit", file, "--components", "3", "--groups", "12", "--checkpoint", "fit.checkpoint", "--out")
    killed = begun(*fit, "killed", checkpoint="fit.checkpoint")
    killed.kill()
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    assert Path("fit.checkpoint").exists()
    run(*fit, "killed")
    assert not Path("fit.checkpoint").exists()
    run("fit", file, "--components", "3", "--groups", "12", "--out", "whole")
    assert Path("killed/rows.csv").read_bytes() == Path("whole/rows.csv").read_bytes()

    stopped = begun(*fit, "stopped", checkpoint="fit.checkpoint")
    stopped.send_signal(signal.SIGINT)
    _, said = stopped.communicate(timeout=120)
    assert stopped.returncode == 130
    assert "warning: interrupted after" in said
    assert said.endswith("blockmix: interrupted, the best model so far was written\n")
    assert summary_of("stopped")["outcome"] == "interrupted"
    assert 3 <= summary_of("stopped")["iterations"] < summary_of("whole")["iterations"]
    assert Path("fit.checkpoint").exists()


def test_checkpoints_are_not_mistaken(wine_csv: str) -> None:
    before = Path(wine_csv).read_bytes()
    assert "--components" in run("fit", wine_csv, "--checkpoint", "a.checkpoint", code=2).stderr
    assert "wine.csv" in fails("fit", wine_csv, "--components", "2", "--checkpoint", wine_csv)
    assert Path(wine_csv).read_bytes() == before
    pd.DataFrame({"a": [1]}).to_csv("other.csv")
    assert "other.csv" in fails("fit", wine_csv, "--components", "2", "--checkpoint", "other.csv")


def test_kinds_of_models_are_compared(wine_csv: str) -> None:
    how = ("--components", "1:2", "--tails", "normal,t", "--compare-shared")
    run("select", wine_csv, *how, "--out", "out")
    lines = lines_of("out/selection.csv")
    kinds = {(line["n_components"], line["shared_covariance"], line["tails"]) for line in lines}
    shared = {("2", "True", tails) for tails in ("normal", "t")}
    assert kinds == {(n, "False", tails) for n in "12" for tails in ("normal", "t")} | shared
    best = min(lines, key=lambda line: float(line["bic"]))
    assert summary_of("out")["tails"] == best["tails"]
    assert blockmix.load("out/model.blockmix").shared_covariance == (best["shared_covariance"] == "True")
    page = Path("out/report.html").read_text()
    run("report", "out/model.blockmix")
    assert len(Path("out/report.html").read_text()) == pytest.approx(len(page), rel=0.01)


def test_a_table_too_wide_for_a_page_is_fitted_without_one(wine_csv: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Red if the page is tried, whose p × p matrices do not fit into memory, or if that of an earlier fit stays.
    monkeypatch.setattr("blockmix.cli.running._SHOWN_COLUMNS", 13)
    run("fit", wine_csv, "--components", "2", "--out", "out")
    assert Path("out/report.html").exists()
    monkeypatch.setattr("blockmix.cli.running._SHOWN_COLUMNS", 12)
    done = run("fit", wine_csv, "--components", "2", "--out", "out")
    assert "no report.html: the table has 13 columns, a page shows at most 12" in done.stderr
    assert "--top-variance 12" in done.stderr
    assert "report.html" not in summary_of("out")["files"]
    assert not Path("out/report.html").exists()
