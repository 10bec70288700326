"""`Sight`: what single agents see of their games, as entities, and what they are told, as PettingZoo actions.

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
from .match import Match
from .moves import Moves, Orders


@dataclass(frozen=True, slots=True)
class Look:
    """What one agent sees at one moment, before it is batched with what others see.

    Attributes:
        agent: its name.
        place: what error messages call it.
        seen: whatever the `Sight` that made it needs.
        mask: the game's own mask of its actions; None where there is none, or where it doesn't move.
        moves: whether it must move now.
    """

    agent: str
    place: str
    seen: Any
    mask: Any
    moves: bool


class Sight(ABC):
    """Sees for single agents. Abstract: `Blind`, `SpaceSight`, `ViewSight` and `EntitySight`.

    Attributes:
        observation_space: of each lane; its `actions` are the agents'.
    """

    observation_space: EntitySpace

    @abstractmethod
    def look(self, match: Match, agent: str, moves: bool) -> Look:
        """What a living agent sees now."""

    @abstractmethod
    def last_look(self, match: Match, agent: str, terminated: bool) -> Look | None:
        """What an agent sees that has just ended; None where it sees nothing, which needs `terminated`."""

    @abstractmethod
    def batch(self, looks: Sequence[Look | None]) -> EntityBatch:
        """One step per look; nothing and nobody where there is none, no actors where the agent doesn't move.

        Raises:
            ObservationError: what a game showed doesn't fit; the message names game and agent.
        """

    @abstractmethod
    def raw(self, orders: Orders, batch: EntityBatch, movers: Sequence[str | None]) -> list[Any]:
        """The PettingZoo action of each lane, None where nobody moves.

        Where nothing is ordered it is the first legal choice, and of real numbers the one nearest to 0.

        Args:
            orders: validated actions for `batch`.
            batch: as `batch` made it.
            movers: the agent that moves in each lane.
        """


class Blind(Sight):
    """Sees nothing but which actions are legal: enough to play at random."""

    def __init__(self, match: Match, agents: Sequence[str]) -> None:
        self._moves = Moves(match, agents)
        self.observation_space = EntitySpace({}, self._moves.action_space)

    def look(self, match: Match, agent: str, moves: bool) -> Look:
        return Look(agent, place(match, agent), None, match.mask(agent) if moves else None, moves)

    def last_look(self, match: Match, agent: str, terminated: bool) -> Look | None:
        return None

    def batch(self, looks: Sequence[Look | None]) -> EntityBatch:
        masks = masks_of(self._moves, looks, np.full(len(looks), -1))
        return EntityBatch({}, np.zeros((len(looks), 0), np.float32), masks)

    def raw(self, orders: Orders, batch: EntityBatch, movers: Sequence[str | None]) -> list[Any]:
        return self._moves.raw(orders, batch.actions, movers)


def place(match: Match, agent: str) -> str:
    """What error messages call an agent."""
    return f"{match.place}: {agent!r}"


def still_shown(match: Match, agent: str, terminated: bool) -> bool:
    """Whether the game shows an agent that has just ended what it sees last.

    Raises:
        ObservationError: it doesn't, although the agent was cut off and its value must be known.
    """
    if match.observation(agent) is not None:
        return True
    if not terminated:
        match.fail(f"agent {agent!r} was truncated, but there is no last observation of it")
    return False


def masks_of(moves: Moves, looks: Sequence[Look | None], actors: NDArray[np.int64]) -> dict[str, ActionMask]:
    """Who may do what in each lane; `actors` (B,) as for `Moves.masks`."""
    movers = [look.agent if look is not None and look.moves else None for look in looks]
    masks = [None if look is None else look.mask for look in looks]
    return moves.masks(movers, masks, ["" if look is None else look.place for look in looks], actors)
