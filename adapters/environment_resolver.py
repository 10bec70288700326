"""Environments by id, function or "module:function": what `make`, `make_vec` and the command line take."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium
from gymnasium.envs.registration import EnvSpec, load_env_creator

from ..envs import EntitySpace
from ..envs.batch.batch_spaces import EntityBatchSpace
from ..envs.errors import whole_number
from ..envs.registration import find_namespace, known_ids, latest_game, share_lanes
from ..envs.returned import other_package_hint
from ..suggestions import check_options, did_you_mean
from .entity_conversion import as_entity_env, in_this_process, make_entity_env, make_entity_vector_env
from .module_names import check_module_name, find_attribute, importable_name
from .pettingzoo.made_games import lanes_of, makes_games

if TYPE_CHECKING:
    from ..envs import EntityVectorEnv
    from ..envs.vector.vector_spec import VectorSpec
    from .gymnasium.views import View

#: What names an environment: an id, "module:function", a specification, or a function that makes it.
EnvSource = str | EnvSpec | Callable[..., Any]


@dataclass(frozen=True)
class Makers:
    """The functions that make an environment."""

    name: str
    #: Takes options and makes a single environment of any kind; None: there is only a vector environment.
    make: Callable[..., Any] | None
    #: Takes `num_envs` and options and makes a vector environment of any kind; None: there is none.
    make_vec: Callable[..., Any] | None = None
    #: An object was named instead of a function: `make` always returns the same environment.
    is_object: bool = False
    #: The environment is not registered: the functions are the user's own.
    is_function: bool = False
    #: A `Program`: a game with a loop of its own.
    is_program: bool = False


def resolve(source: EnvSource) -> Makers:
    """Find the functions that make an environment.

    Args:
        source: one of

            - an id of this library: "Procgen/coinrun", "MicroRTS/basesWorkers8x8", "MineSweeper";
            - a Gymnasium id: "CartPole-v1", "ale_py:ALE/Pong-v5";
            - "module:function" (or a class, or a `Program`). The current folder is searched as well;
            - a `gymnasium.envs.registration.EnvSpec`;
            - a function or class. One that takes `num_envs` makes vector environments.

    Raises:
        gymnasium.error.NameNotFound: the id, module or function is unknown; the nearest three are suggested.
        TypeError: `source` is none of these.
    """
    if isinstance(source, EnvSpec):
        return _registered(source)
    if callable(source):
        return _function(getattr(source, "__name__", None) or repr(source), source)
    if not isinstance(source, str):
        hint = "Wrap an environment that exists already with entitize.wrap"
        if isinstance(getattr(source, "observation_space", None), EntitySpace | EntityBatchSpace):
            hint = f"Give the class, {type(source).__name__}, or a function that makes the environment"
        elif other := other_package_hint(source):
            hint = (
                f"Give its class, {type(source).__name__}, or a function that makes it.{other} for this one"
            )
        raise TypeError(
            f"environment: expected an id, 'module:function' or a function, got {source!r}. {hint}"
        )
    module, colon, attribute = source.partition(":")
    if colon and all(part.isidentifier() for part in attribute.split(".")):
        found = find_attribute(module, attribute)
        if callable(found):
            return _function(source, found)
        return Makers(source, lambda: found, is_object=True, is_function=True)
    if ours := find_namespace(source):
        return Makers(source, *ours)
    if colon and source not in gymnasium.registry:  # Gymnasium's own form, "module:id"
        _import_games(source, module)
        return resolve(attribute)
    return _registered(_spec(source))


def make(
    env: EnvSource, *, view: View | Mapping[str, Any] | None = None, **kwargs: Any
) -> gymnasium.Env[Any, Any]:
    """Make a single entity environment.

        env = ez.make("Procgen/coinrun", num_levels=200)
        env = ez.make("CartPole-v1")
        env = ez.make("my_game:MyGame")

    Args:
        env: an id of this library ("Procgen/coinrun", "MineSweeper"), any Gymnasium id, "module:function", or
            a function or class; see `resolve`.
        view: how the observations of a Gymnasium environment become entities: one of `ez.views`, or its
            options as a mapping ({"view": "Rows", "presence": "presence"}); by default `ez.wrap` chooses.
        kwargs: go to the environment.

    Raises:
        gymnasium.error.NameNotFound: the id, module or function is unknown; the nearest three are suggested.
        ImportError: an optional package is missing.
        TypeError: what was made is no environment, or `view` is given for an entity environment.
        ViewError: the view does not fit the observation space.
    """
    makers = resolve(env)
    if "num_envs" in kwargs and not makers.is_function:
        raise TypeError(
            f"make: {makers.name}: expected no num_envs, as it makes one environment. Use make_vec"
        )
    if makers.make is None:
        raise TypeError(f"{makers.name} is a vector environment: use make_vec")
    return as_entity_env(makers.make(**kwargs), makers.name, view)


def make_vec(
    env: EnvSource, num_envs: int = 1, *, view: View | Mapping[str, Any] | None = None, **kwargs: Any
) -> EntityVectorEnv:
    """Make an entity vector environment.

        venv = ez.make_vec("Procgen/coinrun", num_envs=64, num_levels=200)
        venv = ez.make_vec("CartPole-v1", num_envs=8)
        venv = ez.make_vec("my_game:MyGame", num_envs=8)

    Args:
        env, view: as for `make`. A function that takes `num_envs` makes the vector environment; another one
            makes each sub-environment. A game of several agents (an `EntityGame`, or one of PettingZoo) has
            a lane for each agent: see `from_pettingzoo`.
        num_envs: the number of sub-environments.
        kwargs: go to the environment. `num_workers=n` shares the lanes between n processes: by a
            `ProcessVectorEnv`, or where one environment steps all lanes (games, engines) by a
            `ShardedVectorEnv`. A worker that does not answer within `worker_timeout` seconds (60; None: no
            limit) is an error.

    Raises:
        TypeError, ValueError: `num_envs` is no whole number, or less than 1.
        WorkerError: a sub-environment could not be made.
        gymnasium.error.NameNotFound, ImportError, TypeError, ViewError: as for `make`.
    """
    if "n_envs" in kwargs:  # the name in Stable-Baselines3; some environments take any option
        raise TypeError("make_vec: unknown option 'n_envs'; did you mean 'num_envs'?")
    num_envs = whole_number("make_vec: num_envs", num_envs)
    makers = resolve(env)
    venv = _vector_env(makers, num_envs, view, kwargs)
    venv.vector_spec = _vector_spec(env, num_envs, view, kwargs)
    return venv


#: Options of `make_vec` itself.
_OF_MAKE_VEC = ("num_envs", "num_workers", "worker_timeout", "view")


def _vector_env(
    makers: Makers, num_envs: int, view: View | Mapping[str, Any] | None, kwargs: dict[str, Any]
) -> EntityVectorEnv:
    if makers.is_object:
        assert makers.make is not None
        raise TypeError(
            f"{makers.name}: expected a function or class that makes an environment for each lane, got"
            f" {type(makers.make()).__name__}"
        )
    if "wrappers" in kwargs and not makers.is_function:
        raise TypeError(f"{makers.name}: wrappers: expected none. Give a function that makes and wraps one")
    if makers.make_vec is not None:
        return _all_lanes(makers, makers.make_vec, num_envs, view, dict(kwargs))
    assert makers.make is not None
    options = dict(kwargs)
    num_workers, timeout = options.pop("num_workers", 0), options.pop("worker_timeout", 60.0)
    if makers.is_function:
        check_options(f"make_vec: {makers.name}", makers.make, options, _OF_MAKE_VEC)
    one = partial(makers.make, **options)
    if num_workers:
        if makers.is_function and makes_games(makers.make, one):
            return lanes_of(one, num_envs, view, num_workers=num_workers, worker_timeout=timeout)
        from ..envs.vector.process_vector import ProcessVectorEnv

        env_fns = [partial(make_entity_env, one, makers.name, view)] * num_envs
        return ProcessVectorEnv(env_fns, num_workers, timeout)
    return in_this_process(one, makers.name, num_envs, view)


def _all_lanes(
    makers: Makers,
    make_vec: Callable[..., Any],
    num_envs: int,
    view: View | Mapping[str, Any] | None,
    options: dict[str, Any],
) -> EntityVectorEnv:
    """Return what a function makes that takes `num_envs`; in processes, unless it sees to them itself."""
    num_workers, timeout = 0, 60.0
    if makers.is_function:
        if not makers.is_program and not _takes(make_vec, "num_workers"):
            num_workers = options.pop("num_workers", 0)
            if not _takes(make_vec, "worker_timeout"):
                timeout = options.pop("worker_timeout", timeout)
        check_options("make_vec", make_vec, options, _OF_MAKE_VEC)
    make = partial(make_entity_vector_env, partial(make_vec, **options), makers.name, view)
    return share_lanes(make, num_envs, num_workers, worker_timeout=timeout) if num_workers else make(num_envs)


def _vector_spec(
    env: EnvSource, num_envs: int, view: View | Mapping[str, Any] | None, kwargs: Mapping[str, Any]
) -> VectorSpec | None:
    """Return the arguments of `make_vec` as plain values, or None if they have no such form."""
    from ..envs.vector.vector_spec import VectorSpec, plain_values

    if isinstance(env, EnvSpec):
        if env.additional_wrappers or env.id not in gymnasium.registry:
            return None
        name: str | None = env.id
        kwargs = {**env.kwargs, **kwargs}
    else:
        name = env if isinstance(env, str) else importable_name(env)
        if name is not None and name.startswith("__main__:"):
            name = None  # another program would find something else there
    if name is None:
        return None
    try:
        options = {}
        if view is not None:
            from .gymnasium.views.view_config import to_config

            options = plain_values(to_config(view))
        return VectorSpec(name, num_envs, plain_values(kwargs), options)
    except TypeError:
        return None


# -- finding ------------------------------------------------------------------------------------------------


def _function(name: str, function: Callable[..., Any]) -> Makers:
    from .programs.game import Program  # here, because it loads Numba

    if isinstance(function, Program):
        from .programs.vector_env import make_vec as run_games

        return Makers(name, None, partial(run_games, function), is_function=True, is_program=True)
    if _takes(function, "num_envs"):
        return Makers(name, None, function, is_function=True)
    return Makers(name, function, is_function=True)


def _takes(function: Callable[..., Any], parameter: str) -> bool:
    try:
        return parameter in inspect.signature(function).parameters
    except (TypeError, ValueError):  # a signature that can't be found out
        return False


def _spec(env_id: str) -> EnvSpec:
    """Return the specification of a Gymnasium id, or of the latest version of a built-in game.

    Raises:
        gymnasium.error.NameNotFound: the id is unknown.
    """
    if spec := gymnasium.registry.get(env_id) or latest_game(env_id):
        return spec
    try:  # an id without its version
        return gymnasium.spec(env_id)
    except gymnasium.error.Error:
        known = [*known_ids(env_id), *gymnasium.registry]
        hint = did_you_mean(env_id, known)
    module = env_id.removesuffix(".py")
    if Path(f"{module}.py").is_file():
        hint = f". Name what makes it in {module}.py: '{module}:…'"
    elif re.search(r"-v\d+$", env_id):
        hint = f"{hint or '.'} If a package registers it, name it too: 'package:{env_id}'"
    hint = hint or ": expected an id of Entitize or Gymnasium, or 'module:function'"
    raise gymnasium.error.NameNotFound(f"there is no environment {env_id!r}{hint}")


def _import_games(env_id: str, module: str) -> None:
    """Import the module that registers the games of "module:id"."""
    check_module_name(module)
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        found = f"expected 'module:name' of a class or function; no module {module!r} registers games"
        raise gymnasium.error.NameNotFound(f"{env_id!r}: {found}") from None


def _registered(spec: EnvSpec) -> Makers:
    single = None if spec.entry_point is None else partial(gymnasium.make, spec)
    return Makers(spec.id, single, partial(gymnasium.make_vec, spec) if _is_ours(spec) else None)


def _is_ours(spec: EnvSpec) -> bool:
    """Return True if the vector entry point of `spec` makes entity vector environments.

    Those of others are not used: they start the next episode one step after the last one ended, which our
    trainers don't take.
    """
    if spec.vector_entry_point is None:
        return False
    from ..envs.vector.vector_env import EntityVectorEnv

    creator: object = spec.vector_entry_point
    if isinstance(creator, str):
        creator = load_env_creator(creator)
    return not isinstance(creator, type) or issubclass(creator, EntityVectorEnv)
