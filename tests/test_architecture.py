"""The folders of docs/architecture.md, read from the imports: one rule per folder, and nothing imports upwards."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import blockmix

ROOT = Path(blockmix.__file__).parent

FILES = {"os", "pathlib", "open"}
FRAMES = {"pandas", "polars"}
SCREEN = {"print", "input", "rich", "typer", "logging"}
DRAWING = {"matplotlib"}
EVERYTHING = FILES | FRAMES | SCREEN | DRAWING


@dataclass(frozen=True)
class Folder:
    """A folder may import those listed before it, and nothing of the outer world but what it is allowed."""

    name: str
    allowed: set[str] = field(default_factory=set)


# From the bottom up, as in docs/architecture.md.
FOLDERS = [
    Folder("structure"),
    Folder("rows", FILES),
    Folder("grouping"),
    Folder("em"),
    Folder("metrics"),
    Folder("persistence", FILES),
    Folder("plotting", DRAWING),
    Folder("estimators", FILES | FRAMES | DRAWING | {"print"}),
    Folder("selection", FILES | FRAMES | DRAWING | {"print"}),
    Folder("datasets"),
    Folder("report", FILES | FRAMES),
    Folder("anndata", FRAMES),
    Folder("cli", EVERYTHING),
    Folder("__main__"),
]
LEVEL = {folder.name: level for level, folder in enumerate(FOLDERS)}
ALLOWED = {folder.name: folder.allowed for folder in FOLDERS}
NAMELESS = {"utils", "helpers", "common", "misc"}
# Seeds are arguments: of numpy.random only what makes or names a generator.
GENERATORS = {"Generator", "RandomState", "SeedSequence", "default_rng"}


def module_name(path: Path) -> str:
    """Dotted name inside the package: grouping/auto.py is grouping.auto, its __init__.py is grouping."""
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {module_name(path): path.read_text(encoding="utf-8") for path in ROOT.rglob("*.py")}
MODULES = sorted(set(SOURCES) - {""})  # blockmix/__init__.py itself may import everything


def imports(source: str) -> Iterator[str]:
    """Every module that the source imports, also inside functions and under TYPE_CHECKING."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: relative import"
            assert node.module is not None
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def own_imports(source: str) -> set[str]:
    """Modules of the package that the source imports, as dotted names inside the package; "" is the package itself."""
    found = set()
    for name in imports(source):
        package, _, inside = name.partition(".")
        if package == "blockmix":
            while inside not in SOURCES and "." in inside:
                inside = inside.rpartition(".")[0]  # from blockmix.structure.blocks import cholesky: structure.blocks
            found.add(inside)
    return found


def calls(source: str) -> set[str]:
    nodes = ast.walk(ast.parse(source))
    return {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}


def global_randomness(source: str) -> set[str]:
    return {
        node.attr
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Attribute)
        and ast.unparse(node.value) in ("np.random", "numpy.random")
        and node.attr not in GENERATORS
    }


def violations(module: str, source: str) -> list[str]:
    """What the source of a module may not do in its folder."""
    folder = module.partition(".")[0]
    found = []
    for other in sorted(own_imports(source)):
        above = other.partition(".")[0]
        # The package itself can hand out everything: importing it would be a way round all rules.
        if above == "":
            found += [f"{module} imports blockmix itself"] if LEVEL[folder] < LEVEL["report"] else []
        elif LEVEL.get(above, len(FOLDERS)) > LEVEL[folder]:
            found.append(f"{module} imports {other}, a folder above it")
    if LEVEL[folder] < LEVEL["estimators"] and "import_module" in calls(source) and module != "structure.extras":
        found.append(f"{module} imports by name")
    used = {name.partition(".")[0] for name in imports(source)} | calls(source)
    found += [f"{module} uses {name}" for name in sorted(used & (EVERYTHING - ALLOWED[folder]))]
    found += [f"{module} uses np.random.{name}" for name in sorted(global_randomness(source))]
    return found


def cycle(graph: dict[str, set[str]]) -> list[str] | None:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        path: list[str] = error.args[1]
        return path
    return None


def test_the_package_was_read() -> None:
    # Red if the sources are looked for in the wrong place: every other test here would pass on nothing.
    assert {"structure.moments", "grouping.auto", "em.loop", "datasets"} <= set(MODULES)
    assert {"structure.moments", "structure.partition"} <= own_imports(SOURCES["grouping.hierarchical"])


def test_the_top_level_is_small() -> None:
    names = {path.name for path in ROOT.iterdir() if path.name != "__pycache__"}
    assert len(names) <= 16, sorted(names)
    assert {name.removesuffix(".py") for name in names} - {"__init__", "py.typed"} == set(LEVEL)


@pytest.mark.parametrize("module", MODULES)
def test_a_module_keeps_the_rule_of_its_folder(module: str) -> None:
    assert not NAMELESS & set(module.split(".")), f"{module}: a function without a home is a missing noun"
    assert violations(module, SOURCES[module]) == []


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    # A package's __init__ collects its modules, and importing one of them runs it: it is no edge of its own.
    packages = {name for module in MODULES for name in [module.rpartition(".")[0]]} | {""}
    graph = {module: own_imports(SOURCES[module]) - packages - {module} for module in set(MODULES) - packages}
    assert cycle(graph) is None


@pytest.mark.parametrize(
    ("module", "source", "complaint"),
    [
        ("structure.partition", "from blockmix import em", "structure.partition imports em, a folder above it"),
        ("structure.moments", "import blockmix.em.loop", "structure.moments imports em.loop, a folder above it"),
        ("grouping.auto", "def f():\n    from blockmix.estimators.base import x", "grouping.auto imports estimators"),
        ("rows.array", "from blockmix.grouping import Rule", "rows.array imports grouping, a folder above it"),
        ("structure.blocks", "from blockmix import new_thing", "structure.blocks imports new_thing, a folder above"),
        ("persistence.model_file", "import blockmix", "persistence.model_file imports blockmix itself"),
        ("em.loop", "import importlib\nimport_module('blockmix.cli')", "em.loop imports by name"),
        ("structure.objective", "import pandas as pd", "structure.objective uses pandas"),
        ("em.loop", "from matplotlib import pyplot", "em.loop uses matplotlib"),
        ("em.loop", "from pathlib import Path", "em.loop uses pathlib"),
        ("grouping.greedy", "print(1)", "grouping.greedy uses print"),
        ("em.starts.names", "import numpy as np\nnp.random.seed(0)", "em.starts.names uses np.random.seed"),
    ],
)
def test_a_breach_is_seen(module: str, source: str, complaint: str) -> None:
    assert [found for found in violations(module, source) if found.startswith(complaint)]


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("em.loop", "from blockmix.rows import chunks\nfrom blockmix.grouping.auto import AutoRule"),
        ("rows.npy", "from pathlib import Path"),
        ("estimators.base", "import pandas"),
        ("cli.app", "import typer\nimport blockmix\nprint(1)"),
        ("em.starts.names", "import numpy as np\nrng = np.random.default_rng(0)"),
    ],
)
def test_what_is_allowed_is_not_reported(module: str, source: str) -> None:
    assert violations(module, source) == []


def test_a_circle_is_seen() -> None:
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}}) is not None
    assert cycle({"a": {"b", "c"}, "b": {"c"}}) is None
