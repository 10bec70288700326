"""Tables and pictures of evaluations in μRTS, beside published numbers."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ...files import replace_file
from ...trainers import Interval
from ..reports.plots import outcome_bars
from .match_scores import ALL_BOTS, BOTH_SIDES, MatchScore
from .matches import PlayedMatches
from .published_microrts import PAPER_BOTS, SHOWN, SOURCES, PublishedAgent, Rates, published_for

#: How the intervals were found, for readers of the files.
METHODS = (
    "95 % intervals: Wilson's for rates, percentile bootstrap for returns; `all` counts every bot equally"
    " (stratified bootstrap where they played different numbers of games)"
)


@dataclass(frozen=True)
class TextTable:
    """Words in rows, for the terminal and for Markdown."""

    title: str
    headings: list[str]
    rows: list[list[str]]

    def rich(self) -> Table:
        table = Table(title=escape(self.title), box=SIMPLE_HEAD)
        for position, heading in enumerate(self.headings):
            table.add_column(escape(heading), justify="left" if position == 0 else "right")
        for row in self.rows:
            table.add_row(*map(escape, row))
        return table

    def markdown(self) -> str:
        ruler = ["---", *["---:"] * (len(self.headings) - 1)]
        lines = ["| " + " | ".join(row) + " |" for row in (self.headings, ruler, *self.rows)]
        return "\n".join([f"### {self.title}", "", *lines, ""])


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
    notes = [METHODS + ".", *_source_lines(boards), *_failure_lines(failures)]
    for note in notes:
        console.print(note, highlight=False, markup=False, soft_wrap=True)
    markdown = "\n".join([*(table.markdown() for table in (*own, *beside)), *(f"- {note}" for note in notes)])
    replace_file(folder / "table.md", f"{markdown}\n".encode())
    replace_file(folder / "table.csv", _csv(scores).encode())
    summary = {
        "settings": settings,
        "intervals": METHODS,
        "scores": [score.as_json() for score in scores],
        "bot_failures": failures,
        "published": [asdict(agent) for board in boards for agent in published_for(board)],
        "sources": SOURCES,
    }
    replace_file(folder / "summary.json", json.dumps(summary, indent=1, default=str).encode())
    panels = {board: _panels(_on(scores, board), published_for(board, SHOWN)) for board in boards}
    outcome_bars(folder / "winrates.png", panels)


def _on(scores: Sequence[MatchScore], board: str) -> list[MatchScore]:
    """The scores of both sides together on a map."""
    return [score for score in scores if score.map == board and score.side == BOTH_SIDES]


def _by_agent(scores: Sequence[MatchScore]) -> list[tuple[str, str, list[MatchScore]]]:
    pairs = dict.fromkeys((score.map, score.agent) for score in scores)
    return [(board, agent, [s for s in _on(scores, board) if s.agent == agent]) for board, agent in pairs]


def _score_table(board: str, agent: str, scores: Sequence[MatchScore]) -> TextTable:
    headings = ["bot", "won/tied/lost", "won % [95 %]", "return [95 %]", "steps"]
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
        column[ALL_BOTS] += f" ({len(column) - 1} bots)"
    for agent in published:
        column = {bot: str(rates) for bot, rates in agent.rates.items()}
        columns[f"{agent.name} ({agent.source})"] = column
        column[ALL_BOTS] = f"{agent.overall} ({agent.num_bots} bots)"
    bots = list(dict.fromkeys(score.bot for score in scores))
    rows = [[bot, *(column.get(bot, "") for column in columns.values())] for bot in bots]
    return TextTable(f"wins/ties/losses in % on {board}", ["bot", *columns], rows)


def _panels(
    scores: Sequence[MatchScore], published: Sequence[PublishedAgent]
) -> dict[str, dict[str, tuple[Rates, Interval | None]]]:
    """By agent and bot the rates, and where it is ours the interval of the wins."""
    panels: dict[str, dict[str, tuple[Rates, Interval | None]]] = {}
    for score in scores:
        panels.setdefault(score.agent, {})[score.bot] = score.rates, score.wins
    bots = {score.bot for score in scores}
    comparable = bots.issuperset(PAPER_BOTS)  # or `all` would mean something else
    for agent in published:
        everything = {**agent.rates, **({ALL_BOTS: agent.overall} if comparable else {})}
        panels[f"{agent.name}\n({agent.source})"] = {
            bot: (rates, None) for bot, rates in everything.items() if bot in bots
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


def _failure_lines(failures: Sequence[str]) -> list[str]:
    """Return lines about failed bots: their number, and the first failure."""
    if not failures:
        return []
    return [f"{len(failures)} games ended as ties because a bot failed; the first: {failures[0]}."]


def _csv(scores: Sequence[MatchScore]) -> str:
    """A line per score; intervals are three columns."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for position, score in enumerate(scores):
        flat: dict[str, Any] = {}
        for name, value in vars(score).items():
            if name.endswith("return") or isinstance(value, Interval):
                for part in ("mean", "low", "high"):
                    flat[f"{name}_{part}"] = "" if value is None else getattr(value, part)
            elif name != "outcomes":  # shares and games say it
                flat[name] = value
        if position == 0:
            writer.writerow(flat)
        writer.writerow(flat.values())
    return text.getvalue()
