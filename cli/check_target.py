"""The environments that `entitize check` checks: those that a name stands for, single and vectorised."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium

from ..adapters.environment_resolver import resolve
from ..envs.registration import find_namespace
from ..experiments.errors import UserError

#: How many lanes of a vector environment are checked.
_LANES = 3


@dataclass(frozen=True)
class CheckTarget:
    """An environment to be made."""

    name: str
    make: Callable[[], Any]
    remakes: bool = True  # every call makes another one


def find(env: str, options: dict[str, Any]) -> list[CheckTarget]:
    """Return the environments that `env` names: alone and, where there is one, as vector environment.

    Raises:
        UserError: there is no such module, attribute or environment, or it takes no such options.
    """
    try:
        makers = resolve(env)
    except gymnasium.error.Error as error:
        raise UserError(str(error)) from error
    if makers.is_object and options:
        raise UserError(f"{env} is an object, which takes no options; got {', '.join(options)}")
    if makers.is_function:
        make, lanes = makers.make or makers.make_vec, {} if makers.make else {"num_envs": _LANES}
        assert make is not None
        try:
            inspect.signature(make).bind(**lanes, **options)
        except TypeError as error:
            raise UserError(f"{env} can't be called with these options: {error}") from None
        except ValueError:  # a signature that can't be found out
            pass
        return [CheckTarget(env, partial(make, **lanes, **options), not makers.is_object)]
    targets = []
    if makers.make is not None and find_namespace(env) is None:  # a namespace's are views of one lane
        targets.append(CheckTarget(env, partial(_made, env, makers.make, options)))
    if makers.make_vec is not None:
        targets.append(
            CheckTarget(env, partial(_made, env, makers.make_vec, {"num_envs": _LANES, **options}))
        )
    return targets


def _made(name: str, make: Callable[..., Any], options: dict[str, Any]) -> Any:
    try:
        return make(**options)
    except (gymnasium.error.Error, ImportError, TypeError, ValueError) as error:
        raise UserError(f"{name} can't be made: {error}") from error
