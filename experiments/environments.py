"""The environments of a configuration: those that an agent trains in, and those that it is judged in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import gymnasium

from ..adapters.environment_resolver import make_vec
from ..envs import EntityVectorEnv, WorkerError
from .env_config import EnvConfig, EvalConfig
from .errors import UserError
from .microrts.microrts_lanes import with_lanes

#: Procgen draws a level's seed from the numbers below this.
_LEVELS = 2**31 - 1


def make_environments(env: EnvConfig, **extra: Any) -> EntityVectorEnv:
    """The environments of `env`, made with its options and `extra`.

    Raises:
        UserError: the id or an option is unknown or not allowed.
    """
    try:
        return make_vec(env.id, env.num_envs, view=env.view or None, **{**env.kwargs, **extra})
    except gymnasium.error.NameNotFound as error:  # says all by itself
        raise UserError(str(error)) from error
    except (gymnasium.error.Error, WorkerError, ValueError, TypeError, ImportError) as error:
        raise UserError(f"{env.id} can't be made: {error}") from error


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
    return with_lanes(replace(env, kwargs=kwargs), num_envs), told


#: Which levels an agent plays.
Levels = Literal["held-out", "training"]


def played(
    env: EnvConfig, evaluation: EvalConfig, levels: Levels, changes: Mapping[str, Any]
) -> tuple[EnvConfig, str]:
    """Return the environments with these `levels` and `changes` of options, and a word on the levels."""
    if levels == "held-out":
        return held_out(env, replace(evaluation, kwargs={**evaluation.kwargs, **changes}))
    env = replace(env, kwargs={**env.kwargs, **changes})
    return with_lanes(env, min(evaluation.num_envs, evaluation.episodes)), "the training levels"
