"""Size of the networks of runs, and the cost of a step, counted with the entities that they observe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...envs import EntityVectorEnv, sample_actions
from ...policies.rogue_net import impala_cost
from ..config import TrainConfig
from ..environments import LISTEN, EnvConfig, make_whole_games, with_lanes
from ..errors import UserError
from ..network_options import network_title
from ..networks import make_policy
from .document import ReportColumn, ReportTable, Row, Section
from .measured_runs import RunTable, format_number


@dataclass(frozen=True)
class EntityCounts:
    """Entities that there are in a step while the random policy plays."""

    by_type: Mapping[str, float]  # mean
    actors: Mapping[str, float]  # mean, by action
    mean: float  # of all types
    largest: int  # of all types, in any step


def count_entities(venv: EntityVectorEnv, steps: int = 200, seed: int = 0) -> EntityCounts:
    """Let the random policy take `steps` steps in each environment, and count what it is shown."""
    rng = np.random.default_rng(seed)
    batch, _ = venv.reset(seed=seed)
    by_type = dict.fromkeys(batch.entities, 0)
    actors = dict.fromkeys(batch.actions, 0)
    shown = largest = 0
    for _ in range(steps):
        totals = np.zeros(len(batch), np.int64)
        for name, rows in batch.entities.items():
            by_type[name] += rows.num_items
            totals += rows.lengths
        for name, mask in batch.actions.items():
            actors[name] += mask.actors.num_items
        shown += len(batch)
        largest = max(largest, int(totals.max(initial=0)))
        batch = venv.step(sample_actions(venv.single_action_space, batch, rng))[0]
    means = {name: total / shown for name, total in by_type.items()}
    acting = {name: total / shown for name, total in actors.items()}
    return EntityCounts(means, acting, sum(means.values()), largest)


class CostCounter:
    """Counts for configurations; environments with the same options are played in once."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, Any]] = {}

    def of(self, config: TrainConfig) -> dict[str, Any]:
        """Return `network_cost`, or why it cannot be computed here as "not_counted"."""
        key = repr((config.env, config.network, config.net, config.baseline))
        if key not in self._known:
            try:
                self._known[key] = network_cost(config)
            except UserError as error:  # an engine that isn't installed, say: the rest of a report stands
                self._known[key] = {"not_counted": str(error)}
        return self._known[key]


def network_cost(config: TrainConfig) -> dict[str, Any]:
    """Return the size of a run's network, and multiply-adds of a step, as values of a row.

    Entities are those that the random policy observes in eight lanes. The formulas are those of the blog;
    None where they are not about this network.

    Raises:
        UserError: the environment or the network can't be made, or other programs must bring the games.
    """
    if config.env.id == LISTEN:
        raise UserError("the games are other programs, which would have to connect")
    with make_whole_games(with_lanes(config.env, 8), config.env) as venv:
        policy = make_policy(config, venv)
        entities = count_entities(venv)
    if not hasattr(policy, "summary"):
        raise UserError(f"{config.network} has no summary of its size and cost")
    summary = policy.summary(entities.by_type, entities.actors)
    assert summary.cost is not None  # entity counts were given
    return {
        "parameters": summary.total,
        "formula_parameters": summary.blog_parameters,
        "multiply_adds": summary.cost.total,
        "formula_multiply_adds": summary.cost.blog,
        "mean_entities": entities.mean if entities.by_type else None,
        "largest_entities": entities.largest if entities.by_type else None,
        **{f"mean {name}": count for name, count in entities.by_type.items()},
    }


def impala_config(env: EnvConfig) -> TrainConfig:
    """IMPALA on the pixels of a Procgen environment, whatever `env` observes."""
    kwargs: dict[str, Any] = {"features": "pixels"}
    kwargs |= {name: env.kwargs[name] for name in ("distribution_mode", "num_levels") if name in env.kwargs}
    return TrainConfig(replace(env, kwargs=kwargs), network="ImpalaNet")


_IMPALA = "ImpalaNet"


def millions(value: float | None) -> str:
    """Multiply-adds in millions."""
    return format_number(None if value is None else value / 1e6, 3 if (value or 0) < 1e6 else 1)


def cost_rows(table: RunTable, counter: CostCounter) -> list[dict[str, Any]]:
    """A row for each game and network of ours that reads entities, beside IMPALA on the game's pixels."""
    rows: list[dict[str, Any]] = []
    for case, networks in table.items():
        for network, runs in networks.items():
            config = runs[0].record.config
            if config.network == _IMPALA:
                continue
            row = {"game": case, "network": network, **counter.of(config)}
            impala = counter.of(impala_config(config.env))
            if "parameters" in impala and "parameters" in row:
                for name in ("parameters", "multiply_adds"):
                    row[f"impala_{name}"] = impala[name]
                for name in ("parameters", "multiply_adds"):
                    row[f"{name}_ratio"] = impala[name] / row[name]
            rows.append(row)
    return rows


_COLUMNS = (
    ReportColumn("game", lambda row: row["game"], is_text=True),
    ReportColumn("network", lambda row: network_title(row["network"]), is_text=True),
    ReportColumn("parameters", lambda row: format_number(row.get("parameters"), 0)),
    ReportColumn("by the formula", lambda row: format_number(row.get("formula_parameters"), 0)),
    ReportColumn("IMPALA's ÷ these", lambda row: _ratio(row.get("parameters_ratio"))),
    ReportColumn("million multiply-adds per step", lambda row: millions(row.get("multiply_adds"))),
    ReportColumn("by the formula", lambda row: millions(row.get("formula_multiply_adds"))),
    ReportColumn("IMPALA's ÷ these", lambda row: _ratio(row.get("multiply_adds_ratio"))),
    ReportColumn("entities, mean", lambda row: format_number(row.get("mean_entities"), 1)),
    ReportColumn("entities, most", lambda row: format_number(row.get("largest_entities"), 0)),
)


def _ratio(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}×"


def cost_section(table: RunTable, counter: CostCounter) -> Section:
    """Return the section on the cost of networks in each game."""
    rows = cost_rows(table, counter)
    if not rows:
        return Section("Size and cost", ["There is no run of a network that reads entities."])
    notes = [*_impala_notes(rows), *_problem_notes(rows)]
    notes += [
        "Multiply-adds are of one step with the mean number of entities, counted part by part; activations,"
        " layer norms and softmax are not. Entities are counted while the random policy plays 200 steps in"
        " 8 environments; the counts of each type are in the CSV file. What a game shows, and so the size of"
        " a network, is that of the code that made this report, which may not be the code of a run.",
        "The formulas are those of the blog (12 L D² + D Σ Fᵢ parameters, 12 L D² S + L D S² + D Σ Fᵢ Sᵢ"
        " multiply-adds), which leave out biases, layer norms, heads, and one of attention's two products.",
    ]
    return Section(
        "Size and cost", tables=[ReportTable("costs", "Networks, by counting", rows, _COLUMNS, notes)]
    )


def _impala_notes(rows: Sequence[Row]) -> list[str]:
    known = [row for row in rows if "impala_parameters" in row]
    if not known:
        return []
    parameters, cost = impala_cost()
    own, own_cost = known[0]["impala_parameters"], millions(known[0]["impala_multiply_adds"])
    counted = f"{own:,} parameters and {own_cost} million"
    return [
        f"IMPALA on 64 × 64 pixels has {counted} multiply-adds by counting; by the blog's formula, without"
        f" biases and heads, {parameters:,} and {millions(cost)} million."
    ]


def _problem_notes(rows: Sequence[Row]) -> list[str]:
    return [f"{row['game']}, not counted: {row['not_counted']}" for row in rows if "not_counted" in row]
