"""`GameView`: how a PettingZoo game is seen as entities, by reading its typed state.

Shape alphabet: n entities of one type, F features, G global features.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass
class GameObservation:
    """What one agent, or a team, sees of a game at one moment.

    A type that is left out has no entities. An agent's own entity has the agent's name as its id; it is the
    actor of the agent's actions. Where an agent has no entity (a board game's player), its actions are
    performed by no entity in particular.
    """

    entities: dict[str, NDArray[np.float32]] = field(default_factory=dict)  # per type (n, F)
    ids: dict[str, list[Hashable]] = field(default_factory=dict)  # per type n ids, or no entry
    globals: NDArray[np.float32] = field(default_factory=lambda: np.zeros(0, np.float32))  # (G,)


class GameView(ABC):
    """Reads the state of one kind of game. An object serves one running game and is made for it.

    A view is given the unwrapped game (`env.unwrapped`), reads it and never changes it.

    Attributes:
        entities: entity type -> feature names; the same for all agents of the game.
        global_features: names of the global features.
    """

    entities: Mapping[str, tuple[str, ...]]
    global_features: tuple[str, ...] = ()

    def __init__(self, game: Any) -> None:
        """
        Raises:
            ViewError: `game` is not of the kind that this view reads.
        """
        self.game = game

    @abstractmethod
    def observe(self, agent: str) -> GameObservation:
        """What `agent` may know, as the game's own observation tells it: what it can't see is left out, and
        positions are relative to it where it has one."""

    @abstractmethod
    def observe_team(self, agents: tuple[str, ...]) -> GameObservation:
        """The whole field as a central commander of `agents` sees it, in absolute positions.

        Every living agent of the team is one entity with its name as id; entities say by a feature, or by
        their type, whether they belong to the team.
        """

    def choices(self, agent: str) -> tuple[str, ...] | None:
        """Names of the agent's discrete actions, where the game has them; None: they are numbered."""
        return None
