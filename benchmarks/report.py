"""Results of benchmarks: as JSON, as a table, as a picture, and compared with the committed ones."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # no screen is needed

from matplotlib.figure import Figure

from rows import Row, keyed, record

#: Rows by benchmark.
Results = Mapping[str, Sequence[Row]]

HEAD = ("case", "ours", "peer", "ratio", "target", "unit", "peer's name")


def results_text(results: Results, machine: Mapping[str, Mapping[str, object]]) -> str:
    """Results as JSON.

    Args:
        machine: what each benchmark ran on.
    """
    benchmarks = {
        name: {"machine": machine.get(name, {}), "rows": [record(row) for row in rows]}
        for name, rows in results.items()
    }
    return json.dumps({"benchmarks": benchmarks}, indent=1, ensure_ascii=False) + "\n"


def parse_results(text: str) -> tuple[dict[str, list[Row]], dict[str, dict[str, object]]]:
    """The inverse of `results_text`: rows and machines, by benchmark."""
    benchmarks = json.loads(text)["benchmarks"]
    rows = {name: [Row(**saved) for saved in part["rows"]] for name, part in benchmarks.items()}
    return rows, {name: part["machine"] for name, part in benchmarks.items()}


@dataclass(frozen=True)
class Change:
    """A case whose ratio is not what it was."""

    benchmark: str
    row: Row
    before: float

    def __str__(self) -> str:
        return (
            f"{self.benchmark}: {self.row.case}, against {self.row.peer_name}:"
            f" ratio {self.before:.3g} -> {self.row.ratio:.3g}"
        )


@dataclass
class Comparison:
    """New results beside committed ones; a line of text where there is only one of the two."""

    worse: list[Change] = field(default_factory=list)
    better: list[Change] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)


def compare(committed: Results, measured: Results, tolerance: float) -> Comparison:
    """Compare ratios, never times: a slower machine slows the peers as well.

    Recorded peers are left out, because a ratio to them is an absolute figure in disguise. So are committed
    benchmarks that were not run this time.

    Args:
        tolerance: by which share a ratio may fall or rise without being named; 0.2 lets 5.0 become 4.0.
    """
    result = Comparison()
    for benchmark, rows in measured.items():
        before, now = keyed(committed.get(benchmark, ())), keyed(rows)
        for key, row in now.items():
            if key not in before:
                result.new.append(_name(benchmark, row))
            elif row.kind != "recorded":
                change = Change(benchmark, row, before[key].ratio)
                if row.ratio < change.before * (1 - tolerance):
                    result.worse.append(change)
                elif row.ratio * (1 - tolerance) > change.before:
                    result.better.append(change)
        result.missing += [_name(benchmark, row) for key, row in before.items() if key not in now]
    return result


def _name(benchmark: str, row: Row) -> str:
    return f"{benchmark}: {row.case}, against {row.peer_name}"


def table_lines(results: Results) -> list[str]:
    """One table of all rows, and below it which targets are missed."""
    cells = {name: [_cells(row) for row in rows] for name, rows in results.items()}
    widths = [
        max(len(row[column]) for row in (HEAD, *(row for rows in cells.values() for row in rows)))
        for column in range(len(HEAD))
    ]
    lines = [_aligned(HEAD, widths)]
    for name, rows in cells.items():
        lines += [f"-- {name}", *(_aligned(row, widths) for row in rows)]
    lines += ["", "ratio: how many times as good as the peer ours is; above 1 is better, whatever the unit"]
    aimed = [(name, row) for name, rows in results.items() for row in rows if row.target is not None]
    missed = [(name, row) for name, row in aimed if row.ratio < (row.target or 0)]
    lines.append(f"targets: {len(aimed) - len(missed)} of {len(aimed)} reached")
    lines += [
        f"  missed: {name}: {row.case}, against {row.peer_name}: {row.ratio:.3g} instead of {row.target:g}"
        for name, row in missed
    ]
    return lines


def comparison_lines(comparison: Comparison, tolerance: float) -> list[str]:
    """Return the changes, as text."""
    parts: tuple[tuple[str, list[str]], ...] = (
        (f"worse than committed by more than {tolerance:.0%}", [str(c) for c in comparison.worse]),
        (f"better than committed by more than {tolerance:.0%}", [str(c) for c in comparison.better]),
        ("committed, but not measured this time", comparison.missing),
        ("not in the committed results", comparison.new),
    )
    lines = [
        line for title, names in parts if names for line in (f"{title}:", *(f"  {name}" for name in names))
    ]
    return lines or [f"All ratios are within {tolerance:.0%} of the committed ones."]


def _cells(row: Row) -> tuple[str, ...]:
    name = row.peer_name if row.kind == "measured" else f"{row.peer_name} ({row.kind})"
    return (
        row.case,
        _number(row.ours),
        _number(row.peer),
        f"{row.ratio:.2f}" if row.ratio < 100 else f"{row.ratio:,.0f}",
        "" if row.target is None else f"{row.target:.3g}",
        row.unit,
        f"{name}; {row.note}" if row.note else name,
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _aligned(cells: tuple[str, ...], widths: list[int]) -> str:
    """Text to the left, numbers to the right."""
    left = {0, 5, 6}
    parts = [
        cell.ljust(width) if column in left else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  ".join(parts).rstrip()


def draw_ratios(path: Path, results: Results, title: str) -> None:
    """Draw benchmarks into a PNG file: each row's ratio as a dot on a log axis, its target as a tick."""
    labels: list[str] = []
    figure_height = 1.5 + 0.19 * sum(len(rows) + 1 for rows in results.values())
    figure = Figure(figsize=(9, figure_height), layout="constrained")
    axes = figure.subplots()
    for index, (benchmark, rows) in enumerate(results.items()):
        labels.append(f"— {benchmark} —")
        places = range(len(labels), len(labels) + len(rows))
        labels += [f"{row.case}  /  {row.peer_name}" for row in rows]
        colour = f"C{index % 10}"
        axes.plot([row.ratio for row in rows], places, "o", color=colour, markersize=4)
        aimed = [(row.target, place) for row, place in zip(rows, places, strict=True) if row.target]
        if aimed:
            axes.plot(*zip(*aimed, strict=True), "|", color="black", markersize=7)
    axes.axvline(1, color="grey", linewidth=1)
    axes.set(title=title, xlabel="ratio to the peer: above 1 ours is better; | is the target", xscale="log")
    axes.set_yticks(range(len(labels)), labels, fontsize=6)
    axes.set_ylim(len(labels) - 0.5, -1)
    axes.xaxis.set_major_formatter(lambda ratio, _: f"{ratio:g}")
    axes.grid(alpha=0.3, axis="x")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
