"""Inline code that is a public name, such as `ez.PPO`, becomes a link to the reference."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

_NAME = re.compile(r"(?:ez|entitize)\.([A-Za-z_][\w.]*)(?:\(.*\))?", re.DOTALL)


class LinkNames(SphinxPostTransform):
    """Replace such code by cross-references; `reference` has noted where each name is documented."""

    default_priority = 5  # before references are resolved

    def run(self, **kwargs: Any) -> None:
        paths = self.env.entitize_paths  # type: ignore[attr-defined]
        for literal in list(self.document.findall(nodes.literal)):
            match = _NAME.fullmatch(literal.astext())
            home = paths.get(f"entitize.{match[1]}") if match else None
            if home and not isinstance(literal.parent, (nodes.reference, addnodes.pending_xref)):
                link = addnodes.pending_xref(
                    "", literal.deepcopy(), refdomain="py", reftype="obj", reftarget=home, refexplicit=True
                )
                link["refdoc"] = self.env.docname
                literal.replace_self(link)


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_post_transform(LinkNames)
    return {"parallel_read_safe": True}
