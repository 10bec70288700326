"""Modules by name, as "module:function" has it."""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium

from ..suggestions import did_you_mean


def check_module_name(name: str) -> None:
    """Refuse paths of files and relative names, which `importlib` explains in its own terms.

    Raises:
        gymnasium.error.NameNotFound: no module can have that name.
    """
    if not all(name.split(".")) or re.search(r"[/\\]", name):
        raise _no_module_name(name)


def _no_module_name(name: str) -> gymnasium.error.NameNotFound:
    parts = [part for part in re.split(r"[./\\]+", name.removesuffix(".py")) if part]
    like = parts[-1] if Path(name).is_absolute() and parts else ".".join(parts)
    return gymnasium.error.NameNotFound(f"expected a module name such as {like or 'my_game'!r}, got {name!r}")


def find_attribute(module_name: str, attribute: str) -> Any:
    """Return an attribute of a module, which may lie in the current folder.

    Raises:
        gymnasium.error.NameNotFound: there is none, with similar names; or no module can have that name.
    """
    check_module_name(module_name)
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        if module_name.endswith(".py"):  # of a package "towers" there may be a module "py"
            raise _no_module_name(module_name) from None
        hint = did_you_mean(module_name, _modules_beside(module_name))
        raise gymnasium.error.NameNotFound(f"there is no module {module_name!r}{hint}") from None
    try:
        return reduce(getattr, attribute.split("."), module)
    except AttributeError:
        names = [
            name
            for name, value in vars(module).items()
            if not name.startswith("_") and not isinstance(value, ModuleType)
        ]
        hint = did_you_mean(attribute, names)
        raise gymnasium.error.NameNotFound(f"module {module_name!r} has no {attribute!r}{hint}") from None


def _modules_beside(wanted: str) -> list[str]:
    """Return the modules beside the first missing part of a name."""
    parent = wanted.rpartition(".")[0]
    folders = [str(Path.cwd())]
    if parent and parent in sys.modules:
        folders = list(getattr(sys.modules[parent], "__path__", []))
    prefix = f"{parent}." if parent else ""
    return [f"{prefix}{module.name}" for module in pkgutil.iter_modules(folders)]


def importable_name(function: Callable[..., Any]) -> str | None:
    """Return "module:function" if that names `function` in any process, else None."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not module or not name or module == "__main__" or "<" in name:
        return None
    found = reduce(lambda owner, part: getattr(owner, part, None), name.split("."), sys.modules.get(module))
    return f"{module}:{name}" if found is function else None
