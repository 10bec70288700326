"""The environments of a configuration: those that an agent trains in, and those that it is judged in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import gymnasium

from ..envs import EntityVectorEnv, WorkerError, make_vec
from .config import EnvConfig, EvalConfig
from .errors import UserError

#: Procgen draws a level's seed from the numbers below this.
_LEVELS = 2**31 - 1


def make_environments(env: EnvConfig, **extra: Any) -> EntityVectorEnv:
    """The environments of `env`, made with its options and `extra`.

    Raises:
        UserError: the id or an option is unknown or not allowed.
    """
    try:
        return make_vec(env.id, num_envs=env.num_envs, **{**env.kwargs, **extra})
    except (gymnasium.error.Error, WorkerError, ValueError, TypeError, ImportError) as error:
        raise UserError(f"{env.id} can't be made: {error}") from error


def one_lane(env: EnvConfig) -> EnvConfig:
    """`env` with one environment, in this process; a lane of μRTS plays the first bot of those named."""
    kwargs = {name: value for name, value in env.kwargs.items() if name != "num_workers"}
    if env.id.removeprefix("entitize/").startswith("MicroRTS"):
        kwargs.pop("selfplay", None)
        bots = kwargs.pop("opponents", None)
        if isinstance(bots, Mapping):
            bots = [name for name, lanes in bots.items() if lanes]
        if bots:  # else the default
            kwargs["opponents"] = bots if isinstance(bots, str) else bots[0]
    return replace(env, num_envs=1, kwargs=kwargs)


def held_out(env: EnvConfig, evaluation: EvalConfig) -> tuple[EnvConfig, str]:
    """The environments to judge an agent of `env` in, and in words what is different about them.

    Procgen's get the levels behind the training range. Where training drew from all levels none are left over
    and evaluation draws from all of them too. Other environments only get other seeds.
    """
    kwargs = {**env.kwargs, **evaluation.kwargs}
    told = f"seed {evaluation.seed}"
    is_procgen = env.id.removeprefix("entitize/").startswith("Procgen")
    if is_procgen and "start_level" not in evaluation.kwargs:
        told = "levels drawn from all, as in training"
        trained = int(env.kwargs.get("num_levels", 0))
        if trained:
            first = int(env.kwargs.get("start_level", 0)) + trained
            kwargs["start_level"] = first
            kwargs["num_levels"] = evaluation.kwargs.get("num_levels", _LEVELS - first)
            told = f"levels from {first} on, which training did not see"
    num_envs = min(evaluation.num_envs, evaluation.episodes)
    return replace(env, num_envs=num_envs, kwargs=kwargs), told
