"""Assignment of players to lanes, from the start of a game to its end.

Shape alphabet: E environments (lanes).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...envs import EntityVectorEnv
from .opponents import OpponentPool

#: Stands for the learner in place of a member's number.
LEARNER = -1
#: For each game its sides, each a lane or several that one player plays.
Games = Sequence[Sequence[int | Sequence[int]]]
#: The lanes of each side of each game.
Sides = list[list[NDArray[np.int64]]]

_SCORES = {"win": 1.0, "draw": 0.5, "loss": 0.0}
_EVEN = 1e-6  # returns that differ by no more are equal


def games_of(venv: EntityVectorEnv, games: Games | None) -> Sides:
    """Return the sides of each game: from `games`, or if that is None from `venv.lane_games`.

    Raises:
        ValueError: there is no such game, or a lane does not exist or is in two places.
    """
    if games is None:
        lanes = venv.lane_games
        if lanes is None:
            raise ValueError(
                f"{type(venv).__name__} has no lane_games, which says which lanes play in one game. Pass"
                " games=[(0, 1), …]."
            )
        together = [np.flatnonzero(lanes == game) for game in np.unique(lanes)]
        sides = [[np.array([lane]) for lane in members] for members in together if len(members) > 1]
        if not sides:
            raise ValueError(
                f"no two lanes of {type(venv).__name__} play each other, so no lane is left for an opponent"
                " (in μRTS, make such lanes with selfplay=…)"
            )
        return sides
    sides = [[np.atleast_1d(np.asarray(side, np.int64)) for side in game] for game in games]
    if not sides or min(map(len, sides)) < 2:
        raise ValueError(f"games: expected two or more sides in each game, got {games}")
    if not all(len(side) for game in sides for side in game):
        raise ValueError(f"games: expected one or more lanes on each side, got {games}")
    taken = np.concatenate([side for game in sides for side in game])
    if taken.min() < 0 or taken.max() >= venv.num_envs:
        raise ValueError(f"games: expected lanes from 0 to {venv.num_envs - 1}, got {games}")
    if len(np.unique(taken)) < len(taken):
        raise ValueError(f"games: expected each lane once, got {games}")
    return sides


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
        self._lanes = [np.concatenate(game) for game in games]
        self.are_recording = True
        self.players = np.full(num_envs, LEARNER)
        self._returns = np.zeros(num_envs)  # of the running games
        self._scores = np.full(num_envs, np.nan)  # by `outcome`, where infos have it
        self._ended = np.zeros(num_envs, bool)  # the lanes that have ended in the running game

    def clear(self) -> None:
        """Let the learner play every lane, with all games at their start."""
        self.players[:] = LEARNER
        self._returns[:] = 0
        self._scores[:] = np.nan
        self._ended[:] = False

    def draw_all(self, rng: np.random.Generator) -> None:
        """Start every game: draw its players."""
        self.clear()
        for game in range(len(self.games)):
            self._draw(game, rng)

    def follow(
        self,
        rewards: NDArray[Any],
        ended: NDArray[np.bool_],
        inactive: NDArray[np.bool_],
        info: Mapping[str, Any],
        rng: np.random.Generator,
    ) -> None:
        """Process a step's rewards (E,), ends (E,) and info, and the lanes that are inactive after it (E,).

        A game is over once all its lanes have ended, or once a lane that has ended is active again (agents
        that never joined a game never end). Its result is recorded, and the players of the next game are
        drawn.
        """
        self._returns += rewards
        self._ended |= ended
        for source in (info, info.get("final_info", {})):  # the last step's outcome replaces that of a reset
            if "outcome" in source:
                for lane in np.flatnonzero(source["_outcome"]):
                    self._scores[lane] = _SCORES.get(str(source["outcome"][lane]), np.nan)
        if not self._ended.any():
            return
        again = self._ended & ~inactive
        for game, lanes in enumerate(self._lanes):
            if self._ended[lanes].all() or again[lanes].any():
                self._record(game)
                self._draw(game, rng)

    def _draw(self, game: int, rng: np.random.Generator) -> None:
        lanes = self._lanes[game]
        self._returns[lanes], self._scores[lanes], self._ended[lanes] = 0, np.nan, False
        self.players[lanes] = LEARNER
        if not self._pool.members or rng.random() < self.latest_share:
            return
        self.players[lanes] = self._pool.draw(rng).number
        sides = self.games[game]
        self.players[sides[rng.integers(len(sides))]] = LEARNER

    def _record(self, game: int) -> None:
        """Record the result of a finished game for its opponent, if it had one."""
        lanes = self._lanes[game]
        theirs = self.players[lanes] != LEARNER
        if not theirs.any() or not self.are_recording:
            return
        mine, others = lanes[~theirs], lanes[theirs]
        known = self._scores[mine][~np.isnan(self._scores[mine])]
        if len(known):
            lead = known.mean() - 0.5
        else:
            lead = self._returns[mine].mean() - self._returns[others].mean()
        score = 0.5 if abs(lead) <= _EVEN else float(lead > 0)
        self._pool.member(int(self.players[others[0]])).record(score)

    def get_state(self) -> dict[str, NDArray[Any]]:
        """Arrays (E,), for `set_state`."""
        return {
            "players": self.players,
            "returns": self._returns,
            "scores": self._scores,
            "ended": self._ended,
        }

    def set_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Restore the state that `get_state` returned.

        The learner plays the lanes of players that have left the pool, those that are in no game, and games
        that would be without it.
        """
        self.clear()
        if not state:
            return
        self._returns[:], self._scores[:] = state["returns"], state["scores"]
        self._ended[:] = state["ended"]
        members = [member.number for member in self._pool.members]
        for lanes in self._lanes:
            theirs = np.isin(state["players"][lanes], members)
            theirs &= not theirs.all()
            self.players[lanes] = np.where(theirs, state["players"][lanes], LEARNER)
