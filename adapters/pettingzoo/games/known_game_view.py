"""Base class of the views of known games: checks the game, numbers its agents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...gymnasium.views.scope import ViewError
from ..game_view import GameView


class AgentIndices(dict[str, int]):
    """The place of each agent in a game's `possible_agents`.

    Raises:
        ValueError: on asking for an agent that the game doesn't have.
    """

    def __init__(self, game: Any) -> None:
        super().__init__((agent, number) for number, agent in enumerate(game.possible_agents))
        self._game = type(game).__module__

    def __missing__(self, agent: str) -> int:
        some = ", ".join(map(repr, [*self][:4])) + (", …" if len(self) > 4 else "")
        raise ValueError(f"{self._game}: expected one of the agents {some}, got agent {agent!r}")


class KnownGameView(GameView):
    """A view of the games of certain modules.

    Attributes:
        modules: where the classes of the games that it reads come from.
    """

    modules: ClassVar[tuple[str, ...]]

    def __init__(self, game: Any) -> None:
        kind = type(game)
        if kind.__module__ not in self.modules:
            what = f"{kind.__module__}.{kind.__qualname__}"
            view, modules = type(self).__name__, ", ".join(self.modules)
            raise ViewError(f"{view}: expected an unwrapped game of {modules}, got {what}")
        super().__init__(game)
        self._number = AgentIndices(game)


def as_rows(rows: Sequence[Sequence[float]], features: Sequence[str]) -> NDArray[np.float32]:
    """Entities (n, F) of lists of numbers, n = 0 included."""
    return np.array(rows, np.float32).reshape(-1, len(features))
