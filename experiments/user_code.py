"""Code of the user, such as a network or an environment: finds it by name, and says where it raised."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gymnasium

from ..adapters.module_names import find_attribute
from .errors import UserError

#: Packages whose code is not the user's own.
_NOT_OWN = (__name__.partition(".")[0], "gymnasium", "numpy", "pettingzoo", "torch", "importlib")


def find_named(where: str, name: str) -> Any:
    """Import what is named "module:attribute"; the module may lie in the current folder.

    Raises:
        UserError: there is no such module or attribute, or the module raised; it begins with `where`.
    """
    module, _, attribute = name.partition(":")
    with user_code(where):
        try:
            return find_attribute(module, attribute)
        except gymnasium.error.NameNotFound as error:
            raise UserError(f"{where}: {error}") from error


@contextmanager
def user_code(where: str) -> Iterator[None]:
    """Context that raises what the user's code raises as `UserError`, with the place behind `where`."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        text = f"{where}: {type(error).__name__}: {error}"
        raise UserError("\n".join(filter(None, [text, where_raised(error)]))) from error


def where_raised(error: BaseException) -> str:
    """Return the place in the user's own code that raised an exception, as a line of text.

    Empty where it is not known, as of an exception of another process.
    """
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f"  in {_shown(Path(error.filename))}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return ""
    not_own = _folders()
    own = [frame for frame in frames if _is_own(Path(frame.filename), not_own)]
    frame = (own or list(frames))[-1]
    return f"  raised at {_shown(Path(frame.filename))}:{frame.lineno} in {frame.name}"


def _shown(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _is_own(path: Path, not_own: set[Path]) -> bool:
    return path.exists() and not not_own.intersection(path.resolve().parents)


def _folders() -> set[Path]:
    """Return the folders of packages whose code is not the user's own."""
    modules = [sys.modules.get(name) for name in _NOT_OWN]
    files = [module.__file__ for module in modules if module is not None and module.__file__ is not None]
    return {Path(file).resolve().parent for file in files}
