"""What `entitize check` is asked to look at: environments by name, or by module and attribute."""

from __future__ import annotations

import difflib
import importlib
import inspect
import pkgutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from typing import Any

import gymnasium

from ..envs import make_vec
from ..experiments.errors import UserError

#: How many lanes of a vector environment are checked.
_LANES = 3


@dataclass(frozen=True)
class Target:
    """An environment to be made."""

    name: str
    make: Callable[[], Any]
    remakes: bool = True  # whether every call makes another one


def find(env: str, options: dict[str, Any]) -> list[Target]:
    """The environments that `env` names.

    Raises:
        UserError: there is no such module, attribute or environment, or it takes no such options.
    """
    module, colon, attribute = env.partition(":")
    if colon and all(part.isidentifier() for part in attribute.split(".")):
        return [_attribute(env, module, attribute, options)]
    return _registered(env, options)


def _attribute(env: str, module_name: str, attribute: str, options: dict[str, Any]) -> Target:
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise UserError(
            f"there is no module {module_name!r}{_near(module_name, _modules(module_name))}"
        ) from None
    try:
        found = reduce(getattr, attribute.split("."), module)
    except AttributeError:
        names = [name for name in vars(module) if not name.startswith("_")]
        raise UserError(f"module {module_name!r} has no {attribute!r}{_near(attribute, names)}") from None
    if not callable(found):
        if options:
            raise UserError(f"{env} is an object, which takes no options; got {', '.join(options)}")
        return Target(env, lambda: found, remakes=False)
    try:
        inspect.signature(found).bind(**options)
    except TypeError as error:
        raise UserError(f"{env} can't be called so: {error}") from None
    except ValueError:  # a signature that can't be found out
        pass
    return Target(env, partial(found, **options))


def _registered(env: str, options: dict[str, Any]) -> list[Target]:
    """A registered environment, alone and, where it has a vector environment of its own, as that."""
    env_id = next((name for name in (env, f"entitize/{env}-v0") if name in gymnasium.registry), None)
    if env_id is not None or ":" in env:
        spec = gymnasium.registry.get(env_id or env)
        targets = []
        if spec is None or spec.entry_point is not None:
            targets.append(Target(env, partial(_made, env_id or env, options)))
        if spec is not None and spec.vector_entry_point is not None:
            targets.append(Target(env, partial(_made_vec, env_id or env, options)))
        return targets
    return [Target(env, partial(_made_vec, env, options))]


def _made(env_id: str, options: dict[str, Any]) -> Any:
    try:
        return gymnasium.make(env_id, disable_env_checker=True, **options)
    except (gymnasium.error.Error, ModuleNotFoundError, TypeError) as error:
        raise UserError(f"{env_id} can't be made: {error}") from error


def _made_vec(env_id: str, options: dict[str, Any]) -> Any:
    try:
        if env_id in gymnasium.registry:  # of any kind; make_vec takes those of entities only
            return gymnasium.make_vec(env_id, _LANES, **options)
        return make_vec(env_id, _LANES, **options)
    except (gymnasium.error.Error, ImportError, TypeError, ValueError) as error:
        raise UserError(f"{env_id} can't be made: {error}") from error


def _modules(wanted: str) -> list[str]:
    """The modules that might have been meant: those beside the first missing part of the name."""
    parent, _, _ = wanted.rpartition(".")
    folders = [str(Path.cwd())]
    if parent and parent in sys.modules:
        folders = list(getattr(sys.modules[parent], "__path__", []))
    prefix = f"{parent}." if parent else ""
    return [f"{prefix}{module.name}" for module in pkgutil.iter_modules(folders)]


def _near(wanted: str, names: list[str]) -> str:
    nearest = difflib.get_close_matches(wanted, names, 3, cutoff=0.5)
    return f"; did you mean {' or '.join(map(repr, nearest))}?" if nearest else ""
