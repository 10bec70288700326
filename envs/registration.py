"""Making vector environments by name, and registering the built-in games with Gymnasium.

This module is imported by `import entitize`, so it imports nothing heavy at its head.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import gymnasium
from gymnasium.envs.registration import EnvSpec

if TYPE_CHECKING:
    from .vector.vector_env import EntityVectorEnv

_NAMESPACE = "entitize"

#: Namespace ("Procgen") or id ("Procgen/coinrun") -> "module:function" that makes a vector environment.
_ENTRY_POINTS: dict[str, str] = {}
#: Namespace -> the names in it, where they are known.
_NAMES: dict[str, tuple[str, ...]] = {}

#: The games in `envs/games`: name -> module; the class has the game's name.
_GAMES = {
    "CherryPick": "cherry_pick",
    "Count": "count",
    "FloorIsLava": "floor_is_lava",
    "MaskedBandit": "masked_bandit",
    "MineSweeper": "mine_sweeper",
    "Minefield": "minefield",
    "MoveToOrigin": "move_to_origin",
    "MultiArmedBandit": "multi_armed_bandit",
    "MultiSnake": "multi_snake",
    "NotHotdog": "not_hotdog",
    "PickMatchingBalls": "pick_matching_balls",
    "RockPaperScissors": "rock_paper_scissors",
    "TreasureHunt": "treasure_hunt",
    "Xor": "xor",
}


def register_env(
    env_id: str, entry_point: str, vector_entry_point: str | None = None, kwargs: dict[str, Any] | None = None
) -> None:
    """Register an entity environment with Gymnasium, once; a second call with the same id does nothing.

    Args:
        env_id: "[namespace/]Name-vN".
        entry_point: "module:Class", so that the module is imported on first use only.
        vector_entry_point: "module:function" that takes `num_envs` and the class's keywords and makes an
            `EntityVectorEnv`; `gymnasium.make_vec` and `make_vec` use it.
        kwargs: keywords that the class and the function are always given.
    """
    if env_id not in gymnasium.registry:
        gymnasium.register(
            env_id, entry_point=entry_point, vector_entry_point=vector_entry_point, kwargs=kwargs or {}
        )


def register_vec(namespace_or_id: str, entry_point: str, names: Iterable[str] = ()) -> None:
    """Say which function makes the vector environments that `make_vec` is asked for.

    Args:
        namespace_or_id: with a slash an id ("Arena/duel"): the function is called as `f(num_envs, **kwargs)`;
            without one a namespace ("Procgen"): `make_vec("Procgen/coinrun", …)` calls
            `f("coinrun", num_envs, **kwargs)`.
        entry_point: "module:function".
        names: the names in the namespace, so that `make_vec` can tell a wrong one and suggest the right one.
    """
    if entry_point.count(":") != 1:
        raise ValueError(f"entry point {entry_point!r} must have the form 'module:function'")
    _ENTRY_POINTS[namespace_or_id] = entry_point
    _NAMES[namespace_or_id] = tuple(names)


def register_games() -> None:
    """Register the built-in games with Gymnasium, as "entitize/<Name>-v0".

    "MultiSnake/lanes", every lane of which is a snake, is for `make_vec` only.
    """
    package = f"{__package__}.games"
    for name, module in _GAMES.items():
        register_env(f"{_NAMESPACE}/{name}-v0", f"{package}.{module}:{name}", f"{package}.{module}:make_vec")
    register_vec("MultiSnake/lanes", f"{package}.snake_lanes:make_vec")


def make_vec(env_id: str, num_envs: int = 1, **kwargs: Any) -> EntityVectorEnv:
    """A vector environment by name.

    Args:
        env_id: a name registered with `register_vec` ("Procgen/coinrun"), a Gymnasium id of an entity
            environment ("entitize/MineSweeper-v0"), or the bare name of a built-in game ("MineSweeper", its
            latest version).
        num_envs: how many environments.
        kwargs: go to the environment; environments without a vector entry point of their own are stepped by
            a `ListVectorEnv`. `num_workers=n` shares the lanes between n processes: by a `ProcessVectorEnv`,
            or where one environment steps all lanes (games, Procgen, μRTS) by a `ShardedVectorEnv`, of which
            this process can be one (`parent_works`).

    Raises:
        gymnasium.error.NameNotFound: there is no such environment; the nearest names are suggested.
        TypeError, WorkerError: the environment is no entity environment.
        ValueError: `num_envs` is less than 1.
    """
    if num_envs < 1:
        raise ValueError(f"num_envs must be at least 1, got {num_envs}")
    namespace, _, name = env_id.partition("/")
    if env_id in _ENTRY_POINTS and name:
        return _entity(env_id, _load(_ENTRY_POINTS[env_id])(num_envs=num_envs, **kwargs))
    if name and namespace in _ENTRY_POINTS:
        if _NAMES[namespace] and name not in _NAMES[namespace]:
            _not_found(env_id)
        return _entity(env_id, _load(_ENTRY_POINTS[namespace])(name, num_envs=num_envs, **kwargs))
    return _entity(env_id, _from_gymnasium(_registered(env_id), num_envs, kwargs))


def share_lanes(
    make: Callable[..., EntityVectorEnv],
    num_envs: int = 1,
    num_workers: int = 0,
    *,
    parent_works: bool | None = None,
    lanes_per_game: int = 1,
    first_seed: int | None = None,
    **options: Any,
) -> EntityVectorEnv:
    """`make(num_envs, **options)`, or with `num_workers` a `ShardedVectorEnv` of that many parts of it.

    Args:
        parent_works: see `ShardedVectorEnv`.
        lanes_per_game: how many neighbouring lanes must stay together.
        first_seed: seeds the first `reset` in workers that gives none.

    Raises:
        ValueError: `num_workers` is not between 1 and the number of games.
    """
    if not num_workers:
        return make(num_envs, **options)
    from .vector.sharded_vector import ShardedVectorEnv
    from .vector.workers.worker_pool import shares

    num_games, rest = divmod(num_envs, lanes_per_game)
    if rest:
        return make(num_envs, **options)  # which tells what is wrong
    runs = shares([lanes_per_game] * num_games, num_workers, "envs" if lanes_per_game == 1 else "games")
    num_lanes = [len(run) * lanes_per_game for run in runs]
    env_fns = [partial(make, count, **options) for count in num_lanes]
    return ShardedVectorEnv(env_fns, num_lanes, first_seed, parent_works)


def _registered(env_id: str) -> EnvSpec:
    """The Gymnasium spec of an id, or of the latest version of a built-in game."""
    if env_id in gymnasium.registry:
        return gymnasium.registry[env_id]
    versions = [
        spec for spec in gymnasium.registry.values() if spec.namespace == _NAMESPACE and spec.name == env_id
    ]
    if not versions:
        _not_found(env_id)
    return max(versions, key=lambda spec: spec.version or 0)


def _from_gymnasium(spec: EnvSpec, num_envs: int, kwargs: dict[str, Any]) -> Any:
    if spec.vector_entry_point is not None:
        return gymnasium.make_vec(spec, num_envs, **kwargs)
    from .vector.list_vector import ListVectorEnv
    from .vector.process_vector import ProcessVectorEnv

    num_workers = kwargs.pop("num_workers", 0)
    env_fns = [partial(gymnasium.make, spec, **kwargs)] * num_envs
    return ProcessVectorEnv(env_fns, num_workers) if num_workers else ListVectorEnv(env_fns)


def _entity(env_id: str, env: Any) -> EntityVectorEnv:
    from .vector.vector_env import EntityVectorEnv

    if not isinstance(env, EntityVectorEnv):
        if isinstance(env, gymnasium.vector.VectorEnv):
            env.close()
        raise TypeError(f"{env_id!r} made {env!r}, which is no EntityVectorEnv")
    return env


def _load(entry_point: str) -> Any:
    module, function = entry_point.split(":")
    return getattr(importlib.import_module(module), function)


def _not_found(env_id: str) -> NoReturn:
    known = [f"{space}/{name}" for space, names in _NAMES.items() for name in names]
    known += [key for key in _ENTRY_POINTS if "/" in key]
    for spec in gymnasium.registry.values():
        if spec.namespace == _NAMESPACE:
            known += [spec.id, spec.name]
    namespace, _, name = env_id.partition("/")
    if name:  # the names of some namespaces are not known here: take it that only the namespace is wrong
        open_spaces = {
            space.lower(): space for space, names in _NAMES.items() if not names and "/" not in space
        }
        spaces = difflib.get_close_matches(namespace.lower(), open_spaces, n=1, cutoff=0.7)
        known = [f"{open_spaces[space]}/{name}" for space in spaces] or known
    near = [f"{name!r}" for name in difflib.get_close_matches(env_id, known, n=3, cutoff=0.5)]
    hint = f"Did you mean {' or '.join(near)}?" if near else f"Known: {', '.join(known)}."
    raise gymnasium.error.NameNotFound(f"There is no environment {env_id!r}. {hint}")
