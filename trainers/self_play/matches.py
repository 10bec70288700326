"""`play_matches`: games of every player against every other.

Shape alphabet: P players, E environments (lanes).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from ...envs import EntityBatch, EntityVectorEnv, inactive_lanes, no_actions, validate_actions
from ...envs.errors import whole_number
from ...envs.seeds import EVALUATION_SEED
from ...envs.vector import PlayFunction
from ...envs.vector.episode_counts import episode_quota
from ...envs.vector.vector_checks import check_autoreset, check_fits, check_vector_env
from ...policies import ActingPolicy
from ...ragged import RaggedArray
from ...suggestions import nearest_or_known
from ..evaluation import Interval, wilson_interval
from ..evaluation.episodes import MANY_STEPS, acting_policy, evaluating, warn_endless
from ..runs.guard import check_lanes
from .games import (
    GameResults,
    Games,
    Sides,
    games_of,
    join_actions,
    players_actions,
    present_lanes,
    sides_in_play,
)
from .past_self_play import PastSelfPlay

#: Games that one of two players has not joined, per game asked for, after which it is an error.
_MOST_SKIPPED = 100


@dataclass(frozen=True, eq=False)
class MatchResults:
    """Results of games between players.

    `print` shows them as a table: in each row the scores of a player against each other one, see `score`.
    """

    players: tuple[str, ...]  # P names
    wins: NDArray[np.int64]  # (P, P): the games that player i won against player j
    draws: NDArray[np.int64]  # (P, P)

    @property
    def games(self) -> NDArray[np.int64]:
        """The number of games between two players (P, P)."""
        return self.wins + self.draws + self.wins.T

    def score(self, player: str, opponent: str | None = None, level: float = 0.95) -> Interval:
        """Return the share of games that `player` won, draws counting half, with its Wilson interval.

        Args:
            opponent: None: of all games of the player.

        Raises:
            ValueError: an unknown player, the player itself as the opponent, or a `level` that is not between
                0 and 1.
        """
        rows = [self._index(player), slice(None) if opponent is None else self._index(opponent)]
        if rows[0] == rows[1]:
            raise ValueError(f"opponent: expected another player than {player!r}, got {opponent!r}")
        i, j = rows
        points = float(np.sum(self.wins[i, j] + self.draws[i, j] / 2))
        return wilson_interval(points, float(np.sum(self.games[i, j])), level)

    def __repr__(self) -> str:
        return f"MatchResults of {', '.join(self.players)}\n{self}"

    def _index(self, player: str) -> int:
        if player not in self.players:
            raise ValueError(f"unknown player {player!r}{nearest_or_known(player, self.players)}")
        return self.players.index(player)

    def __str__(self) -> str:
        has_totals = len(self.players) > 2
        rows = [["", *self.players, *(["all"] if has_totals else [])]]
        for player in self.players:
            scores = ["" if other == player else str(self.score(player, other)) for other in self.players]
            rows.append([player, *scores, *([str(self.score(player))] if has_totals else [])])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        )


def play_matches(
    players: Mapping[str, ActingPolicy | PlayFunction],
    venv: EntityVectorEnv,
    games_per_pair: int = 100,
    *,
    games: Games | None = None,
    deterministic: bool = False,
    seed: int = EVALUATION_SEED,
) -> MatchResults:
    """Let every player play `games_per_pair` games against every other, equally often on each side.

        venv = ez.make_vec("MultiSnake/lanes", num_envs=32)
        results = ez.self_play.play_matches({"new": policy, "old": ez.load_policy("runs/old")}, venv)
        print(results, results.score("new", "old"))

    In a game of more than two sides, one player plays one side and the other all others; each of the two is
    alone in half of the games. A side whose agent is not in a game is left out there, and a game that one of
    the two has not joined does not count. Who has won is determined as in `PastSelfPlay`: by the `outcome` in
    infos, or by the mean return.

    How many games are played in each place is fixed beforehand, and all are played to their end. All pairs
    play from the same seed. Deterministic players of a game without chance repeat one game for each side,
    so that the intervals of their scores are too narrow.

    Args:
        players: by name; at least two: policies, or functions `f(batch, rng)` that return actions.
        venv: several of its lanes play in one game, which must end by itself. Lanes that are in no game are
            played along, by the first of the two.
        games: the sides of each game, each side a lane or several; None: read from `venv.lane_games`, every
            lane of a game being a side.
        deterministic: take the most probable actions instead of sampling.
        seed: of the environments and of the sampling, as in `evaluate`.

    Raises:
        TypeError: a player or `venv` is something else, a name is no string, or `games_per_pair` no whole
            number.
        ValueError: fewer than two players, `games_per_pair` below 1, a player with other actions or features
            than the environments, no two lanes that play in one game or none that both join, environments of
            `past_self_play`, or ones that don't reset in the step that ends an episode.
        NonFiniteError: a reward is NaN or infinite.
        ActionError: a function returned actions that are not allowed.
    """
    check_vector_env("play_matches: venv", venv, ". The players come first, then the environments")
    if isinstance(venv, PastSelfPlay):
        raise ValueError(
            "play_matches: venv: expected environments in which no opponents play, got those of"
            " past_self_play. Use its attribute venv"
        )
    check_autoreset("play_matches", venv)
    if not isinstance(players, Mapping) or len(players) < 2:
        got = list(players) if isinstance(players, Mapping) else f"a {type(players).__name__}"
        raise ValueError(f"play_matches: players: expected a dict of two policies or more by name, got {got}")
    for name in players:
        if not isinstance(name, str):
            raise TypeError(f"play_matches: players: expected names that are strings, got {name!r}")
    policies = [acting_policy(f"play_matches: player {name!r}", p, venv) for name, p in players.items()]
    for name, policy in zip(players, policies, strict=True):
        check_fits(f"play_matches: player {name!r}", policy, venv)
    sides = games_of(venv, games)
    quota = episode_quota(whole_number("games_per_pair", games_per_pair), len(sides))
    wins, draws = np.zeros((2, len(players), len(players)), np.int64)
    with ExitStack() as stack:
        for policy in {id(policy): policy for policy in policies}.values():
            stack.enter_context(evaluating(policy))
        batch, _ = venv.reset(seed=seed)
        for name, policy in zip(players, policies, strict=True):
            _check_player(name, policy, venv, batch, deterministic)
        for (i, one), (j, other) in combinations(enumerate(policies), 2):
            scores = _play_pair((one, other), venv, sides, quota, deterministic, seed)
            wins[i, j], wins[j, i] = np.sum(scores == 1), np.sum(scores == 0)
            draws[i, j] = draws[j, i] = np.sum(scores == 0.5)
    return MatchResults(tuple(players), wins, draws)


def _check_player(
    name: str, policy: ActingPolicy, venv: EntityVectorEnv, batch: EntityBatch, deterministic: bool
) -> None:
    """Let a player act once, before any game is played.

    Raises:
        TypeError, ValueError, ActionError: it returned something else than actions that `batch` allows.
    """
    where = f"play_matches: player {name!r}"
    try:
        acted = policy.act(batch, np.random.default_rng(0), deterministic)
    except Exception as error:
        error.add_note(f"raised by {where}")
        raise
    actions = getattr(acted, "actions", None)
    if not isinstance(actions, Mapping):
        raise TypeError(f"{where}: act: expected a result with `actions` by name, got {acted!r:.100}")
    for action, chosen in actions.items():
        if not isinstance(chosen, RaggedArray):
            raise TypeError(f"{where}: act: action {action!r}: expected a RaggedArray, got {chosen!r:.100}")
    names = [f"{where}: env {lane}" for lane in range(venv.num_envs)]
    checked = validate_actions(venv.single_observation_space, batch, actions, names)
    for action, chosen in checked.items():
        if action not in actions or actions[action].dtype != chosen.dtype:
            got = actions[action].dtype if action in actions else "none"
            raise TypeError(f"{where}: act: action {action!r}: expected {chosen.dtype}, got {got}")


def _play_pair(
    pair: Sequence[ActingPolicy],
    venv: EntityVectorEnv,
    sides: Sides,
    quota: NDArray[np.int64],
    deterministic: bool,
    seed: int,
) -> NDArray[np.float64]:
    """Return the scores of the first of two players in the first `quota` games of each place."""
    policies = dict(enumerate(pair))
    results = GameResults(sides, venv.num_envs)
    played, begun = np.zeros((2, len(sides)), np.int64)
    players = np.zeros(venv.num_envs, np.int64)  # of each lane: 0 or 1
    first = np.cumsum(quota) - quota  # of each place the number of its first game, of all that count
    nothing = no_actions(venv.single_action_space, venv.num_envs)
    scores: list[float] = []
    batch, info = venv.reset(seed=seed)
    was_active = ~inactive_lanes(info, venv.num_envs)
    present = present_lanes(batch, ~was_active)
    results.start(slice(None), present)
    alone = [_assign(players, own, int(number), 0, present) for own, number in zip(sides, first, strict=True)]
    rng = np.random.default_rng(seed)
    steps = 0
    while (played < quota).any():
        if steps == MANY_STEPS and not begun.any():
            warn_endless("play_matches", "game")
        steps += 1
        moves = players_actions(batch, policies, players, rng, deterministic)
        batch, rewards, terminated, truncated, info = venv.step(join_actions(nothing, moves))
        check_lanes("reward", rewards)
        inactive = inactive_lanes(info, venv.num_envs)
        was_active |= ~inactive
        present = present_lanes(batch, inactive)
        for game in results.follow(rewards, terminated | truncated, info, inactive, present):
            lanes = results.lanes[game]
            score = results.score(alone[game], np.setdiff1d(lanes, alone[game]))
            if score is not None and played[game] < quota[game]:
                scores.append(score if players[alone[game][0]] == 0 else 1 - score)
            played[game] += score is not None
            begun[game] += 1
            skipped = int(begun[game] - played[game])
            if skipped >= _MOST_SKIPPED * max(1, quota[game]) and played[game] < quota[game]:
                raise ValueError(
                    f"play_matches: expected games that both players join, got {skipped} of lanes"
                    f" {', '.join(map(str, lanes))} in which one had no agent. Do their agents join?"
                )
            results.start(lanes, present[lanes])
            alone[game] = _assign(players, sides[game], int(first[game] + played[game]), skipped, present)
    for lane in np.flatnonzero(~was_active):
        if any(lane in results.lanes[game] for game in np.flatnonzero(quota)):
            warnings.warn(
                f"play_matches: lane {lane} was never active in its games: does its agent join them?",
                stacklevel=3,
            )
    return np.array(scores)


def _assign(
    players: NDArray[np.int64],
    sides: list[NDArray[np.int64]],
    number: int,
    skipped: int,
    present: NDArray[np.bool_],
) -> NDArray[np.int64]:
    """Write the players of a game's lanes into `players` (E,); return the lanes of the one who is alone.

    Each side with a lane that is `present` (E,) is alone in turn: of player 0, and in a game of more than two
    sides then of player 1.

    Args:
        number: of the game, of those that count.
        skipped: how many games did not count so far: the lone player of more than two sides moves on.
    """
    turn, who = (number, 0) if len(sides) == 2 else divmod(number, 2)
    turn += skipped if len(sides) > 2 else 0
    in_play = sides_in_play(sides, present)
    lanes = in_play[turn % len(in_play)]
    players[np.concatenate(sides)] = 1 - who
    players[lanes] = who
    return lanes
