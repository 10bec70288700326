"""Scores of played games: rates and returns with confidence intervals, by agent, map, bot and side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...adapters.microrts.java.rewards import weights_array
from ...trainers import Interval, bootstrap_interval, wilson_interval
from ..statistics.aggregates import bootstrap
from .matches import MatchJob, PlayedMatches
from .published_microrts import Rates

#: Stands for every bot, or both sides.
ALL_BOTS, BOTH_SIDES = "all", "both"

#: Of the bootstrap: enough for bounds that are right to their second digit.
_RESAMPLES = 2000


@dataclass(frozen=True)
class MatchScore:
    """An agent's games against a bot (or all) on a side (or both): shares are of 1, returns per game.

    All bots count equally, also where some have played fewer games (those that search take long): then
    intervals are of the stratified bootstrap.
    """

    agent: str
    map: str
    bot: str
    side: str
    games: int
    outcomes: tuple[int, int, int]  # games won, tied and lost
    wins: Interval
    ties: Interval
    losses: Interval
    shaped_return: Interval  # with the papers' weights
    own_return: Interval | None  # with those that the agent was trained with, where they are others
    steps: float  # mean length of a game
    bot_failures: int  # games that ended as ties because the bot failed
    seconds: float  # that playing took, on one core

    @property
    def rates(self) -> Rates:
        """In percent, to one decimal."""
        return Rates(*(round(100 * part.mean, 1) for part in (self.wins, self.ties, self.losses)))

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def score_all(played: Sequence[PlayedMatches], own_weights: ArrayLike | None = None) -> list[MatchScore]:
    """The score against each bot from both sides and from each of them, and against all bots together.

    Sorted by map, agent and bot in the order in which they come in `played`.
    """
    weights = None if own_weights is None else np.asarray(own_weights, np.float64)
    scores = []
    for board, agent in _distinct(played, lambda job: (job.map, job.agent)):
        of_agent = [one for one in played if (one.job.map, one.job.agent) == (board, agent)]
        for (bot,) in _distinct(of_agent, lambda job: (job.bot,)):
            of_bot = [one for one in of_agent if one.job.bot == bot]
            scores.append(_score(agent, board, bot, BOTH_SIDES, of_bot, weights))
            for (side,) in sorted(_distinct(of_bot, lambda job: (job.side,))):
                of_side = [one for one in of_bot if one.job.side == side]
                scores.append(_score(agent, board, bot, str(side), of_side, weights))
        scores.append(_score(agent, board, ALL_BOTS, BOTH_SIDES, of_agent, weights))
    return scores


def _distinct(
    played: Sequence[PlayedMatches], key: Callable[[MatchJob], tuple[Any, ...]]
) -> list[tuple[Any, ...]]:
    return list(dict.fromkeys(key(one.job) for one in played))


def _score(
    agent: str,
    board: str,
    bot: str,
    side: str,
    played: Sequence[PlayedMatches],
    weights: NDArray[np.float64] | None,
) -> MatchScore:
    outcomes = Counter(outcome for one in played for outcome in one.outcomes)
    rewards = np.concatenate([np.asarray(one.rewards) for one in played])  # (games, 6)
    return MatchScore(
        *(agent, board, bot, side, len(rewards)),
        outcomes=(outcomes["win"], outcomes["draw"], outcomes["loss"]),
        wins=_share(played, "win"),
        ties=_share(played, "draw"),
        losses=_share(played, "loss"),
        shaped_return=_mean_return(played, weights_array(None)),
        own_return=None if weights is None else _mean_return(played, weights),
        steps=float(np.mean([np.mean(lengths) for lengths in _by_bot(played, lambda one: one.steps)])),
        bot_failures=sum(len(one.failures) for one in played),
        seconds=round(sum(one.seconds for one in played), 3),
    )


def _by_bot(
    played: Sequence[PlayedMatches], numbers: Callable[[PlayedMatches], ArrayLike]
) -> list[NDArray[np.float64]]:
    """A number for each game, for each bot."""
    bots: dict[str, list[NDArray[np.float64]]] = {}
    for one in played:
        bots.setdefault(one.job.bot, []).append(np.asarray(numbers(one), np.float64))
    return [np.concatenate(parts) for parts in bots.values()]


def _is_balanced(groups: Sequence[NDArray[np.float64]]) -> bool:
    """Each bot has played as many games: then each game counts equally, too."""
    return len({len(group) for group in groups}) == 1


def _share(played: Sequence[PlayedMatches], word: str) -> Interval:
    groups = _by_bot(played, lambda one: [outcome == word for outcome in one.outcomes])
    if _is_balanced(groups):
        return wilson_interval(int(sum(group.sum() for group in groups)), sum(map(len, groups)))
    return _stratified(groups)


def _mean_return(played: Sequence[PlayedMatches], weights: NDArray[np.float64]) -> Interval:
    groups = _by_bot(played, lambda one: np.asarray(one.rewards) @ weights)
    if _is_balanced(groups):
        return bootstrap_interval(np.concatenate(groups), resamples=_RESAMPLES)
    return _stratified(groups)


def _stratified(groups: Sequence[NDArray[np.float64]]) -> Interval:
    bots = {str(number): group for number, group in enumerate(groups)}
    return bootstrap(bots, "mean", resamples=_RESAMPLES, least_runs=1)  # of games
