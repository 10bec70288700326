"""`ListVectorEnv`: single environments stepped one after the other in this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium

from ...ragged import RaggedArray
from .lanes import EnvFn, LaneReset, Lanes, LaneStep, LaneVectorEnv


class ListVectorEnv(LaneVectorEnv):
    """Steps single entity environments one after the other in this process. See `LaneVectorEnv`.

    Args:
        env_fns: one function per lane that makes its environment: any `gymnasium.Env`, wrapped or not, whose
            spaces are an `EntitySpace` and an `EntityActionSpace`, the same in every lane.

    Raises:
        ValueError: there is no `env_fn`.
        WorkerError: an environment could not be made; those already made have been closed.
    """

    def __init__(self, env_fns: Sequence[EnvFn]) -> None:
        if not env_fns:
            raise ValueError("ListVectorEnv: env_fns: expected at least one env_fn, got none")
        self._lanes = Lanes(env_fns)
        first = self._lanes.envs[0]
        self._describe(len(env_fns), self._lanes.observation_space, first.metadata, first.render_mode)

    @property
    def envs(self) -> list[gymnasium.Env[Any, Any]]:
        """The environment of each lane; none after `close`."""
        return self._lanes.envs

    def _reset_lanes(self, seeds: list[int | None], options: dict[str, Any] | None) -> LaneReset:
        return self._lanes.reset(seeds, options)

    def _step_lanes(self, actions: dict[str, RaggedArray]) -> LaneStep:
        return self._lanes.step(actions)

    def _render(self) -> tuple[Any, ...]:
        return self._lanes.render()

    def close_extras(self, **kwargs: Any) -> None:
        self._lanes.close()
