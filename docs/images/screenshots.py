"""Take the screenshots of this folder: pages of the three paths and of Wine.

Needs playwright and chromium on the path. Run from the root of the repository: `python docs/images/screenshots.py`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

FOLDER = Path(__file__).parent
TABLES = Path(__file__).parents[2] / "examples" / "tables"
COMMANDS = {
    "survey": ["fit", "survey.csv", "--stability"],
    "genes": ["covariance", "genes.csv", "--stability"],
    "reviews": ["topics", "reviews.csv", "--topics", "4", "--by", "month"],
    "wine": ["demo", "--out", "wine-blockmix"],
}
# File, page, width, and its part: the first element, or the top of the page, and at most so many pixels from there.
PICTURES = [
    ("answer.png", "survey", 1200, None, 545),
    ("survey_profiles.png", "survey", 1200, "#apart", 620),
    ("genes.png", "genes", 1200, "#component-0", 600),
    ("topics.png", "reviews", 1200, "#importance", 700),
    ("reviews_by.png", "reviews", 1200, "#by", 560),
    ("report.png", "wine", 1200, "#component-0", 560),
    ("report_differences.png", "wine", 1200, "#apart", 900),
]


def picture(page: Any, name: str, width: int, first: str | None, height: int) -> None:
    """Save a part of a page."""
    top = 0 if first is None else page.locator(first).first.bounding_box()["y"] - 12
    if first is not None:  # the bar would lie over the picture
        page.evaluate("document.querySelector('.top').style.display = 'none'")
        top = page.locator(first).first.bounding_box()["y"] - 12
        height = min(height, int(page.locator(first).first.bounding_box()["height"]) + 24)
    page.screenshot(path=FOLDER / name, clip={"x": 0, "y": top, "width": width, "height": height}, full_page=True)
    with Image.open(FOLDER / name) as image:
        image.convert("RGB").quantize(256).save(FOLDER / name, optimize=True)  # a third of the size


def main() -> None:
    """Write the pages to a temporary folder and take the pictures."""
    with tempfile.TemporaryDirectory() as made, sync_playwright() as playwright:
        for table in TABLES.glob("*.csv"):
            shutil.copy(table, made)
        paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        env = os.environ | {"PYTHONPATH": os.pathsep.join(str(Path(path).resolve()) for path in paths if path)}
        for words in COMMANDS.values():
            subprocess.run(
                [sys.executable, "-m", "blockmix", *words], cwd=made, env=env, check=True, capture_output=True
            )
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for file, name, width, first, height in PICTURES:
            page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme="light")
            page.goto((Path(made) / f"{name}-blockmix" / "report.html").as_uri())
            page.wait_for_timeout(500)
            picture(page, file, width, first, height)
            page.close()
        browser.close()


if __name__ == "__main__":
    main()
