"""The gate finds what it is there to find, and the page shows its table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from blockmix import GaussianBiclustering
from experiments.gate import calibration, faults, fuzz, report, table


def test_the_page_shows_the_committed_table() -> None:
    # Red if gate.csv is renewed and docs/trust.md is not, or if a figure of the page is written by hand.
    text = report.PAGE.read_text(encoding="utf-8")
    assert report.page(text, report.table()) == text


@pytest.mark.parametrize(
    ("values", "bar", "verdict"),
    [
        ([1.0] * 8 + [0.0] * 12, ("<=", 0.05), "broken"),  # P(at least 8 of 20 at 0.05) is 4e-6
        ([1.0] * 3 + [0.0] * 17, ("<=", 0.05), "within error"),  # 0.08
        ([1.0] + [0.0] * 19, ("<=", 0.05), "holds"),
        ([1.0] * 18 + [0.0] * 12, (">=", 0.95), "broken"),
        ([1.0] * 28 + [0.0] * 2, (">=", 0.95), "within error"),
        ([0.0] * 99 + [1.0], ("<=", 0.0), "broken"),  # what may never happen
        ([0.8, 0.81, 0.79, 0.8, 0.8, 0.8], (">=", 0.9), "broken"),
        ([0.5, 1.0, 0.9], (">=", 0.9), "within error"),
        ([0.3], None, ""),
    ],
)
def test_a_bar_is_broken_only_beyond_sampling_error(values: list[float], bar: Any, verdict: str) -> None:
    assert table.judged(values, bar) == verdict


def test_a_fault_in_a_careless_write_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    # Red if a fault is not injected, or if a half-written file goes unseen.
    def careless() -> None:
        with open("model", "wb") as stream:
            stream.write(b"new")
            stream.write(b"er")

    monkeypatch.setattr(faults, "prepared", lambda: {"model": b"old"})
    monkeypatch.setitem(faults.OPERATIONS, "careless", careless)
    task = {"operation": "careless", "kind": "write", "error": "ENOSPC", "most": 10}
    assert faults.run(task) == {"faults": 2, "broken": {"1": "changed model", "2": "changed model"}}
    assert faults.run(task | {"kind": "open"}) == {"faults": 1, "broken": {}}


def test_a_broken_law_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    # Red if a law is checked against the values that it is about.
    plain = fuzz.run({"seed": 4})
    assert plain["ended"] == "fitted" and not any(plain["laws"].values())
    proba = GaussianBiclustering.predict_proba
    monkeypatch.setattr(GaussianBiclustering, "predict_proba", lambda self, X: 1.01 * proba(self, X))
    assert [law for law, seen in fuzz.run({"seed": 4})["laws"].items() if seen] == ["probabilities sum to 1"]


@pytest.mark.parametrize("tails", ["normal", "t"])
def test_the_true_model_covers_nine_of_ten_missing_values(tails: str) -> None:
    # Red if the conditional mean, variance or degrees of freedom of an interval are wrong.
    true = calibration.truth("auto", tails, False, 4.0).set_params(random_state=0)
    whole, _ = true.sample(2000)
    X = np.where(np.random.default_rng(0).random(whole.shape) < 0.4, np.nan, whole)
    assert calibration.intervals(true, X, whole) == pytest.approx(0.9, abs=0.015)
