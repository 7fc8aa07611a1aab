"""The report in a real browser: it opens offline and quietly, and what it draws and lists is what Python says."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from browsing import Visit, needs_browser
from sklearn.datasets import load_wine

from blockmix import BlockDiagonalCovariance, GaussianBiclustering
from blockmix.grouping import GreedyGrouping, HierarchicalGrouping
from blockmix.plotting.views import observed_correlation
from blockmix.report import write_report

pytestmark = needs_browser


@pytest.fixture(scope="module")
def wine(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, GaussianBiclustering, pd.DataFrame]:
    bunch = load_wine(as_frame=True)
    X = (bunch.data - bunch.data.mean()) / bunch.data.std()
    model = GaussianBiclustering(3, random_state=0).fit(X)
    path = tmp_path_factory.mktemp("page") / "wine report.html"
    names = [f"bottle {i}" for i in range(len(X))]
    write_report(model, path, X, labels=bunch.target, row_names=names, title="Wine", command="blockmix fit wine.csv")
    return path, model, X


@pytest.fixture
def visit(browser: Any, wine: Any) -> Iterator[Visit]:
    made = Visit(browser, wine[0])
    yield made
    made.close()


def as_sets(labels: np.ndarray, names: list[str]) -> list[set[str]]:
    return [{names[j] for j in np.flatnonzero(labels == k)} for k in range(labels.max() + 1)]


def same(found: list[set[str]], expected: list[set[str]]) -> bool:
    return sorted(map(sorted, found)) == sorted(map(sorted, expected))


def test_the_slider_cuts_the_tree_as_python_does(visit: Visit, wine: Any) -> None:
    _, model, X = wine
    names, weights = list(X.columns), model.predict_proba(X)
    for g in range(3):
        assert same(visit.groups(g), as_sets(model.column_labels_[g], names))
        R = observed_correlation(X.to_numpy(), weights[:, g])
        for K in range(1, 14):
            visit.choose(g, K)
            expected = HierarchicalGrouping().group(R, K).partition.labels
            assert same(visit.groups(g), as_sets(expected, names)), (g, K)
    status = visit.page.locator("#component-2-status").inner_text()
    assert status.startswith("Tree cut into 13 groups; the largest has 1 column.")
    assert visit.page.locator("#live").inner_text().startswith("Component 2: Tree cut into 13 groups")
    visit.page.get_by_role("button", name="Back to the fitted groups").nth(2).click()
    assert same(visit.groups(2), as_sets(model.column_labels_[2], names))


def test_the_slider_is_moved_by_keys_and_redraws_the_maps(visit: Visit) -> None:
    page = visit.page
    slider = page.get_by_label("Cut the tree into groups").first
    slider.focus()
    # The fitted groups need not be a cut of the tree; after a first move the slider shows cuts.
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    before, frames = slider.input_value(), map_of(page)
    page.keyboard.press("ArrowRight")
    assert int(slider.input_value()) == int(before) + 1
    assert slider.get_attribute("aria-valuetext") == f"{int(before) + 1} groups"
    assert map_of(page) != frames
    page.keyboard.press("ArrowLeft")
    assert map_of(page) == frames


def map_of(page: Any, component: int = 0, index: int = 0) -> str:
    picture = page.locator(f"#component-{component} canvas.raster").nth(index)
    return str(picture.evaluate("canvas => canvas.toDataURL()"))


def test_hover_and_keys_show_names_and_values(visit: Visit, wine: Any) -> None:
    _, model, X = wine
    page = visit.page
    canvas = page.locator("#component-0 canvas.raster").first
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] - 4, box["y"] + 4)  # the first row, the last column
    lines = page.locator("#tip div").all_text_contents()
    assert page.locator("#tip").is_visible()
    a, b = (line.split(" · ")[0] for line in lines[:2])
    R = observed_correlation(X.to_numpy(), model.predict_proba(X)[:, 0])
    i, j = X.columns.get_loc(a), X.columns.get_loc(b)
    assert lines[2].startswith("observed ")
    assert float(lines[2].split()[1].replace("−", "-")) == pytest.approx(R[i, j], abs=0.0101)
    assert lines[3] == "estimated 0.00"
    page.mouse.move(5, 5)
    assert page.locator("#tip").is_hidden()
    canvas.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    order = page.locator("#live").inner_text().split(", ")
    assert order[0].split(" · ")[0] in X.columns and "observed" in order[2]
    assert order[0].split(" · ")[0] != order[1].split(" · ")[0] or order[2] == "observed 1.00"


def test_zoom_by_wheel_keys_and_buttons(visit: Visit) -> None:
    page = visit.page
    canvas = page.locator("#component-0 canvas.raster").first
    canvas.scroll_into_view_if_needed()
    whole, other = map_of(page), map_of(page, index=1)
    page.get_by_role("button", name="Zoom in (Component 0)").click()
    near = map_of(page)
    assert near != whole and map_of(page, index=1) != other  # both maps move together
    page.get_by_role("button", name="Show all (Component 0)").click()
    assert map_of(page) == whole
    canvas.focus()
    page.keyboard.press("+")
    assert map_of(page) != whole
    page.keyboard.press("0")
    assert map_of(page) == whole
    canvas.hover()
    scrolled = page.evaluate("scrollY")
    page.mouse.wheel(0, -400)
    page.wait_for_function("document.querySelector('canvas.raster.zoomed') !== null")
    assert page.evaluate("scrollY") == scrolled


def test_search_finds_columns_and_rows(visit: Visit, wine: Any) -> None:
    model, page = wine[1], visit.page
    rows = page.locator("#bicluster-table tbody tr")
    # One line for each group of several columns, and one for all columns alone of a component.
    sizes = [np.bincount(labels) for labels in model.column_labels_]
    lines = [int((own > 1).sum() + (own == 1).any()) for own in sizes]
    assert rows.count() == sum(lines)
    field = page.locator("#bicluster-table-search")
    field.fill("Alcohol")
    assert rows.count() == 3 and page.locator("#bicluster-table mark").all_text_contents() == ["alcohol"] * 3
    field.fill("bottle 177")
    assert rows.count() == lines[model.row_labels_[177]]
    assert set(page.locator("#bicluster-table mark").all_text_contents()) == {"bottle 177"}
    field.fill("nothing of the kind")
    assert rows.count() == 0
    assert page.locator("#bicluster-table-count").inner_text() == "0 biclusters"


def test_columns_that_move_are_listed(visit: Visit, wine: Any) -> None:
    page = visit.page
    shown = page.locator("#moves-table tbody tr")
    movers = shown.count()
    page.get_by_label("only columns that change group").uncheck()
    assert 0 < movers < shown.count() == 13
    assert page.locator("#moves-table tr.moves").count() == movers


def test_dark_and_light_differ_and_paper_is_light(browser: Any, wine: Any) -> None:
    visit = Visit(browser, wine[0], color_scheme="dark")
    page = visit.page
    ground = "getComputedStyle(document.body).backgroundColor"
    button = page.locator("#theme")
    assert button.inner_text() == "Light"  # what a click gives, not what is there
    dark, dark_map = page.evaluate(ground), map_of(page)
    button.click()
    light, light_map = page.evaluate(ground), map_of(page)
    assert dark != light and dark_map != light_map and button.inner_text() == "Dark"
    button.click()
    page.emulate_media(media="print")
    assert page.evaluate(ground) == "rgb(255, 255, 255)"
    assert page.locator(".controls").first.is_hidden()
    visit.close()


def test_the_page_can_be_used_without_a_mouse_and_by_a_screen_reader(visit: Visit) -> None:
    page = visit.page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the report"
    tools = "[...document.querySelectorAll('button, input, select, canvas.raster, canvas.tree, svg.chart')]"
    named = "e.getAttribute('aria-label') || e.textContent.trim() || e.labels?.length"
    assert page.evaluate(f"{tools}.filter((e) => !({named})).map((e) => e.id)") == []
    headless = "[...document.querySelectorAll('table')].filter((t) => !t.caption || !t.querySelector('th[scope=col]'))"
    assert page.evaluate(f"{headless}.length") == 0
    levels = page.evaluate("[...document.querySelectorAll('h1, h2, h3')].map((e) => Number(e.tagName[1]))")
    assert levels[0] == 1 and levels.count(1) == 1 and max(np.diff(levels)) <= 1
    assert page.evaluate("new Set([...document.querySelectorAll('[id]')].map((e) => e.id)).size") == page.evaluate(
        "document.querySelectorAll('[id]').length"
    )


@pytest.mark.parametrize("width", [360, 1200])
def test_the_page_is_never_wider_than_the_screen(visit: Visit, width: int) -> None:
    visit.page.set_viewport_size({"width": width, "height": 800})
    visit.page.wait_for_timeout(100)
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= width


# How many words of the tiles are broken over two lines; numbers are grouped by spaces that do not break.
BROKEN = """[...document.querySelectorAll('.facts dt, .facts dd')].flatMap((cell) => {
  const texts = [...cell.childNodes].flatMap((node) => node.nodeType === 3 ? [node] : [...node.childNodes]);
  return texts.flatMap((text) => [...text.data.matchAll(/[^ ]+/g)].filter((word) => {
    const range = document.createRange();
    range.setStart(text, word.index);
    range.setEnd(text, word.index + word[0].length);
    return new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size > 1;
  }).map((word) => word[0]));
})"""


def test_tiles_break_between_words_only(browser: Any, wine: Any, tmp_path: Path) -> None:
    X = 1e-9 * wine[2].to_numpy()
    model = GaussianBiclustering(8, 9, shrinkage=0.1, random_state=0).fit(X)
    write_report(model, tmp_path / "a.html", X, labels=np.arange(len(X)) % 2)
    for path in (wine[0], tmp_path / "a.html"):
        visit = Visit(browser, path)
        for width in (320, 360, 560, 800, 1000, 1200):
            visit.page.set_viewport_size({"width": width, "height": 800})
            assert visit.page.evaluate(BROKEN) == []
            wider = "[...document.querySelectorAll('.facts > div')].filter((e) => e.scrollWidth > e.clientWidth)"
            assert visit.page.evaluate(f"{wider}.length") == 0
        visit.close()


def test_labels_of_a_chart_are_within_it(browser: Any, wine: Any, tmp_path: Path) -> None:
    _, model, _ = wine
    large = copy(model)
    large.log_likelihood_trace_ = np.array([-987_654_321.0, -887_654_321.0])
    write_report(large, tmp_path / "a.html")
    visit = Visit(browser, tmp_path / "a.html")
    labels = visit.page.locator("svg.chart text")
    assert "−987\u202f654\u202f321" in labels.all_text_contents()
    outside = """texts => texts.filter((text) => {
      const [box, view] = [text.getBBox(), text.ownerSVGElement.viewBox.baseVal];
      return box.x < 0 || box.x + box.width > view.width;
    }).map((text) => text.textContent)"""
    assert labels.evaluate_all(outside) == []
    visit.close()


def test_a_table_wider_than_the_screen_says_that_it_scrolls(visit: Visit) -> None:
    page = visit.page
    hint = "tables => tables.map((e) => getComputedStyle(e, '::before').content.includes('Scroll'))"
    wider = "tables => tables.map((e) => e.scrollWidth > e.clientWidth)"
    seen = set()
    for width in (360, 1200):
        page.set_viewport_size({"width": width, "height": 800})
        page.wait_for_timeout(100)
        tables = page.locator(".scroll")
        assert tables.evaluate_all(hint) == tables.evaluate_all(wider)
        seen |= set(tables.evaluate_all(wider))
    assert seen == {False, True}


def test_many_small_groups_are_folded(browser: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = np.repeat(rng.standard_normal((400, 150)), 2, axis=1) + 0.5 * rng.standard_normal((400, 300))
    model = BlockDiagonalCovariance(150).fit(X)
    write_report(model, tmp_path / "a.html", X)
    visit = Visit(browser, tmp_path / "a.html")
    shown = visit.page.locator("#component-0 .groups")
    assert shown.evaluate("e => e.offsetHeight") < 900
    assert "and 130 more groups of 2 columns" in shown.inner_text()
    assert same(visit.groups(0), as_sets(model.column_labels_, [f"x{j}" for j in range(300)]))
    visit.close()


def test_hostile_names_stay_text(browser: Any, tmp_path: Path) -> None:
    names = [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(2)>",
        "\"a'b&amp;",
        "</script><b>x",
        "plain",
        "%%DATA%%",
    ]
    rng = np.random.default_rng(0)
    X = np.repeat(rng.standard_normal((90, 3)), 2, axis=1) + 0.5 * rng.standard_normal((90, 6))
    X[:45] += 5
    frame = pd.DataFrame(X, columns=names, index=[f"<i>row {i}</i>" for i in range(90)])
    model = GaussianBiclustering(2, n_column_groups=3, random_state=0).fit(frame)
    write_report(model, tmp_path / "a.html", frame, title="<b>title</b>", labels=np.repeat(["<u>a", "b"], 45))
    visit = Visit(browser, tmp_path / "a.html")
    assert set().union(*visit.groups(0)) == set(names)
    visit.page.locator("#bicluster-table-search").fill("<script>")
    assert set(visit.page.locator("#bicluster-table mark").all_text_contents()) == {names[0]}
    assert visit.page.locator("h1").inner_text() == visit.page.title() == "<b>title</b>"
    visit.page.locator("#checkerboard canvas.raster").hover()
    assert "<i>row" in visit.page.locator("#tip").inner_text()
    assert visit.page.locator("main img, main script, h1 b, main i, main u").count() == 0
    visit.close()


def test_a_wide_table_opens_and_its_slider_works(browser: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = np.repeat(rng.standard_normal((600, 50)), 10, axis=1) + rng.standard_normal((600, 500))
    X[300:] += 3 * rng.standard_normal(500)
    model = GaussianBiclustering(2, 50, init=np.repeat([0, 1], 300), shrinkage=0.05).fit(X)
    write_report(model, tmp_path / "a.html", X)
    visit = Visit(browser, tmp_path / "a.html")
    names = [f"x{j}" for j in range(500)]
    R = observed_correlation(X, model.predict_proba(X)[:, 1])
    for K in (3, 120):
        visit.choose(1, K)
        assert same(visit.groups(1), as_sets(HierarchicalGrouping().group(R, K).partition.labels, names))
    canvas = visit.page.locator("#component-1 canvas.raster").nth(1)
    canvas.scroll_into_view_if_needed()
    canvas.hover()
    assert visit.page.locator("#tip div").first.inner_text().startswith("x")
    visit.close()


def test_reduced_maps_say_which_columns_a_pixel_is(
    browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blockmix.report.components.MOST_SIDE", 40)
    monkeypatch.setattr("blockmix.report.board.MOST_SIDE", 40)
    rng = np.random.default_rng(0)
    X = np.repeat(rng.standard_normal((300, 10)), 10, axis=1) + rng.standard_normal((300, 100))
    model = BlockDiagonalCovariance(10, grouping=GreedyGrouping()).fit(X)
    write_report(model, tmp_path / "a.html", X)
    visit = Visit(browser, tmp_path / "a.html")
    for place in ("#component-0 canvas.raster >> nth=0", "#checkerboard canvas.raster"):
        canvas = visit.page.locator(place)
        canvas.scroll_into_view_if_needed()
        canvas.hover()
        text = visit.page.locator("#tip").inner_text()
        assert "… x" in text and "mean" in text
    visit.choose(0, 4)
    assert visit.page.locator("#component-0").get_attribute("data-groups") == "4"
    visit.close()


def test_without_data_the_page_says_so(browser: Any, wine: Any, tmp_path: Path) -> None:
    _, model, X = wine
    write_report(model, tmp_path / "a.html")
    visit = Visit(browser, tmp_path / "a.html")
    assert "write_report(model, path, X)" in visit.page.locator("#without-rows").inner_text()
    assert visit.page.locator("#checkerboard").count() == 0
    assert visit.page.locator("#component-1 canvas.raster").count() == 1
    visit.choose(1, 1)  # fewer than fitted: estimated correlations do not show which groups are close
    assert visit.page.locator("#component-1").get_attribute("data-groups") == str(model.n_column_groups_[1])
    visit.choose(1, 13)
    assert same(visit.groups(1), [{name} for name in X.columns])
    visit.close()
