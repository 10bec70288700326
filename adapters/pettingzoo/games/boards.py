"""Tic-tac-toe and connect four: every mark on the board is an entity."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

from ..game_view import GameObservation
from .known_game_view import KnownGameView, as_rows


class MarkView(KnownGameView):
    """A board of marks that belong to the first or the second player.

    `Mark` (x, y, own): x goes from -1 (left) to 1 (right), y from -1 (bottom) to 1 (top); own is 1 for marks
    of the observing agent and 0 for the opponent's. Nothing is hidden.
    """

    entities = {"Mark": ("x", "y", "own")}  # noqa: RUF012 - never changed

    @abstractmethod
    def marks(self) -> Iterator[tuple[float, float, int]]:
        """x, y and the player's number, from 0, of every mark."""

    def observe(self, agent: str) -> GameObservation:
        return self.observe_team((agent,))

    def observe_team(self, agents: tuple[str, ...]) -> GameObservation:
        own = {self.number(agent) for agent in agents}
        rows = [(x, y, player in own) for x, y, player in self.marks()]
        return GameObservation({"Mark": as_rows(rows, self.entities["Mark"])})


class TicTacToeView(MarkView):
    """Tic-tac-toe; squares are numbered down the columns, as upstream's are."""

    modules = ("pettingzoo.classic.tictactoe.tictactoe",)

    def marks(self) -> Iterator[tuple[float, float, int]]:
        for square, mark in enumerate(self.game.board.squares):
            if mark:
                yield square // 3 - 1, 1 - square % 3, mark - 1

    def choices(self, agent: str) -> tuple[str, ...]:
        rows, columns = ("top", "middle", "bottom"), ("left", "centre", "right")
        return tuple(f"{row} {column}" for column in columns for row in rows)


class ConnectFourView(MarkView):
    """Connect four, 7 columns by 6 rows."""

    modules = ("pettingzoo.classic.connect_four.connect_four",)

    def marks(self) -> Iterator[tuple[float, float, int]]:
        for cell, mark in enumerate(self.game.board):
            if mark:
                yield cell % 7 / 3 - 1, 1 - cell // 7 / 2.5, mark - 1

    def choices(self, agent: str) -> tuple[str, ...]:
        return tuple(f"column {column}" for column in range(1, 8))
