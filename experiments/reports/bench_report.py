"""Results of benchmarks as text."""

from __future__ import annotations

from .bench_rows import Comparison, Results, Row

HEAD = ("case", "ours", "peer", "ratio", "target", "unit", "peer's name")


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
    """What changed, or that nothing did."""
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
