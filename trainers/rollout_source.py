"""`RolloutSource`: environments that are played elsewhere, in place of a vector environment.

Shape alphabet: T steps, E environments.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from ..envs import EntityActionSpace, EntityBatch, EntitySpace
from .config import PPOConfig
from .rollout import Rollout
from .schedule import Clock

if TYPE_CHECKING:
    from ..envs.vector.vector_spec import VectorSpec
    from ..policies import Policy


class RolloutSource(ABC):
    """Environments whose rollouts come from elsewhere, such as actors; `PPO` takes one in place of `venv`.

    The trainer follows episodes, normalizes rewards, estimates advantages and updates the input statistics;
    the source plays: it returns what was observed and done, with the log-probabilities and values of the
    weights that acted.
    """

    num_envs: int
    single_observation_space: EntitySpace
    single_action_space: EntityActionSpace
    #: What `make_vec` was given; None: no plain values.
    vector_spec: VectorSpec | None = None
    #: Updates between the weights that act and the update that learns from the rollout, at most. Above 0 the
    #: trainer estimates advantages by V-trace.
    staleness: int = 0

    @abstractmethod
    def set_progress(self, fraction: float) -> None:
        """Take the fraction of training that is done; see `EntityVectorEnv.set_progress`."""

    @abstractmethod
    def open(self, policy: Policy, config: PPOConfig, clock: Clock) -> None:
        """Prepare for the trainer that plays `policy`: called once, by it.

        Args:
            clock: takes the seconds that the trainer waits ("env") and joins the parts ("storage").
        """

    @property
    @abstractmethod
    def has_episodes(self) -> bool:
        """True if episodes have started and not been stopped; False: `start_episodes` comes next."""

    @abstractmethod
    def start_episodes(self, seed: int) -> EntityBatch:
        """Start an episode in every environment, lane i with `seed + i`; return the steps of active lanes."""

    @abstractmethod
    def stop_episodes(self) -> None:
        """Forget the episodes: new ones come next."""

    @abstractmethod
    def play(self) -> Rollout:
        """Return the next rollout, of `config.num_steps` steps."""

    def training_metrics(self) -> dict[str, float]:
        """Return metrics to log after an update."""
        return {}
