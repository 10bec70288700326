"""Configuration of the documentation site: `make docs` builds it in docs/_build/html."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "extensions"))

import entitize  # noqa: E402

project = "Entitize"
author = "The Entitize authors"
copyright = author
version = release = entitize.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "myst_parser",
    # Ours, in docs/extensions.
    "pages",
    "reference",
    "docstrings",
    "links",
]
exclude_patterns = ["_build", "extensions"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}

myst_enable_extensions = ["amsmath", "dollarmath"]
myst_heading_anchors = 4  # pages link to each other's headings, as GitHub does

# Docstrings write code between single backticks: a public name there becomes a link.
default_role = "py:obj"
add_module_names = False
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
# Packages without a build for this version of Python.
autodoc_mock_imports = [
    name for name in ("entity_gym", "ragged_buffer") if importlib.util.find_spec(name) is None
]

html_theme = "furo"
html_title = f"Entitize {version}"
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/icon.svg"
