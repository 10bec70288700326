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
    """What one agent sees at one moment, before it is batched with what others see.

    Attributes:
        agent: its name.
        label: what error messages call it.
        value: whatever the `AgentObserver` that made it needs.
        mask: the game's own mask of its actions; None where there is none, or where it doesn't move.
        acts: whether it must act now.
    """

    agent: str
    label: str
    value: Any
    mask: Any
    acts: bool


class AgentObserver(ABC):
    """Observes for single agents. Abstract: see `MaskObserver`, `SpaceObserver`, `GameViewObserver`,
    `EntityObserver`.

    Attributes:
        observation_space: of each lane; its `actions` are the agents'.
    """

    observation_space: EntitySpace

    @abstractmethod
    def observe(self, game: PettingZooGame, agent: str, acts: bool) -> AgentObservation:
        """What an agent sees now."""

    @abstractmethod
    def observe_final(self, game: PettingZooGame, agent: str, terminated: bool) -> AgentObservation | None:
        """What an agent sees that has just ended; None where it sees nothing, which needs `terminated`."""

    @abstractmethod
    def batch(self, observations: Sequence[AgentObservation | None]) -> EntityBatch:
        """Batch one step per observation: without entities for None, with an actor only for agents that act.

        Raises:
            ObservationError: what a game showed doesn't fit; the message names game and agent.
        """

    @abstractmethod
    def game_actions(self, orders: Orders, batch: EntityBatch, acting: Sequence[str | None]) -> list[Any]:
        """The PettingZoo action of each lane, None where nobody moves.

        Where nothing is ordered it is the first legal choice, and of real numbers the one nearest to 0.

        Args:
            orders: validated actions for `batch`.
            batch: as `batch` made it.
            acting: the agent that moves in each lane.
        """


class MaskObserver(AgentObserver):
    """Sees nothing but which actions are legal: enough to play at random."""

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

    def game_actions(self, orders: Orders, batch: EntityBatch, acting: Sequence[str | None]) -> list[Any]:
        return self._actions.game_actions(orders, batch.actions, acting)


def agent_label(game: PettingZooGame, agent: str) -> str:
    """What error messages call an agent."""
    return f"{game.label}: {agent!r}"


def has_final_observation(game: PettingZooGame, agent: str, terminated: bool) -> bool:
    """Whether the game shows an agent that has just ended what it sees last.

    Raises:
        ObservationError: it doesn't, although the agent was cut off and its value must be known.
    """
    if game.observation(agent) is not None:
        return True
    if not terminated:
        game.fail(f"agent {agent!r} was truncated, but there is no last observation of it")
    return False


def action_masks(
    actions: AgentActions, observations: Sequence[AgentObservation | None], actors: NDArray[np.int64]
) -> dict[str, ActionMask]:
    """Who may do what in each lane; `actors` (B,) as for `AgentActions.masks`."""
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
