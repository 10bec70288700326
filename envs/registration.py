"""Register environments by name, the built-in games among them; `adapters.environment_resolver` makes them.

This module is imported by `import entitize`, so it imports nothing heavy at its head.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import gymnasium
from gymnasium.envs.registration import EnvSpec

from ..suggestions import nearest

if TYPE_CHECKING:
    from .vector.vector_env import EntityVectorEnv

_NAMESPACE = "entitize"

#: Namespace ("Procgen") or id ("Procgen/coinrun") -> "module:function" that makes a vector environment.
_ENTRY_POINTS: dict[str, str] = {}
#: The same for single environments: the function that makes one.
_ENV_MAKERS: dict[str, Callable[..., Any]] = {}
#: Namespace -> the names in it, where they are known.
_NAMES: dict[str, tuple[str, ...]] = {}

#: The built-in games: name -> module in `envs/games`; the class has the game's name.
GAMES = {
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
    "OrbitWars": "conquest.orbit_wars.game",
    "PickMatchingBalls": "pick_matching_balls",
    "PlanetWars": "conquest.planet_wars.game",
    "RockPaperScissors": "rock_paper_scissors",
    "TreasureHunt": "treasure_hunt",
    "Xor": "xor",
}
#: Where the vector environment stands in a module of its own.
_VECTOR_MODULES = {"MineSweeper": "mine_sweeper_vector"}


def register_env(
    env_id: str,
    entry_point: str | Callable[..., Any],
    vector_entry_point: str | None = None,
    kwargs: dict[str, Any] | None = None,
) -> None:
    """Register an entity environment with Gymnasium, once; a second call with the same id does nothing.

    Only another class, as of a cell of a notebook that was run again, replaces what was registered, with
    Gymnasium's warning.

    Args:
        env_id: "[namespace/]Name-vN".
        entry_point: "module:Class", so that the module is imported on first use only; or the class.
        vector_entry_point: "module:function" that takes `num_envs` and the class's keywords and makes an
            `EntityVectorEnv`; `gymnasium.make_vec` and `make_vec` use it.
        kwargs: keywords that the class and the function are always given.
    """
    before = gymnasium.registry.get(env_id)
    if before is None or not (isinstance(entry_point, str) or before.entry_point is entry_point):
        gymnasium.register(
            env_id, entry_point=entry_point, vector_entry_point=vector_entry_point, kwargs=kwargs or {}
        )


def register_vec(
    namespace_or_id: str, entry_point: str, names: Iterable[str] = (), env_entry_point: str | None = None
) -> None:
    """Register the function that makes the vector environments of an id or a namespace for `make_vec`.

    Args:
        namespace_or_id: with a slash an id ("Arena/duel"): the function is called as `f(num_envs, **kwargs)`;
            without one a namespace ("Procgen"): `make_vec("Procgen/coinrun", …)` calls
            `f("coinrun", num_envs, **kwargs)`.
        entry_point: "module:function".
        names: the names in the namespace, so that a misspelt one is found and the nearest are suggested.
        env_entry_point: "module:function" that makes a single environment, for `make`; called without
            `num_envs`.

    Raises:
        ValueError: an entry point has another form, or another one is registered already.
    """
    before = _ENTRY_POINTS.get(namespace_or_id, entry_point)
    if before != entry_point:
        raise ValueError(f"register_vec: {namespace_or_id!r} is registered already, for {before!r}")
    for point in (entry_point, env_entry_point):
        if point is not None and (not isinstance(point, str) or point.count(":") != 1):
            raise ValueError(f"entry point: expected the form 'module:function', got {point!r}")
    _ENTRY_POINTS[namespace_or_id] = entry_point
    _NAMES[namespace_or_id] = tuple(names)
    if env_entry_point is not None:
        _ENV_MAKERS[namespace_or_id] = partial(_load_and_call, env_entry_point)


def register_engine(
    namespace: str, package: str, env_class: str, argument: str, default: str = "", names: Iterable[str] = ()
) -> None:
    """Register the environments of an engine, "Atari/<game>", for `entitize.make` and `entitize.make_vec`.

    Gymnasium's own `make` and `make_vec` know "entitize/Atari-v0", with the game as an option; or, where the
    names are given, one id for each: "entitize/Procgen-<game>-v0".

    Args:
        package: the module that has `env_class` and the function `make_vec`.
        argument: the option that takes the name ("game").
        default: its default.
        names: the names in the namespace, if they are known.
    """
    names, make_vec = tuple(names), f"{package}:make_vec"
    env_id = f"{_NAMESPACE}/{namespace}-{{}}-v0" if names else f"{_NAMESPACE}/{namespace}-v0"
    register_vec(namespace, make_vec, names)
    for name in names or (default,):
        register_env(env_id.format(name), f"{package}:{env_class}", make_vec, {argument: name})
    _ENV_MAKERS[namespace] = partial(_make_named, env_id, argument)


def register_games() -> None:
    """Register the built-in games with Gymnasium, as "entitize/<Name>-v0".

    "MultiSnake/lanes", "OrbitWars/lanes" and "PlanetWars/lanes", every lane of which is a player, are for
    `make_vec` only.
    """
    package = f"{__package__}.games"
    for name, module in GAMES.items():
        vector_module = _VECTOR_MODULES.get(name, module)
        register_env(
            f"{_NAMESPACE}/{name}-v0", f"{package}.{module}:{name}", f"{package}.{vector_module}:make_vec"
        )
    register_vec("MultiSnake/lanes", f"{package}.snake_lanes:make_vec")
    register_vec("OrbitWars/lanes", f"{package}.conquest.orbit_wars.game:make_lanes")
    register_vec("PlanetWars/lanes", f"{package}.conquest.planet_wars.game:make_lanes")


def find_namespace(env_id: str) -> tuple[Callable[..., Any] | None, Callable[..., Any]] | None:
    """Return the functions that make the environment and the vector environment of an id of `register_vec`.

    The first is None where the id has vector environments only; the result is None where the id is unknown.
    """
    namespace, _, name = env_id.partition("/")
    if not name:
        return None
    arguments: tuple[str, ...] = ()
    if env_id in _ENTRY_POINTS:
        key = env_id
    elif namespace in _ENTRY_POINTS and (not _NAMES[namespace] or name in _NAMES[namespace]):
        key, arguments = namespace, (name,)
    else:
        return None
    single = _ENV_MAKERS.get(key)
    make = None if single is None else partial(single, *arguments)
    return make, partial(_load_and_call, _ENTRY_POINTS[key], *arguments)


def latest_game(name: str) -> EnvSpec | None:
    """Return the Gymnasium specification of the latest version of a built-in game, or None."""
    versions = [
        spec
        for spec in gymnasium.registry.values()
        if spec.namespace == _NAMESPACE and spec.name == name and name not in _ENTRY_POINTS
    ]
    return max(versions, key=lambda spec: spec.version or 0, default=None)


def known_ids(wanted: str) -> list[str]:
    """Return the ids that are known here, as candidates for the misspelt id `wanted`."""
    namespace, _, name = wanted.partition("/")
    known = [f"{space}/{name}" for space, names in _NAMES.items() for name in names]
    known += [key for key in _ENTRY_POINTS if "/" in key]
    known += GAMES
    if name:  # the names of some namespaces are not known here: assume that only the namespace is misspelt
        open_spaces = [space for space, names in _NAMES.items() if not names and "/" not in space]
        known += [f"{space}/{name}" for space in nearest(namespace, open_spaces, 1, 0.7)]
    return known


def share_lanes(
    make: Callable[..., EntityVectorEnv],
    num_envs: int = 1,
    num_workers: int = 0,
    *,
    seed: int | None = None,
    lanes_per_game: int = 1,
    worker_timeout: float | None = 60.0,
    **options: Any,
) -> EntityVectorEnv:
    """`make(num_envs, **options)`, or with `num_workers` a `ShardedVectorEnv` of that many parts of it.

    Args:
        seed: seeds the first `reset` that gives none.
        lanes_per_game: how many neighbouring lanes must stay together.
        worker_timeout: see `ShardedVectorEnv`.

    Raises:
        ValueError: `num_workers` is not between 1 and the number of games, or no such `seed`.
    """
    from .seeds import lane_seeds

    lane_seeds(seed, num_envs)  # which raises for one that can't be used
    if not num_workers:
        venv = make(num_envs, **options)
        try:
            venv._seeds(seed)  # which raises for one that can't be used
        except ValueError:
            venv.close()
            raise
        venv._first_seed = seed
        return venv
    from .vector.sharded_vector import ShardedVectorEnv
    from .vector.workers.worker_pool import shares

    num_games, rest = divmod(num_envs, lanes_per_game)
    if rest:
        return make(num_envs, **options)  # which raises
    runs = shares([lanes_per_game] * num_games, num_workers, "envs" if lanes_per_game == 1 else "games")
    num_lanes = [len(run) * lanes_per_game for run in runs]
    env_fns = [partial(make, count, **options) for count in num_lanes]
    return ShardedVectorEnv(env_fns, num_lanes, seed, worker_timeout)


def named_code(value: Any) -> list[str]:
    """Return the texts in plain data that name code, such as "module:function".

    Making an environment of them would import and call it. What comes from others may name anything.
    """
    if isinstance(value, str):
        return [value] if ":" in value else []
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return [text for part in parts for text in named_code(part)]


def _load_and_call(entry_point: str, *arguments: Any, **kwargs: Any) -> Any:
    module, function = entry_point.split(":")
    return getattr(importlib.import_module(module), function)(*arguments, **kwargs)


def _make_named(env_id: str, argument: str, name: str, /, **options: Any) -> gymnasium.Env[Any, Any]:
    named: dict[str, Any] = {argument: name}
    return gymnasium.make(env_id.format(name), **named, **options)
