"""`Collector`: rollouts, from this process or elsewhere, as samples to learn from.

Shape alphabet: T steps, E environments, W environments of all ranks.
"""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from ..envs import EntityBatch, EntityVectorEnv
from ..policies import Policy
from .config import PPOConfig
from .lanes import EpisodeStatistics, Shown
from .off_policy import revalued
from .player import Player
from .ranks import Ranks, rows_of_rank
from .reward_normalization import RewardNormalizer
from .rollout import Rollout, Samples
from .rollout_source import RolloutSource
from .runs.guard import check_finite
from .schedule import Clock, annealed
from .starting_policy import StartingPolicy

#: Steps from the start without any actor after which there is a warning.
_MANY_STEPS = 1_000


class Collector:
    """Takes `config.num_steps` steps in every environment at each call of `collect`.

    The policy plays in this process (`Player`), or where the `RolloutSource` lets it play. All else is here:
    episodes, reward normalization and advantages are those of all environments together.

    Args:
        venv: the environments, or what plays in some elsewhere.
        lanes: the environments of `venv` among the `num_lanes` of all `ranks`.
        start: the policy that it is penalized to leave.

    Attributes:
        episodes: returns and lengths of the episodes of all ranks.
        rollout: the last one.
        rows: of the last rollout, see `rows_of_rank`; None for a process by itself.
    """

    def __init__(
        self,
        policy: Policy,
        venv: EntityVectorEnv | RolloutSource,
        config: PPOConfig,
        ranks: Ranks,
        lanes: slice,
        num_lanes: int,
        start: StartingPolicy | None,
    ) -> None:
        self.policy, self.config = policy, config
        self.ranks, self.lanes, self.num_lanes, self.start = ranks, lanes, num_lanes, start
        self.episodes = EpisodeStatistics(num_lanes)
        self.reward_normalizer = (
            RewardNormalizer(num_lanes, config.gamma) if config.normalize_rewards else None
        )
        self.clock = Clock()
        self.rollout: Rollout | None = None
        self.rows: NDArray[np.int64] | None = None
        self._without_actors: int | None = 0  # steps so far; None: there were actors, or a warning
        self.player: Player | RolloutSource
        if isinstance(venv, RolloutSource):
            self.player = venv
            venv.open(policy, config, self.clock)
        else:
            self.player = Player(policy, venv, config.num_steps, lambda: check_finite(policy), self.clock)

    @property
    def has_episodes(self) -> bool:
        """True if episodes have started and not been stopped; False: `start_episodes` comes next."""
        return self.player.has_episodes

    @property
    def shown(self) -> Shown | None:
        """The current observations of environments of this process; None: new episodes come next."""
        return self.player.shown if isinstance(self.player, Player) else None

    def continue_episodes(self, shown: Shown | None) -> None:
        """Continue the episodes from these observations; None: new episodes come next."""
        self.player.stop_episodes()
        if isinstance(self.player, Player):
            self.player.shown = shown

    @property
    def lanes_of_rows(self) -> NDArray[np.int64] | None:
        """`Rollout.lanes` of the last rollout."""
        return None if self.rollout is None else self.rollout.lanes

    def start_episodes(self, seed: int) -> EntityBatch:
        """Start an episode in every environment; return the steps of those that are active."""
        self.episodes.forget_running()
        if self.reward_normalizer is not None:
            self.reward_normalizer.forget_running()
        return self.player.start_episodes(seed + self.lanes.start)  # lane i of all: seed + i

    def collect(self, rng: np.random.Generator, done: float) -> Samples:
        """Take the steps and return them, valid until the next call; episodes must have started.

        Steps at which an environment is inactive are taken but left out. After an error new episodes come
        next.

        Args:
            rng: draws the actions of environments of this process.
            done: the fraction of training that is done.
        """
        config = self.config
        self.policy.train(False)
        player, ratios = self.player, None
        rollout = player.play(rng) if isinstance(player, Player) else player.play()
        rewards = self._follow_episodes(rollout)
        estimation = config.gamma, config.gae_lambda
        samples = rollout.samples(*estimation, rewards)
        if isinstance(player, RolloutSource) and player.staleness:
            rollout, ratios = revalued(self.policy, rollout, samples)
            samples = rollout.samples(*estimation, rewards, ratios)
        if self.start is not None:
            coef = annealed(config.start_kl_coef, done / config.start_kl_share)
            penalized = self.start.penalized(rewards, samples, rollout.active, coef)
            if penalized is not rewards:
                samples = rollout.samples(*estimation, penalized, ratios)
        self._look_for_actors(samples)
        self.rollout = rollout
        self.clock.lap("storage")
        return samples

    def metrics(self) -> dict[str, float]:
        """Return what to log of reward normalization and of the penalty for leaving the starting policy."""
        metrics = {} if self.start is None else self.start.metrics()
        if self.reward_normalizer is not None:
            metrics["charts/reward_deviation"] = self.reward_normalizer.deviation
        return metrics

    def _look_for_actors(self, samples: Samples) -> None:
        """Warn where nobody ever acts: such a training goes on to its end and learns nothing."""
        if self._without_actors is None:
            return
        self._without_actors += len(samples)
        if any(chosen.num_items for chosen in samples.actions.values()):
            self._without_actors = None
        elif self._without_actors >= _MANY_STEPS:
            warnings.warn(
                f"no action had an actor in the first {self._without_actors:,} steps: there was nothing to"
                " learn. Do the observations name the actors?",
                stacklevel=2,
            )
            self._without_actors = None

    def _follow_episodes(self, rollout: Rollout) -> NDArray[np.float32]:
        """Take in the episodes of all ranks; return the rewards to learn from (T, E)."""
        if rollout.renewed is not None:
            self.episodes.forget_running(rollout.renewed)
            if self.reward_normalizer is not None:
                self.reward_normalizer.forget_running(rollout.renewed)
        own = rollout.rewards, rollout.ended, rollout.active, rollout.successes
        parts = zip(*self.ranks.gather(own), strict=True)
        rewards, ended, active, successes = (np.concatenate(part, 1) for part in parts)  # each (T, W)
        is_partial = not active.all()
        for t in range(len(rewards)):
            self.episodes.record(rewards[t], ended[t], active[t] if is_partial else None, successes[t])
        self.rows = rows_of_rank(active, self.lanes) if self.ranks.size > 1 else None
        if self.reward_normalizer is None:
            return rollout.rewards
        normalized = self.reward_normalizer.normalize(rewards, ended, active if is_partial else None)
        return np.ascontiguousarray(normalized[:, self.lanes])
