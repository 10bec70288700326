"""`GameView`: entities read from the typed state of a PettingZoo game.

Shape alphabet: n entities of one type, F features, G global features.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...ragged import RaggedArray


@dataclass
class GameObservation:
    """The entities that one agent, or a team, observes in a game at one step.

    A type that is left out has no entities. An agent's own entity has the agent's name as its id; it is the
    actor of the agent's actions. An agent without an entity, such as a board game's player, takes global
    actions.
    """

    entities: dict[str, NDArray[np.float32]] = field(default_factory=dict)  # per type (n, F)
    ids: dict[str, list[Hashable]] = field(default_factory=dict)  # per type n ids, or no entry
    globals: NDArray[np.float32] = field(default_factory=lambda: np.zeros(0, np.float32))  # (G,)


@dataclass
class GameObservations:
    """The entities that each of A agents observes in a game at one step."""

    entities: dict[str, RaggedArray]  # per type (N, F) float32, A sequences; all types, in their order
    own: NDArray[np.int64]  # (A,) the index of the agent's own entity in its observation; -1 without one
    globals: NDArray[np.float32]  # (A, G)


class ArrayResult(NamedTuple):
    """The results of one step for all A possible agents of a game."""

    rewards: NDArray[np.float64]  # (A,) 0 for agents that were not in play
    terminated: NDArray[np.bool_]  # (A,) of agents that were in play
    truncated: NDArray[np.bool_]  # (A,) of agents that were in play
    infos: Mapping[str, Mapping[str, Any]]  # by agent; agents without one have an empty one


#: Steps a game with discrete actions (A,) of all possible agents; those of agents not in play are ignored.
ArrayStep = Callable[[NDArray[np.int64]], ArrayResult]


class GameView(ABC):
    """View of one kind of game, which reads its state. Each running game has a view object of its own.

    A view gets the unwrapped game (`env.unwrapped`), reads it and never changes it, except by `array_step`.

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
        """Return what the game's own observation of `agent` contains, as entities.

        Hidden entities are left out. Positions are relative to the agent if it has one.
        """

    def observe_all(self, agents: Sequence[str]) -> GameObservations | None:
        """Return what `observe` returns for each of `agents`, which are in play, read at once.

        None, here: the view reads one agent after the other.
        """
        return None

    def array_step(self, env: Any) -> ArrayStep | None:
        """Return a function that steps `env` as its own `step` does, but with arrays and without the game's
        own observations.

        It leaves `env` and the game in the same state as `step`, and is used where nothing else needs these
        observations. None, here: the game is stepped by `env.step`. So must be a game whose wrappers or
        subclass could change what a step does.

        Args:
            env: a parallel game, perhaps wrapped, whose unwrapped game this view reads.
        """
        return None

    @abstractmethod
    def observe_team(self, agents: tuple[str, ...]) -> GameObservation:
        """Return the whole state for a central controller of `agents`, in absolute positions.

        Every agent of the team that is in play is one entity with its name as id; a feature or the entity
        type says whether an entity belongs to the team.
        """

    def choices(self, agent: str) -> tuple[str, ...] | None:
        """Return names of the agent's discrete actions; None: they are numbered."""
        return None
