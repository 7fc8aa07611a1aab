"""Topics from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
from commands import fails, lines_of, run, summary_of

from blockmix.command.topics import chosen


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
        "documents.csv",
        "report.html",
        "summary.json",
    }
    assert [int(row["topic"]) for row in lines_of("out/rows.csv")] == [1] * 50 + [2] * 50
    assert "carpet" in done.stdout
    typical = lines_of("out/documents.csv")
    assert {line["topic"] for line in typical} == {line["topic"] for line in lines_of("out/topics.csv")} == {"1", "2"}
    assert all(line["text"] == texts[int(line["row"]) - 1] for line in typical)
    assert all(line["rating"] == ("1" if line["topic"] == "1" else "5") for line in typical)
    assert {line["term"] for line in lines_of("out/columns.csv")} >= {"dirty", "metro"}
    predicted = run("predict", "out/model.blockmix", "reviews.csv", "--text", "review").stdout
    assert predicted == Path("out/rows.csv").read_text()
    assert "name the column of texts with --text" in fails("predict", "out/model.blockmix", "reviews.csv")
    how_wrong = ("--text", "Review", "--rating", "STARS")
    sentence = "reviews.csv lacks 2 of 2 columns: Review (did you mean 'review'?), STARS (did you mean 'stars'?)"
    assert fails("topics", "reviews.csv", *how_wrong) == sentence
    assert fails("topics", "reviews.csv", "--text", "REVIEW").endswith("no column 'REVIEW': did you mean 'review'?")
    frame.loc[3, "stars"] = np.nan
    frame.loc[7, "review"] = None
    frame.to_csv("gaps.csv", index=False)
    assert "no review or no stars in 2 of 100 rows" in fails("topics", "gaps.csv", *how)
    assert "left out 2 of 100 rows" in run("topics", "gaps.csv", *how, "--drop-missing").stderr
    assert fails("topics", "reviews.csv", *how[:4], "--groups", "200") == "--groups 200 exceeds the 12 terms kept"
    frame["stars"] = "good"
    frame.to_csv("words.csv", index=False)
    assert "holds text: could not convert string to float: 'good'" in fails(
        "topics", "words.csv", *how, "--drop-missing"
    )


def reviews() -> None:
    """Three kinds of reviews, with phrases, and a word that is in all of them."""
    rng = np.random.default_rng(0)
    kinds = (
        ["dirty carpet", "rude manager", "old smoke"],
        ["metro station", "near centre", "city walk"],
        ["pool bar", "beach sun"],
    )
    texts = [" ".join(["hotel", *rng.choice(words, 4)]) for words in kinds for _ in range(60)]
    pd.DataFrame({"review": texts}).to_csv("reviews.csv", index=False)


def test_numbers_of_topics_are_compared_by_the_agreement_of_halves() -> None:
    reviews()
    done = run("topics", "reviews.csv", "--text", "review", "--topics", "2:4,9,40", "--groups", "6", "--out", "out")
    lines = lines_of("out/selection.csv")
    assert [line["n_topics"] for line in lines] == ["2", "3", "4", "9"]  # 180 documents are too few for 40
    summary = summary_of("out")
    place, reason = chosen(
        [{"n_topics": int(line["n_topics"]), "agreement": float(line["agreement"])} for line in lines]
    )
    assert str(summary["n_topics"]) == lines[place]["n_topics"] and summary["reason"] == reason
    assert f"* {reason}" in done.stdout and "bic" not in done.stdout


def test_the_most_topics_that_hold_are_chosen() -> None:
    tried = [{"n_topics": n, "agreement": share} for n, share in ((2, 0.9), (5, 0.8), (9, 0.6))]
    assert chosen(tried) == (1, "5 are the most topics on which two halves of the documents agree: for 80 % of them")
    assert chosen(tried[2:])[1].startswith("no number of topics holds: two halves of the documents agree best on 9")
    few = [line | {"agreement": None} for line in tried]
    assert chosen(few) == (0, "2 are the fewest topics: the documents are too few to be halved")
    assert chosen([*tried[:2], few[2]])[0] == 1


def test_columns_are_guessed_in_every_format() -> None:
    rng = np.random.default_rng(0)
    kinds = (["dirty carpet", "rude manager", "smell smoke"], ["metro station", "friendly staff", "lovely view"])
    texts = [" ".join(rng.choice(words, 3)) for words in kinds for _ in range(40)]
    frame = pd.DataFrame(
        {"id": range(80), "city": ["Rome", "Oslo"] * 40, "stars": [1] * 40 + [5] * 40, "review": texts}
    )
    frame.to_csv("a.csv", index=False)
    frame.to_parquet("a.parquet")
    frame.to_json("a.jsonl", orient="records", lines=True)
    how = ("--topics", "2", "--groups", "4", "--by", "city", "--out", "out")
    for name in ("a.csv", "a.parquet", "a.jsonl"):
        done = run("topics", name, *how)
        assert "texts are those of the column 'review'" in done.stderr
        assert "ratings are those of the column 'stars'" in done.stderr
        assert [int(line["topic"]) for line in lines_of("out/rows.csv")] == [1] * 40 + [2] * 40
        assert {line["category"] for line in lines_of("out/shares.csv")} == {"Rome", "Oslo"}
    assert "mean_rating" in json.dumps(summary_of("out")) and summary_of("out")["rating"] == "stars"
    run("topics", "a.csv", *how, "--rating", "none")
    assert summary_of("out")["rating"] is None
    frame[["id", "city", "stars"]].to_csv("b.csv", index=False)
    assert "has no column of texts that could be guessed: name it with --text" in fails("topics", "b.csv")


def test_a_folder_of_texts_is_a_corpus() -> None:
    for i in range(40):
        path = Path("docs", "low" if i % 2 else "high", "longer than a text " * 3, f"{i:02}.txt")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("dirty carpet rude manager smell" if i % 2 else "metro station friendly staff view")
    run("topics", "docs", "--topics", "2", "--groups", "2", "--by", "folder", "--out", "out")
    rows = lines_of("out/rows.csv")
    assert len({(line["row"].split("/")[0], line["topic"]) for line in rows}) == 2
    assert "has no column 'stars': it has file, text, folder" in fails("topics", "docs", "--rating", "stars")
    Path("docs", "a.txt").write_bytes(b"caf\xe9")
    assert "not in UTF-8: give its encoding" in fails("topics", "docs")


def test_texts_without_spaces_are_read_by_pairs_of_letters() -> None:
    rng = np.random.default_rng(0)
    kinds = (["地毯很脏", "经理粗鲁", "烟味难闻"], ["地铁站近", "员工友好", "景色优美"])
    texts = ["，".join(rng.choice(words, 3)) for words in kinds for _ in range(40)]
    pd.DataFrame({"评论": texts}).to_csv("a.csv", index=False)
    done = run("topics", "a.csv", "--text", "评论", "--topics", "2", "--groups", "3", "--out", "out")
    assert "pairs of letters take the place of words" in done.stderr
    topics = [line["topic"] for line in lines_of("out/rows.csv")]
    assert len(set(topics[:40])) == len(set(topics[40:])) == 1 and topics[0] != topics[40]
    predicted = run("predict", "out/model.blockmix", "a.csv", "--text", "评论").stdout
    assert predicted == Path("out/rows.csv").read_text()


def test_words_and_phrases() -> None:
    reviews()
    Path("words.txt").write_text("hotel\nCarpet dirty")
    how = ("topics", "reviews.csv", "--text", "review", "--topics", "3", "--groups", "4", "--out", "out")
    run(*how, "--stop-words", "words.txt", "--ngrams", "2")
    terms = {line["term"] for line in lines_of("out/columns.csv")}
    assert "metro station" in terms
    assert not {"hotel", "carpet", "dirty"} & terms
    predicted = run("predict", "out/model.blockmix", "reviews.csv", "--text", "review").stdout
    assert predicted == Path("out/rows.csv").read_text()
    run(*how)
    assert "dirty" in {line["term"] for line in lines_of("out/columns.csv")}
    sentence = fails(*how, "--stop-words", "german")
    assert sentence == "--stop-words german is neither english, nor none, nor a file of words"


def test_texts_without_known_words_have_no_topic() -> None:
    low, high = ["dirty carpet", "rude manager", "smell smoke"], ["metro station", "friendly staff", "lovely view"]
    texts = [f"{words[i % 3]} {words[i // 3 % 3]}" for words in (low, high) for i in range(45)] + ["12 345"]
    pd.DataFrame({"review": texts}).to_csv("reviews.csv", index=False)
    done = run("topics", "reviews.csv", "--text", "review", "--topics", "2", "--groups", "3", "--out", "out")
    assert "1 document without any of the terms: no topic" in done.stdout
    assert Path("out/rows.csv").read_text().endswith(",-1,0\n")
