"""The layers of DESIGN.md, read from the imports: a module knows only its own layer and the ones below it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import blockmix

ROOT = Path(blockmix.__file__).parent

# From the bottom up. A name stands for a module or a whole subpackage; it may be here before its file is.
LAYERS: list[set[str]] = [
    {"_types", "extras"},
    {"moments", "partition", "blocks"},
    {"objective"},
    {"grouping"},
    {
        "rows",
        "convergence",
        "starts",
        "parameters",
        "density",
        "em",
        "pooled",
        "ascent",
        "race",
        "annealing",
        "modes",
        "factor_em",
        "factor_steps",
        "factor_ascent",
        "factor_signs",
    },
    {
        "columns",
        "files",
        "checkpoint",
        "inputs",
        "packing",
        "storage",
        "views",
        "plotting",
        "figures",
        "covariance",
        "mixture",
        "raced",
        "biclustering",
        "factor",
    },
    {"trials", "selection", "metrics", "terms", "importance", "topics", "datasets"},
    {"report", "anndata", "tables"},
    {"cli", "__main__"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
ESTIMATORS = LEVEL["covariance"]

# Below the estimators nobody knows data frames, figures, the command line or files. rows.py is where rows come from.
OUTER_WORLD = {"pandas", "polars", "matplotlib", "plotly", "rich", "typer", "os", "pathlib", "logging", "random"}
ALLOWED = {"rows": {"os", "pathlib", "open"}}
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
    """Modules of the package that the source imports, as dotted names inside the package."""
    found = set()
    for name in imports(source):
        package, _, inside = name.partition(".")
        if package == "blockmix" and inside:
            while inside not in SOURCES and "." in inside:
                inside = inside.rpartition(".")[0]  # from blockmix.blocks import cholesky: the module is blocks
            found.add(inside)
    return found


def violations(module: str, source: str) -> list[str]:
    """What the source of a module may not do in its layer."""
    top = module.partition(".")[0]
    found = [
        f"{module} imports {other}, a layer above it"
        for other in sorted(own_imports(source))
        if LEVEL.get(other.partition(".")[0], len(LAYERS)) > LEVEL[top]
    ]
    if LEVEL[top] < ESTIMATORS:
        packages = {name.partition(".")[0] for name in imports(source)}
        found += [f"{module} imports {name}" for name in sorted(packages & (OUTER_WORLD - ALLOWED.get(top, set())))]
        spoken = {"print", "open", "input"} - ALLOWED.get(top, set())
        found += [f"{module} calls {name}" for name in sorted(calls(source) & spoken)]
    found += [f"{module} uses np.random.{name}" for name in sorted(global_randomness(source))]
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


def cycle(graph: dict[str, set[str]]) -> list[str] | None:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        path: list[str] = error.args[1]
        return path
    return None


def test_the_package_was_read() -> None:
    # Red if the sources are looked for in the wrong place: every other test here would pass on nothing.
    assert {"moments", "objective", "grouping.auto", "covariance", "datasets.simulated"} <= set(MODULES)
    assert {"moments", "partition"} <= own_imports(SOURCES["grouping.hierarchical"])


@pytest.mark.parametrize("module", MODULES)
def test_every_module_has_its_layer(module: str) -> None:
    assert module.partition(".")[0] in LEVEL, f"{module} has no place in the table of layers"
    assert not NAMELESS & set(module.split(".")), f"{module}: a function without a home is a missing noun"


@pytest.mark.parametrize("module", MODULES)
def test_imports_go_down(module: str) -> None:
    assert violations(module, SOURCES[module]) == []


def test_modules_of_a_layer_do_not_import_each_other_in_a_circle() -> None:
    # A package's __init__ collects its modules, and importing one of them runs it: it is no edge of its own.
    graph = {module: own_imports(SOURCES[module]) - {module, module.partition(".")[0]} for module in MODULES}
    packages = {module.rpartition(".")[0] for module in MODULES}
    assert cycle({module: found for module, found in graph.items() if module not in packages}) is None


@pytest.mark.parametrize(
    ("module", "source", "complaint"),
    [
        ("partition", "from blockmix import em", "partition imports em, a layer above it"),
        ("moments", "import blockmix.objective", "moments imports objective, a layer above it"),
        ("grouping.auto", "def f():\n    from blockmix.covariance import x", "grouping.auto imports covariance"),
        ("covariance", "from blockmix.metrics import ari", "covariance imports metrics, a layer above it"),
        ("blocks", "from blockmix import new_thing", "blocks imports new_thing, a layer above it"),
        ("objective", "import pandas as pd", "objective imports pandas"),
        ("em", "from matplotlib import pyplot", "em imports matplotlib"),
        ("em", "from pathlib import Path", "em imports pathlib"),
        ("grouping.greedy", "print(1)", "grouping.greedy calls print"),
        ("starts", "import numpy as np\nnp.random.seed(0)", "starts uses np.random.seed"),
    ],
)
def test_a_breach_is_seen(module: str, source: str, complaint: str) -> None:
    assert [found for found in violations(module, source) if found.startswith(complaint)]


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("em", "from blockmix.rows import chunks\nfrom blockmix.grouping.auto import AutoRule"),
        ("rows", "from pathlib import Path"),
        ("covariance", "import pandas"),
        ("cli", "import typer\nfrom blockmix import plotting\nprint(1)"),
        ("starts", "import numpy as np\nrng = np.random.default_rng(0)"),
    ],
)
def test_what_is_allowed_is_not_reported(module: str, source: str) -> None:
    assert violations(module, source) == []


def test_a_circle_is_seen() -> None:
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}}) is not None
    assert cycle({"a": {"b", "c"}, "b": {"c"}}) is None
