"""`Collector`: plays a policy in environments and returns what happened as samples to learn from.

Shape alphabet: T steps, E environments, W environments of all ranks.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import nn

from ..envs import EntityBatch, EntityVectorEnv, no_actions
from ..policies import ActResult, Policy
from .advantages import final_values, next_values
from .config import PPOConfig
from .lanes import EpisodeStatistics, Shown
from .ranks import Ranks, rows_of_rank
from .reward_normalization import RewardNormalizer
from .rollout import RolloutBuffer, Samples
from .runs.guard import check_batch, check_lanes, check_module, check_values
from .schedule import Clock, annealed
from .starting_policy import StartingPolicy


class Collector:
    """Takes `config.num_steps` steps in every environment at each call of `collect`.

    Args:
        module: `policy` as a module.
        lanes: the environments of `venv` among the `num_lanes` of all `ranks`.
        start: the policy that it is penalized to leave.

    Attributes:
        shown: the current observations; None: new episodes come next.
        episodes: returns and lengths of the episodes of all ranks.
        rows: of the last rollout, see `rows_of_rank`; None for a process by itself.
    """

    def __init__(
        self,
        policy: Policy,
        module: nn.Module,
        venv: EntityVectorEnv,
        config: PPOConfig,
        ranks: Ranks,
        lanes: slice,
        num_lanes: int,
        start: StartingPolicy | None,
    ) -> None:
        self.policy, self.module, self.venv, self.config = policy, module, venv, config
        self.ranks, self.lanes, self.num_lanes, self.start = ranks, lanes, num_lanes, start
        self.buffer = RolloutBuffer(venv.single_observation_space, config.num_steps, venv.num_envs)
        self.episodes = EpisodeStatistics(num_lanes)
        self.reward_normalizer = (
            RewardNormalizer(num_lanes, config.gamma) if config.normalize_rewards else None
        )
        self.clock = Clock()
        self.shown: Shown | None = None
        self.rows: NDArray[np.int64] | None = None

    def start_episodes(self, seed: int) -> EntityBatch:
        """Start an episode in every environment; return the steps of those that are active."""
        self.episodes.forget_running()
        if self.reward_normalizer is not None:
            self.reward_normalizer.forget_running()
        self.shown = Shown.of(*self.venv.reset(seed=seed + self.lanes.start))  # lane i of all: seed + i
        batch = self.shown.at_work()
        if len(batch):
            check_batch(self.shown.batch, self.venv.num_envs)
        return batch

    def collect(self, rng: np.random.Generator, done: float) -> Samples:
        """Take the steps and return them, valid until the next call; episodes must have started.

        Steps at which an environment is inactive are taken but left out. After an error `shown` is None.

        Args:
            rng: draws the actions.
            done: the fraction of training that is done.
        """
        shown, buffer, clock, config = self.shown, self.buffer, self.clock, self.config
        assert shown is not None
        self.shown = None
        buffer.clear()
        self.module.eval()
        clock.start()
        for _ in range(config.num_steps):
            batch = shown.at_work()
            acted = self._act(shown, batch, rng)
            clock.lap("inference")
            buffer.append(batch, acted, shown.active)
            clock.lap("storage")
            after, rewards, terminated, truncated, info = self.venv.step(shown.for_all(acted.actions))
            clock.lap("env")
            check_lanes("reward", rewards)
            bootstraps = final_values(self.policy, buffer.last_values, terminated, truncated, info)
            clock.lap("inference")
            buffer.record(rewards, terminated, truncated, bootstraps)
            clock.lap("storage")
            shown = Shown.of(after, info)
        bootstraps = next_values(self.policy, buffer.last_values, shown)
        check_values(self.module, shown.batch, bootstraps, self.venv.num_envs)
        clock.lap("inference")
        rewards = self._follow_episodes()
        estimation = config.gamma, config.gae_lambda
        samples = buffer.samples(bootstraps, *estimation, rewards)
        if self.start is not None:
            coef = annealed(config.start_kl_coef, done / config.start_kl_share)
            penalized = self.start.penalized(rewards, samples, buffer.active, coef)
            if penalized is not rewards:
                samples = buffer.samples(bootstraps, *estimation, penalized)
        clock.lap("storage")
        self.shown = shown
        return samples

    def _act(self, shown: Shown, batch: EntityBatch, rng: np.random.Generator) -> ActResult:
        """Return the policy's actions at `batch`, the steps of `shown` that are active.

        If a number is not finite, the error names its source, whether or not the policy fails on it.
        """
        if not len(batch):
            return ActResult(no_actions(self.venv.single_action_space, 0), {}, np.zeros(0, np.float32))
        try:
            acted = self.policy.act(batch, rng)
        except Exception:
            check_batch(shown.batch, self.venv.num_envs)
            check_module(self.module)
            raise
        check_values(self.module, shown.batch, acted.values, self.venv.num_envs, shown.active)
        return acted

    def _follow_episodes(self) -> NDArray[np.float32]:
        """Take in the episodes of all ranks; return the rewards to learn from (T, E)."""
        buffer = self.buffer
        ended = buffer.terminated | buffer.truncated
        parts = zip(*self.ranks.gather((buffer.rewards, ended, buffer.active)), strict=True)
        rewards, ended, active = (np.concatenate(part, 1) for part in parts)  # each (T, W)
        for at in zip(rewards, ended, active, strict=True):
            self.episodes.record(*at)
        self.rows = rows_of_rank(active, self.lanes) if self.ranks.size > 1 else None
        if self.reward_normalizer is None:
            return buffer.rewards
        normalized = self.reward_normalizer.normalize(rewards, ended, None if active.all() else active)
        return np.ascontiguousarray(normalized[:, self.lanes])
