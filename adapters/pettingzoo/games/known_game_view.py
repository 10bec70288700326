"""Base class of the views of known games: checks the game, numbers its agents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...gymnasium.views.scope import ViewError
from ..game_view import GameView

#: PettingZoo's wrappers that convert between its interfaces, or check calls and discrete actions.
_NEUTRAL_WRAPPERS = frozenset(
    {
        "pettingzoo.utils.conversions.aec_to_parallel_wrapper",
        "pettingzoo.utils.wrappers.assert_out_of_bounds.AssertOutOfBoundsWrapper",
        "pettingzoo.utils.wrappers.order_enforcing.OrderEnforcingWrapper",
    }
)


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
        self._numbers = {agent: number for number, agent in enumerate(game.possible_agents)}

    def number(self, agent: str) -> int:
        """Return the place of an agent in the game's `possible_agents`.

        Raises:
            ValueError: the game does not have the agent.
        """
        if agent not in self._numbers:
            some = ", ".join(map(repr, [*self._numbers][:4])) + (", …" if len(self._numbers) > 4 else "")
            where = type(self.game).__module__
            raise ValueError(f"{where}: expected one of the agents {some}, got agent {agent!r}")
        return self._numbers[agent]


def has_neutral_wrappers(env: Any) -> bool:
    """Return True if nothing around a game or in its object changes a step with legal discrete actions."""
    while not {"step", "last", "observe"} & vars(env).keys():
        if env is env.unwrapped:
            return True
        kind = type(env)
        if f"{kind.__module__}.{kind.__qualname__}" not in _NEUTRAL_WRAPPERS:
            return False
        env = vars(env).get("aec_env") or env.env
    return False


def as_rows(
    rows: Sequence[float] | Sequence[Sequence[float]], features: Sequence[str]
) -> NDArray[np.float32]:
    """Entities (n, F) of lists of numbers, n = 0 included; also of a flat list."""
    return np.array(rows, np.float32).reshape(-1, len(features))
