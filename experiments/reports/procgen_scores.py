"""Normalised returns of Procgen's runs at common numbers of steps, and what they come to over games."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from ...trainers import Interval
from ..procgen.published_procgen import (
    IMPALA_MEAN_NORMALISED,
    IMPALA_STEPS,
    PUBLISHED_PROCGEN,
    RANGES,
    Mode,
    impala_return,
    normalise,
)
from ..statistics.aggregates import Metric, bootstrap, improvements
from ..statistics.curves import Curve, MeanCurve, aggregate_curve
from .measured_runs import MeasuredRun, RunTable, bin_width, network_name, rollout_size

#: Steps at which runs are compared; published IMPALA is known at all of them.
MILESTONES = (1_000_000, 2_000_000, 5_000_000, 10_000_000, 25_000_000)

#: Of the bootstrap: enough for bounds that are right to their second digit.
RESAMPLES = 2000
_METRICS: tuple[Metric, ...] = ("mean", "iqm", "optimality_gap")

#: Game -> normalised returns, one for each run.
GameScores = dict[str, list[float]]


@dataclass(frozen=True)
class ComparedGame:
    """Which game a run plays, and what its returns can be compared with."""

    name: str
    mode: Mode | None  # whose ranges normalise; None: there are none
    is_published: bool  # easy with all levels, as the published runs


def game_of(run: MeasuredRun) -> ComparedGame:
    """The game of a run, by its configuration."""
    env = run.record.config.env
    name = env.id.rpartition("/")[2]
    mode = env.kwargs.get("distribution_mode", "easy")
    known: Mode | None = mode if mode in RANGES and name in RANGES[mode] else None
    everything = known == "easy" and not env.kwargs.get("num_levels") and name in PUBLISHED_PROCGEN
    return ComparedGame(name, known, everything)


def scores_at(step: int, table: RunTable, network: str) -> GameScores:
    """By case, the normalised returns at `step` of those runs of `network` that have reached it."""
    scores: GameScores = {}
    for case, networks in table.items():
        for run in networks.get(network, ()):
            game = game_of(run)
            if game.mode is not None and run.reached(step):
                normalised = float(normalise(game.name, run.return_at(step), game.mode))
                scores.setdefault(case, []).append(normalised)
    return scores


def published_mean(step: int, games: Sequence[ComparedGame]) -> float | None:
    """Published IMPALA's mean normalised return over `games` at a published step, or at 0: the random policy.

    None where one of them was trained in another way than the published runs. Of all games it is the mean of
    returns that were not rounded, where that is known.
    """
    names = {game.name for game in games if game.is_published}
    if step in IMPALA_MEAN_NORMALISED and names == set(PUBLISHED_PROCGEN):
        return IMPALA_MEAN_NORMALISED[step]
    values = []
    for game in games:
        found = impala_return(game.name, step) if game.is_published else None
        if found is None:
            return None
        values.append(float(normalise(game.name, found.value)))
    return float(np.mean(values))


def aggregate_rows(table: RunTable) -> list[dict[str, Any]]:
    """A row for each of `MILESTONES` and each network that has reached it in some game."""
    rows = []
    for step in MILESTONES:
        for network in _networks(table):
            scores = scores_at(step, table, network)
            if not scores:
                continue
            row: dict[str, Any] = {
                "steps": step,
                "network": network,
                "games": len(scores),
                "runs": sum(map(len, scores.values())),
            }
            for metric in _METRICS:
                _put(row, metric, bootstrap(scores, metric, resamples=RESAMPLES))
            games = [game_of(table[case][network][0]) for case in scores]
            row["published_mean"] = published_mean(step, games)
            row["published_mean_16"] = IMPALA_MEAN_NORMALISED[step]
            row["names"] = " ".join(scores)
            rows.append(row)
    return rows


def improvement_rows(table: RunTable) -> list[dict[str, Any]]:
    """For each of `MILESTONES` how probably a run of one network beats one of another, on games of both."""
    rows = []
    for step in MILESTONES:
        for first, second in combinations(_networks(table), 2):
            ours, theirs = scores_at(step, table, first), scores_at(step, table, second)
            common = [case for case in ours if case in theirs]
            if not common:
                continue
            scores = {
                name: {case: own[case] for case in common} for name, own in ((first, ours), (second, theirs))
            }
            row: dict[str, Any] = {"steps": step, "first": first, "second": second, "games": len(common)}
            _put(row, "probability", improvements(scores, resamples=RESAMPLES)[first, second])
            for name, own in (("first", first), ("second", second)):
                row[f"{name}_runs"] = sum(map(len, scores[own].values()))
                _put(row, f"{name}_mean", bootstrap(scores[own], "mean", resamples=RESAMPLES))
            row["names"] = " ".join(common)
            rows.append(row)
    return rows


def _put(row: dict[str, Any], name: str, interval: Interval) -> None:
    row[f"{name}_mean"], row[f"{name}_low"], row[f"{name}_high"] = interval.mean, interval.low, interval.high


def _networks(table: RunTable) -> list[str]:
    return list(dict.fromkeys(network for networks in table.values() for network in networks))


@dataclass(frozen=True)
class AggregateCurves:
    """Mean normalised return over the same games for each network, beside the published mean over them."""

    games: Sequence[str]
    curves: Mapping[str, MeanCurve]  # by the network's name
    points: Mapping[int, float]  # published
    guide: Mapping[float, float]  # through them, from the random policy on


def aggregate_curves(table: RunTable) -> list[AggregateCurves]:
    """One for each set of games that networks have come equally far in, to the milestone."""
    reached: dict[frozenset[str], int] = {}
    for step in MILESTONES:
        for network in _networks(table):
            if games := frozenset(scores_at(step, table, network)):
                reached[games] = step
    results = []
    for games in sorted(reached, key=len, reverse=True):
        cases = [case for case in table if case in games]
        curves = {}
        for network in _networks(table):
            runs = _runs_as_far(table, network, cases)
            if runs:
                curves[network_name(network)] = _aggregate(runs)
        end = max((int(curve.steps[-1]) for curve in curves.values() if len(curve.steps)), default=0)
        known = [game_of(next(iter(table[case].values()))[0]) for case in cases]
        results.append(AggregateCurves(cases, curves, *_published_curve(known, end)))
    return results


def _runs_as_far(table: RunTable, network: str, cases: Sequence[str]) -> dict[str, list[MeasuredRun]]:
    """The runs that reached the last milestone that `network` has reached in all of `cases`."""
    for step in reversed(MILESTONES):
        runs = {case: [run for run in table[case].get(network, ()) if run.reached(step)] for case in cases}
        if all(runs.values()):
            return runs
    return {}


def _aggregate(runs: Mapping[str, Sequence[MeasuredRun]]) -> MeanCurve:
    curves = {}
    for case, own in runs.items():
        game = game_of(own[0])
        assert game.mode is not None  # or it would have no scores
        curves[case] = [
            Curve(run.returns.steps, normalise(game.name, run.returns.values, game.mode)) for run in own
        ]
    everything = [run for own in runs.values() for run in own]
    shortest = min((run.returns for run in everything), key=lambda curve: int(curve.steps[-1]))
    width = max(2 * bin_width([shortest], max(map(rollout_size, everything))), 1)
    return aggregate_curve(curves, width, "mean", resamples=RESAMPLES)


def _published_curve(games: Sequence[ComparedGame], end: int) -> tuple[dict[int, float], dict[float, float]]:
    """The published mean over `games` at its points up to `end`, and the line through them."""
    found = {step: published_mean(step, games) for step in (0, *IMPALA_STEPS)}
    known = {step: mean for step, mean in found.items() if mean is not None}
    if not known or end == 0:
        return {}, {}
    points = {step: mean for step, mean in known.items() if 0 < step <= end}
    line = {float(step): known[step] for step in (0, *points)}
    if end <= max(known):
        line[float(end)] = float(np.interp(end, list(known), list(known.values())))
    return points, line
