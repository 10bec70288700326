"""Games that several lanes play against each other: their sides, players' actions, ends and results.

Shape alphabet: E environments (lanes).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...envs import EntityBatch, EntityVectorEnv
from ...envs.vector import Actions
from ...policies import ActingPolicy
from ...ragged import RaggedArray, concatenate
from ..evaluation.running_games import RunningGames

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
    try:
        sides = [[np.atleast_1d(np.asarray(side)) for side in game] for game in games]
    except (TypeError, ValueError):
        sides = []
    if not all(side.dtype.kind in "iu" and side.ndim == 1 for game in sides for side in game if side.size):
        sides = []
    if not sides or min(map(len, sides)) < 2:
        raise ValueError(f"games: expected two or more sides, of numbers of lanes, in each game, got {games}")
    if not all(len(side) for game in sides for side in game):
        raise ValueError(f"games: expected one or more lanes on each side, got {games}")
    taken = np.concatenate([side for game in sides for side in game])
    if taken.min() < 0 or taken.max() >= venv.num_envs:
        raise ValueError(f"games: expected lanes from 0 to {venv.num_envs - 1}, got {games}")
    if len(np.unique(taken)) < len(taken):
        raise ValueError(f"games: expected each lane once, got {games}")
    return sides


def players_actions(
    batch: EntityBatch,
    policies: Mapping[int, ActingPolicy],
    players: NDArray[np.int64],
    rng: np.random.Generator,
    deterministic: bool = False,
) -> list[tuple[NDArray[np.int64], Actions]]:
    """Let every player act once, on all of its lanes together.

    Args:
        batch: the observations of all lanes.
        policies: by the number of the player; lanes of players that are not in it are left out.
        players: int64 (E,), the number of the player of each lane.

    Returns:
        for each player that must act its lanes with actors, and its actions there.
    """
    acting = np.zeros(len(batch), bool)
    for part in batch.actions.values():
        acting |= part.actors.lengths > 0
    moves: list[tuple[NDArray[np.int64], Actions]] = []
    for number in np.unique(players[acting]).tolist():
        if number in policies:
            lanes = np.flatnonzero(acting & (players == number))
            moves.append((lanes, policies[number].act(batch.gather(lanes), rng, deterministic).actions))
    return moves


def present_lanes(batch: EntityBatch, inactive: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the lanes (E,) of agents that are in the game: that are active, or wait and observe entities."""
    present = ~inactive
    for entities in batch.entities.values():
        present |= entities.lengths > 0
    return present


def sides_in_play(sides: list[NDArray[np.int64]], present: NDArray[np.bool_]) -> list[NDArray[np.int64]]:
    """Return the sides of a game with a lane that is `present` (E,); all, where that is fewer than two."""
    found = [lanes for lanes in sides if present[lanes].any()]
    return found if len(found) > 1 else sides


def join_actions(
    actions: Mapping[str, RaggedArray], moves: Sequence[tuple[NDArray[np.int64], Actions]]
) -> dict[str, RaggedArray]:
    """Return the `actions` of all lanes with those of `moves` (lanes, actions) in their place."""
    num_lanes = len(next(iter(actions.values())))
    source = np.arange(num_lanes)  # of each lane: its place among the concatenated sequences
    start = num_lanes
    for lanes, _ in moves:
        source[lanes] = start + np.arange(len(lanes))
        start += len(lanes)
    return {
        name: concatenate([own, *(chosen[name] for _, chosen in moves)]).gather(source)
        for name, own in actions.items()
    }


class GameResults:
    """Follows games to their ends, and determines who won.

    Args:
        games: the sides of each game.
        num_envs: number of lanes.

    Attributes:
        lanes: the lanes of each game.
    """

    def __init__(self, games: Sides, num_envs: int) -> None:
        self.lanes = [np.concatenate(game) for game in games]
        self._returns = np.zeros(num_envs)  # of the running games
        self._scores = np.full(num_envs, np.nan)  # by `outcome`, where infos have it
        game_of = np.full(num_envs, len(games))  # of lanes that are in no game
        for game, lanes in enumerate(self.lanes):
            game_of[lanes] = game
        self._running = RunningGames(game_of)

    def start(self, lanes: NDArray[np.int64] | slice, present: NDArray[np.bool_] | bool) -> None:
        """Follow the games of some lanes from their start, at which some of these are `present`."""
        self._returns[lanes], self._scores[lanes] = 0, np.nan
        self._running.begin(lanes, present)

    def follow(
        self,
        rewards: NDArray[Any],
        ended: NDArray[np.bool_],
        info: Mapping[str, Any],
        inactive: NDArray[np.bool_],
        present: NDArray[np.bool_],
    ) -> list[int]:
        """Process rewards (E,), ends (E,), info of a step; lanes inactive and `present_lanes` after it (E,).

        Returns:
            the games that are over: those of which all lanes have ended, or whose next one has begun (see
            `RunningGames`). `start` their lanes after reading their scores.
        """
        self._returns += rewards
        for source in (info, info.get("final_info", {})):  # of the reset after a step, and of the step
            if "outcome" in source and "_outcome" in source:
                for lane in np.flatnonzero(source["_outcome"]):
                    self._scores[lane] = _score_of(source["outcome"][lane])
        over = self._running.follow(ended, ~inactive, present)
        has_ended = self._running.ended
        if not has_ended.any():
            return []
        return [game for game, lanes in enumerate(self.lanes) if over[game] or has_ended[lanes].all()]

    def score(self, mine: NDArray[np.int64], others: NDArray[np.int64]) -> float | None:
        """Return the score of the lanes `mine` in a finished game: 1 if they won, 1/2 for a draw, 0 if lost.

        The better `outcome` ("win", "draw" or "loss") wins, where infos had one; it is the best of all lanes
        of a player, whose others may have lost before. Otherwise the larger mean return wins. Lanes that have
        not joined the game don't count; None: one of the two has not joined it.
        """
        mine, others = (lanes[self._running.joined[lanes]] for lanes in (mine, others))
        if not len(mine) or not len(others):
            return None
        best = [np.fmax.reduce(self._scores[lanes]) for lanes in (mine, others)]
        if not np.isnan(best).all():
            lead = np.subtract(*np.where(np.isnan(best), 0.5, best))
        else:
            lead = self._returns[mine].mean() - self._returns[others].mean()
        return 0.5 if abs(lead) <= _EVEN else float(lead > 0)

    def get_state(self) -> dict[str, NDArray[Any]]:
        """Arrays (E,), for `set_state`."""
        joined, ended = self._running.joined, self._running.ended
        return {"returns": self._returns, "scores": self._scores, "ended": ended, "joined": joined}

    def set_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Restore the state that `get_state` returned."""
        self._returns[:], self._scores[:] = state["returns"], state["scores"]
        self._running.ended[:] = state["ended"]
        self._running.joined[:] = state["joined"]


def _score_of(outcome: Any) -> float:
    """Return the score of an `outcome`; NaN for None, and with a warning for any other."""
    score = _SCORES.get(str(outcome), np.nan)
    if outcome is not None and np.isnan(score):
        warnings.warn(
            f"info['outcome']: expected 'win', 'draw' or 'loss', got {outcome!r}: returns decide who has won",
            stacklevel=2,
        )
    return score
