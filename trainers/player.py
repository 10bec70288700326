"""`Player`: plays a policy in environments and returns the rollout. Loads without torch.

Shape alphabet: T steps, E environments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from ..envs import EntityBatch, EntityVectorEnv, no_actions
from ..envs.vector.infos import ended_successes
from ..policies import ActingPolicy, ActResult
from .advantages import ValueEstimator, final_values, next_values
from .lanes import Shown
from .rollout import Rollout, RolloutBuffer
from .runs.guard import check_batch, check_lanes, check_values
from .schedule import Clock


class Acting(ActingPolicy, ValueEstimator, Protocol):
    """Interface of what plays: a `Policy`, or a network that only acts."""


class Player:
    """Takes `num_steps` steps in every environment of `venv` at each call of `play`.

    Args:
        check_weights: raises NonFiniteError if a number of the policy is not finite.
        clock: takes the seconds of environments, inference and storage.

    Attributes:
        policy: may be replaced between two calls.
        shown: the current observations. None: new episodes come next; also where another caller has reset
            or stepped `venv` since.
    """

    def __init__(
        self,
        policy: Acting,
        venv: EntityVectorEnv,
        num_steps: int,
        check_weights: Callable[[], None],
        clock: Clock,
    ) -> None:
        self.policy, self.venv, self.clock = policy, venv, clock
        self.buffer = RolloutBuffer(venv.single_observation_space, num_steps, venv.num_envs)
        self.shown = None
        self._check_weights = check_weights

    @property
    def shown(self) -> Shown | None:
        return self._shown if self.venv.num_batches == self._num_batches else None

    @shown.setter
    def shown(self, shown: Shown | None) -> None:
        self._shown, self._num_batches = shown, self.venv.num_batches

    def start_episodes(self, seed: int) -> EntityBatch:
        """Start an episode in every environment, lane i with `seed + i`; return the steps of active lanes."""
        self.shown = Shown.of(*self.venv.reset(seed=seed))
        batch = self.shown.active_steps()
        if len(batch):
            check_batch(self.shown.batch, self.venv.single_observation_space, self.venv.num_envs)
        return batch

    @property
    def has_episodes(self) -> bool:
        """True if episodes have started and not been stopped; False: `start_episodes` comes next."""
        return self.shown is not None

    def stop_episodes(self) -> None:
        """Forget the episodes: new ones come next."""
        self.shown = None

    def play(self, rng: np.random.Generator) -> Rollout:
        """Take the steps and return them, valid until the next call; episodes must have started.

        Steps at which an environment is inactive are taken but left out. After an error `shown` is None.

        Args:
            rng: draws the actions.
        """
        shown, buffer, clock = self.shown, self.buffer, self.clock
        assert shown is not None
        self.shown = None
        buffer.clear()
        clock.start()
        for _ in range(buffer.shape[0]):
            batch = shown.active_steps()
            acted = self._act(shown, batch, rng)
            clock.lap("inference")
            buffer.append(batch, acted, shown.active)
            clock.lap("storage")
            after, rewards, terminated, truncated, info = self.venv.step(shown.for_all(acted.actions))
            clock.lap("env")
            check_lanes("reward", rewards)
            bootstraps = final_values(self.policy, buffer.last_values, terminated, truncated, info)
            clock.lap("inference")
            successes = ended_successes(info, terminated | truncated)
            buffer.record(rewards, terminated, truncated, bootstraps, successes)
            clock.lap("storage")
            shown = Shown.of(after, info)
        bootstraps = next_values(self.policy, buffer.last_values, shown)
        space, num_envs = self.venv.single_observation_space, self.venv.num_envs
        check_values(self._check_weights, shown.batch, space, bootstraps, num_envs)
        clock.lap("inference")
        self.shown = shown
        return buffer.rollout(bootstraps)

    def _act(self, shown: Shown, batch: EntityBatch, rng: np.random.Generator) -> ActResult:
        """Return the policy's actions at `batch`, the steps of `shown` that are active.

        If a number is not finite, the error names its source, whether or not the policy fails on it.
        """
        if not len(batch):
            return ActResult(no_actions(self.venv.single_action_space, 0), {}, np.zeros(0, np.float32))
        try:
            acted = self.policy.act(batch, rng)
        except Exception:
            check_batch(shown.batch, self.venv.single_observation_space, self.venv.num_envs)
            self._check_weights()
            raise
        space, num_envs = self.venv.single_observation_space, self.venv.num_envs
        check_values(self._check_weights, shown.batch, space, acted.values, num_envs, shown.active)
        return acted
