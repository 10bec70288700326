"""Assignment of players to lanes, from the start of a game to its end.

Shape alphabet: E environments (lanes).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...envs import EntityBatch
from .games import GameResults, Sides, present_lanes, sides_in_play
from .opponents import OpponentPool

#: Stands for the learner in place of a member's number.
LEARNER = -1


class PlayerAssignment:
    """Draws the players of each game's lanes, follows the games, and records their results in the pool.

    Args:
        games: the sides of each game.
        num_envs: number of lanes; the learner plays those that are in no game.
        pool: the opponents.
        latest_share: probability that the learner plays all sides of a game.

    Attributes:
        players: int64 (E,), the number of the pool's member that plays each lane, or `LEARNER`.
        are_recording: whether results of games are recorded in the pool.
    """

    def __init__(self, games: Sides, num_envs: int, pool: OpponentPool, latest_share: float) -> None:
        self.games = games
        self.latest_share = latest_share
        self._pool = pool
        self._results = GameResults(games, num_envs)
        self.are_recording = True
        self.players = np.full(num_envs, LEARNER)

    def clear(self) -> None:
        """Let the learner play every lane, with all games at their start."""
        self.players[:] = LEARNER
        self._results.start(slice(None), True)

    def draw_all(self, batch: EntityBatch, inactive: NDArray[np.bool_], rng: np.random.Generator) -> None:
        """Start every game: draw its players.

        Args:
            batch: the first observations of all lanes.
            inactive: (E,), the lanes that are inactive in it.
        """
        self.clear()
        present = present_lanes(batch, inactive)
        for game in range(len(self.games)):
            self._draw(game, present, rng)

    def follow(
        self,
        rewards: NDArray[Any],
        ended: NDArray[np.bool_],
        info: Mapping[str, Any],
        batch: EntityBatch,
        inactive: NDArray[np.bool_],
        rng: np.random.Generator,
    ) -> None:
        """Process a step's rewards (E,), ends (E,), info, batch, and the lanes that are inactive in it (E,).

        The result of a game that is over (see `GameResults.follow`) is recorded, and the players of the next
        one are drawn.
        """
        present = present_lanes(batch, inactive)
        for game in self._results.follow(rewards, ended, info, inactive, present):
            self._record(game)
            self._draw(game, present, rng)

    def _draw(self, game: int, present: NDArray[np.bool_], rng: np.random.Generator) -> None:
        lanes = self._results.lanes[game]
        self._results.start(lanes, present[lanes])
        self.players[lanes] = LEARNER
        if not self._pool.members or rng.random() < self.latest_share:
            return
        self.players[lanes] = self._pool.draw(rng).number
        sides = sides_in_play(self.games[game], present)
        self.players[sides[rng.integers(len(sides))]] = LEARNER

    def _record(self, game: int) -> None:
        """Record the result of a finished game for its opponent, if both took part in it."""
        lanes = self._results.lanes[game]
        theirs = self.players[lanes] != LEARNER
        if not theirs.any() or not self.are_recording:
            return
        mine, others = lanes[~theirs], lanes[theirs]
        score = self._results.score(mine, others)
        if score is not None:
            self._pool.member(int(self.players[others[0]])).record(score)

    def get_state(self) -> dict[str, NDArray[Any]]:
        """Arrays (E,), for `set_state`."""
        return {"players": self.players, **self._results.get_state()}

    def set_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Restore the state that `get_state` returned.

        The learner plays the lanes of players that have left the pool, those that are in no game, and games
        that would be without it.
        """
        self.clear()
        if not state:
            return
        self._results.set_state(state)
        members = [member.number for member in self._pool.members]
        for lanes in self._results.lanes:
            theirs = np.isin(state["players"][lanes], members)
            theirs &= not theirs.all()
            self.players[lanes] = np.where(theirs, state["players"][lanes], LEARNER)
