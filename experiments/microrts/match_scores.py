"""Scores of played games with confidence intervals, and tables and pictures of them beside published ones."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ...adapters.microrts import weights_array
from ...files import replace_file
from ...trainers import Interval, bootstrap_interval, say, wilson_interval
from ..reports.document import csv_text, interval_values, markdown_table
from ..reports.plots import outcome_bars
from ..statistics.aggregates import bootstrap
from .matches import MatchJob, PlayedMatches
from .published_microrts import PAPER_BOTS, SHOWN, SOURCES, PublishedAgent, Rates, published_for

#: Stands for every bot, or both sides.
EVERY_BOT, BOTH_SIDES = "all", "both"

#: Of the bootstrap: enough for bounds that are right to their second digit.
_RESAMPLES = 2000


@dataclass(frozen=True)
class MatchScore:
    """An agent's games against a bot (or all) on a side (or both): shares are of 1, returns per game.

    All bots count equally, also where some have played fewer games (those that search take long): then the
    intervals of shares are of `mean_rate_interval`, those of returns of the stratified bootstrap.
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
        scores.append(_score(agent, board, EVERY_BOT, BOTH_SIDES, of_agent, weights))
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
        agent,
        board,
        bot,
        side,
        len(rewards),
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


def num_distinct(played: Sequence[PlayedMatches]) -> int:
    """Return how many games differ in agent, map, bot, side, length or rewards."""
    return len(
        {
            (job.agent, job.map, job.bot, job.side, steps, tuple(rewards))
            for one, job in ((one, one.job) for one in played)
            for steps, rewards in zip(one.steps, one.rewards, strict=True)
        }
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
    return mean_rate_interval([int(group.sum()) for group in groups], list(map(len, groups)))


def mean_rate_interval(successes: Sequence[int], games: Sequence[int]) -> Interval:
    """Return the mean of K rates `successes / games` with a 95 % interval, the wider of two at each end.

    MOVER combines the Wilson intervals (l_i, u_i) of the rates p_i with mean p:
    p - sqrt(sum((p_i - l_i)**2)) / K and p + sqrt(sum((u_i - p_i)**2)) / K (Newcombe 1998, Statistics in
    Medicine 17; Donner and Zou 2012, Statistical Methods in Medical Research 21). Alone it is too narrow
    above where most rates are near 1: u_i - p_i is 0 where all games are won.

    The other is Wilson's interval for K**2 / sum(1 / games) games, as many as leave the mean of equal rates
    its variance. Alone it is too narrow where the rates differ and the games of the middling ones are few.
    """
    rates = [wilson_interval(won, played) for won, played in zip(successes, games, strict=True)]
    count = len(rates)
    mean = math.fsum(rate.mean for rate in rates) / count
    below = math.hypot(*(rate.mean - rate.low for rate in rates)) / count
    above = math.hypot(*(rate.high - rate.mean for rate in rates)) / count
    effective = count**2 / math.fsum(1 / played for played in games)
    pooled = wilson_interval(mean * effective, effective)
    return Interval(mean, min(mean - below, pooled.low), max(mean + above, pooled.high))


def _mean_return(played: Sequence[PlayedMatches], weights: NDArray[np.float64]) -> Interval:
    groups = _by_bot(played, lambda one: np.asarray(one.rewards) @ weights)
    if _is_balanced(groups):
        return bootstrap_interval(np.concatenate(groups), resamples=_RESAMPLES)
    bots = {str(number): group for number, group in enumerate(groups)}
    return bootstrap(bots, "mean", resamples=_RESAMPLES, least_runs=1)  # of games


#: How the intervals were found, for readers of the files.
METHODS = (
    "95 % intervals: Wilson's for rates, percentile bootstrap for returns; `all` counts every bot equally"
    " (where they played different numbers of games: for rates the wider of MOVER from the bots' Wilson"
    " intervals and Wilson's for the effective number of games, for returns a stratified bootstrap)"
)


@dataclass(frozen=True)
class TextTable:
    """Words in rows, for the terminal and for Markdown."""

    title: str
    headings: list[str]
    rows: list[list[str]]

    def rich(self) -> Table:
        table = Table(title=escape(self.title), box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
        table.add_column(escape(self.headings[0]), no_wrap=True)
        for heading in self.headings[1:]:
            table.add_column(escape(heading), justify="right", overflow="fold")
        for row in self.rows:
            table.add_row(*map(escape, row))
        return table

    def markdown(self) -> str:
        is_text = [True, *[False] * (len(self.headings) - 1)]
        return "\n".join([f"### {self.title}", "", *markdown_table(self.headings, is_text, self.rows), ""])


def report(
    folder: Path,
    scores: Sequence[MatchScore],
    settings: Mapping[str, Any],
    played: Sequence[PlayedMatches],
    console: Console,
) -> None:
    """Print the tables; write `table.csv`, `table.md`, `summary.json` and `winrates.png` into `folder`.

    Args:
        scores: of the games `played`.
        settings: what they have in common, for readers of the summary.
    """
    failures = [f"{one.job}: {failure}" for one in played for failure in one.failures]
    boards = list(dict.fromkeys(score.map for score in scores))
    own = [_score_table(board, agent, rows) for board, agent, rows in _by_agent(scores)]
    shown = [_beside_table(board, _on(scores, board), published_for(board, SHOWN)) for board in boards]
    beside = [_beside_table(board, _on(scores, board), published_for(board)) for board in boards]
    for table in (*own, *shown):
        console.print(table.rich())
    notes = [METHODS + ".", *_source_lines(boards)]
    if failures:
        notes.append(f"{len(failures)} games ended as ties because a bot failed; the first: {failures[0]}.")
    games, distinct = sum(score.games for score in scores if score.bot == EVERY_BOT), num_distinct(played)
    if distinct < games / 2:
        notes.append(
            f"Of {games} games {distinct} differ in length or rewards. The others repeat them, as where"
            " neither side draws a number: the intervals count all and are too narrow."
        )
    for note in notes:
        say(console, note)
    markdown = "\n".join([*(table.markdown() for table in (*own, *beside)), *(f"- {note}" for note in notes)])
    replace_file(folder / "table.md", f"{markdown}\n".encode())
    replace_file(folder / "table.csv", csv_text(list(map(_row, scores))).encode())
    summary = {
        "settings": settings,
        "intervals": METHODS,
        "scores": [asdict(score) for score in scores],
        "bot_failures": failures,
        "published": [asdict(agent) for board in boards for agent in published_for(board)],
        "sources": SOURCES,
    }
    replace_file(folder / "summary.json", json.dumps(summary, indent=1, default=str).encode())
    panels = {board: outcome_panels(_on(scores, board), published_for(board, SHOWN)) for board in boards}
    outcome_bars(folder / "winrates.png", panels)


def _on(scores: Sequence[MatchScore], board: str) -> list[MatchScore]:
    """The scores of both sides together on a map."""
    return [score for score in scores if score.map == board and score.side == BOTH_SIDES]


def _by_agent(scores: Sequence[MatchScore]) -> list[tuple[str, str, list[MatchScore]]]:
    pairs = dict.fromkeys((score.map, score.agent) for score in scores)
    return [(board, agent, [s for s in _on(scores, board) if s.agent == agent]) for board, agent in pairs]


def _score_table(board: str, agent: str, scores: Sequence[MatchScore]) -> TextTable:
    headings = ["bot", "won / tied / lost", "won % [95 %]", "return [95 %]", "steps"]
    if has_own := any(score.own_return is not None for score in scores):
        headings.append("own return [95 %]")
    rows = []
    for score in scores:
        low, high = 100 * score.wins.low, 100 * score.wins.high
        counts = "/".join(map(str, score.outcomes))
        row = [score.bot, counts, f"{100 * score.wins.mean:.1f} [{low:.0f}, {high:.0f}]"]
        row += [str(score.shaped_return), f"{score.steps:.0f}"]
        rows.append(row + ([str(score.own_return)] if has_own else []))
    return TextTable(f"{agent} on {board}", headings, rows)


def _beside_table(board: str, scores: Sequence[MatchScore], published: Sequence[PublishedAgent]) -> TextTable:
    """Wins/ties/losses in percent, a column for each agent, ours first."""
    columns: dict[str, dict[str, str]] = {}
    for score in scores:
        columns.setdefault(score.agent, {})[score.bot] = str(score.rates)
    for column in columns.values():  # ours; which bots a mean is over is not always the same
        column[EVERY_BOT] += f" ({len(column) - 1} bots)"
    for agent in published:
        column = {bot: str(rates) for bot, rates in agent.rates.items()}
        columns[f"{agent.name} ({agent.source})"] = column
        column[EVERY_BOT] = f"{agent.overall} ({agent.num_bots} bots)"
    bots = list(dict.fromkeys(score.bot for score in scores))
    rows = [[bot, *(column.get(bot, "") for column in columns.values())] for bot in bots]
    return TextTable(f"wins/ties/losses in % on {board}", ["bot", *columns], rows)


def outcome_panels(
    scores: Sequence[MatchScore], published: Sequence[PublishedAgent], named: Callable[[str], str] = str
) -> dict[str, dict[str, tuple[Rates, Interval | None]]]:
    """Return by agent and bot the rates, and where it is ours the interval of the wins.

    Published agents are left out where fewer than half of the bots are known.

    Args:
        named: the names of our agents in the picture.
    """
    panels: dict[str, dict[str, tuple[Rates, Interval | None]]] = {}
    for score in scores:
        panels.setdefault(named(score.agent), {})[score.bot] = score.rates, score.wins
    bots = {score.bot for score in scores}
    comparable = bots.issuperset(PAPER_BOTS)  # or `all` would mean something else
    for agent in published:
        rates = {**agent.rates, **({EVERY_BOT: agent.overall} if comparable else {})}
        if 2 * len(bots & set(rates)) >= len(bots):
            panels[f"{agent.name}\n({agent.source})"] = {
                bot: (known, None) for bot, known in rates.items() if bot in bots
            }
    return panels


def _source_lines(boards: Sequence[str]) -> list[str]:
    agents = [agent for board in boards for agent in published_for(board)]
    lines = []
    for source in dict.fromkeys(agent.source for agent in agents):
        one = next(agent for agent in agents if agent.source == source)
        lines.append(
            f"{source}: {SOURCES[source]}; {one.games} games per bot, {one.max_steps} ticks at most."
        )
    return lines


def _row(score: MatchScore) -> dict[str, Any]:
    """Return a score as values of a row; intervals are three of them."""
    row: dict[str, Any] = {}
    for name, value in vars(score).items():
        if name.endswith("return") or isinstance(value, Interval):
            row |= interval_values(name, value)
        elif name != "outcomes":  # shares and games say it
            row[name] = value
    return row
