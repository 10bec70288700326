"""Lanes: environments stepped one after the other, and the vector environments made of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from ...ragged import RaggedArray
from ..actions import EntityActionSpace
from ..batch.entity_batch import EntityBatch, batch_observations
from ..errors import WorkerError
from ..spaces import EntitySpace
from .infos import lane_mask, merge_infos
from .vector_env import EntityVectorEnv, StepResult

EnvFn = Callable[[], gymnasium.Env[Any, Any]]
Infos = dict[int, dict[str, Any]]  # by lane; lanes without an info are left out


@dataclass
class LaneReset:
    """The result of resetting some lanes."""

    batch: EntityBatch
    infos: Infos = field(default_factory=dict)


@dataclass
class LaneStep:
    """The result of stepping L lanes; those that ended have been reset already."""

    batch: EntityBatch
    rewards: NDArray[np.float32]  # (L,)
    terminated: NDArray[np.bool_]  # (L,)
    truncated: NDArray[np.bool_]  # (L,)
    final: EntityBatch | None  # the last observations of the ended lanes, in the order of the lanes
    infos: Infos = field(default_factory=dict)
    final_infos: Infos = field(default_factory=dict)


class Lanes:
    """Environments stepped one after the other in this process.

    Args:
        env_fns: one function per lane that makes its environment.
        first_index: the index of the first lane, for error messages and infos.

    Raises:
        WorkerError: a lane raised; it is named, and every lane has been closed.
    """

    def __init__(self, env_fns: Sequence[EnvFn], first_index: int = 0) -> None:
        self.first_index = first_index
        self.envs: list[gymnasium.Env[Any, Any]] = []
        for env_fn in env_fns:
            lane = len(self.envs)
            try:
                env = env_fn()
                if not isinstance(env, gymnasium.Env):
                    raise TypeError(f"env_fn: expected a gymnasium.Env, got {env!r}")
                self.envs.append(env)
                self._check_spaces(lane)
            except Exception as error:
                raise self._failure(lane, "being made", error) from error
        self.observation_space: EntitySpace = self.envs[0].observation_space  # type: ignore[assignment]
        self.action_space: EntityActionSpace = self.envs[0].action_space  # type: ignore[assignment]

    def _check_spaces(self, lane: int) -> None:
        env, first = self.envs[lane], self.envs[0]
        if not isinstance(env.observation_space, EntitySpace) or not isinstance(
            env.action_space, EntityActionSpace
        ):
            raise TypeError(
                f"spaces: expected an EntitySpace and an EntityActionSpace, got {env.observation_space!r}"
                f" and {env.action_space!r}"
            )
        if env.observation_space != first.observation_space or env.action_space != first.action_space:
            raise ValueError(
                f"spaces: expected those of env {self.first_index}, {first.observation_space!r} with"
                f" {first.action_space!r}, got {env.observation_space!r} with {env.action_space!r}"
            )

    def reset(self, seeds: Sequence[int | None], options: dict[str, Any] | None) -> LaneReset:
        """Start an episode in every lane; one seed per lane."""
        observations, infos = [], {}
        for lane, (env, seed) in enumerate(zip(self.envs, seeds, strict=True)):
            try:
                observation, info = env.reset(seed=seed, options=options)
            except Exception as error:
                raise self._failure(lane, "reset", error) from error
            observations.append(observation)
            if info:
                infos[self.first_index + lane] = info
        return LaneReset(batch_observations(self.observation_space, observations), infos)

    def step(self, actions: Mapping[str, RaggedArray]) -> LaneStep:
        """Step every lane with validated actions, and start the next episode where one ended."""
        count = len(self.envs)
        rewards, terminated, truncated = (
            np.zeros(count, np.float32),
            np.zeros(count, bool),
            np.zeros(count, bool),
        )
        observations, finals = [], []
        infos: Infos = {}
        final_infos: Infos = {}
        parts = [(name, given.values, given.offsets.tolist()) for name, given in actions.items()]
        for lane, env in enumerate(self.envs):
            action = {name: values[cuts[lane] : cuts[lane + 1]] for name, values, cuts in parts}
            try:
                observation, rewards[lane], terminated[lane], truncated[lane], info = env.step(action)
                if terminated[lane] or truncated[lane]:
                    finals.append(observation)
                    final_infos[self.first_index + lane] = info
                    observation, info = env.reset()
            except Exception as error:
                raise self._failure(lane, "step", error) from error
            observations.append(observation)
            if info:
                infos[self.first_index + lane] = info
        return LaneStep(
            batch_observations(self.observation_space, observations),
            rewards,
            terminated,
            truncated,
            batch_observations(self.observation_space, finals) if finals else None,
            infos,
            final_infos,
        )

    def render(self) -> tuple[Any, ...]:
        """One frame per lane."""
        return tuple(env.render() for env in self.envs)

    def close(self) -> None:
        """Close every lane, even where one of them raises in doing so. A second call does nothing."""
        envs, self.envs = self.envs, []
        with ExitStack() as stack:
            for env in envs:
                stack.callback(env.close)

    def _failure(self, lane: int, doing: str, error: Exception) -> WorkerError:
        """The error to raise for `error` in `lane`, once all lanes are closed."""
        name = type(self.envs[lane].unwrapped).__name__ if lane < len(self.envs) else "environment"
        try:
            self.close()
        except Exception as second:
            error.add_note(f"closing the other environments also raised {second!r}")
        index = self.first_index + lane
        return WorkerError(
            f"env {index} ({name}) raised {type(error).__name__} in {doing}: {error}", (index,)
        )


class LaneVectorEnv(EntityVectorEnv):
    """A vector environment made of single ones. Abstract: `ListVectorEnv` and `ProcessVectorEnv`.

    Seeds follow Gymnasium: lane i gets `seed + i`. Infos are merged as in Gymnasium (see `merge_infos`);
    where an episode ended, `info["final_info"]` holds the infos of its last step, merged likewise, and
    `info["_final_info"]` (num_envs,) says in which lanes. The lanes' own mode of autoreset is SAME_STEP.

    Raises:
        WorkerError: an environment raised; it is named, and all environments have been closed.
    """

    def _describe(
        self, num_envs: int, space: EntitySpace, metadata: Mapping[str, Any], render_mode: str | None
    ) -> None:
        """Set what a vector environment says about itself from what its lanes say."""
        self.num_envs = num_envs
        self.single_observation_space = space
        self.single_action_space = space.actions
        self.metadata = {**metadata, "autoreset_mode": AutoresetMode.SAME_STEP, "final_obs": True}
        self.render_mode = render_mode

    @abstractmethod
    def _reset_lanes(self, seeds: list[int | None], options: dict[str, Any] | None) -> LaneReset:
        """Start an episode in every lane; closes all of them where one raises."""

    @abstractmethod
    def _step_lanes(self, actions: dict[str, RaggedArray]) -> LaneStep:
        """Step every lane; closes all of them where one raises."""

    def _reset(
        self, seeds: list[int | None], options: dict[str, Any] | None
    ) -> tuple[EntityBatch, dict[str, Any]]:
        """Start an episode in every lane; `options` go to each."""
        result = self._reset_lanes(seeds, options)
        return result.batch, merge_infos(result.infos, self.num_envs)

    def _step(self, actions: dict[str, RaggedArray]) -> StepResult:
        result = self._step_lanes(actions)
        info = merge_infos(result.infos, self.num_envs)
        if result.final_infos:
            info["final_obs"] = result.final
            info["final_info"] = merge_infos(result.final_infos, self.num_envs)
            info["_final_obs"] = lane_mask(result.final_infos, self.num_envs)
            info["_final_info"] = info["_final_obs"].copy()
        return result.batch, result.rewards, result.terminated, result.truncated, info
