"""The engine's library, and the games of its package.

The package `griddly` imports the old `gym`, prints its warning and registers all its games, which takes a
second. Only its compiled library is loaded here.
"""

from __future__ import annotations

import functools
import importlib.util
import re
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from ...lazy import needs_extra
from ...suggestions import did_you_mean

_LIBRARY = "python_griddly"
#: The name of a game of the package, in the part `Environment` of its file.
_NAME = re.compile(r"^  Name: *(.+?) *$", re.MULTILINE)


@functools.cache
def package_folder() -> Path:
    """Return the folder of the package `griddly`, which is not imported.

    Raises:
        ModuleNotFoundError: it is not installed.
    """
    spec = importlib.util.find_spec("griddly")
    if spec is None or not spec.submodule_search_locations:
        error = ModuleNotFoundError("No module named 'griddly'", name="griddly")
        raise needs_extra("Griddly (Python 3.11 only)", error)
    return Path(spec.submodule_search_locations[0])


@functools.cache
def library() -> Any:
    """Return the engine's compiled module, the one that `import griddly` uses as well.

    Raises:
        ModuleNotFoundError: the package `griddly` is not installed.
    """
    folder = package_folder() / "libs"
    if _LIBRARY in sys.modules:  # a second copy would end the process
        return sys.modules[_LIBRARY]
    spec = PathFinder.find_spec(_LIBRARY, [str(folder)])
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"No module named {_LIBRARY!r} in {folder}", name="griddly")
    module = importlib.util.module_from_spec(spec)
    sys.modules[_LIBRARY] = module
    spec.loader.exec_module(module)
    return module


@functools.cache
def _games() -> dict[str, Path]:
    """Return the games of the package: name -> file."""
    found = {}
    for path in (package_folder() / "resources" / "games").rglob("*.yaml"):
        match = _NAME.search(path.read_text(encoding="utf-8"))
        if match:
            found[match[1].strip("\"'").replace(" ", "-")] = path
    return dict(sorted(found.items()))


def game_names() -> list[str]:
    """Return the names of the games that come with the engine's package."""
    return list(_games())


def find_game(name: str) -> Path:
    """Return the file of a game of the package, or of one's own.

    Args:
        name: "Clusters" (or "GDY-Clusters-v0", as the package itself calls it), or a path that ends in
            ".yaml" or ".yml".

    Raises:
        ValueError: there is no such game (the nearest name is given) or file.
    """
    if name.endswith((".yaml", ".yml")):
        path = Path(name).resolve()
        if not path.is_file():
            raise ValueError(f"Griddly: game: expected a file in GDY, got {name!r}: no such file")
        return path
    games = _games()
    short = name.removeprefix("GDY-").removesuffix("-v0")
    if short not in games:
        raise ValueError(
            f"Griddly: game: expected one of {', '.join(games)}, or a path that ends in .yaml,"
            f" got {name!r}{did_you_mean(short, games)}"
        )
    return games[short]


@functools.cache
def reader() -> Any:
    """Return the engine's reader of GDY."""
    resources = package_folder() / "resources"
    return library().GDYReader(*(str(resources / part) for part in ("games", "images", "shaders")))
