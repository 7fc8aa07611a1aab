"""Sphinx configuration of the site: `make docs` builds it into docs/_build/html."""

from __future__ import annotations

import os
import re
import warnings
from importlib.metadata import version as installed
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # small matrices: more threads only wait for each other

import matplotlib

matplotlib.use("Agg")

project = "blockmix"
author = "The blockmix developers"
copyright = "The blockmix developers, BSD-3-Clause"
release = version = installed("blockmix")

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "**/sg_execution_times.rst", "gallery/**/*.ipynb"]
templates_path = ["_templates"]
nitpicky = False

# Pages are Markdown that also reads well in the repository, so headings get the anchors that a forge gives them.
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"  # the docstrings name the types in words
autodoc_member_order = "groupwise"
numpydoc_show_class_members = False  # the template lists them

toc_object_entries_show_parents = "hide"  # the name of the class leaves no room for that of the method

html_theme = "pydata_sphinx_theme"
html_title = "blockmix"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_search_summary = False  # summaries are fetched, which browsers refuse from a folder
html_sidebars: dict[str, list[str]] = {
    name: [] for name in ("index", "start", "compare", "genes", "survey", "reviews", "trust")
}
html_theme_options: dict[str, Any] = {
    "navbar_align": "left",
    "header_links_before_dropdown": 5,
    "show_prev_next": False,
    "secondary_sidebar_items": {"**": ["page-toc"], "index": [], "gallery/index": []},
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}

sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "thumbnail_size": (640, 448),
    "download_all_examples": False,
    "show_signature": False,
    "show_memory": False,
    "write_computation_times": False,  # they are of the machine that built the site
    "remove_config_comments": True,
    "abort_on_example_error": True,
    "doc_module": ("blockmix",),
    "backreferences_dir": "gallery/backreferences",
    "inspect_global_variables": True,
    "reset_modules": ("matplotlib",),
    "capture_repr": ("_repr_html_",),
    "copyfile_regex": r".*\.csv",
}

# A gallery script that warns is a defect, as in the tests.
warnings.filterwarnings("error", module="blockmix")


def _escape_bars(app: Any, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Keep |x| as mathematics: reStructuredText takes bars for a substitution."""
    for i, line in enumerate(lines):
        line = re.sub(r":ref:`([^<`]+) <\w+>`", r"\1", line)  # scikit-learn's labels, in methods that it defines
        lines[i] = line
        if ">>>" not in line:
            parts = line.split("``")  # every other part is code
            lines[i] = "``".join(part if j % 2 else part.replace("|", r"\|") for j, part in enumerate(parts))


# What people search for, and the page that answers it first: entries of the index outrank other results.
ANSWERS = {
    "survey": ["survey", "questionnaire", "likert", "psychometrics"],
    "guide/profiles": ["latent profile", "latent profiles", "latent class"],
    "genes": ["genes", "cells"],
    "guide/modules": ["module", "modules", "eigengene"],
    "reviews": ["reviews", "texts"],
    "guide/missing": ["missing", "missing values", "NaN", "FIML"],
    "guide/outliers": ["outlier", "outliers"],
}
# Pages of developers, which nobody should find who searches for a task.
UNSEARCHED = (
    "adr/",
    "architecture",
    "changes",
    "contributing",
    "decisions",
    "departures",
    "paper",
    "release",
    "reproduction",
)


def _enter_answers(app: Any, page: str, source: list[str]) -> None:
    entries = ANSWERS.get(page)
    if entries:
        source[0] = f"```{{index}} {', '.join(entries)}\n```\n\n{source[0]}"


def _hide(app: Any, env: Any) -> None:
    for page, metadata in env.metadata.items():
        if page.startswith(UNSEARCHED):
            metadata["no-search"] = ""


def setup(app: Any) -> None:
    """Connect before numpydoc, which reads the same lines."""
    app.connect("autodoc-process-docstring", _escape_bars, priority=400)
    app.connect("source-read", _enter_answers)
    app.connect("env-updated", _hide)
