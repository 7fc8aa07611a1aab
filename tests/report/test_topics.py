"""The page about topics: its contents, and in a real browser its texts, search and downloads."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from browsing import Visit, document, needs_browser

from blockmix import GaussianBiclustering, TopicBiclustering
from blockmix.report import write_topics
from blockmix.report.topics import document_places, topic_places

LOW = ["dirty carpet towels", "rude manager", "smell smoke cigarette"]
HIGH = ["metro station walk", "friendly helpful staff", "lovely view"]


def corpus(n: int = 60) -> tuple[list[str], np.ndarray]:
    """Documents of two kinds, with many words that go with no others."""
    rng = np.random.default_rng(0)
    filler = [f"word{chr(97 + i)}{chr(97 + j)}" for i in range(6) for j in range(6)]
    kinds = [LOW] * n + [HIGH] * n
    texts = [" ".join([*rng.choice(phrases, 2), *rng.choice(filler, 6)]) for phrases in kinds]
    return texts, np.array([1.0] * n + [5.0] * n)


@pytest.fixture(scope="module")
def fitted() -> tuple[TopicBiclustering, list[str], np.ndarray]:
    texts, ratings = corpus()
    return TopicBiclustering(2, 3, random_state=0).fit(texts, ratings), texts, ratings


@pytest.fixture(scope="module")
def page(fitted: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    model, texts, ratings = fitted
    path: Path = tmp_path_factory.mktemp("topics") / "topics.html"
    write_topics(model, path, texts, ratings, title="Hotels", command="blockmix topics hotels.csv")
    return path


def test_the_page_has_the_topics_of_the_model(fitted: Any, page: Path) -> None:
    model, texts, ratings = fitted
    data = document(page)
    assert [topic["size"] for topic in data["topics"]] == [topic.size for topic in model.topics_]
    assert np.allclose(data["importance"], model.importance_, atol=0.06)
    for g, topic in enumerate(data["topics"]):
        assert [document["text"] for document in topic["documents"]] == [texts[i] for i in model.topics_[g].documents]
        assert topic["counts"] == [int(((model.labels_ == g) & (ratings == level)).sum()) for level in (1, 5)]
    assert [group["terms"] for group in data["groups"]] == [[t for t, _ in terms] for terms in model.term_groups_]
    assert [topic["words"] for topic in data["topics"]] == [list(topic.words) for topic in model.topics_]
    assert data["stable"] == [list(terms) for terms in model.stable_terms_]
    chart = data["map"]
    assert chart["topics"] == model.labels_.tolist() and chart["of"] == 120
    assert np.allclose(chart["probabilities"], model.probabilities_, atol=0.006)


def test_places_are_inside_the_discs_of_their_topics_and_discs_do_not_overlap() -> None:
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet(np.full(7, 0.2), 900)
    labels = probabilities.argmax(axis=1)
    centers, radii = topic_places(probabilities, labels)
    places = document_places(probabilities, labels, centers, radii)
    away = np.linalg.norm(places - centers[labels], axis=1)
    assert (away <= radii[labels]).all()
    for g in range(7):  # the clearer, the nearer to the center
        rows = np.flatnonzero(labels == g)
        order = rows[np.argsort(-probabilities[rows, g])]
        assert (np.diff(away[order]) >= -1e-12).all()
    apart = np.linalg.norm(centers[:, None] - centers, axis=2) + 9 * np.eye(7)
    assert (apart >= radii[:, None] + radii - 1e-9).all()
    alone = topic_places(np.ones((5, 1)), np.zeros(5, dtype=int))
    assert np.isfinite(alone[0]).all() and alone[1] > 0


def test_without_documents_and_ratings_there_are_names_only(fitted: Any, tmp_path: Path) -> None:
    write_topics(fitted[0], tmp_path / "a.html", names=[f"hotel {i}" for i in range(120)])
    first = document(tmp_path / "a.html")["topics"][0]["documents"][0]
    assert first["name"].startswith("hotel ") and first["text"] is first["rating"] is None


def test_counts_have_a_page_and_an_empty_topic_too(tmp_path: Path) -> None:
    counts = np.random.default_rng(0).poisson(1.0, (80, 12))
    model = TopicBiclustering(2, 3, random_state=0).fit(counts)
    model.topics_[1] = type(model.topics_[1])(0, 0.0, float("nan"), (), (), ())
    model.importance_[1] = np.nan
    write_topics(model, tmp_path / "a.html", counts)
    data = document(tmp_path / "a.html")
    assert data["isText"] is False and data["topics"][1]["rating"] is None


def test_bad_input_is_refused(fitted: Any, tmp_path: Path) -> None:
    model, texts, ratings = fitted
    with pytest.raises(ValueError, match="documents has 3 entries for the 120 documents of the fit"):
        write_topics(model, tmp_path / "a.html", texts[:3])
    with pytest.raises(ValueError, match="ratings has shape"):
        write_topics(model, tmp_path / "a.html", texts, ratings[:3])
    with pytest.raises(TypeError, match="not a GaussianBiclustering: call write_report"):
        write_topics(GaussianBiclustering(), tmp_path / "a.html")  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


@needs_browser
def test_search_finds_terms_and_documents(browser: Any, fitted: Any, page: Path) -> None:
    model, texts, _ = fitted
    visit = Visit(browser, page)
    visit.page.locator("#term-search").fill("SMOKE")
    assert visit.page.locator("#term-groups .terms .name").all_text_contents() == ["smoke"]
    assert visit.page.locator("#term-count").inner_text() == "1 term found"
    for g, topic in enumerate(model.topics_):
        documents = visit.page.locator(f"#topic-{g} .documents .text").all_text_contents()
        assert documents == [texts[i] for i in topic.documents]
        marked = set(visit.page.locator(f"#topic-{g} mark").all_text_contents())
        assert marked and marked <= set(topic.words)
    visit.page.locator("#document-search").fill("Lovely")
    expected = [texts[i] for topic in model.topics_ for i in topic.documents if "lovely" in texts[i]]
    assert 0 < len(expected) < 10
    assert visit.page.locator(".documents li:visible .text").all_text_contents() == expected
    visit.close()


@needs_browser
def test_the_map_shows_documents_at_the_pointer_and_selects_topics(browser: Any, fitted: Any, page: Path) -> None:
    model, texts, _ = fitted
    visit = Visit(browser, page)
    points, tip = visit.page.locator("svg.map .point"), visit.page.locator("#tip")
    assert points.count() == 120 and tip.is_hidden()
    box = visit.page.locator("svg.map [data-document='7']").bounding_box()
    visit.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    shown = tip.inner_text().split("\n")
    assert shown[0].startswith(f"Topic {model.labels_[7] + 1}: ") and shown[1].startswith("Document 7 · rating ")
    assert shown[2] == texts[7]
    visit.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    others = int((model.labels_ != model.labels_[7]).sum())
    assert visit.page.locator("svg.map .point.faded").count() == others
    assert visit.page.locator(".pick[aria-pressed='true']").inner_text() == f"Topic {model.labels_[7] + 1}"
    visit.page.locator(".pick[aria-pressed='true']").click()
    assert visit.page.locator("svg.map .faded").count() == 0
    visit.page.locator("#map-search").fill("lovely")
    hits = sum("lovely" in text for text in texts)
    assert visit.page.locator("#map-count").inner_text() == f"{hits} documents found"
    assert visit.page.locator("svg.map .point:not(.faded)").count() == hits
    visit.page.locator("svg.map").focus()
    visit.page.keyboard.press("ArrowRight")
    assert tip.is_visible() and tip.inner_text().startswith("Topic 1: ")
    visit.close()


@needs_browser
def test_shares_by_category_are_drawn(browser: Any, fitted: Any, tmp_path: Path) -> None:
    model, texts, _ = fitted
    write_topics(model, tmp_path / "a.html", texts, by=("season", np.array(["summer", "winter"] * 60)))
    visit = Visit(browser, tmp_path / "a.html")
    assert visit.page.locator("svg.shares circle").count() == 4
    assert "winter: " in "".join(visit.page.locator("svg.shares title").all_text_contents())
    visit.close()


@needs_browser
def test_downloads_are_files(browser: Any, fitted: Any, page: Path) -> None:
    model, _, _ = fitted
    visit = Visit(browser, page)
    visit.page.locator("details.fold summary").click()
    files = visit.downloads()
    terms = pd.read_csv(files["hotels-terms.csv"])
    assert set(terms["term"]) == set(model.terms_)
    importance = pd.read_csv(files["hotels-importance.csv"]).set_index("group")
    k = next(k for k, name in enumerate(model.group_names_) if name != "background")
    assert importance.loc[model.group_names_[k], "topic 1"] == pytest.approx(model.importance_[0, k], abs=0.06)
    assert pd.read_csv(files["hotels-topics.csv"])["Documents"].tolist() == [topic.size for topic in model.topics_]
    heat = ElementTree.parse(files["hotels-importance.svg"]).getroot()
    assert heat.tag == "{http://www.w3.org/2000/svg}svg" and "lovely" in "".join(heat.itertext())
    assert len(pd.read_csv(files["hotels-typical-documents.csv"])) == 10
    visit.close()


@needs_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_the_screen(browser: Any, page: Path, scheme: str) -> None:
    visit = Visit(browser, page, color_scheme=scheme)
    assert visit.fits(360) and visit.fits(1200)
    visit.close()


@needs_browser
def test_hostile_documents_stay_text(browser: Any, tmp_path: Path) -> None:
    texts, ratings = corpus(30)
    hostile = [f"<img src=x onerror=alert({i})> </script><b>{text}" for i, text in enumerate(texts)]
    model = TopicBiclustering(2, 6, random_state=0).fit(hostile, ratings)
    write_topics(model, tmp_path / "a.html", hostile, ratings, names=[f"<i>{i}</i>" for i in range(60)], title="<u>t")
    visit = Visit(browser, tmp_path / "a.html")
    assert visit.page.locator("main img, main script, main i, main u, .text b").count() == 0
    assert "<img src=x" in visit.page.locator(".text").first.inner_text()
    visit.close()
