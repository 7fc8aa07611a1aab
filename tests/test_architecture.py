"""The tree of DESIGN §2, read from the sources: imports go one way, and each folder and file keeps its rules."""

from __future__ import annotations

import ast
from collections.abc import Iterator
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

# From the bottom up: a folder may import those listed before it, and of the outer world what it is allowed.
FOLDERS: dict[str, set[str]] = {
    "partition": set(),
    "blocks": set(),
    "rows": FILES,
    "grouping": set(),
    "em": set(),
    "starts": set(),
    "files": FILES,
    "plotting": DRAWING,
    "estimators": FILES | FRAMES | DRAWING | {"print"},
    "candidates": FRAMES | DRAWING,
    "selection": FILES | FRAMES | DRAWING | {"print"},
    "report": FILES | FRAMES,
    "anndata": FRAMES,
    "command": EVERYTHING,
    "__main__": set(),
}
LEVEL = {name: level for level, name in enumerate(FOLDERS)}
NAMELESS = {"utils", "helpers", "common", "misc"}
# Seeds are arguments: of numpy.random only what makes or names a generator.
GENERATORS = {"Generator", "RandomState", "SeedSequence", "default_rng"}
LEAST_LINES = 60
BY_NAME = {"rows.files"}  # packages of the extras
BESIDES = {"blocks.kernels": {"os", "pathlib"}}  # where compiled loops are stored (docs/adr/0024)
COMPILERS = {"njit", "jit", "vectorize", "compiled", "inlined"}  # of Numba, and ours


def module_name(path: Path) -> str:
    """Dotted name inside the package: grouping/greedy.py is grouping.greedy, its __init__.py is grouping."""
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {module_name(path): path.read_text(encoding="utf-8") for path in ROOT.rglob("*.py")}
MODULES = sorted(set(SOURCES) - {""})  # blockmix/__init__.py itself may import everything
PACKAGES = {module.rpartition(".")[0] for module in MODULES}


def imports(source: str) -> Iterator[str]:
    """Every module that the source imports, also inside functions and under TYPE_CHECKING."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: relative import"
            assert node.module is not None
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def package_imports(source: str) -> set[str]:
    """Modules of the package that the source imports, as dotted names inside the package; "" is the package itself."""
    modules = set()
    for name in imports(source):
        package, _, inside = name.partition(".")
        if package == "blockmix":
            while inside not in SOURCES and "." in inside:
                inside = inside.rpartition(".")[0]  # from blockmix.blocks.blocks import cholesky: blocks.blocks
            modules.add(inside)
    return modules


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


def definitions(module: str) -> set[str]:
    """Functions and classes of a module."""
    body = ast.parse(SOURCES[module]).body
    return {node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def code_lines(source: str) -> int:
    """Lines that are neither blank nor comments nor docstrings."""
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            docstrings |= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    lines = enumerate(source.splitlines(), start=1)
    return sum(bool(line.strip()) and not line.strip().startswith("#") and i not in docstrings for i, line in lines)


def violations(module: str, source: str) -> list[str]:
    """What the source of a module may not do in its folder."""
    folder = module.partition(".")[0]
    if folder not in FOLDERS:
        return [f"{module} is in {folder}, which is not a folder of the design"]
    found = []
    for other in sorted(package_imports(source)):
        above = other.partition(".")[0]
        # The package itself can hand out everything: importing it would be a way round all rules.
        if above == "":
            found += [f"{module} imports blockmix itself"] if LEVEL[folder] < LEVEL["report"] else []
        elif above not in LEVEL and LEVEL[folder] >= LEVEL["report"]:
            continue  # a public name
        elif LEVEL.get(above, len(FOLDERS)) > LEVEL[folder]:
            found.append(f"{module} imports {other}, a folder above it")
    if LEVEL[folder] < LEVEL["estimators"] and "import_module" in calls(source) and module not in BY_NAME:
        found.append(f"{module} imports by name")
    used = {name.partition(".")[0] for name in imports(source)} | calls(source)
    found += [
        f"{module} uses {name}" for name in sorted(used & (EVERYTHING - FOLDERS[folder] - BESIDES.get(module, set())))
    ]
    found += [f"{module} uses np.random.{name}" for name in sorted(global_randomness(source))]
    if COMPILERS & {name.rpartition(".")[2] for name in imports(source)} and not module.endswith("kernels"):
        found.append(f"{module} has compiled code outside of kernels")
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
    assert {"blocks.moments", "grouping.greedy", "em.loop", "selection"} <= set(MODULES)
    assert {"blocks.moments", "partition"} <= package_imports(SOURCES["grouping.greedy"])
    assert {"Partition", "bic_price"} <= definitions("partition")
    assert 80 < code_lines(SOURCES["partition"]) < SOURCES["partition"].count("\n")


def test_the_top_level_is_small() -> None:
    names = {path.name.removesuffix(".py") for path in ROOT.iterdir() if path.name != "__pycache__"}
    assert names - {"__init__", "py.typed"} == set(FOLDERS)


@pytest.mark.parametrize("module", MODULES)
def test_a_module_keeps_the_rules_of_its_folder(module: str) -> None:
    assert not NAMELESS & set(module.split(".")), f"{module}: a function without a home is a missing noun"
    assert violations(module, SOURCES[module]) == []


@pytest.mark.parametrize("module", sorted(set(MODULES) - PACKAGES - {"__main__"}))
def test_a_file_has_sixty_lines_of_code_and_names_that_no_other_file_of_its_folder_has(module: str) -> None:
    n_lines = code_lines(SOURCES[module])
    assert n_lines >= LEAST_LINES, f"{module} has {n_lines} lines of code"
    folder = module.rpartition(".")[0]
    beside = [other for other in MODULES if other.rpartition(".")[0] == folder and other != module]
    assert [(other, name) for other in beside for name in definitions(other) & definitions(module)] == []


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    # A package's __init__ collects its modules, and importing one of them runs it: it is no edge of its own.
    graph = {module: package_imports(SOURCES[module]) - PACKAGES - {module} for module in set(MODULES) - PACKAGES}
    assert cycle(graph) is None
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}}) is not None
    assert cycle({"a": {"b", "c"}, "b": {"c"}}) is None


@pytest.mark.parametrize(
    ("module", "source", "complaint"),
    [
        ("partition", "from blockmix import em", "partition imports em, a folder above it"),
        ("blocks.moments", "import blockmix.em.loop", "blocks.moments imports em.loop, a folder above it"),
        (
            "grouping.tree",
            "def f():\n    from blockmix.estimators.mixture import x",
            "grouping.tree imports estimators",
        ),
        ("blocks.blocks", "from blockmix import new_thing", "blocks.blocks imports new_thing, a folder above"),
        ("files.models", "import blockmix", "files.models imports blockmix itself"),
        ("em.loop", "import importlib\nimport_module('blockmix.command')", "em.loop imports by name"),
        ("partition", "import pandas as pd", "partition uses pandas"),
        ("em.loop", "from matplotlib import pyplot", "em.loop uses matplotlib"),
        ("em.loop", "from pathlib import Path", "em.loop uses pathlib"),
        ("grouping.greedy", "print(1)", "grouping.greedy uses print"),
        ("starts.default", "import numpy as np\nnp.random.seed(0)", "starts.default uses np.random.seed"),
        ("em.sweep", "from numba import njit", "em.sweep has compiled code outside of kernels"),
    ],
)
def test_a_breach_is_seen(module: str, source: str, complaint: str) -> None:
    assert [found for found in violations(module, source) if found.startswith(complaint)]


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("em.loop", "from blockmix.rows import rows\nfrom blockmix.grouping.greedy import GreedyGrouping"),
        ("rows.files", "from pathlib import Path"),
        ("estimators.mixture", "import pandas"),
        ("command.app", "import typer\nimport blockmix\nfrom blockmix import GaussianBiclustering\nprint(1)"),
        ("starts.default", "import numpy as np\nrng = np.random.default_rng(0)"),
        ("em.missing_kernels", "from numba import njit"),
    ],
)
def test_what_is_allowed_is_not_reported(module: str, source: str) -> None:
    assert violations(module, source) == []
