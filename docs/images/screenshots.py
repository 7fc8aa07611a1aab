"""Take the screenshots of this folder: the report of Wine and the page of hotel topics.

Needs playwright, chromium on the path and the TripAdvisor reviews (see experiments/README.md). Run from the root of the
repository: `PYTHONPATH=. python docs/images/screenshots.py`.
"""

from __future__ import annotations

import shutil
import tempfile
import warnings
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright
from sklearn.datasets import load_wine

from blockmix import GaussianBiclustering, TopicBiclustering
from blockmix.report import write_report, write_topics
from experiments.data import load_tripadvisor

FOLDER = Path(__file__).parent
PICTURES = {
    "wine.html": [("#component-1", "#component-1", "report.png"), ("#apart", "#map", "report_differences.png")],
    "topics.html": [("#importance", "#importance", "topics.png")],
}


def pages(folder: Path) -> None:
    """Write both pages."""
    wine = load_wine(as_frame=True)
    model = GaussianBiclustering(3, random_state=0).fit(wine.data)
    classes = wine.target_names[wine.target]
    stability = model.stability(wine.data, random_state=0)
    write_report(model, folder / "wine.html", wine.data, labels=classes, title="Wine", stability=stability)
    reviews = load_tripadvisor()
    texts, ratings = reviews.data, reviews.target
    topics = TopicBiclustering(5, 25, random_state=0).fit(texts, ratings)
    write_topics(topics, folder / "topics.html", texts, ratings, title="Hotel reviews")


def picture(page: Any, first: str, last: str, name: str) -> None:
    """Save the part of a page from one element to another."""
    boxes = [page.locator(selector).first.bounding_box() for selector in (first, last)]
    top, bottom = boxes[0]["y"] - 12, boxes[1]["y"] + boxes[1]["height"] + 12
    clip = {"x": 0, "y": top, "width": 1200, "height": bottom - top}
    page.screenshot(path=FOLDER / name, clip=clip, full_page=True)


def main() -> None:
    """Write the pages to a temporary folder and take the pictures."""
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as made, sync_playwright() as playwright:
        pages(Path(made))
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1200, "height": 900}, color_scheme="light")
        for name, parts in PICTURES.items():
            page.goto((Path(made) / name).as_uri())
            page.evaluate("document.querySelector('.top').style.display = 'none'")  # it would lie over the pictures
            page.wait_for_timeout(300)
            for first, last, file in parts:
                picture(page, first, last, file)
        browser.close()


if __name__ == "__main__":
    main()
