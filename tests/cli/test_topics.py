"""Topics from the command line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from commands import fails, lines_of, run


def test_topics_of_reviews() -> None:
    rng = np.random.default_rng(0)
    low, high = ["dirty carpet", "rude manager", "smell smoke"], ["metro station", "friendly staff", "lovely view"]
    texts = [" ".join(rng.choice(words, 3)) for words in [low] * 50 + [high] * 50]
    frame = pd.DataFrame({"stars": [1] * 50 + [5] * 50, "review": texts})
    frame.to_csv("reviews.csv", index=False)
    how = ("--text", "review", "--rating", "stars", "--topics", "2", "--groups", "6")
    done = run("topics", "reviews.csv", *how, "--out", "out")
    assert {path.name for path in Path("out").iterdir()} == {
        "model.blockmix",
        "rows.csv",
        "columns.csv",
        "topics.csv",
        "topics.png",
        "summary.json",
    }
    assert [int(row["topic"]) for row in lines_of("out/rows.csv")] == [0] * 50 + [1] * 50
    assert "carpet, dirty" in done.stdout
    assert {line["term"] for line in lines_of("out/columns.csv")} >= {"dirty", "metro"}
    predicted = run("predict", "out/model.blockmix", "reviews.csv", "--text", "review").stdout
    assert predicted == Path("out/rows.csv").read_text()
    assert "name the column of texts with --text" in fails("predict", "out/model.blockmix", "reviews.csv")
    assert "holds topics, which have no report" in fails("report", "out/model.blockmix")
    how_wrong = ("--text", "Review", "--rating", "STARS")
    sentence = "reviews.csv lacks 2 of 2 columns: Review (did you mean 'review'?), STARS (did you mean 'stars'?)"
    assert fails("topics", "reviews.csv", *how_wrong) == sentence
    assert fails("topics", "reviews.csv", "--text", "REVIEW").endswith("no column 'REVIEW': did you mean 'review'?")
    frame.loc[3, "stars"] = np.nan
    frame.loc[7, "review"] = None
    frame.to_csv("gaps.csv", index=False)
    assert "no review or no stars in 2 of 100 rows" in fails("topics", "gaps.csv", *how)
    assert "left out 2 of 100 rows" in run("topics", "gaps.csv", *how, "--drop-missing").stderr
    frame["stars"] = "good"
    frame.to_csv("words.csv", index=False)
    assert "holds 'good' in row 1" in fails("topics", "words.csv", *how, "--drop-missing")
