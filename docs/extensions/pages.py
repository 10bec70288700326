"""The pages of the site, sorted into parts by index.md.

Each second-level heading of index.md that has links to pages is a part of the sidebar, and its links are the
pages, in the same order. So the lists are also readable where no Sphinx runs.
"""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
_PAGE = re.compile(r"\]\(([\w-]+)\.md\)")
#: A link to a file of the repository that is no page: on the site it is plain text.
_OUTSIDE = re.compile(r"(?<!!)\[([^\]]+)\]\(\.\./[^)]+\)")
#: Generated pages, which no file links to: part -> pages.
GENERATED = {"Reference": ["api/index"]}


def parts(index: str) -> dict[str, list[str]]:
    """Return the pages under each heading of index.md, each page at its first mention."""
    _, *sections = _HEADING.split(index)
    found: dict[str, list[str]] = {}
    seen: set[str] = set()
    for title, text in zip(sections[::2], sections[1::2], strict=True):
        pages = [page for page in dict.fromkeys(_PAGE.findall(text)) if page not in seen]
        seen.update(pages)
        if pages or title in GENERATED:
            found[title] = [*GENERATED.get(title, []), *pages]
    return found


def _prepare(app: Sphinx, docname: str, source: list[str]) -> None:
    source[0] = _OUTSIDE.sub(r"\1", source[0])
    if docname == app.config.root_doc:
        for title, pages in parts(source[0]).items():
            source[0] += "\n".join(
                ["", "```{toctree}", ":hidden:", f":caption: {title}", "", *pages, "```", ""]
            )


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("source-read", _prepare)
    return {"parallel_read_safe": True}
