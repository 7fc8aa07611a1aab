"""The documentation: its Python runs, its links lead somewhere, its API reference has every public name."""

from __future__ import annotations

import importlib
import pkgutil
import re
import shlex
import warnings
from pathlib import Path
from shutil import copy
from typing import Any

import commands
import numpy as np
import pytest
import scipy.sparse
from optional import package
from sklearn.datasets import load_wine
from test_architecture import FOLDERS

import blockmix

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md")), *sorted(ROOT.glob("docs/*/*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
WITH_CODE = [page for page in PAGES if BLOCK.search(page.read_text(encoding="utf-8"))]
MODULES = [
    "blockmix",
    *(f"blockmix.{name}" for name in ("grouping", "rows", "plotting", "report")),
]


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the pages take as given: tables, files, and classes of the gallery."""
    pd, dask = package("pandas"), package("dask")
    package("dask.dataframe")
    package("matplotlib").use("Agg")
    monkeypatch.chdir(tmp_path)
    X, labels = load_wine(as_frame=True, return_X_y=True)
    rng = np.random.default_rng(0)
    words = np.array([f"word{chr(97 + a)}{chr(97 + b)}" for a in range(6) for b in range(6)])
    np.save("rows.npy", X.to_numpy())
    X.to_csv("rows.csv", index=False)
    for table in (ROOT / "examples" / "tables").glob("*.csv"):
        copy(table, table.name)
    Path("trips").mkdir()
    trips = pd.DataFrame(rng.standard_normal((300, 3)), columns=["distance", "fare", "tip"])
    trips.assign(tip=trips["fare"] + rng.standard_normal(300)).to_parquet("trips/0.parquet")
    names: dict[str, Any] = {"np": np, "pd": pd, "scipy": scipy, "dask": dask}
    for script in ("plot_own_grouping.py", "plot_own_block.py"):
        exec((ROOT / "examples" / "gallery" / "6_inside" / script).read_text(encoding="utf-8"), names)
    return names | {
        "X": X,
        "X_new": X[:20],
        "cultivar": labels,
        "X_wide": rng.standard_normal((40, 60)) + 3 * (np.arange(40)[:, None] < 20),
        "reviews": [" ".join(rng.choice(words, 8)) for _ in range(200)],
        "ratings": rng.integers(1, 6, 200),
        "model": blockmix.GaussianBiclustering(3, random_state=0).fit(X),
    }


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_python_on_a_page_runs(page: Path, given: dict[str, Any]) -> None:
    # Red if a page shows a name, a parameter or a call that is not there.
    import matplotlib.pyplot as plt

    for code in BLOCK.findall(page.read_text(encoding="utf-8")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # small stand-in tables may have few groups or topics
            exec(compile(code, str(page), "exec"), given)
    plt.close("all")


COMMANDS = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
PATHS = ("genes", "survey", "reviews")


@pytest.mark.parametrize("name", PATHS)
def test_commands_of_a_path_run(name: str, given: dict[str, Any]) -> None:
    # Red if a path shows an option, a file or a message that is not there.
    page = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    printed = ""
    for line in "".join(COMMANDS.findall(page)).splitlines():
        if line.startswith("blockmix "):
            done = commands.run(*shlex.split(line)[1:])
            printed += done.stdout + done.stderr
    for block in re.findall(r"^```text\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            assert line.partition("…")[0] in printed, line
    assert len(page.split()) <= 600


def test_the_guide_stays_short() -> None:
    # Red if the pages that a user reads have more than 14 000 words.
    of_developers = {"architecture", "changes", "contributing", "decisions", "departures", "develop", "paper"}
    of_developers |= {"paper_map", "release", "reproduction"}
    pages = [page for page in PAGES if page.stem not in of_developers and page.parent.name != "adr"]
    assert sum(len(page.read_text(encoding="utf-8").split()) for page in pages) <= 14_000


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_of_a_page_lead_to_files(page: Path) -> None:
    # The pages are read in the repository too, not only on the site.
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s#]+)[^)]*\)", text):
        made_by_the_build = target.startswith(("gallery/", "../gallery/")) or target == "api/index"
        assert target.startswith("http") or made_by_the_build or (page.parent / target).exists(), target


def test_the_table_of_folders_is_the_package() -> None:
    # Red if a file or folder is added, renamed or removed and the architecture is not, or if their order differs.
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").partition("## The folders")[2]
    rows = re.findall(r"^\| `(\w+)` \|.*\|(.*)\|$", page.partition("\n## ")[0], re.MULTILINE)
    assert [folder for folder, _ in rows] == [folder for folder in FOLDERS if folder != "__main__"]
    package = ROOT / "src" / "blockmix"
    for folder, cell in rows:
        assert set(re.findall(r"\w+", cell)) == {path.stem for path in (package / folder).glob("[!_]*.py")}, folder


def test_names_of_the_paper_map_are_there() -> None:
    # Red if a module, class or function of the map is renamed.
    text = (ROOT / "docs" / "paper_map.md").read_text(encoding="utf-8")
    names = [name for name in re.findall(r"`((?:\w+\.)+\w+)[`(]", text) if name.partition(".")[0] in FOLDERS]
    assert len(names) > 20
    for name in names:
        pkgutil.resolve_name(f"blockmix.{name}")


def test_every_public_name_is_in_the_api_reference() -> None:
    # Red if a name is added to __all__ and not to docs/api/index.rst; what two modules export is listed once.
    listed: set[str] = set()
    module = ""
    for line in (ROOT / "docs" / "api" / "index.rst").read_text(encoding="utf-8").splitlines():
        if line.startswith(".. currentmodule::"):
            module = line.split()[-1]
        elif re.fullmatch(r" {3}[A-Za-z_]\w*", line):
            listed.add(f"{module}.{line.strip()}")
    public = {
        f"{name}.{member}": getattr(importlib.import_module(name), member)
        for name in MODULES
        for member in importlib.import_module(name).__all__
    }
    assert listed - public.keys() == {"blockmix.anndata.fit"}
    shown = [public[name] for name in listed & public.keys()]
    assert [name for name, value in public.items() if callable(value) and value not in shown] == []


def test_the_shape_of_the_tutorial_keeps_the_laws_of_a_shape() -> None:
    # Red if the tutorial's fit is not the minimum it states, or its deviances are lower than its fit can reach.
    names: dict[str, Any] = {}
    exec((ROOT / "examples" / "gallery" / "6_inside" / "plot_own_block.py").read_text(encoding="utf-8"), names)
    rng = np.random.default_rng(1)
    S = np.cov(rng.standard_normal((30, 5)) @ rng.standard_normal((5, 5)), rowvar=False)
    block = names["HubBlock"]()
    fitted = block.fit(S)
    deviance = np.linalg.slogdet(fitted.covariance)[1] + np.trace(np.linalg.solve(fitted.covariance, S))
    assert np.isclose(fitted.deviance, deviance)
    units = np.array([1.0, 10.0, 0.1, 3.0, 7.0])
    assert np.allclose(block.fit(S * np.outer(units, units)).covariance, fitted.covariance * np.outer(units, units))
    deviations = np.sqrt(np.diagonal(S))
    R = S / np.outer(deviations, deviations)
    node = block.deviances(R, np.empty((0, 4)), np.array([[0, 5]]), np.inf)[0]
    assert np.isclose(node, block.fit(R).deviance)
    assert (np.diff(names["model"].log_likelihood_trace_) >= -1e-9).all()
