"""Pages: their JSON document, and a real browser, chromium on the path driven by playwright; without it tests skip."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from optional import package

sync_api = package("playwright.sync_api")

CHROMIUM = shutil.which("chromium")
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not on the path")

QUIET = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
QUIET += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]


def document(path: Path) -> dict[str, Any]:
    """The JSON document of a page."""
    data = re.search(r'id="report-data">(.*?)</script>', path.read_text(encoding="utf-8"), re.DOTALL)
    assert data is not None
    contents: dict[str, Any] = json.loads(data[1])
    return contents


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser that does nothing by itself."""
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield launched
        launched.close()


class Visit:
    """A page that was opened, and everything it did that a quiet page does not."""

    def __init__(self, browser: Any, path: Path, **context: Any) -> None:
        self.context = browser.new_context(viewport={"width": 1200, "height": 900}, **context)
        self.page = self.context.new_page()
        self.messages: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.messages.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.messages.append(f"error: {error}"))
        self.page.on("dialog", lambda dialog: (self.messages.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())
        self.path = path

    def close(self) -> None:
        """Red if the page complained, or asked for anything but itself."""
        self.page.wait_for_timeout(50)
        messages, requests = self.messages, self.requests
        self.context.close()
        assert messages == []
        inside = ("data:", "blob:file:")  # a blob is a file that the page made itself
        assert [url for url in requests if not url.startswith(inside)] == [self.path.as_uri()]

    def downloads(self) -> dict[str, Path]:
        """Every file that a button of the page gives, by name."""
        paths: dict[str, Path] = {}
        for number, button in enumerate(self.page.locator("button[aria-label^='Download']").all(), start=1):
            if number % 10 == 0:
                self.page.wait_for_timeout(1100)  # Chromium drops all but ten downloads of a frame in a second
            with self.page.expect_download() as waiting:
                button.click()
            name = waiting.value.suggested_filename
            assert name not in paths, f"two buttons give {name}"
            paths[name] = waiting.value.path()
        return paths

    def groups(self, component: int) -> list[set[str]]:
        """The groups that the page lists, those of one column as well."""
        groups: list[set[str]] = []
        for button in self.page.locator(f"#component-{component} .groups > button").all():
            button.click()
        for line in self.page.locator(f"#component-{component} .groups li").all():
            for button in line.locator("button.more").all():
                button.click()
            names = line.locator(".name").all_text_contents()
            groups += [{name} for name in names] if line.inner_text().startswith("Alone") else [set(names)]
        return groups

    def choose(self, component: int, K: int) -> None:
        """Move the slider of a component to K groups."""
        self.page.locator(f"#component-{component}-slider").evaluate(
            "(slider, K) => { slider.value = K; slider.dispatchEvent(new Event('input')); }", K
        )

    def fits(self, width: int) -> bool:
        """Whether nothing of the page is beyond a screen of this width, and no text beyond its figure."""
        self.page.set_viewport_size({"width": width, "height": 800})
        self.page.wait_for_timeout(150)
        beyond = (
            "t => t.getBBox().x < -0.5 || t.getBBox().x + t.getBBox().width > t.ownerSVGElement.viewBox.baseVal.width"
        )
        outside = self.page.locator("svg text").evaluate_all(f"texts => texts.filter({beyond}).length")
        return outside == 0 and bool(self.page.evaluate("document.documentElement.scrollWidth") <= width)
