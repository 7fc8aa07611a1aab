"""Sections of the report in a real browser: differences, map, rows, stability, gaps, copies and downloads."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pandas as pd
import pytest
from blockmix.report.differences import Centers
from browsing import Visit, needs_browser
from sklearn.datasets import load_wine

from blockmix import GaussianBiclustering
from blockmix.estimators.stability import Stability
from blockmix.report import write_report

pytestmark = needs_browser


@pytest.fixture(scope="module")
def wine(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, GaussianBiclustering, pd.DataFrame, Stability]:
    bunch = load_wine(as_frame=True)
    X = bunch.data
    model = GaussianBiclustering(3, random_state=0).fit(X)
    found = model.stability(X, 20, 3, random_state=0)
    path = tmp_path_factory.mktemp("page") / "wine.html"
    names = [f"bottle {i}" for i in range(len(X))]
    classes = bunch.target_names[bunch.target]
    write_report(model, path, X, labels=classes, row_names=names, title="Wine", stability=found)
    return path, model, X, found


@pytest.fixture
def visit(browser: Any, wine: Any) -> Any:
    made = Visit(browser, wine[0])
    yield made
    made.close()


def number(text: str) -> float:
    return float(text.replace("−", "-"))


def test_the_columns_that_differ_most_come_first(visit: Visit, wine: Any) -> None:
    d = Centers.of(wine[1]).differences()
    for g in range(3):
        rows = visit.page.locator("#apart .bars").nth(g).locator("tbody tr")
        names = rows.locator(".name").all_text_contents()
        top = np.argsort(-np.abs(d[g]))[:8]
        assert names == list(wine[2].columns[top])
        figures = [number(text) for text in rows.locator("td.figure:nth-child(3)").all_text_contents()]
        assert figures == pytest.approx(d[g][top], abs=0.0501)


def test_every_download_is_a_file_that_can_be_read(visit: Visit, wine: Any) -> None:
    _, model, X, _ = wine
    files = visit.downloads()
    kinds = {name: name.rpartition(".")[2] for name in files}
    assert set(kinds.values()) == {"csv", "png", "svg"}
    for name, path in files.items():
        if kinds[name] == "csv":
            assert len(pd.read_csv(path)) > 0, name
        elif kinds[name] == "svg":
            assert ElementTree.parse(path).getroot().tag.endswith("svg"), name
        else:
            image = matplotlib.image.imread(path, format="png")
            assert min(image.shape[:2]) > 200 and np.ptp(image[..., :3]) > 0.3 and image[..., 3].min() == 1, name
    # Three maps and a tree for each component, the checkerboard and the map of the rows.
    assert sum(kind == "png" for kind in kinds.values()) == 3 * 4 + 2
    table = pd.read_csv(files["wine-differences.csv"])
    assert len(table) == 3 * 13
    at = table.query("component == 1 and column == 'proline'").iloc[0]
    assert at["mean"] == pytest.approx(model.means_[1, X.columns.get_loc("proline")], rel=1e-3)
    rows = pd.read_csv(files["wine-table-rows.csv"]).set_index("Row")
    order = [f"bottle {i}" for i in range(len(X))]
    assert rows.loc[order, "Component"].tolist() == model.row_labels_.tolist()
    assert rows.loc[order, "Probability"].to_numpy() == pytest.approx(model.predict_proba(X).max(axis=1), abs=1e-4)
    assert rows.loc[order, "Distance"].to_numpy() == pytest.approx(model.outlier_scores_, rel=1e-3)


def test_texts_of_a_csv_are_quoted_and_run_no_formula(visit: Visit) -> None:
    made = visit.page.evaluate('csv([["a,b", \'say "x"\', "=1+1", "-2", -2, null, "two\\nlines"]])')
    assert made == '"a,b","say ""x""",\'=1+1,\'-2,-2,,"two\nlines"\n'


def test_a_group_is_copied(browser: Any, wine: Any) -> None:
    path, model, X, _ = wine
    visit = Visit(browser, path, permissions=["clipboard-read", "clipboard-write"])
    visit.page.get_by_role("button", name="Copy group 0").first.click()
    expected = list(X.columns[model.column_labels_[0] == 0])
    assert visit.page.evaluate("navigator.clipboard.readText()").split("\n") == expected
    visit.close()


def test_a_group_is_copied_without_a_clipboard(browser: Any, wine: Any) -> None:
    visit = Visit(browser, wine[0])
    visit.page.evaluate("""() => {
      navigator.clipboard.writeText = () => Promise.reject(new Error('denied'));
      document.execCommand = (what) => { window.said = [what, document.activeElement.value]; };
    }""")
    visit.page.get_by_role("button", name="Copy group 0").first.click()
    visit.page.wait_for_function("window.said")
    said = visit.page.evaluate("window.said")
    assert said[0] == "copy" and len(said[1].split("\n")) == (wine[1].column_labels_[0] == 0).sum()
    visit.close()


def test_the_map_names_rows_by_pointer_and_keys_and_shows_classes(visit: Visit, wine: Any) -> None:
    _, model, X, _ = wine
    page = visit.page
    canvas = page.locator("canvas.scatter")
    canvas.scroll_into_view_if_needed()
    canvas.focus()
    page.keyboard.press("ArrowRight")
    name, component, known = page.locator("#tip div").all_text_contents()
    i = int(name.removeprefix("row bottle "))
    p = model.predict_proba(X)[i]
    assert component == f"component {p.argmax()}, probability {p.max():.3f}"
    assert known.startswith("class: class_")
    box = canvas.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 2, box["y"] + 2)  # the name of the axis, where no row is
    assert page.locator("#tip").is_hidden()
    before = canvas.evaluate("canvas => canvas.toDataURL()")
    page.get_by_label("Colors show").select_option("known classes")
    assert canvas.evaluate("canvas => canvas.toDataURL()") != before
    assert "class_2" in page.locator("#map .legend").inner_text()


def test_rows_are_sorted_by_certainty_or_distance(visit: Visit, wine: Any) -> None:
    _, model, X, _ = wine
    page = visit.page
    first = page.locator("#row-table tbody th")
    least = np.argsort(model.predict_proba(X).max(axis=1), kind="stable")
    assert first.all_text_contents()[:5] == [f"bottle {i}" for i in least[:5]]
    page.get_by_label("Sorted").select_option("farthest first")
    assert first.all_text_contents()[:5] == [f"bottle {i}" for i in np.argsort(-model.outlier_scores_)[:5]]
    assert page.locator("#row-table tbody tr").first.inner_text().count("far") == int(model.outliers_.any())
    page.locator("#row-table-search").fill("bottle 17")
    assert page.locator("#row-table tbody tr").count() == 9


def test_stability_is_told_in_words_and_maps(visit: Visit, wine: Any) -> None:
    _, _, X, found = wine
    page = visit.page
    shown = page.locator(".groups .words").all_text_contents()
    assert shown == [found.words(group) for group in found.groups]
    assert found.heading(1) in page.locator("#component-1-heading").inner_text()
    text = page.locator("#overview").inner_text() + page.locator("#components").inner_text()
    assert not set(text.lower().split()) & {"confidence", "significant"}
    assert not any("probab" in line for line in shown)
    canvas = page.locator("#component-0 canvas.raster").nth(2)
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] - 4, box["y"] + 4)
    a, b, *_, together = page.locator("#tip div").all_text_contents()
    i, j = (X.columns.get_loc(line.split(" · ")[0]) for line in (a, b))
    assert int(together.split()[2]) == pytest.approx(100 * found.pairs[0, i, j], abs=1)
    stable = page.locator("#overview table").first.locator("tbody tr").first.locator("td").all_text_contents()
    assert number(stable[-3]) == pytest.approx(found.clusters[0].stability, abs=0.0051)
    assert stable[-2] == found.clusters[0].verdict


def test_words_of_stability_are_those_of_the_fitted_groups_only(visit: Visit) -> None:
    visit.choose(0, 13)
    assert visit.page.locator("#component-0 .words").count() == 0
    visit.page.get_by_role("button", name="Back to the fitted groups").first.click()
    assert visit.page.locator("#component-0 .words").count() > 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_sections_fit_a_small_screen(browser: Any, wine: Any, scheme: str) -> None:
    visit = Visit(browser, wine[0], color_scheme=scheme)
    visit.page.set_viewport_size({"width": 360, "height": 800})
    visit.page.wait_for_timeout(150)
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= 360
    beyond = "t => t.getBBox().x < -0.5 || t.getBBox().x + t.getBBox().width > t.ownerSVGElement.viewBox.baseVal.width"
    assert visit.page.locator("svg.profile text").evaluate_all(f"texts => texts.filter({beyond}).length") == 0
    visit.close()


def test_hostile_names_stay_text_in_every_section(browser: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = np.repeat(rng.standard_normal((90, 3)), 2, axis=1) + 0.5 * rng.standard_normal((90, 6))
    X[:45] += 5
    names = [f"<img src=x onerror=alert({j})>" + "x" * 120 for j in range(6)]
    frame = pd.DataFrame(X, columns=names, index=[f"<i>row {i}</i>" for i in range(90)])
    model = GaussianBiclustering(2, 3, random_state=0).fit(frame)
    labels = np.repeat(["<u>a</u>", "</script>"], 45)
    write_report(model, tmp_path / "a.html", frame, labels=labels, stability=model.stability(frame, 5, 0))
    visit = Visit(browser, tmp_path / "a.html")
    visit.page.locator("canvas.scatter").focus()
    visit.page.keyboard.press("ArrowRight")
    assert "<i>row" in visit.page.locator("#tip").inner_text()
    assert "<img" in visit.page.locator("#apart .name").first.inner_text()
    files = visit.downloads()
    assert set(pd.read_csv(files[next(name for name in files if "differences" in name)])["column"]) == set(names)
    assert visit.page.locator("main img, main script, main i, main u, #tip i").count() == 0
    for width in (360, 1200):
        visit.page.set_viewport_size({"width": width, "height": 800})
        visit.page.wait_for_timeout(100)
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
    visit.close()


def test_gaps_are_gray_and_listed(browser: Any, wine: Any, tmp_path: Path) -> None:
    X = wine[2].mask(np.random.default_rng(0).random(wine[2].shape) < 0.1)
    X["hue"] = wine[2]["hue"]
    model = GaussianBiclustering(3, random_state=0).fit(X)
    write_report(model, tmp_path / "a.html", X)
    visit = Visit(browser, tmp_path / "a.html")
    page = visit.page
    lines = page.locator("#gap-table tbody tr")
    assert lines.count() == 12
    share = X.isna().mean().sort_values(ascending=False)
    assert lines.first.locator("th").inner_text() == share.index[0]
    assert lines.first.locator("td").first.inner_text() == f"{100 * share.iloc[0]:.1f} %"
    page.locator("canvas.board").focus()
    seen = set()
    for _ in range(40):
        page.keyboard.press("ArrowDown")
        seen.add(page.locator("#tip div").last.inner_text().split()[-1])
    assert seen == {"missing", "deviations"}
    visit.close()
