"""Rows of a benchmark, ours beside a peer, and the seconds that it may take for them."""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

Kind = Literal["measured", "floor", "recorded"]


@dataclass(frozen=True)
class Row:
    """One case of one benchmark.

    Raises:
        ValueError: a figure is not a positive number, or `kind` is none.
    """

    case: str
    ours: float
    peer: float
    """Figure of `peer_name`, in the same unit."""
    peer_name: str
    unit: str
    higher_is_better: bool = True
    """False for times."""
    kind: Kind = "measured"
    """Kind of the peer's figure: "measured" in turn with ours, in the same run; "floor": likewise, and ours
    can't beat it, because it is a part of ours; "recorded": measured before, perhaps on another machine."""
    target: float | None = None
    """The ratio that the project set out to reach."""
    note: str = ""

    def __post_init__(self) -> None:
        for name, value in (("ours", self.ours), (self.peer_name, self.peer)):
            if not (math.isfinite(value) and value > 0):
                raise ValueError(
                    f"benchmark case {self.case!r}: {name} must be a positive number, not {value!r}"
                )
        if self.kind not in get_args(Kind):
            raise ValueError(
                f"benchmark case {self.case!r}: kind must be one of {get_args(Kind)}, not {self.kind!r}"
            )

    @property
    def ratio(self) -> float:
        """Ratio of ours to the peer; above 1 is better, whatever the unit."""
        return self.ours / self.peer if self.higher_is_better else self.peer / self.ours

    @property
    def key(self) -> tuple[str, str]:
        """The key of a row within its benchmark."""
        return self.case, self.peer_name


class Budget:
    """Seconds of wall clock that a benchmark may take, from now on."""

    def __init__(self, seconds: float = math.inf) -> None:
        self._end = time.perf_counter() + seconds

    def share(self, parts: int) -> float:
        """Seconds for the next of `parts` parts that are still to come; 0 when the time is over."""
        return max(0.0, self._end - time.perf_counter()) / parts


def rounds(most: int, seconds: float = math.inf, least: int = 3) -> Iterator[int]:
    """Count up to `most` rounds of measuring; after `least` of them end once `seconds` are over."""
    end = time.perf_counter() + seconds
    for index in range(most):
        if index >= least and time.perf_counter() > end:
            return
        yield index


def median_times(
    runs: Mapping[str, Callable[[], Any]],
    repeats: int,
    seconds: float = math.inf,
    *,
    at_least: float = 0.02,
    clock: Callable[[], float] = time.process_time,
) -> dict[str, float]:
    """Return the median seconds of a call of each of `runs`, which take turns in a random order.

    Args:
        repeats: rounds, each of which calls a run as often as fills `at_least` seconds, at most 1,000 times.
        seconds: after three rounds none begins once these are over.
        clock: processor time is blind to what other programs do meanwhile, and to what a second thread saves.
    """
    loops = {}
    for name, run in runs.items():  # a first call to compile and warm up, a second to see how long it takes
        run()
        start = clock()
        run()
        loops[name] = max(1, min(1000, int(at_least / max(clock() - start, 1e-9))))
    times: dict[str, list[float]] = {name: [] for name in runs}
    order = random.Random(0)
    for _ in rounds(repeats, seconds):
        for name in order.sample(list(runs), len(runs)):
            run = runs[name]
            run()  # what the run before has left in the caches is not this one's to pay for
            start = clock()
            for _ in range(loops[name]):
                run()
            times[name].append((clock() - start) / loops[name])
    return {name: statistics.median(samples) for name, samples in times.items()}


def script_parser(
    description: str | None, *, quick: str | None = None, json: bool = False, rows: bool = False
) -> argparse.ArgumentParser:
    """Return the parser of a script.

    Args:
        quick: add --quick, with this help.
        json: add --json, the file for `write_json`.
        rows: add the flags by which `entitize bench` asks for rows.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if quick:
        parser.add_argument("--quick", action="store_true", help=quick)
    if json:
        parser.add_argument("--json", type=Path, metavar="PATH", help="write the results there as well")
    if rows:
        group = parser.add_argument_group("make bench")
        group.add_argument(
            "--rows", type=Path, metavar="PATH", help="measure the short selection, write its rows"
        )
        group.add_argument("--budget", type=float, default=60.0, metavar="SECONDS", help="for --rows; about")
    return parser


def write_json(path: Path | None, results: object) -> None:
    """Write `results`, unless no file was asked for."""
    if path is not None:
        path.write_text(json.dumps(results, indent=1))


def has_written_rows(options: argparse.Namespace, measure: Callable[[Budget], Iterable[Row]]) -> bool:
    """Measure and write rows where --rows asks for them; return whether it did."""
    if options.rows is None:
        return False
    write_rows(options.rows, measure(Budget(options.budget)))
    return True


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write rows as they come, one JSON object a line."""
    with path.open("w") as file:
        for row in rows:
            file.write(json.dumps(record(row)) + "\n")
            file.flush()


def read_rows(path: Path) -> list[Row]:
    """Read the rows that `write_rows` wrote.

    Raises:
        ValueError: two rows have the same case and peer.
    """
    rows = [Row(**json.loads(line)) for line in path.read_text().splitlines()]
    keyed(rows)
    return rows


def record(row: Row) -> dict[str, object]:
    """With as many digits as a measurement has, so that committed results are read easily."""
    return {**asdict(row), "ours": float(f"{row.ours:.4g}"), "peer": float(f"{row.peer:.4g}")}


def keyed(rows: Sequence[Row]) -> dict[tuple[str, str], Row]:
    """Rows by case and peer.

    Raises:
        ValueError: two rows have the same case and peer.
    """
    found = {row.key: row for row in rows}
    if len(found) < len(rows):
        keys = [row.key for row in rows]
        case, peer = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"benchmark case {case!r} against {peer!r} is given twice")
    return found


def wait_for_ranks(processes: Sequence[subprocess.Popen[Any]]) -> None:
    """Wait for the processes of a training by several ranks; the end of one by an error ends all.

    Raises:
        RuntimeError: one has ended by an error.
    """
    while any(process.poll() is None for process in processes):
        if any(process.poll() for process in processes):  # the others would wait for it
            for process in processes:
                process.kill()
        time.sleep(0.1)
    if any(process.wait() for process in processes):
        raise RuntimeError(f"{len(processes)} ranks: expected all to end well; see above")
