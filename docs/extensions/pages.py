"""The pages of the site, sorted into four parts by index.md.

The parts of the sidebar are second-level headings of index.md, and the links under them are their pages, in
the same order. So the lists are also readable where no Sphinx runs. Links under other headings don't count.
"""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
_PAGE = re.compile(r"\]\(([\w-]+)\.md\)")
#: A link to a file of the repository that is no page: on the site it is plain text.
_OUTSIDE = re.compile(r"(?<!!)\[([^\]]+)\]\(\.\./[^)]+\)")
#: The headings that are parts; a page that none of them links to fails the build.
PARTS = ("Tutorials", "How-to guides", "Explanations", "Reference")
#: Generated pages, which no file links to: part -> pages.
GENERATED = {"Reference": ["api/index"]}


def parts(index: str) -> dict[str, list[str]]:
    """Return the pages of each of `PARTS` from the text of index.md, each page at its first mention."""
    _, *sections = _HEADING.split(index)
    texts = dict(zip(sections[::2], sections[1::2], strict=True))
    found: dict[str, list[str]] = {}
    seen: set[str] = set()
    for title in PARTS:
        pages = [page for page in dict.fromkeys(_PAGE.findall(texts[title])) if page not in seen]
        seen.update(pages)
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
