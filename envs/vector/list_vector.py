"""`ListVectorEnv`: single environments stepped one after the other in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode

from ...ragged import RaggedArray
from ..actions import EntityActionSpace
from ..batch.entity_batch import EntityBatch, batch_observations
from ..errors import ObservationError, WorkerError
from ..returned import step_values
from ..spaces import EntitySpace
from ..spaces.changes import ADVICE, space_changes
from .infos import copied, lane_mask, merge_infos
from .vector_env import EntityVectorEnv, StepResult

EnvFn = Callable[[], gymnasium.Env[Any, Any]]
Infos = dict[int, dict[str, Any]]  # by lane; lanes without an info are left out


class ListVectorEnv(EntityVectorEnv):
    """Steps single entity environments one after the other in this process.

    Seeds follow Gymnasium: lane i gets `seed + i`. Infos are merged as in Gymnasium (see `merge_infos`);
    where an episode ended, `info["final_info"]` holds the infos of its last step, merged likewise, and
    `info["_final_info"]` (num_envs,) says in which lanes.

    Args:
        env_fns: one function per lane that makes its environment: any `gymnasium.Env`, wrapped or not, whose
            spaces are an `EntitySpace` and an `EntityActionSpace`, the same in every lane.
        first_lane: the index of the first lane in errors.

    Attributes:
        envs: the environment of each lane; none after `close`.

    Raises:
        ValueError: there is no `env_fn`, or two lanes have the same environment.
        WorkerError: an environment raised, or could not be made; it is named, and all have been closed.
    """

    def __init__(self, env_fns: Sequence[EnvFn], first_lane: int = 0) -> None:
        if not env_fns:
            raise ValueError("ListVectorEnv: env_fns: expected at least one env_fn, got none")
        self.first_lane = first_lane
        self.envs: list[gymnasium.Env[Any, Any]] = []
        for lane, env_fn in enumerate(env_fns):
            try:
                env = env_fn()
                if not isinstance(env, gymnasium.Env):
                    raise TypeError(f"env_fn: expected a gymnasium.Env, got {env!r}")
                self.envs.append(env)
                self._check_spaces(env)
            except Exception as error:
                raise self._failure(lane, "being made", error) from error
        check_separate(self.envs)
        first = self.envs[0]
        self.num_envs = len(env_fns)
        self._spaces = [env.observation_space for env in self.envs]
        self.single_observation_space = first.observation_space  # type: ignore[assignment]
        self.single_action_space = first.action_space  # type: ignore[assignment]
        self.metadata = {**first.metadata, "autoreset_mode": AutoresetMode.SAME_STEP, "final_obs": True}
        self.render_mode = first.render_mode

    def _check_spaces(self, env: gymnasium.Env[Any, Any]) -> None:
        first = self.envs[0]
        if not isinstance(env.observation_space, EntitySpace) or not isinstance(
            env.action_space, EntityActionSpace
        ):
            raise TypeError(
                f"spaces: expected an EntitySpace and an EntityActionSpace, got {env.observation_space!r}"
                f" and {env.action_space!r}"
            )
        if env.observation_space != first.observation_space or env.action_space != first.action_space:
            raise ValueError(
                f"spaces: expected those of env {self.first_lane}, {first.observation_space!r} with"
                f" {first.action_space!r}, got {env.observation_space!r} with {env.action_space!r}"
            )

    def _check_same_space(self, lane: int) -> None:
        """Check that a reset kept the space that the environment had when it was made."""
        env = self.envs[lane]
        if env.observation_space is not self._spaces[lane]:
            if env.observation_space != self.single_observation_space:
                changes = space_changes(self.single_observation_space, env.observation_space)
                raise ObservationError(
                    f"observation_space differs from that before the reset: {changes}. {ADVICE}"
                )
            self._spaces[lane] = env.observation_space

    def _reset(
        self, seeds: list[int | None], options: dict[str, Any] | None
    ) -> tuple[EntityBatch, dict[str, Any]]:
        observations, infos = [], {}
        for lane, (env, seed) in enumerate(zip(self.envs, seeds, strict=True)):
            try:
                observation, info = env.reset(seed=seed, options=options)
                self._check_same_space(lane)
            except Exception as error:
                raise self._failure(lane, "reset", error) from error
            observations.append(observation)
            if info:
                infos[lane] = info
        return batch_observations(self.single_observation_space, observations), self._info(infos, {})

    def _step(self, actions: dict[str, RaggedArray]) -> StepResult:
        rewards = np.zeros(self.num_envs, np.float32)
        terminated, truncated = np.zeros(self.num_envs, bool), np.zeros(self.num_envs, bool)
        observations, finals = [], []
        infos: Infos = {}
        final_infos: Infos = {}
        parts = [(name, given.values, given.offsets.tolist()) for name, given in actions.items()]
        for lane, env in enumerate(self.envs):
            action = {name: values[cuts[lane] : cuts[lane + 1]] for name, values, cuts in parts}
            try:
                result = step_values(f"{type(env).__name__}.step", env.step(action))
                observation, rewards[lane], terminated[lane], truncated[lane], info = result
                if terminated[lane] or truncated[lane]:
                    finals.append(copied(observation))  # the reset may write into the same arrays
                    final_infos[lane] = copied(info)
                    observation, info = env.reset()
                    self._check_same_space(lane)
            except Exception as error:
                raise self._failure(lane, "step", error) from error
            observations.append(observation)
            if info:
                infos[lane] = info
        info = self._info(infos, final_infos)
        if finals:
            info["final_obs"] = batch_observations(self.single_observation_space, finals)
        batch = batch_observations(self.single_observation_space, observations)
        return batch, rewards, terminated, truncated, info

    def _info(self, infos: Infos, final_infos: Infos) -> dict[str, Any]:
        """Return the info of a step from those of its lanes, and from the last ones of the ended lanes."""
        return lanes_info(infos, final_infos, self.num_envs)

    def set_progress(self, fraction: float) -> None:
        """Pass the progress of training on to the environments that have a method `set_progress`."""
        self._check_open()
        for lane, env in enumerate(self.envs):
            try:
                pass_progress(env, fraction)
            except Exception as error:
                raise self._failure(lane, "set_progress", error) from error

    def _render(self) -> tuple[Any, ...]:
        return tuple(env.render() for env in self.envs)

    def close_extras(self, **kwargs: Any) -> None:
        """Close every lane, even where one of them raises in doing so."""
        envs, self.envs = self.envs, []
        with ExitStack() as stack:
            for env in envs:
                stack.callback(env.close)

    def _failure(self, lane: int, doing: str, error: Exception) -> WorkerError:
        """The error to raise for `error` in `lane`, once all lanes are closed."""
        name = type(self.envs[lane].unwrapped).__name__ if lane < len(self.envs) else "environment"
        try:
            self.close_extras()
        except Exception as second:
            error.add_note(f"closing the other environments also raised {second!r}")
        index = self.first_lane + lane
        return WorkerError(
            f"env {index} ({name}) raised {type(error).__name__} in {doing}: {error}", (index,)
        )


def check_separate(envs: Sequence[gymnasium.Env[Any, Any]]) -> None:
    """Check that each lane has an environment of its own.

    Raises:
        ValueError: two lanes have the same one.
    """
    if len({id(env.unwrapped) for env in envs}) < len(envs):
        raise ValueError(
            f"expected a new {type(envs[0].unwrapped).__name__} at each call of the function that makes the"
            " environments, got the same one twice"
        )


def lanes_info(infos: Infos, final_infos: Infos, num_envs: int) -> dict[str, Any]:
    """Merge the infos of a step's lanes, and the last ones of those whose episodes ended."""
    info = merge_infos(infos, num_envs)
    if final_infos:
        info["final_info"] = merge_infos(final_infos, num_envs)
        info["_final_obs"] = lane_mask(final_infos, num_envs)
        info["_final_info"] = info["_final_obs"].copy()
    return info


def pass_progress(env: gymnasium.Env[Any, Any], fraction: float) -> None:
    """Call the method `set_progress` of an environment, or of what it wraps, if there is one."""
    if env.has_wrapper_attr("set_progress"):
        env.get_wrapper_attr("set_progress")(fraction)
