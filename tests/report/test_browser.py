"""The page in a real browser: it opens offline and quietly, and what it draws and lists is what Python says."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pandas as pd
import pytest
from browsing import Visit, needs_browser
from scipy.stats.contingency import association

from blockmix import BlockDiagonalCovariance, GaussianBiclustering
from blockmix.grouping import HierarchicalGrouping
from blockmix.plotting.views import component_view
from blockmix.report import write_report
from experiments.metrics import adjusted_rand

pytestmark = needs_browser


@pytest.fixture
def visit(browser: Any, wine: Any) -> Iterator[Visit]:
    opened = Visit(browser, wine.path)
    yield opened
    opened.close()


def as_sets(labels: np.ndarray, names: list[str]) -> list[list[str]]:
    return ordered([{names[j] for j in np.flatnonzero(labels == k)} for k in range(labels.max() + 1)])


def ordered(groups: list[set[str]]) -> list[list[str]]:
    return sorted(map(sorted, groups))


def number(text: str) -> float:
    return float(text.replace("−", "-"))


def map_of(page: Any, index: int = 0) -> str:
    return str(page.locator("#component-0 canvas.raster").nth(index).evaluate("canvas => canvas.toDataURL()"))


def corner(page: Any, canvas: Any) -> list[str]:
    """What the page says of the first row and the last column of a map."""
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] - 4, box["y"] + 4)
    lines: list[str] = page.locator("#tip div").all_text_contents()
    return lines


def test_the_slider_cuts_the_tree_as_python_does(visit: Visit, wine: Any) -> None:
    model, X = wine.model, wine.X
    names, weights = list(X.columns), model.predict_proba(X)
    for g in range(3):
        assert ordered(visit.groups(g)) == as_sets(model.column_labels_[g], names)
        R = component_view(model.blocks_[g], X.to_numpy(), weights[:, g], model).observed
        for K in range(1, 14):
            visit.choose(g, K)
            expected = HierarchicalGrouping().group(R, K).partition.labels
            assert ordered(visit.groups(g)) == as_sets(expected, names), (g, K)
    status = visit.page.locator("#component-2-status").inner_text()
    assert status.startswith("Tree cut into 13 groups; the largest has 1 column.")
    assert visit.page.locator("#live").inner_text().startswith("Cluster 3: Tree cut into 13 groups")
    assert visit.page.locator("#component-2 .words").count() == 0  # stability is that of the fitted groups
    visit.page.get_by_role("button", name="Back to the fitted groups").nth(2).click()
    assert ordered(visit.groups(2)) == as_sets(model.column_labels_[2], names)
    assert visit.page.locator("#component-2 .words").count() > 0


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


def test_hover_and_keys_show_names_and_values(visit: Visit, wine: Any) -> None:
    model, X, page = wine.model, wine.X, visit.page
    maps = page.locator("#component-0 canvas.raster")
    lines = corner(page, maps.first)
    i, j = (X.columns.get_loc(line.split(" · ")[0]) for line in lines[:2])
    R = component_view(model.blocks_[0], X.to_numpy(), model.predict_proba(X)[:, 0], model).observed
    assert lines[2].startswith("observed ") and number(lines[2].split()[1]) == pytest.approx(R[i, j], abs=0.0101)
    assert lines[3].startswith("estimated ")
    together = corner(page, maps.nth(2))[-1]
    assert int(together.split()[2]) == pytest.approx(100 * wine.stability.pairs[0, i, j], abs=1)
    page.mouse.move(5, 5)
    assert page.locator("#tip").is_hidden()
    maps.first.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    a, b, value = page.locator("#live").inner_text().split(", ")[:3]
    assert a.split(" · ")[0] in X.columns and "observed" in value
    assert a.split(" · ")[0] != b.split(" · ")[0] or value == "observed 1.00"


def test_zoom_by_wheel_keys_and_buttons(visit: Visit) -> None:
    page = visit.page
    canvas = page.locator("#component-0 canvas.raster").first
    canvas.scroll_into_view_if_needed()
    whole, other = map_of(page), map_of(page, 1)
    page.get_by_role("button", name="Zoom in (Cluster 1)").click()
    assert map_of(page) != whole and map_of(page, 1) != other  # both maps move together
    page.get_by_role("button", name="Show all (Cluster 1)").click()
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
    model, page = wine.model, visit.page
    rows = page.locator("#bicluster-table tbody tr")
    # One line for each group of several columns, and one for all columns alone of a component.
    sizes = [np.bincount(labels) for labels in model.column_labels_]
    lines = [int((size > 1).sum() + (size == 1).any()) for size in sizes]
    assert rows.count() == sum(lines)
    field = page.locator("#bicluster-table-search")
    field.fill("Alcohol")
    assert rows.count() == 3 and page.locator("#bicluster-table mark").all_text_contents() == ["alcohol"] * 3
    field.fill("bottle 177")
    assert rows.count() == lines[model.row_labels_[177]]
    assert set(page.locator("#bicluster-table mark").all_text_contents()) == {"bottle 177"}
    field.fill("nothing of the kind")
    assert rows.count() == 0 and page.locator("#bicluster-table-count").inner_text() == "0 biclusters"


def test_columns_that_move_are_listed(visit: Visit) -> None:
    page = visit.page
    rows = page.locator("#moves-table tbody tr")
    movers = rows.count()
    page.get_by_label("only columns that change group").uncheck()
    assert 0 < movers < rows.count() == 13
    assert page.locator("#moves-table tr.moves").count() == movers


def test_dark_and_light_differ_and_paper_is_light(browser: Any, wine: Any) -> None:
    visit = Visit(browser, wine.path, color_scheme="dark")
    page, ground = visit.page, "getComputedStyle(document.body).backgroundColor"
    button = page.locator("#theme")
    assert button.inner_text() == "Light"  # what a click gives, not what is there
    dark, dark_map = page.evaluate(ground), map_of(page)
    button.click()
    assert dark != page.evaluate(ground) and dark_map != map_of(page) and button.inner_text() == "Dark"
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
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert len(set(ids)) == len(ids)


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


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_the_screen(browser: Any, wine: Any, hostile: Any, scheme: str) -> None:
    for path in (wine.path, hostile.path):
        visit = Visit(browser, path, color_scheme=scheme)
        assert visit.fits(360) and visit.fits(1200)
        visit.close()


def test_large_numbers_fit_their_tiles_and_charts(browser: Any, wine: Any, tmp_path: Path) -> None:
    X = 1e-9 * wine.X.to_numpy()
    model = GaussianBiclustering(8, 9, shrinkage=0.1, random_state=0).fit(X)
    model.log_likelihood_trace_ = np.array([-987_654_321.0, -887_654_321.0])
    write_report(model, tmp_path / "a.html", X, traits={"known class": np.arange(len(X)) % 2}, stability=False)
    visit = Visit(browser, tmp_path / "a.html")
    assert "−987\u202f654\u202f321" in visit.page.locator("svg.chart text").all_text_contents()
    wider = "[...document.querySelectorAll('.facts > div')].filter((e) => e.scrollWidth > e.clientWidth)"
    for width in (320, 360, 560, 800, 1000, 1200):
        assert visit.fits(width)
        assert visit.page.evaluate(BROKEN) == [] and visit.page.evaluate(f"{wider}.length") == 0
    visit.close()


def test_a_table_wider_than_the_screen_says_that_it_scrolls(visit: Visit) -> None:
    page, scrolling = visit.page, set()
    hint = "tables => tables.map((e) => getComputedStyle(e, '::before').content.includes('Scroll'))"
    wider = "tables => tables.map((e) => e.scrollWidth > e.clientWidth)"
    for width in (360, 1200):
        page.set_viewport_size({"width": width, "height": 800})
        page.wait_for_timeout(100)
        tables = page.locator(".scroll")
        assert tables.evaluate_all(hint) == tables.evaluate_all(wider)
        scrolling |= set(tables.evaluate_all(wider))
    assert scrolling == {False, True}


def test_hostile_names_stay_text_in_every_section(browser: Any, hostile: Any) -> None:
    names = list(hostile.X.columns)
    visit = Visit(browser, hostile.path)
    page = visit.page
    assert set().union(*visit.groups(0)) == set(names)
    assert names[0] in page.locator("#answer-groups").inner_text()
    assert page.locator("h1").inner_text() == page.title() == "</title><b>title"
    page.locator("#checkerboard canvas.raster").hover()
    assert "row" in page.locator("#tip").inner_text()
    page.locator("canvas.scatter").focus()
    page.keyboard.press("ArrowRight")
    assert "<i>row" in page.locator("#tip").inner_text()
    files = visit.downloads()
    assert set(pd.read_csv(files[next(name for name in files if "differences" in name)])["column"]) == set(names)
    assert page.locator("main img, main script, h1 b, main i, main u, #tip i").count() == 0
    visit.close()


def test_many_small_groups_are_folded_and_reduced_maps_say_which_columns_a_pixel_is(
    browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blockmix.report.sections.MAX_SIDE", 40)
    rng = np.random.default_rng(0)
    X = np.repeat(rng.standard_normal((400, 150)), 2, axis=1) + 0.5 * rng.standard_normal((400, 300))
    model = BlockDiagonalCovariance(150).fit(X)
    write_report(model, tmp_path / "a.html", X)
    visit = Visit(browser, tmp_path / "a.html")
    groups = visit.page.locator("#component-0 .groups")
    assert groups.evaluate("e => e.offsetHeight") < 900
    assert "and 130 more groups of 2 columns" in groups.inner_text()
    assert ordered(visit.groups(0)) == as_sets(model.column_labels_, [f"x{j}" for j in range(300)])
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
    write_report(wine.model, tmp_path / "a.html")
    visit = Visit(browser, tmp_path / "a.html")
    assert "write_report(model, path, X)" in visit.page.locator("#without-rows").inner_text()
    assert visit.page.locator("#checkerboard").count() == 0
    assert visit.page.locator("#component-1 canvas.raster").count() == 1
    visit.choose(1, 1)  # fewer than fitted: estimated correlations do not show which groups are close
    assert visit.page.locator("#component-1").get_attribute("data-groups") == str(wine.model.n_column_groups_[1])
    visit.choose(1, 13)
    assert ordered(visit.groups(1)) == ordered([{name} for name in wine.X.columns])
    visit.close()


def test_the_columns_that_differ_most_come_first(visit: Visit, wine: Any) -> None:
    parts, tables = wine.data["differences"], visit.page.locator("#apart .bars")
    shown = [(g, columns) for g, marks in enumerate(parts["marks"]) for columns in marks if columns]
    assert tables.count() == len(shown)
    for i, (g, columns) in enumerate(shown):
        rows = tables.nth(i).locator("tbody tr")
        assert rows.locator(".name").all_text_contents() == list(wine.X.columns[columns])
        figures = [number(text) for text in rows.locator("td.figure:nth-child(3)").all_text_contents()]
        assert figures == pytest.approx(np.array(parts["columns"][g])[columns], abs=0.0501)
        assert rows.locator("b").all_text_contents() == [wine.X.columns[j] for j in columns if j in parts["singled"][g]]


def test_what_all_columns_share_has_maps_and_bars(browser: Any, shared_factor: Any, tmp_path: Path) -> None:
    model, X = shared_factor
    write_report(model, tmp_path / "a.html", X, stability=False)
    visit = Visit(browser, tmp_path / "a.html")
    titles = visit.page.locator("#component-0 figcaption").evaluate_all("all => all.map(one => one.firstChild.data)")
    assert titles == ["Tree of the columns", "Observed", "What all columns share", "What remains", "Estimated"]
    lines = corner(visit.page, visit.page.locator("canvas.raster").nth(2))
    observed, common, remaining, estimated = (number(line.split(" ")[-1]) for line in lines[-4:])
    assert common == estimated  # the first and the last column are in different groups
    assert observed != remaining and abs(remaining) < 0.1
    loadings = model.common_loadings_[0][:, 0] / np.sqrt(model.covariances_[0].diagonal())
    texts = visit.page.locator(".common td.figure").all_text_contents()
    assert [number(text) for text in texts] == pytest.approx(loadings[np.argsort(-abs(loadings))], abs=0.006)
    side = "spans => spans.map(span => Math.sign(parseFloat(span.style.left) + parseFloat(span.style.width) / 2 - 50))"
    bars = visit.page.locator(".common .signed-bar span").evaluate_all(side)
    assert bars == np.sign(loadings[np.argsort(-abs(loadings))]).tolist()
    assert all(visit.fits(width) for width in (400, 1400))
    visit.close()


def test_every_download_is_a_file_that_can_be_read(visit: Visit, wine: Any) -> None:
    model, X, files = wine.model, wine.X, visit.downloads()
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
    line = table.query("cluster == 'Cluster 2' and column == 'proline'").iloc[0]
    assert len(table) == 3 * 13
    assert line["mean"] == pytest.approx(model.means_[1, X.columns.get_loc("proline")], rel=1e-3)
    rows = pd.read_csv(files["wine-table-rows.csv"]).set_index("Row").loc[X.index]
    assert rows["Cluster"].tolist() == [f"Cluster {g + 1}" for g in model.row_labels_]
    assert rows["Probability"].to_numpy() == pytest.approx(model.predict_proba(X).max(axis=1), abs=1e-4)
    assert rows["Distance"].to_numpy() == pytest.approx(model.outlier_scores_, rel=1e-3)


def test_texts_of_a_csv_are_quoted_and_run_no_formula(visit: Visit) -> None:
    text = visit.page.evaluate('csv([["a,b", \'say "x"\', "=1+1", "-2", -2, null, "two\\nlines"]])')
    assert text == '"a,b","say ""x""",\'=1+1,\'-2,-2,,"two\nlines"\n'


def test_a_group_is_copied_with_and_without_a_clipboard(browser: Any, wine: Any) -> None:
    visit = Visit(browser, wine.path, permissions=["clipboard-read", "clipboard-write"])
    button = visit.page.get_by_role("button", name="Copy group 1").first
    button.click()
    expected = list(wine.X.columns[wine.model.column_labels_[0] == 0])
    assert visit.page.evaluate("navigator.clipboard.readText()").split("\n") == expected
    visit.page.evaluate("""() => {
      navigator.clipboard.writeText = () => Promise.reject(new Error('denied'));
      document.execCommand = (what) => { window.said = [what, document.activeElement.value]; };
    }""")
    visit.page.get_by_role("button", name="Copy group 1").nth(1).click()
    visit.page.wait_for_function("window.said")
    command, text = visit.page.evaluate("window.said")
    assert command == "copy" and len(text.split("\n")) == (wine.model.column_labels_[1] == 0).sum()
    visit.close()


def test_the_map_names_rows_by_pointer_and_keys_and_shows_classes(visit: Visit, wine: Any) -> None:
    page = visit.page
    canvas = page.locator("canvas.scatter")
    canvas.scroll_into_view_if_needed()
    canvas.focus()
    page.keyboard.press("ArrowRight")
    name, component, label = page.locator("#tip div").all_text_contents()
    z = wine.model.predict_proba(wine.X)[int(name.removeprefix("row bottle "))]
    assert component == f"Cluster {z.argmax() + 1}, probability {z.max():.3f}"
    assert label.startswith("known class: class_")
    box = canvas.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 2, box["y"] + 2)  # the name of the axis, where no row is
    assert page.locator("#tip").is_hidden()
    before = canvas.evaluate("canvas => canvas.toDataURL()")
    page.get_by_label("Colors show").select_option("known class")
    assert canvas.evaluate("canvas => canvas.toDataURL()") != before
    assert "class_2" in page.locator("#map .legend").inner_text()


def test_rows_are_sorted_by_certainty_or_distance(visit: Visit, wine: Any) -> None:
    model, page, names = wine.model, visit.page, wine.X.index
    first = page.locator("#row-table tbody th")
    least = np.argsort(model.predict_proba(wine.X).max(axis=1), kind="stable")
    assert first.all_text_contents()[:5] == list(names[least[:5]])
    page.get_by_label("Sorted").select_option("farthest first")
    assert first.all_text_contents()[:5] == list(names[np.argsort(-model.outlier_scores_)[:5]])
    assert page.locator("#row-table tbody tr").first.inner_text().count("far") == int(model.outliers_.any())
    page.locator("#row-table-search").fill("bottle 17")
    assert page.locator("#row-table tbody tr").count() == 9


def test_stability_is_told_in_words(visit: Visit, wine: Any) -> None:
    page, stability = visit.page, wine.stability
    words = page.locator(".groups .words").all_text_contents()
    assert words == [stability.words(group) for group in stability.groups]
    text = page.locator("#answer").inner_text() + page.locator("#components").inner_text()
    assert not set(text.lower().split()) & {"confidence", "significant"}
    assert not any("probab" in line for line in words)
    cells = page.locator("#made table").first.locator("tbody tr").first.locator("td").all_text_contents()
    chips = page.locator("#answer-groups .verdict").all_text_contents()
    assert chips == [group["verdict"] for group in wine.data["answer"]["groups"]][:6]
    assert number(cells[-3]) == pytest.approx(stability.clusters[0].stability, abs=0.0051)
    assert cells[-2] == stability.clusters[0].verdict


def test_missing_values_are_gray_and_listed(browser: Any, missing: Any) -> None:
    visit = Visit(browser, missing.path)
    page, X = visit.page, missing.X
    lines = page.locator("#missing-table tbody tr")
    assert lines.count() == 12
    share = X.isna().mean().sort_values(ascending=False)
    assert lines.first.locator("th").inner_text() == share.index[0]
    assert lines.first.locator("td").first.inner_text() == f"{100 * share.iloc[0]:.1f} %"
    page.locator("canvas.board").focus()
    words = set()
    for _ in range(40):
        page.keyboard.press("ArrowDown")
        words.add(page.locator("#tip div").nth(2).inner_text().split()[-1])
    assert words == {"missing", "deviations"}
    visit.close()


def test_a_name_is_everywhere_and_a_copy_of_the_page_keeps_it(browser: Any, wine: Any, tmp_path: Path) -> None:
    visit = Visit(browser, wine.path)
    page = visit.page
    page.get_by_role("button", name="Rename Cluster 2").click()
    page.keyboard.type("<b>Barolo")
    page.keyboard.press("Enter")
    assert (
        page.locator("[data-name='cluster 2']").all_text_contents()
        == ["<b>Barolo"] * page.locator("[data-name='cluster 2']").count()
    )
    assert "<b>Bar" in page.locator("#answer svg.mini").text_content()
    page.locator("canvas.scatter").focus()
    page.keyboard.press("ArrowRight")
    name, cluster = page.locator("#tip div").all_text_contents()[:2]
    g = wine.model.row_labels_[int(name.removeprefix("row bottle "))]
    assert cluster.split(",")[0] == ["Cluster 1", "<b>Barolo", "Cluster 3"][g]
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Save the page with them").click()
    copy = tmp_path / "copy.html"
    copy.write_bytes(waiting.value.path().read_bytes())
    visit.close()
    again = Visit(browser, copy)
    assert again.page.locator("#answer-clusters [data-name='cluster 2']").inner_text() == "<b>Barolo"
    assert again.page.locator("main b b").count() == 0
    with again.page.expect_download() as waiting:
        again.page.get_by_role("button", name="Download differences as csv").click()
    table = pd.read_csv(waiting.value.path())
    assert set(table["cluster"]) == {"Cluster 1", "<b>Barolo", "Cluster 3"}
    again.close()


def test_traits_are_strips_colors_and_shares(browser: Any, wine: Any, tmp_path: Path) -> None:
    traits = {"kind": wine.labels, "age": np.arange(178.0), "seen": np.datetime64("2024-01-01") + np.arange(178)}
    write_report(wine.model, tmp_path / "a.html", wine.X, traits=traits, stability=False)
    visit = Visit(browser, tmp_path / "a.html")
    page = visit.page
    lines = page.locator("#traits tbody tr")
    assert lines.count() == 3 + 1 + 1
    shares = pd.crosstab(wine.labels, wine.model.row_labels_, normalize="columns").to_numpy()
    for k in range(3):
        told = [text.strip() for text in lines.nth(k).locator("td").all_text_contents()[2:5]]
        assert [float(text.removesuffix(" %").replace("<1", "0") or 0) for text in told] == pytest.approx(
            100 * shares[k], abs=0.51
        )
    board = page.locator("canvas.board")
    board.focus()
    page.keyboard.press("ArrowDown")
    told = page.locator("#tip div").all_text_contents()
    row = int(told[1].split(" · ")[0].removeprefix("row bottle "))
    assert f"kind: {wine.labels[row]}" in told and any(text.startswith("seen: 2024-") for text in told)
    assert page.locator("#checkerboard .keys").inner_text().count("2024-") == 3
    effects = page.evaluate("TRAITS.map((trait) => ({ ...traitTable(trait) }))")
    labels, age = wine.model.row_labels_, np.arange(178.0)
    assert effects[0]["ari"] == pytest.approx(adjusted_rand(wine.labels, labels))
    assert effects[0]["effect"][1] == pytest.approx(association(pd.crosstab(wine.labels, labels), correction=False))
    means = np.array([age[labels == g].mean() for g in range(3)])
    assert effects[1]["means"] == pytest.approx(means)
    assert effects[1]["effect"][1] == pytest.approx(np.var(means[labels]) / np.var(age))
    visit.close()


def test_the_first_screen_holds_the_answer(visit: Visit, wine: Any) -> None:
    page = visit.page
    assert page.locator("#answer .head").first.inner_text() == wine.data["answer"]["head"]
    assert page.locator("#answer-clusters li").count() == 3
    bottom = page.locator("#answer .trust").evaluate("e => e.getBoundingClientRect().bottom")
    assert bottom < 900 and page.locator("#answer canvas.mini, #answer svg.mini").count() == 2
    order = page.locator("main > section").evaluate_all("sections => sections.map((s) => s.id)")
    assert order[0] == "answer" and order[-1] == "made" and order.index("apart") < order.index("map")


def test_groups_that_all_clusters_share_are_shown_once(browser: Any, wine: Any, tmp_path: Path) -> None:
    model = GaussianBiclustering(3, 4, shared_covariance=True, random_state=0).fit(wine.X)
    write_report(model, tmp_path / "a.html", wine.X, stability=False)
    visit = Visit(browser, tmp_path / "a.html")
    assert visit.page.locator("#biclusters, #moves").count() == 0
    assert visit.page.locator("#answer-groups li").count() == (np.bincount(model.column_labels_[0]) > 1).sum()
    assert visit.page.locator(".component").count() == 1
    visit.close()
