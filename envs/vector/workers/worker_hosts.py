"""Lanes of a worker process: a run of neighbours, single environments or one vector environment."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ....ragged import RaggedArray
from ...seeds import Seeds
from ...spaces import EntitySpace
from ..lanes import EnvFn, Lanes, LaneStep
from ..vector_env import EntityVectorEnv
from .answers import Answer, reset_step

#: Makes the vector environment of one worker.
VectorEnvFn = Callable[[], EntityVectorEnv]


class Introduction(NamedTuple):
    """The description of a worker's lanes for the parent."""

    space: EntitySpace
    metadata: dict[str, Any]
    render_mode: str | None


class Host(ABC):
    """The lanes of one worker, as its loop steps them. Abstract."""

    num_lanes: int
    introduction: Introduction

    @abstractmethod
    def reset(self, seed: Any, options: dict[str, Any] | None) -> Answer:
        """Start an episode in every lane."""

    @abstractmethod
    def step(self, actions: dict[str, RaggedArray]) -> Answer:
        """Step every lane with validated actions."""

    @abstractmethod
    def render(self) -> tuple[Any, ...]:
        """One frame per lane."""

    @abstractmethod
    def set_progress(self, fraction: float) -> None:
        """Pass the progress of training on."""

    @abstractmethod
    def close(self) -> None:
        """Close every lane."""


class LaneHost(Host):
    """Single environments. The rest of its answers are their infos, by lane: (infos, final infos).

    Args:
        env_fns: one function per lane that makes its environment.
        first: the index of the first lane.
    """

    def __init__(self, env_fns: Sequence[EnvFn], first: int) -> None:
        self.lanes = Lanes(env_fns, first)
        self.num_lanes = len(env_fns)
        env = self.lanes.envs[0]
        self.introduction = Introduction(self.lanes.observation_space, dict(env.metadata), env.render_mode)

    def reset(self, seed: Sequence[int | None], options: dict[str, Any] | None) -> Answer:
        reset = self.lanes.reset(seed, options)
        return Answer(reset_step(reset.batch), (reset.infos, {}))

    def step(self, actions: dict[str, RaggedArray]) -> Answer:
        step = self.lanes.step(actions)
        return Answer(step, (step.infos, step.final_infos))

    def render(self) -> tuple[Any, ...]:
        return self.lanes.render()

    def set_progress(self, fraction: float) -> None:
        """Do nothing: single environments have no progress."""

    def close(self) -> None:
        self.lanes.close()


class VectorHost(Host):
    """One vector environment. The rest of its answers is its info, without the last observations.

    Args:
        env_fn: makes the vector environment.
        first: the index of its first lane.
        num_lanes: how many lanes it must have.
    """

    def __init__(self, env_fn: VectorEnvFn, first: int, num_lanes: int) -> None:
        self.env = env = env_fn()
        if not isinstance(env, EntityVectorEnv) or env.num_envs != num_lanes:
            raise TypeError(
                f"env_fn of envs {first} to {first + num_lanes - 1}: expected an EntityVectorEnv of"
                f" {num_lanes} lanes, got {env!r} of {getattr(env, 'num_envs', 'no')} lanes"
            )
        env.first_lane = first
        self.num_lanes = num_lanes
        self.introduction = Introduction(env.single_observation_space, dict(env.metadata), env.render_mode)

    def reset(self, seed: Seeds, options: dict[str, Any] | None) -> Answer:
        batch, info = self.env.reset(seed=seed, options=options)
        return Answer(reset_step(batch), info)

    def step(self, actions: dict[str, RaggedArray]) -> Answer:
        batch, rewards, terminated, truncated, info = self.env.step_validated(actions)
        final = info.pop("final_obs", None)
        return Answer(LaneStep(batch, rewards, terminated, truncated, final), info)

    def render(self) -> tuple[Any, ...]:
        return self.env.render() or ()

    def set_progress(self, fraction: float) -> None:
        self.env.set_progress(fraction)

    def close(self) -> None:
        self.env.close()
