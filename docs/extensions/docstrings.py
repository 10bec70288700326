"""Docstrings as reStructuredText: they are written to be read as they are."""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx


def to_rst(app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Mark indented blocks after a blank line as code, and escape text that looks like markup."""
    marked: list[str] = []
    depth = None  # of the block that is being read
    for place, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        if depth is not None and line.strip() and indent < depth:
            depth = None
        before = next((text for text in reversed(marked) if text.strip()), "")
        if depth is None and place and line.strip() and not lines[place - 1].strip():
            shallow = len(before) - len(before.lstrip())
            if indent >= shallow + 4 and not before.lstrip().startswith(("- ", "* ", "1. ")):
                depth = indent
                marked += [" " * shallow + "::", ""]
        marked.append(line if depth is not None else _escape(line))
    if what in ("attribute", "property", "data") and marked:
        marked[:0] = ["..", ""]  # an empty comment: napoleon takes a first line with a colon for "type: text"
    lines[:] = marked


def _escape(line: str) -> str:
    """Escape text that reStructuredText takes for markup: (N, *shape), `RaggedArray`s."""
    line = re.sub(r"(?<=[(, \[])\*(?=[A-Za-z_]+[,)\]])", r"\\*", line)
    return re.sub(r"(`[\w.]+`)(?=[a-z])", r"\1\\ ", line)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("autodoc-process-docstring", to_rst, priority=400)  # before napoleon
    return {"parallel_read_safe": True}
