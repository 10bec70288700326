"""`Seats`: which lane each connection gets, alone or beside the other players of its game."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from .protocol import ProtocolError, short


class Seats:
    """The free lanes. With several players, the lanes of a game lie side by side, player 0 first.

    Args:
        num_lanes: a multiple of `players`.
        players: of a game. 1: each connection has a lane of its own, whatever its hello says.
    """

    def __init__(self, num_lanes: int, players: int = 1) -> None:
        self._players = players
        self._lock = threading.Lock()
        self._free = list(reversed(range(num_lanes // players)))
        self._num_games = num_lanes // players
        self._games: dict[Any, int] = {}  # by name
        self._taken: dict[int, set[int]] = {}  # of each game the players that are connected

    @property
    def num_taken(self) -> int:
        """The lanes that have a connection."""
        with self._lock:
            return sum(map(len, self._taken.values()))

    @contextmanager
    def taken(self, hello: Mapping[str, Any]) -> Iterator[int]:
        """Take the lane of a connection for the time that it lasts.

        Raises:
            ProtocolError: no lane is free, the hello does not say whose lane it is, or that player is
                connected already.
        """
        name, player = (object(), 0) if self._players == 1 else self._player(hello)
        with self._lock:
            game = self._take(name, player)
        try:
            yield game * self._players + player
        finally:
            with self._lock:
                self._taken[game].discard(player)
                if not self._taken[game]:
                    del self._games[name], self._taken[game]
                    self._free.append(game)

    def _player(self, hello: Mapping[str, Any]) -> tuple[str, int]:
        name, player = hello.get("game"), hello.get("player")
        if not isinstance(name, str):
            raise ProtocolError(
                f"hello: game: expected the name that all {self._players} players of a game give, got"
                f" {short(name)}"
            )
        if not isinstance(player, int) or isinstance(player, bool) or not 0 <= player < self._players:
            raise ProtocolError(
                f"hello: player: expected a number from 0 to {self._players - 1}, got {short(player)}"
            )
        return name, player

    def _take(self, name: Any, player: int) -> int:
        game = self._games.get(name)
        if game is None:
            if not self._free:
                one = "lane" if self._players == 1 else f"game of {self._players} lanes"
                raise ProtocolError(f"hello: expected a free {one}, got none of {self._num_games}")
            game = self._games[name] = self._free.pop()
            self._taken[game] = set()
        if player in self._taken[game]:
            raise ProtocolError(f"hello: player: expected one that isn't connected, got {player} of {name!r}")
        self._taken[game].add(player)
        return game
