"""Run the benchmarks into one table, `results.json` and `results.png`: `entitize bench` calls this.

python benchmarks/suite.py [NAME ...] [--tolerance 0.2]
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro
from entitize.experiments import UserError, parse
from entitize.trainers.runs.run_origin import processor

from report import Results, compare, comparison_lines, draw_ratios, parse_results, results_text, table_lines
from rows import Row, read_rows

SCRIPTS = Path(__file__).resolve().parent
#: What scripts share, and this; none of them is a benchmark.
SHARED = ("rows", "griddly_peer", "report", "suite")

#: A script that takes so many times its budget hangs; or Numba compiles for a first time on a busy machine.
PATIENCE = 6.0


@dataclass(frozen=True)
class BenchArguments:
    """Run benchmarks from a checkout of the repository, and write `benchmarks/results.json` and `.png`.

    Example: entitize bench ragged. Ratios that differ from the committed results are reported.
    """

    names: tyro.conf.Positional[tuple[str, ...]] = ()
    """Benchmarks to run (default: all in `benchmarks/budgets.toml`); others print their own output."""
    tolerance: float = 0.2
    """Relative change of a ratio that is not reported."""

    def __post_init__(self) -> None:
        if not 0 <= self.tolerance < 1:
            raise ValueError(f"--tolerance must be at least 0 and below 1, not {self.tolerance}")


def main(arguments: Sequence[str]) -> None:
    """Parse and run the command."""
    chosen = parse(BenchArguments, "bench", arguments)
    run_scripts(SCRIPTS, chosen.names, chosen.tolerance)


def run_scripts(folder: Path, names: Sequence[str], tolerance: float = 0.2) -> None:
    """Run the named scripts of `folder`, or all that have a budget, one after the other.

    Prints one table, writes `results.json` and `results.png` into `folder`, where rows of other benchmarks
    stay as they are, and says which ratios changed since the commit that is checked out.

    Raises:
        UserError: a name is unknown, or scripts failed; the others' results are written.
    """
    scripts = {path.stem: path for path in sorted(folder.glob("*.py")) if path.stem not in SHARED}
    budgets = read_budgets(folder)
    unknown = [name for name in (*names, *budgets) if name not in scripts]
    if unknown:
        raise UserError(f"there is no benchmark {unknown[0]!r}; there are {', '.join(scripts)}")
    measured: dict[str, list[Row]] = {}
    machines: dict[str, dict[str, object]] = {}
    failures = []
    for name in names or budgets:
        machine = describe_machine()
        try:
            if name in budgets:
                if rows := measure(scripts[name], budgets[name]):
                    measured[name], machines[name] = rows, machine
            else:
                print(f"== {name}", flush=True)
                _show(scripts[name])
        except UserError as error:
            failures.append(str(error))
            print(error, flush=True)
    if measured:
        _report(folder, tuple(budgets), measured, machines, tolerance)
    if failures:
        raise UserError("; ".join(error.splitlines()[0] for error in failures))


def read_budgets(folder: Path) -> dict[str, float]:
    """Seconds by benchmark, in the order in which they run."""
    path = folder / "budgets.toml"
    return tomllib.loads(path.read_text())["seconds"] if path.exists() else {}


def describe_machine() -> dict[str, object]:
    """Return the facts of the machine that results depend on."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "load": load and round(load, 1),
        "python": platform.python_version(),
    }


def measure(script: Path, seconds: float) -> list[Row]:
    """The rows of one script, which gets `seconds` for them.

    Raises:
        UserError: it failed, took far too long, or gave no usable rows.
    """
    print(f"{script.stem}: ", end="", flush=True)
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        path, log = Path(folder) / "rows", Path(folder) / "log"
        command = [sys.executable, str(script), "--rows", str(path), "--budget", str(seconds)]
        try:
            with log.open("w") as output:
                code = subprocess.run(
                    command, stdout=output, stderr=subprocess.STDOUT, timeout=PATIENCE * seconds + 60
                ).returncode
        except subprocess.TimeoutExpired:
            taken = time.perf_counter() - began
            raise UserError(
                f"benchmark {script.stem} was stopped: budget {seconds:g} s, taken {taken:.0f} s"
            ) from None
        if code:
            tail = log.read_text().splitlines()[-15:]
            raise UserError("\n".join((f"benchmark {script.stem} failed with exit code {code}", *tail)))
        try:
            rows = read_rows(path)
        except (OSError, TypeError, ValueError) as error:
            raise UserError(f"benchmark {script.stem} gave no usable rows: {error}") from error
    print(f"{len(rows)} rows in {time.perf_counter() - began:.0f} s", flush=True)
    return rows


def _show(script: Path) -> None:
    code = subprocess.run([sys.executable, str(script)]).returncode
    if code:
        raise UserError(f"benchmark {script.stem} failed with exit code {code}")


def _report(
    folder: Path,
    order: Sequence[str],
    measured: Results,
    machines: dict[str, dict[str, object]],
    tolerance: float,
) -> None:
    """Print and write what was measured; in the file, benchmarks stand in this order."""
    path = folder / "results.json"
    kept, kept_machines = parse_results(path.read_text()) if path.exists() else ({}, {})
    baseline = committed(path)
    found = {**kept, **measured}
    found = {name: found[name] for name in order if name in found}
    path.write_text(results_text(found, {**kept_machines, **machines}))
    draw_ratios(path.with_suffix(".png"), found, "Entitize against its peers")
    print("\n".join(("", *table_lines(measured))))
    if baseline is None:
        print("\nNo committed results to compare with.")
    else:
        print("\n".join(("", *comparison_lines(compare(baseline, measured, tolerance), tolerance))))
    print(f"\nWritten: {path.name} and {path.with_suffix('.png').name} in {folder}")


def committed(path: Path) -> dict[str, list[Row]] | None:
    """The results as they are in the commit that is checked out; outside of git, or before they are in it,
    those of the last run; None where there are none."""
    command = ["git", "show", f"HEAD:./{path.name}"]
    try:
        shown = subprocess.run(command, cwd=path.parent, capture_output=True, text=True)
        text = shown.stdout if shown.returncode == 0 else None
    except OSError:  # there is no git
        text = None
    if text is None:
        if not path.exists():
            return None
        text = path.read_text()
    return parse_results(text)[0]


if __name__ == "__main__":
    main(sys.argv[1:])
