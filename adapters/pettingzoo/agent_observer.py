"""Observers: encode agents' observations as entities, and decode entity actions into PettingZoo actions.

Shape alphabet: B lanes, each with at most one agent.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...envs import ActionMask, EntityBatch, EntitySpace
from .agent_actions import AgentActions, Orders
from .game import PettingZooGame


@dataclass(frozen=True, slots=True)
class AgentObservation:
    """One agent's observation at one step, before it is batched.

    Attributes:
        agent: its name.
        label: its name in error messages.
        value: the observation, in the form that the `AgentObserver` needs.
        mask: the game's action mask; None without one, or if the agent does not act.
        acts: True if it must act now.
    """

    agent: str
    label: str
    value: Any
    mask: Any
    acts: bool


class AgentObserver(ABC):
    """EntityEncoder of single agents' observations.

    Abstract: see `MaskObserver`, `SpaceObserver`, `GameViewObserver` and `EntitySpaceObserver`.

    Attributes:
        observation_space: of each lane; its `actions` are the agents'.
    """

    observation_space: EntitySpace

    @abstractmethod
    def observe(self, game: PettingZooGame, agent: str, acts: bool) -> AgentObservation:
        """Return the observation of an agent that is in play."""

    @abstractmethod
    def observe_final(self, game: PettingZooGame, agent: str, terminated: bool) -> AgentObservation | None:
        """Return the last observation of an agent that has just ended; None if terminated without one."""

    @abstractmethod
    def batch(self, observations: Sequence[AgentObservation | None]) -> EntityBatch:
        """Batch one step per observation: without entities for None, with an actor only for agents that act.

        Raises:
            ObservationError: an observation does not fit; the message names game and agent.
        """

    @abstractmethod
    def game_actions(self, orders: Orders, acting: Sequence[str | None]) -> list[Any]:
        """Return the PettingZoo action of each lane; None for lanes where no agent acts.

        Args:
            orders: validated actions for the last result of `batch`.
            acting: the agent that acts in each lane.
        """


class MaskObserver(AgentObserver):
    """Observer of action masks alone, for opponents that play at random."""

    def __init__(self, game: PettingZooGame, agents: Sequence[str]) -> None:
        self._actions = AgentActions(game, agents)
        self.observation_space = EntitySpace({}, self._actions.action_space)

    def observe(self, game: PettingZooGame, agent: str, acts: bool) -> AgentObservation:
        return AgentObservation(
            agent, agent_label(game, agent), None, game.mask(agent) if acts else None, acts
        )

    def observe_final(self, game: PettingZooGame, agent: str, terminated: bool) -> AgentObservation | None:
        return None

    def batch(self, observations: Sequence[AgentObservation | None]) -> EntityBatch:
        masks = action_masks(self._actions, observations, np.full(len(observations), -1))
        return EntityBatch({}, np.zeros((len(observations), 0), np.float32), masks)

    def game_actions(self, orders: Orders, acting: Sequence[str | None]) -> list[Any]:
        return self._actions.game_actions(orders, acting)


def agent_label(game: PettingZooGame, agent: str) -> str:
    """Return the agent's name in error messages."""
    return f"{game.label}: {agent!r}"


def has_final_observation(game: PettingZooGame, agent: str, terminated: bool) -> bool:
    """Return True if the game has a last observation of an agent that has just ended.

    Raises:
        ObservationError: the agent was truncated and the game has no last observation to compute its value.
    """
    if game.observation(agent) is not None:
        return True
    if not terminated:
        game.fail(f"agent {agent!r} was truncated: expected its last observation, got none")
    return False


def action_masks(
    actions: AgentActions, observations: Sequence[AgentObservation | None], actors: NDArray[np.int64]
) -> dict[str, ActionMask]:
    """Return the action masks of all lanes; `actors` (B,) as for `AgentActions.masks`."""
    acting = [
        observation.agent if observation is not None and observation.acts else None
        for observation in observations
    ]
    masks = [None if observation is None else observation.mask for observation in observations]
    return actions.masks(
        acting,
        masks,
        ["" if observation is None else observation.label for observation in observations],
        actors,
    )
