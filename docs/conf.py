"""The documentation site: `make docs`."""

import os
import warnings

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ["OUTTREES_COMPILE_QUIETLY"] = "1"

import matplotlib

matplotlib.use("Agg")

import outtrees

project = "outtrees"
author = "the outtrees contributors"
copyright = f"2026, {author}"
release = version = outtrees.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "sphinx_design",
    "sphinx_copybutton",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
templates_path = ["_templates"]
exclude_patterns = ["_build", "_templates", "tutorials/sg_execution_times.rst"]
default_role = "literal"  # `name` in a docstring is code
suppress_warnings = ["config.cache"]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"  # docstrings say what is taken
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False


def tutorial_order(file):
    """Return the place of a tutorial in the gallery."""
    names = ["outbreak", "cells", "manuscripts", "densities_labels_gaps", "own_kind", "upgrade"]
    return names.index(file.removesuffix(".py"))


sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "tutorials",
    "filename_pattern": r"\.py$",
    "within_subsection_order": tutorial_order,
    "download_all_examples": False,
    "show_memory": False,
    "write_computation_times": False,
    "remove_config_comments": True,
    "abort_on_example_error": True,
    "image_scrapers": ("matplotlib",),
    "capture_repr": ("_repr_html_",),
    "matplotlib_animations": False,
}
warnings.filterwarnings("ignore", message=".*is non-interactive, and thus cannot be shown")

html_theme = "pydata_sphinx_theme"
html_title = "outtrees"
html_static_path = ["_static"]
html_css_files = ["outtrees.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navbar_align": "left",
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "navigation_with_keys": False,
    "header_links_before_dropdown": 7,
    "footer_start": ["copyright"],
    "footer_end": [],
    "back_to_top_button": True,
}
html_sidebars = {page: [] for page in ("index", "start", "how-it-works", "paper", "paper-errata")}


def whole_numbers(app, name, source):
    """Keep a number and its error on one line of a table."""
    lines = source[0].split("\n")
    source[0] = "\n".join(
        line.replace(" ± ", "\u00a0±\u00a0") if line.startswith("|") else line for line in lines
    )


def page_style(app, name, template, context, doctree):
    """Give wide tables their own style."""
    if name in ("paper", "paper-errata"):
        app.add_css_file("paper.css")


def setup(app):
    """Called by Sphinx."""
    app.connect("source-read", whole_numbers)
    app.connect("html-page-context", page_style)
