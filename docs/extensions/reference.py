"""The API reference: a page for `entitize` and one for each of its namespaces, made from the docstrings.

A name that several namespaces have is documented once, at its home, and the others link to it. The build
fails if a public name has no docstring, or a public method or property of a public class.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import entitize
from entitize.lazy import _typing_imports
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.pycode import ModuleAnalyzer

#: Namespaces that come first where several have a name; the others follow in alphabetical order.
_HOMES = ("entities", "actions", "batch", "errors", "views")


@dataclass
class Namespace:
    """The public names of the package or of one of its namespaces."""

    path: str  # "entitize", "entitize.actions"
    module: ModuleType
    names: dict[str, Any] = field(default_factory=dict)


def namespaces() -> list[Namespace]:
    """Return the package and its namespaces with their public names."""
    top = Namespace("entitize", entitize)
    below = []
    for name in entitize.__all__:
        value = getattr(entitize, name)
        if isinstance(value, ModuleType):
            below.append(Namespace(f"entitize.{name}", value))
        else:
            top.names[name] = value
    for namespace in below:
        for name in namespace.module.__all__:
            value = getattr(namespace.module, name)
            if not isinstance(value, ModuleType):
                namespace.names[name] = value
    rank = {f"entitize.{name}": place for place, name in enumerate(_HOMES)}
    return [top, *sorted(below, key=lambda n: (rank.get(n.path, len(rank)), n.path))]


def data_comment(namespace: Namespace, name: str) -> str:
    """Return the `#:` comment of a constant or type alias, which has no docstring."""
    for public, module, original in _typing_imports(namespace.module.__name__):
        if public == name:
            comments = ModuleAnalyzer.for_module(module).find_attr_docs()
            return " ".join(comments.get(("", original), []))
    return ""


def docstring(namespace: Namespace, name: str) -> str:
    """Return what documents a public name, "" if nothing does."""
    value = namespace.names[name]
    if inspect.isclass(value):
        written = value.__dict__.get("__doc__") or ""
        # Of a dataclass or NamedTuple without a docstring Python makes one: its signature.
        return "" if written.startswith(f"{value.__name__}(") else written
    return (value.__doc__ or "") if inspect.isroutine(value) else data_comment(namespace, name)


def undocumented_members(value: type) -> list[str]:
    """Return the paths of public methods and properties that neither their class nor its bases document.

    Those that `value` inherits are included, but for those of other packages.
    """
    return [
        f"{base.__module__}.{base.__qualname__}.{name}"
        for base in value.__mro__
        if base.__module__.partition(".")[0] == "entitize"
        for name, member in vars(base).items()
        if not name.startswith("_")
        and (inspect.isroutine(member) or isinstance(member, property | cached_property))
        and not any(getattr(vars(parent).get(name), "__doc__", None) for parent in base.__mro__)
    ]


def write_pages(folder: Path) -> dict[str, str]:
    """Write the pages as `folder`/*.rst; return the home of each public path."""
    homes: dict[int, str] = {}
    paths: dict[str, str] = {}
    undocumented = []
    pages = {}
    for namespace in namespaces():
        here, elsewhere = [], []
        for name, value in namespace.names.items():
            path = f"{namespace.path}.{name}"
            home = paths[path] = homes.setdefault(id(value), path)
            if home != path:
                elsewhere.append(f"- :py:obj:`{home}`")
                continue
            if not docstring(namespace, name).strip():
                undocumented.append(path)
            if inspect.isclass(value):
                undocumented += undocumented_members(value)
            here.append(_entry(namespace, name))
        pages[namespace.path.rpartition(".")[2]] = _page(namespace, here, elsewhere)
    if undocumented:
        raise ExtensionError(f"public names without a docstring: {', '.join(dict.fromkeys(undocumented))}")
    pages["index"] = _index(list(pages))
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.rst"):
        if old.stem not in pages:
            old.unlink()
    for name, text in pages.items():
        file = folder / f"{name}.rst"
        if not file.exists() or file.read_text() != text:  # an unchanged page is not read again
            file.write_text(text)
    return paths


def _entry(namespace: Namespace, name: str) -> str:
    value, path = namespace.names[name], f"{namespace.path}.{name}"
    if inspect.isclass(value):
        kind = "autoexception" if issubclass(value, BaseException) else "autoclass"
        elsewhere, overridden = _foreign_bases(value), _overridden(value)
        options = {"members": "", "inherited-members": elsewhere, "exclude-members": overridden}
        return f".. {kind}:: {path}\n" + "".join(f"   :{name}: {text}\n" for name, text in options.items())
    if inspect.isroutine(value):
        return f".. autofunction:: {path}\n"
    return f".. py:data:: {path}\n\n   {data_comment(namespace, name)}\n"


@cache
def _public() -> frozenset[int]:
    """The ids of all public objects."""
    return frozenset(id(value) for namespace in namespaces() for value in namespace.names.values())


def _foreign_bases(value: type) -> str:
    """The classes whose members are documented elsewhere: public ones and those of other packages."""
    others = [
        base.__name__
        for base in value.__mro__[1:]
        if id(base) in _public() or not base.__module__.startswith("entitize")
    ]
    return ", ".join(dict.fromkeys([*others, "object"]))


def _overridden(value: type) -> str:
    """The members that a public base class has too, and documents."""
    bases = [base for base in value.__mro__[1:] if id(base) in _public()]
    return ", ".join(sorted({name for base in bases for name in vars(base) if not name.startswith("_")}))


def _page(namespace: Namespace, here: list[str], elsewhere: list[str]) -> str:
    title = namespace.path
    first = (namespace.module.__doc__ or "").partition("\n\n")[0]
    parts = [f"{title}\n{'=' * len(title)}", f".. py:module:: {title}", first, *here]
    if elsewhere:
        parts += ["Documented elsewhere, also available here:", "\n".join(elsewhere)]
    return "\n\n".join(parts) + "\n"


def _index(names: list[str]) -> str:
    title = "API reference"
    tree = "\n".join(f"   {name}" for name in names)
    return (
        f"{title}\n{'=' * len(title)}\n\n"
        "Every public name, from its docstring. ``import entitize as ez`` gives the names of the first page;"
        " the others are in namespaces, such as ``ez.actions``. All load their modules at first use.\n\n"
        f".. toctree::\n   :maxdepth: 1\n\n{tree}\n"
    )


def _prepare(app: Sphinx) -> None:
    app.env.entitize_paths = write_pages(Path(app.srcdir) / "api")  # type: ignore[attr-defined]


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("builder-inited", _prepare)
    return {"parallel_read_safe": True}
