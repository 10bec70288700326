"""Observers: encode agents' observations as entities, and decode entity actions into PettingZoo actions.

Shape alphabet: B lanes, each with at most one agent.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...envs import ActionMask, EntityBatch, EntitySpace
from .agent_actions import Actions, AgentActions
from .game import PettingZooGame

Guard = Callable[[PettingZooGame], AbstractContextManager[None]]


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
    """Encoder of agents' observations, and decoder of their actions.

    Abstract: see `MaskObserver`, `SpaceObserver`, `GameViewObserver` and `EntitySpaceObserver`.

    Attributes:
        observation_space: of each lane; its `actions` are the agents'.
        actions: the agents' action spaces as entity actions.
    """

    observation_space: EntitySpace
    actions: AgentActions

    @abstractmethod
    def _value(self, game: PettingZooGame, agent: str, label: str) -> Any:
        """Return the `AgentObservation.value` of an agent that is in play or has just ended."""

    def observe(self, game: PettingZooGame, agent: str, acts: bool) -> AgentObservation:
        """Return the observation of an agent that is in play."""
        label = game.agent_label(agent)
        value = self._value(game, agent, label)
        return AgentObservation(agent, label, value, game.mask(agent) if acts else None, acts)

    def observe_final(self, game: PettingZooGame, agent: str, terminated: bool) -> AgentObservation | None:
        """Return the last observation of an agent that has just ended; None if terminated without one."""
        return self.observe(game, agent, False) if game.has_final_observation(agent, terminated) else None

    @abstractmethod
    def batch(self, observations: Sequence[AgentObservation | None]) -> EntityBatch:
        """Batch one step per observation: without entities for None, with an actor only for agents that act.

        Raises:
            ObservationError: an observation does not fit; the message names game and agent.
        """

    def observe_games(
        self, games: Sequence[PettingZooGame], agents: Sequence[str], guard: Guard
    ) -> tuple[EntityBatch, list[str | None]] | None:
        """Return the batch of all lanes, read at once, and the agent that acts in each lane, or None.

        The lanes of `agents` in the first game come first. None, here: observers read one agent after the
        other.

        Args:
            guard: the context in which a game is read (see `GameRunner.guard`).

        Raises:
            ObservationError: as `batch`.
        """
        return None

    def use_array_step(self, game: PettingZooGame) -> bool:
        """Prepare a game that has been reset for `ParallelGame.step_arrays`; return True if it can be used.

        False, here: observers need the game's own observations.
        """
        return False

    def game_actions(self, actions: Actions, acting: Sequence[str | None]) -> list[Any]:
        """Return the PettingZoo action of each lane; None for lanes where no agent acts.

        Args:
            actions: validated actions for the last result of `batch`.
            acting: the agent that acts in each lane.
        """
        return self.actions.game_actions(actions, acting)

    def _masks(
        self, observations: Sequence[AgentObservation | None], actors: NDArray[np.int64] | None = None
    ) -> dict[str, ActionMask]:
        """Return the action masks of all lanes; `actors` (B,) as for `AgentActions.masks`, default -1."""
        if actors is None:
            actors = np.full(len(observations), -1)
        acting = [seen.agent if seen is not None and seen.acts else None for seen in observations]
        masks = [None if seen is None else seen.mask for seen in observations]
        labels = ["" if seen is None else seen.label for seen in observations]
        return self.actions.masks(acting, masks, labels, actors)


class MaskObserver(AgentObserver):
    """Observer of action masks alone, for opponents that choose at random."""

    def __init__(self, game: PettingZooGame, agents: Sequence[str]) -> None:
        self.actions = AgentActions(game, agents)
        self.observation_space = EntitySpace({}, self.actions.action_space)

    def _value(self, game: PettingZooGame, agent: str, label: str) -> None:
        return None

    def batch(self, observations: Sequence[AgentObservation | None]) -> EntityBatch:
        return EntityBatch({}, np.zeros((len(observations), 0), np.float32), self._masks(observations))
