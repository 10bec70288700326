"""Environments of a configuration: those that an agent trains in, and those that it is evaluated in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import gymnasium

from ..adapters.environment_resolver import make_vec
from ..adapters.microrts import Map, find_map
from ..envs import EntityVectorEnv, WorkerError
from ..envs.seeds import EVALUATION_SEED
from .arguments import Pairs, Series
from .errors import UserError


@dataclass(frozen=True)
class EnvConfig:
    """The environments to train in."""

    id: str = "Procgen/bigfish"
    """The environment: Procgen/<game>, MicroRTS/<map>, Atari/<game>, ViZDoom/<scenario>, Griddly/<game>,
    MineSweeper, any Gymnasium id, or module:function."""
    num_envs: int = 64
    """Environments stepped at once."""
    kwargs: Pairs = field(default_factory=dict)
    """Options of the environment, e.g. num_levels=200 distribution_mode=hard."""
    view: Pairs = field(default_factory=dict)
    """View that turns observations of a Gymnasium environment into entities, e.g. view=Rows presence=presence
    (default: chosen by the observation space)."""

    def __post_init__(self) -> None:
        if self.num_envs < 1:
            raise ValueError(f"num_envs: expected at least 1, got {self.num_envs}")


@dataclass(frozen=True)
class EvalConfig:
    """Evaluation of a trained agent: whole episodes, on levels that training did not use."""

    episodes: int = 128
    """Episodes to play."""
    num_envs: int = 64
    """Environments stepped at once."""
    deterministic: bool = False
    """Take the most probable action instead of sampling."""
    seed: int = EVALUATION_SEED
    """Seed of environments and actions."""
    kwargs: Pairs = field(default_factory=dict)
    """Options of the environment that differ from training; Procgen's levels are always held out."""
    vary: Series = field(default_factory=dict)
    """Options with several values, e.g. nrobots=1,2,4; `entitize eval` prints one line for each."""
    every: int | None = None
    """Evaluate each time that many environment steps were trained, in the background (default: never)."""

    def __post_init__(self) -> None:
        for name in ("episodes", "num_envs", "every"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name}: expected at least 1, got {value}")
        if self.seed < 0:
            raise ValueError(f"seed: expected no negative number, got {self.seed}")
        check_series(self.vary)


def check_series(series: Mapping[str, Any]) -> None:
    """Check that every option has a list of values, all of one length.

    Raises:
        ValueError: one has not; the message names it.
    """
    for name, values in series.items():
        if not isinstance(values, (list, tuple)) or not values:
            raise ValueError(f"vary.{name}: expected a list of values, got {values!r}")
    lengths = {name: len(values) for name, values in series.items()}
    if len(set(lengths.values())) > 1:
        counts = ", ".join(f"{length} of {name}" for name, length in lengths.items())
        raise ValueError(f"vary: expected as many values of each option, got {counts}")


def settings_of(series: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return the settings, one after the other: {a: [1, 2], b: [3, 4]} are {a: 1, b: 3} and {a: 2, b: 4}.

    Without options there is one, and it is empty.
    """
    if not series:
        return [{}]
    return [dict(zip(series, values, strict=True)) for values in zip(*series.values(), strict=True)]


#: The environment of `entitize train --listen`.
LISTEN = "entitize.adapters.programs:listen"
_NAMESPACE, _GYMNASIUM_ID = "MicroRTS/", "MicroRTS-v0"
#: The map of the Gymnasium id, where none is named.
_DEFAULT_MAP = "basesWorkers8x8"


def is_microrts(env_id: str) -> bool:
    """Return True if `entitize.make_vec` makes games of μRTS for this id."""
    return env_id.removeprefix("entitize/").startswith((_NAMESPACE, _GYMNASIUM_ID))


def is_procgen(env_id: str) -> bool:
    """Return True if `entitize.make_vec` makes games of Procgen for this id."""
    return env_id.removeprefix("entitize/").startswith(("Procgen/", "Procgen-"))


def boards_of(env_id: str, kwargs: Mapping[str, Any]) -> list[Map]:
    """Return the maps of an environment of μRTS that can be made."""
    named = env_id.removeprefix("entitize/")
    name = named.removeprefix(_NAMESPACE) if named.startswith(_NAMESPACE) else kwargs.get("map", _DEFAULT_MAP)
    return [find_map(board) for board in kwargs.get("maps") or [name]]


def with_lanes(env: EnvConfig, num_envs: int) -> EnvConfig:
    """Return `env` with `num_envs` lanes.

    Those of μRTS that play each other, and those that play each bot, keep their shares as far as whole lanes
    can; what is left goes to bots. There are no more worker processes than games, and none for one.
    """
    if num_envs == env.num_envs:
        return env
    kwargs = dict(env.kwargs)
    if is_microrts(env.id):
        if kwargs.get("selfplay"):
            kwargs["selfplay"] = kwargs["selfplay"] * num_envs // env.num_envs // 2 * 2
        bots = kwargs.get("opponents")
        if isinstance(bots, (Mapping, list, tuple)):
            counts = dict(bots) if isinstance(bots, Mapping) else Counter(bots)
            kwargs["opponents"] = _shares(counts, num_envs - kwargs.get("selfplay", 0))
    games = num_envs - kwargs.get("selfplay", 0) // 2 if is_microrts(env.id) else num_envs
    if (kwargs.get("num_workers") or 0) > games:
        kwargs["num_workers"] = games if games > 1 else 0
    return replace(env, num_envs=num_envs, kwargs=kwargs)


def _shares(counts: Mapping[str, int], total: int) -> dict[str, int] | None:
    """Divide `total` in the proportions of `counts`: rounded down, and the rest to the largest remainders."""
    whole = sum(counts.values())
    if not whole:
        return None
    shares = {name: count * total // whole for name, count in counts.items()}
    by_remainder = sorted(counts, key=lambda name: counts[name] * total % whole, reverse=True)
    for name in by_remainder[: total - sum(shares.values())]:
        shares[name] += 1
    return shares


#: Procgen draws the seed of a level from the numbers below this.
_LEVELS = 2**31 - 1


def make_environments(env: EnvConfig, **extra: Any) -> EntityVectorEnv:
    """Make the environments of `env` with its options and `extra`.

    Raises:
        UserError: the id or an option is unknown or not allowed.
    """
    if env.id.startswith("__main__:"):
        raise UserError(
            f"env.id: expected a name that other programs can import, got {env.id!r}: `__main__` is this"
            " program. Write the game into a file such as my_game.py, and name 'my_game:…'"
        )
    try:
        return make_vec(env.id, env.num_envs, view=env.view or None, **{**env.kwargs, **extra})
    except gymnasium.error.NameNotFound as error:  # its message is complete
        raise UserError(str(error)) from error
    except (gymnasium.error.Error, WorkerError, ValueError, TypeError, ImportError) as error:
        raise UserError(f"{env.id} can't be made: {error}") from error


def make_whole_games(env: EnvConfig, trained: EnvConfig, **extra: Any) -> EntityVectorEnv:
    """Make `env`, `trained` with other lanes: of whole games, where several lanes meet in one.

    Raises:
        UserError: the id or an option is unknown or not allowed.
    """
    try:
        return make_environments(env, **extra)
    except UserError:
        if env.num_envs == trained.num_envs:
            raise
        lanes = _lanes_of_a_game(trained)
        if env.num_envs % lanes == 0:
            raise
        return make_environments(with_lanes(env, -(-env.num_envs // lanes) * lanes), **extra)


def _lanes_of_a_game(env: EnvConfig) -> int:
    """Return the number of lanes that meet in the first game; 1 where that can't be found out."""
    if env.id == LISTEN:  # to make it would wait for games
        return int(env.kwargs.get("players", 1))
    try:
        with make_environments(env) as venv:
            games = venv.lane_games
    except UserError:
        return 1
    return 1 if games is None else int((games == games[0]).sum())


def held_out(env: EnvConfig, evaluation: EvalConfig) -> tuple[EnvConfig, str]:
    """Return the environments that evaluate an agent of `env`, and a description of how they differ.

    Those of Procgen get the levels after the training range. If training drew from all levels, or evaluation
    is asked to (`num_levels=0`), it does. Other environments only get other seeds.
    """
    kwargs = {**env.kwargs, **evaluation.kwargs}
    description = f"seed {evaluation.seed}"
    if not is_procgen(env.id) and kwargs.get("num_levels") and "start_level" not in evaluation.kwargs:
        description += f", num_levels={kwargs['num_levels']}: levels that training may have seen"
    if is_procgen(env.id) and "start_level" not in evaluation.kwargs:
        description = f"levels drawn from {_all_levels(kwargs)}, as in training"
        trained = int(env.kwargs.get("num_levels", 0))
        if not trained and evaluation.kwargs.get("num_levels"):
            first = int(kwargs.get("start_level", 0))
            description = f"{kwargs['num_levels']} levels from {first} on, of all that training drew from"
        if trained and evaluation.kwargs.get("num_levels") == 0:
            description = f"levels drawn from {_all_levels(kwargs)}, those of training among them"
        elif trained:
            first = int(env.kwargs.get("start_level", 0)) + trained
            kwargs["start_level"] = first
            kwargs["num_levels"] = evaluation.kwargs.get("num_levels", _LEVELS - first)
            description = f"levels from {first} on, which training did not see"
            if env.kwargs.get("use_sequential_levels"):  # their levels leave the range
                description = f"levels from {first} on, some of which training may have seen"
    num_envs = min(evaluation.num_envs, evaluation.episodes)
    return with_lanes(replace(env, kwargs=kwargs), num_envs), description


def _all_levels(kwargs: Mapping[str, Any]) -> str:
    """The levels of Procgen's environments with `num_levels=0`."""
    first = int(kwargs.get("start_level", 0))
    return f"all from {first} on" if first else "all"


#: The levels that an agent plays.
Levels = Literal["held-out", "training"]


def evaluation_env(
    env: EnvConfig, evaluation: EvalConfig, levels: Levels, changes: Mapping[str, Any]
) -> tuple[EnvConfig, str]:
    """Return the environments with these `levels` and `changes` of options, and a text about the levels."""
    if levels == "held-out":
        return held_out(env, replace(evaluation, kwargs={**evaluation.kwargs, **changes}))
    env = replace(env, kwargs={**env.kwargs, **changes})
    description = "the training levels"
    if is_procgen(env.id) and not {"num_levels", "start_level"}.isdisjoint(changes):
        description = f"levels drawn from {_all_levels(env.kwargs)}"
        if env.kwargs.get("num_levels"):
            description = f"{env.kwargs['num_levels']} levels from {env.kwargs.get('start_level', 0)} on"
    return with_lanes(env, min(evaluation.num_envs, evaluation.episodes)), description
