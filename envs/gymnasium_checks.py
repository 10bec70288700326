"""Gymnasium's own checks of a single environment, with legal actions, and of how it renders."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import wraps
from typing import Any

import gymnasium
from gymnasium.utils.env_checker import check_env
from gymnasium.utils.passive_env_checker import env_render_passive_checker

from .errors import ConformanceError
from .spaces import EntitySpace


def check_with_gymnasium(env: gymnasium.Env[Any, Any], name: str, render: bool) -> None:
    """Run Gymnasium's `check_env` and render in every mode, their warnings counting as errors.

    For an environment under a wrapper, a wrong declaration about rendering is only a warning. So is
    an environment that `check_env` cannot check (see `runs_check_env`), and one that its spec cannot make
    again: closing it twice and rendering in every mode are then not checked.

    Args:
        name: what errors call the environment.
        render: render at all.

    Raises:
        ConformanceError: a rule is broken.
    """
    # A wrapper that makes the entities is itself what is to be checked; other wrappers are taken off.
    is_own = isinstance(getattr(env.unwrapped, "observation_space", None), EntitySpace)
    base = env.unwrapped if is_own else env
    wrapper = _unrecorded_wrapper(base)
    if runs_check_env(env):
        _check_env(base, name, is_own, skip_close=wrapper is not None)
    else:
        warnings.warn(
            f"{name}: gymnasium's check_env was skipped: expected env.unwrapped to be a gymnasium.Env, got"
            f" {type(env.unwrapped).__name__}",
            stacklevel=3,
        )
    if wrapper is not None:
        warnings.warn(
            f"{name}: gymnasium's checks of close() and of each render mode were skipped: they make the"
            f" environment again from its spec, which needs {wrapper} to inherit from"
            " gymnasium.utils.RecordConstructorArgs",
            stacklevel=3,
        )
    if not render or base.spec is None or wrapper is not None:
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _render_all(base, name)
    for message in _own_warnings(caught):
        if is_own:
            raise ConformanceError(f"{name}: gymnasium's check_env: {message}")
        warnings.warn(f"{name}: {message}", stacklevel=3)


def runs_check_env(env: gymnasium.Env[Any, Any]) -> bool:
    """Return False for an `env.unwrapped` that is no `gymnasium.Env`, as with Jumanji's wrapper.

    `check_env` reads the random numbers of a `gymnasium.Env` there.
    """
    return isinstance(env.unwrapped, gymnasium.Env)


def _unrecorded_wrapper(env: gymnasium.Env[Any, Any]) -> str | None:
    """Return the name of a wrapper whose arguments the spec of `env` lacks; None if it can be made again."""
    wrappers = () if env.spec is None else env.spec.additional_wrappers
    return next((wrapper.name for wrapper in wrappers if wrapper.kwargs is None), None)


def _check_env(env: gymnasium.Env[Any, Any], name: str, is_own: bool, skip_close: bool) -> None:
    """Run `check_env` without rendering; see `check_with_gymnasium`."""
    try:
        with _legal_steps(env), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            check_env(env, skip_render_check=True, skip_close_check=skip_close)
    except AssertionError as error:
        raise ConformanceError(f"{name}: gymnasium's check_env: {error}") from error
    for message in _own_warnings(caught):
        if is_own or "render_modes" not in message:
            raise ConformanceError(f"{name}: gymnasium's check_env: {message}")
        warnings.warn(f"{name}: {message}", stacklevel=4)


def _render_all(env: gymnasium.Env[Any, Any], name: str) -> None:
    """Render an observation in each of the declared modes, each in an environment of its own."""
    if env.render_mode is not None:
        env_render_passive_checker(env)
    assert env.spec is not None
    for mode in env.metadata.get("render_modes") or ():
        try:
            other = env.spec.make(render_mode=mode)
            try:
                other.reset()
                env_render_passive_checker(other)
            finally:
                other.close()
        except AssertionError as error:
            raise ConformanceError(f"{name}: gymnasium's check_env: {error}") from error
        except Exception as error:
            error.add_note(
                f"raised by {name} while rendering in mode {mode!r}. If there is no display, skip rendering:"
                " check_entity_env(…, render=False), entitize check --no-render"
            )
            raise


def _own_warnings(caught: list[warnings.WarningMessage]) -> Iterator[str]:
    """The messages of Gymnasium's own warnings about the environment."""
    for warning in caught:
        message = re.sub(r"\x1b\[\d*m", "", str(warning.message))
        # That it was given a wrapper, or renders only through its spec, is no fault of the environment.
        if "WARN: " in message and "different from the unwrapped" not in message:
            yield message.replace("WARN: ", "")


@contextmanager
def _legal_steps(env: Any) -> Iterator[None]:
    """Replace the actions of Gymnasium's checks, which ignore masks, by legal ones for the observation."""
    last: dict[str, Any] = {}
    reset, step, space = env.reset, env.step, deepcopy(env.action_space)

    @wraps(reset)  # Gymnasium's checks read the signature
    def remembered(*args: Any, **options: Any) -> Any:
        nonlocal last
        result = reset(*args, **options)
        last = result[0]
        return result

    @wraps(step)
    def legal(action: Any) -> Any:
        nonlocal last
        space.seed(0)  # the same action for the same observation
        result = step(space.sample(mask=last))
        last = result[0]
        return result

    own = dict(vars(env))
    env.reset, env.step = remembered, legal
    try:
        yield
    finally:
        for name in ("reset", "step"):
            delattr(env, name)
            if name in own:
                setattr(env, name, own[name])
