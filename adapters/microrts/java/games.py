"""The games to be played, and what is kept of all of them, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from .handles import Handles, JavaArray
from .maps import Map

STATE = "rts.GameState"
ACTION = "rts.PlayerAction"


@dataclass(frozen=True)
class GameSetup:
    """One game to be played: on which map, and by whom."""

    map: Map
    bot: str | None  # None: both players are lanes
    side: int = 0  # the player that is the lane, where the other is a bot

    @property
    def players(self) -> tuple[int, ...]:
        """The players that are lanes."""
        return (0, 1) if self.bot is None else (self.side,)


class GameColumns:
    """Java's arrays with one element per game, which the loops' statements read and write.

    Args:
        orders_per_lane: how many numbers there are in the engine's `orders` for each lane.

    Attributes:
        first_lane: the number of each game's first lane.
    """

    def __init__(self, handles: Handles, games: Sequence[GameSetup], orders_per_lane: int) -> None:
        nothing = [None] * len(games)
        self.states = JavaArray(handles, STATE, nothing)
        self.views = JavaArray(handles, STATE, nothing)  # what the lane's player may see
        self.other_views = JavaArray(handles, STATE, nothing)  # what the other player may see
        self.bots = JavaArray(handles, "ai.core.AI", nothing)
        self.orders_a = JavaArray(handles, ACTION, nothing)
        self.orders_b = JavaArray(handles, ACTION, nothing)
        self.traces = JavaArray(handles, "rts.TraceEntry", nothing)
        self.sides = JavaArray(handles, "int", [game.players[0] for game in games])
        self.others = JavaArray(handles, "int", [1 - game.players[0] for game in games])
        # Whose units need no masks: the bot's; -1, neither's, where both players are lanes.
        self.skipped = JavaArray(handles, "int", [-1 if g.bot is None else 1 - g.side for g in games])
        self.first_lane = list(accumulate((len(game.players) for game in games[:-1]), initial=0))
        order_starts = [lane * orders_per_lane for lane in self.first_lane]
        self.order_starts = JavaArray(handles, "int", order_starts)
        self.second_order_starts = JavaArray(
            handles, "int", [start + orders_per_lane for start in order_starts]
        )
        self.next_ids = JavaArray(handles, "long", [0] * len(games))
        self.generators = JavaArray(handles, "java.util.Random", nothing)
        self.winners = JavaArray(handles, "int", [-1] * len(games))
        self.progress = JavaArray(handles, "int", [0])  # one for all: the game that is being played

    def clear(self) -> None:
        """Forget the games, so that Java can free them."""
        boards = self.states, self.views, self.other_views, self.traces
        for column in (*boards, self.bots, self.orders_a, self.orders_b):
            for game in range(len(self.first_lane)):
                column.array[game] = None
