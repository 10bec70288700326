"""The report of an experiment on μRTS: the table of the papers, ours beside the published rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...policies import newest_checkpoint
from ..errors import UserError, user_errors
from ..microrts.match_plan import CHECKPOINT_OF, RESULTS, fingerprint
from ..microrts.match_scores import BOTH_SIDES, EVERY_BOT, METHODS, MatchScore, outcome_panels, score_all
from ..microrts.matches import PlayedMatches, read_played, read_settings
from ..microrts.published_microrts import (
    SHOWN,
    SOURCES,
    PublishedAgent,
    published_for,
    published_training_for,
)
from ..network_options import network_title
from ..networks import RANDOM
from .document import Document, Picture, ReportColumn, ReportTable, Row, Section, interval_values
from .measured_runs import (
    MeasuredRun,
    RunTable,
    format_number,
    origin_section,
    progress,
    spread,
    state,
    steps_taken,
)
from .network_costs import CostCounter, millions
from .plots import curve_pictures, outcome_bars, run_panel


def microrts_report(table: RunTable, folder: Path) -> Document:
    """Draw the pictures into `folder`, and say what they and the tables are."""
    problems: list[str] = []
    ways: dict[str, list[str]] = {}
    scores = {case: _scores(case, networks, problems, ways) for case, networks in table.items()}
    counter = CostCounter()
    rows = [
        row for case, networks in table.items() for row in _map_rows(case, networks, scores[case], counter)
    ]
    lead = []
    unplayed = [
        f"{row['map']}/{row['network']}" for row in rows if not row["source"] and row["games"] is None
    ]
    if unplayed:
        lead.append(
            f"Not evaluated yet (`entitize eval microrts RUN` does it): {', '.join(unplayed)}. Their win"
            " rates are left out."
        )
    unfinished = (row for row in rows if not row["source"] and row["done"] < row["seeds"])
    lead += [f"{row['map']}/{row['network']}: {state(row)}." for row in unfinished]
    lead += problems
    sections = [
        Section(
            "The papers' table",
            tables=[ReportTable("table", "Networks on maps", rows, _COLUMNS, _notes(rows, ways))],
        ),
        _bot_section(scores, folder),
        _curve_section(table, folder),
        origin_section(table),
    ]
    return Document("μRTS: RogueNet beside the published networks", lead, sections)


# -- games ---------------------------------------------------------------------------------------------------


def _scores(
    case: str,
    networks: Mapping[str, Sequence[MeasuredRun]],
    problems: list[str],
    ways: dict[str, list[str]],
) -> list[MatchScore]:
    """Return the scores of all seeds of a network together, on the map that they were trained on.

    Games that are left out are added to `problems`. The names of runs are added to `ways`, by the way that
    they were played in.
    """
    played = [
        replace(one, job=replace(one.job, agent=network, map=case))
        for network, runs in networks.items()
        for run in runs
        for one in _games_of(run, problems, ways)
    ]
    return score_all(played) if played else []


def _games_of(run: MeasuredRun, problems: list[str], ways: dict[str, list[str]]) -> list[PlayedMatches]:
    """Return the games that the newest checkpoint of a run has played on the map of its training."""
    folder, name = run.record.folder, run.record.name
    try:
        played = read_played(folder / RESULTS)
        played = [one for one in played if one.job.agent != RANDOM and one.job.map == _map(run)]
        if not played:
            return []
        settings = read_settings(folder / RESULTS)
        with user_errors(ValueError):  # CheckpointError is one
            newest = fingerprint(newest_checkpoint(folder))
    except UserError as error:
        problems.append(f"Left out: games of {name}: {error}")
        return []
    agents = {one.job.agent: settings.get(f"{CHECKPOINT_OF}{one.job.agent}", "unknown") for one in played}
    if others := [checkpoint for checkpoint in agents.values() if checkpoint != newest]:
        problems.append(
            f"Left out: games of {name} by another checkpoint ({'; '.join(others)}); its newest is {newest}."
            f" Move {folder / RESULTS.parent} away and evaluate the run again."
        )
    kept = [one for one in played if agents[one.job.agent] == newest]
    if kept:
        actions = "most probable actions" if settings.get("deterministic") else "sampled actions"
        ways.setdefault(f"{actions}, {settings.get('max_steps')} ticks at most", []).append(name)
    return kept


def _map(run: MeasuredRun) -> str:
    return run.record.config.env.id.rpartition("/")[2]


def _overall(scores: Sequence[MatchScore], network: str) -> MatchScore | None:
    for score in scores:
        if (score.agent, score.bot, score.side) == (network, EVERY_BOT, BOTH_SIDES):
            return score
    return None


# -- the table -----------------------------------------------------------------------------------------------


def _map_rows(
    case: str,
    networks: Mapping[str, Sequence[MeasuredRun]],
    scores: Sequence[MatchScore],
    counter: CostCounter,
) -> list[dict[str, Any]]:
    rows = []
    for network, runs in networks.items():
        row: dict[str, Any] = {"map": case, "network": network, "source": "", **progress(runs)}
        overall = _overall(scores, network)
        row["games"] = None if overall is None else overall.games
        row["bots"] = len({score.bot for score in scores if score.agent == network} - {EVERY_BOT})
        for name in ("wins", "ties", "losses", "shaped_return"):
            row |= interval_values(name, None if overall is None else getattr(overall, name))
        rows.append({**row, **counter.of(runs[0].record.config)})
    first = next(iter(networks.values()))[0]
    for one in published_training_for(_map(first)):
        row = {"map": case, "network": one.name, "source": one.source, "bots": 13, "games": 1300}
        row |= {"wins_mean": one.win_rate, "shaped_return_mean": one.shaped_return, "hours": one.hours}
        rows.append({**row, "parameters": one.parameters})
    return rows


def percent(row: Row, name: str) -> str:
    """A share with its interval, in percent."""
    mean, low, high = (row.get(f"{name}_{part}") for part in ("mean", "low", "high"))
    if mean is None:
        return "–"
    if low is None or high is None:
        return f"{100 * mean:.1f}"
    return f"{100 * mean:.1f} [{100 * low:.0f}, {100 * high:.0f}]"


def _name(row: Row) -> str:
    return f"{row['network']} ({row['source']})" if row["source"] else network_title(row["network"])


_COLUMNS = (
    ReportColumn("map", lambda row: row["map"], is_text=True),
    ReportColumn("network", _name, is_text=True),
    ReportColumn("won %", lambda row: percent(row, "wins")),
    ReportColumn("tied %", lambda row: percent(row, "ties")),
    ReportColumn("lost %", lambda row: percent(row, "losses")),
    ReportColumn("bots", lambda row: str(row["bots"] or "–")),
    ReportColumn("games", lambda row: format_number(row["games"], 0)),
    ReportColumn("shaped return", lambda row: spread(row, "shaped_return", 1)),
    ReportColumn("hours of training", lambda row: format_number(row["hours"])),
    ReportColumn("steps", lambda row: "–" if row["source"] else steps_taken(row)),
    ReportColumn("seeds", lambda row: str(row.get("seeds", "–"))),
    ReportColumn("samples/s", lambda row: format_number(row.get("samples_per_second"), 0)),
    ReportColumn("parameters", lambda row: format_number(row.get("parameters"), 0)),
    ReportColumn("million multiply-adds per step", lambda row: millions(row.get("multiply_adds"))),
    ReportColumn("state", lambda row: "published" if row["source"] else state(row), is_text=True),
)


def _notes(rows: Sequence[Row], ways: Mapping[str, Sequence[str]]) -> list[str]:
    played = [f", {way}" + (f" ({', '.join(runs)})" if len(ways) > 1 else "") for way, runs in ways.items()]
    notes = [
        f"Games of all seeds of a network together{''.join(played)}; {METHODS}. Shaped returns have the"
        " papers' weights.",
        "Other bots, other numbers of ticks and other machines make other numbers: compare rows with equal"
        " bots. Hours and samples per second are means over seeds on the machine that the runs were made"
        " on.",
        "Multiply-adds are of one step with the mean numbers of entities and actors while the random policy"
        " plays.",
    ]
    if any(row["source"] for row in rows):
        notes.append(
            f"Published rows: table 1 of {SOURCES['zwingenberger'].partition(';')[0]}, where those of"
            " GridNet and UAS are from Huang et al. 2021, arXiv 2105.13807; against 13 bots, 100 games"
            " each. Parameters by counting."
        )
    notes += [f"{_name(row)}, not counted: {row['not_counted']}" for row in rows if "not_counted" in row]
    return notes


# -- bot by bot ----------------------------------------------------------------------------------------------


def _bot_section(scores: Mapping[str, Sequence[MatchScore]], folder: Path) -> Section:
    tables, panels = [], {}
    for case, own in scores.items():
        both = [score for score in own if score.side == BOTH_SIDES]
        if not both:
            continue
        published = published_for(case, SHOWN)
        tables.append(_bot_table(case, both, published))
        panels[case] = outcome_panels(both, published, network_title)
    if not tables:
        return Section("Bot by bot", ["No games have been played yet."])
    outcome_bars(folder / "outcomes.png", panels)
    caption = "Games won, tied and lost; black lines are the intervals of the share of wins."
    return Section("Bot by bot", pictures=[Picture("outcomes.png", caption)], tables=tables)


def _bot_table(case: str, scores: Sequence[MatchScore], published: Sequence[PublishedAgent]) -> ReportTable:
    rows: list[dict[str, Any]] = []
    for bot in dict.fromkeys(score.bot for score in scores):
        row: dict[str, Any] = {"map": case, "bot": bot}
        for score in scores:
            if score.bot == bot:
                row[f"{score.agent} games"] = score.games
                for name in ("wins", "ties", "losses", "shaped_return"):
                    row |= interval_values(f"{score.agent} {name}", getattr(score, name))
        for agent in published:
            rates = agent.overall if bot == EVERY_BOT else agent.rates.get(bot)
            bots = f" ({agent.num_bots} bots)" if bot == EVERY_BOT else ""
            row[f"{agent.name} ({agent.source})"] = None if rates is None else f"{rates}{bots}"
        rows.append(row)
    agents = list(dict.fromkeys(score.agent for score in scores))
    columns = [ReportColumn("bot", lambda row: row["bot"], is_text=True)]
    columns += [ReportColumn(f"{network_title(agent)}: won/tied/lost %", _cell(agent)) for agent in agents]
    names = [f"{agent.name} ({agent.source})" for agent in published]
    columns += [ReportColumn(name, lambda row, name=name: row[name] or "–") for name in names]  # type: ignore[misc]
    notes = [f"{agent.source}: {SOURCES[agent.source]}; {agent.games} games per bot." for agent in published]
    note = "Brackets: 95 % interval of the share of wins, as above. A published number alone is that of wins."
    return ReportTable(
        f"bots_{case}", f"Against each bot on {case}", rows, columns, [note, *dict.fromkeys(notes)]
    )


def _cell(agent: str) -> Any:
    def show(row: Row) -> str:
        if f"{agent} games" not in row:
            return "–"
        shares = [100 * row[f"{agent} {part}_mean"] for part in ("wins", "ties", "losses")]
        low, high = (100 * row[f"{agent} wins_{part}"] for part in ("low", "high"))
        return "/".join(f"{share:.0f}" for share in shares) + f" [{low:.0f}, {high:.0f}]"

    return show


# -- learning curves -----------------------------------------------------------------------------------------


def _curve_section(table: RunTable, folder: Path) -> Section:
    by_steps, by_time = (
        {case: run_panel(networks, by_time) for case, networks in table.items()} for by_time in (False, True)
    )
    caption = (
        "Return per game in training, mean over the last 100 games, by the run's own rewards (also where"
        " these change on the way: final_reward_weights). Lines are means over seeds, bands from the worst"
        " seed to the best; a thin line is one seed alone."
    )
    pictures = curve_pictures(folder, by_steps, by_time, (caption, caption))
    return Section("Learning curves", [] if pictures else ["No game has ended yet."], pictures)
