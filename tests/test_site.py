"""The built site (`make docs`): its links lead somewhere, and it opens from a folder without a request to any host."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from browsing import needs_browser

SITE = Path(__file__).parents[1] / "docs" / "_build" / "html"
pytestmark = pytest.mark.skipif(not SITE.exists(), reason="the site is not built: make docs")

API = "api/generated/blockmix.GaussianBiclustering"
LOADED = {"script": "src", "img": "src", "link": "href", "source": "src", "iframe": "src"}


class Page(HTMLParser):
    """Anchors, links and loaded files of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if given.get(LOADED.get(tag, ""), ""):
            self.loaded.append(given[LOADED[tag]])


@cache
def page(path: Path) -> Page:
    return Page(path)


def pages() -> list[Path]:
    return [path for path in sorted(SITE.rglob("*.html")) if "_static" not in path.parts]


def test_links_inside_the_site_lead_somewhere() -> None:
    broken = []
    for path in pages():
        for link in page(path).links + page(path).loaded:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            there = target.is_file() and (
                not parts.fragment or target.suffix != ".html" or unquote(parts.fragment) in page(target).anchors
            )
            if not there:
                broken.append(f"{path.relative_to(SITE)}: {link}")
    assert broken == []


def test_pages_load_only_files_of_the_site() -> None:
    # Red if a page takes a script, a font or a style from another host.
    outside = {link for path in pages() for link in page(path).loaded if urlsplit(link).scheme not in ("", "data")}
    assert outside == set()


@pytest.fixture
def tab(browser: Any) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 360, "height": 800})
    opened, requests, messages = context.new_page(), [], []
    opened.on("request", lambda request: requests.append(request.url))
    opened.on("pageerror", lambda error: messages.append(str(error)))
    yield opened
    context.close()
    assert [url for url in requests if not url.startswith(("file:", "data:"))] == []
    assert messages == []


@needs_browser
def test_search_works_from_a_folder(tab: Any) -> None:
    tab.goto((SITE / "search.html").as_uri() + "?q=missing")
    # Results appear one by one; waiting for a title fails after half a minute without it.
    for title in ("missing values", "command"):
        tab.wait_for_selector(f"#search-results li a:text-matches('{title}', 'i')")


FIRST = {
    "survey": "survey",
    "questionnaire": "survey",
    "likert": "survey",
    "latent profile": "guide/profiles",
    "eigengene": "guide/modules",
    "module": "guide/modules",
    "missing": "guide/missing",
    "outlier": "guide/outliers",
}


@needs_browser
@pytest.mark.parametrize(("words", "name"), FIRST.items())
def test_a_search_finds_the_page_that_answers_it(tab: Any, words: str, name: str) -> None:
    # Red if a page of developers, of the API or of another task comes first.
    tab.goto((SITE / "search.html").as_uri() + f"?q={words.replace(' ', '+')}")
    tab.wait_for_selector("#search-results p.search-summary:has-text('found'), #search-results li a")
    tab.wait_for_timeout(300)  # results appear one by one
    links = tab.locator("#search-results li a").evaluate_all("links => links.map(link => link.href)")
    assert links[0].partition("#")[0].partition("?")[0].endswith(f"/{name}.html"), links[:3]
    assert not [link for link in links if "/adr/" in link or "/changes" in link or "/paper_map" in link]


@needs_browser
def test_figures_of_the_gallery_load(tab: Any) -> None:
    tab.goto((SITE / "gallery" / "index.html").as_uri())
    sizes = tab.locator("article img").evaluate_all("images => images.map(image => image.naturalWidth)")
    assert len(sizes) >= 12
    assert min(sizes) > 0


@needs_browser
@pytest.mark.parametrize(
    "name", ["index", "start", "guide/clusters", "api/index", "survey", "compare", "gallery/1_first/plot_wine"]
)
def test_a_phone_does_not_scroll_sideways(tab: Any, name: str) -> None:
    tab.goto((SITE / f"{name}.html").as_uri())
    assert tab.evaluate("document.documentElement.scrollWidth") <= 360
