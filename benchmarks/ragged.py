"""Ragged storage against the Rust package ragged-buffer, awkward and plain NumPy.

    python benchmarks/ragged.py [--quick] [--json PATH] [--repeats 15]

Every operation that a PPO trainer uses, at 64 environments × 256 steps (16,384 sequences, lengths uniform in
0.5 to 1.5 times the mean). The libraries take turns in random order, each after an untimed run of its own;
medians of processor time for one thread and of wall time for two. Appending reuses memory, as the trainer
does; the row marked "fresh" does not.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
import os
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from entitize.ragged import RaggedArray, RaggedBuffer, concatenate, join_rows, set_num_threads

from rows import Budget, Row, has_written_rows, median_times, script_parser, write_json

PEERS = ("rust", "awkward", "numpy")

MAX_THREADS = os.cpu_count() or 1

#: Why an operation may be slower than Rust, printed where one is.
REASONS = {
    "append": "a call from Python into a Numba kernel with four arrays costs about 1 µs, into Rust 0.2 µs; "
    "it shows where a step has only a few kilobytes",
    "fresh": "growing copies into new memory, where Rust's Vec can extend in place (realloc); only the first "
    "rollout of a run pays this, because the trainer clears and reuses the buffer",
    "calls": "a few Numba and NumPy calls of about 1 µs each, where the whole operation takes microseconds",
    "two threads": "a minibatch of less than a megabyte is gathered on one, because waking a thread costs "
    "30 to 60 µs; and both cores must be idle, because a thread that waits for a core stalls the gather",
    "memory": "mostly copying, bound by memory as Rust is; where a minibatch has less than a megabyte, 5 to "
    "30 µs of Python, NumPy and Numba calls per operation show (Rust: about 1 µs)",
}


def optional(name: str) -> Any:
    """The peer's module, or None where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


rust = optional("ragged_buffer")
awkward = optional("awkward")


@dataclass
class Case:
    """One rollout of random entities, in the form that each library holds it."""

    entities: int
    features: int
    num_envs: int
    num_steps: int
    steps: list[RaggedArray] = field(init=False)
    whole: RaggedArray = field(init=False)
    minibatches: list[np.ndarray] = field(init=False)

    def __post_init__(self) -> None:
        rng = np.random.default_rng(0)
        low, high = max(1, self.entities // 2), self.entities + self.entities // 2
        lengths = rng.integers(low, high + 1, self.num_envs * self.num_steps)
        values = rng.standard_normal((lengths.sum(), self.features), np.float32)
        self.whole = RaggedArray.from_lengths(values, lengths)
        self.steps = [self.whole[t * self.num_envs :][: self.num_envs].copy() for t in range(self.num_steps)]
        order = rng.permutation(len(lengths))
        self.minibatches = np.split(order, range(2048, len(order), 2048))

    def in_rust(self, array: RaggedArray) -> Any:
        kind = {"f": "RaggedBufferF32", "i": "RaggedBufferI64"}[array.dtype.kind]
        values = array.values.reshape(array.num_items, -1)
        return getattr(rust, kind).from_flattened(values, array.lengths)


@dataclass
class Operation:
    name: str
    ours: Callable[[], Any]
    rust: Callable[[], Any] | None = None
    awkward: Callable[[], Any] | None = None
    numpy: Callable[[], Any] | None = None
    threads: int = 1
    reason: str = "memory"  # a key of REASONS


# -- the operations; NumPy's versions are what one writes without a library ---------------------------------


def in_awkward(array: RaggedArray) -> Any:
    """An `awkward.Array` that shares memory."""
    contents = awkward.contents
    offsets = awkward.index.Index64(array.offsets)
    return awkward.Array(contents.ListOffsetArray(offsets, contents.NumpyArray(array.values)))


def appends(case: Case) -> Iterator[Operation]:
    steps, whole = case.steps, case.whole
    ours, stored = RaggedBuffer((case.features,)), np.empty_like(whole.values)
    rust_steps = [case.in_rust(s) for s in steps] if rust else []
    theirs: Any = rust.RaggedBufferF32(case.features) if rust else None

    def extend(buffer: Any, parts: list[Any]) -> None:
        buffer.clear()
        for part in parts:
            buffer.extend(part)

    def append(buffer: RaggedBuffer, parts: list[RaggedArray]) -> None:
        buffer.clear()
        for part in parts:
            buffer.append(part)

    def slice_assign(parts: list[RaggedArray]) -> None:
        at, lengths = 0, []
        for part in parts:
            stored[at : at + part.num_items] = part.values
            at += part.num_items
            lengths.append(part.lengths)
        np.cumsum(np.concatenate(lengths))

    yield Operation(
        "append one step",
        lambda: append(ours, steps[:1]),
        rust and (lambda: extend(theirs, rust_steps[:1])),
        numpy=lambda: slice_assign(steps[:1]),
        reason="append",
    )
    yield Operation(
        "append a rollout",
        lambda: append(ours, steps),
        rust and (lambda: extend(theirs, rust_steps)),
        numpy=lambda: slice_assign(steps),
        reason="append",
    )
    awkward_steps = [in_awkward(s) for s in steps] if awkward else []
    yield Operation(
        "append a rollout, fresh",
        lambda: append(RaggedBuffer((case.features,)), steps),
        rust and (lambda: extend(rust.RaggedBufferF32(case.features), rust_steps)),
        awkward and (lambda: awkward.concatenate(awkward_steps)),
        lambda: (
            np.concatenate([s.values for s in steps]),
            np.cumsum(np.concatenate([s.lengths for s in steps])),
        ),
        reason="fresh",
    )
    lengths = whole.lengths
    yield Operation(
        "from values + lengths",
        lambda: RaggedArray.from_lengths(whole.values, lengths),
        rust and (lambda: rust.RaggedBufferF32.from_flattened(whole.values, lengths)),
        awkward and (lambda: awkward.unflatten(whole.values, lengths)),
        lambda: (whole.values, np.concatenate([[0], np.cumsum(lengths)])),
    )


def numpy_gather(array: RaggedArray, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    lengths = np.diff(array.offsets)[indices]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    rows = np.arange(offsets[-1]) + np.repeat(array.offsets[indices] - offsets[:-1], lengths)
    return array.values[rows], offsets


def gathers(case: Case) -> Iterator[Operation]:
    whole, minibatches = case.whole, case.minibatches
    theirs: Any = case.in_rust(whole) if rust else None
    packed: Any = in_awkward(whole) if awkward else None

    def each(gather: Callable[[np.ndarray], Any]) -> None:
        for minibatch in minibatches:
            gather(minibatch)

    peers: dict[str, Any] = {
        "rust": rust and (lambda: each(lambda m: theirs[m])),
        # packed, because an awkward array that was indexed is still a view
        "awkward": awkward and (lambda: each(lambda m: awkward.to_packed(packed[m]))),
        "numpy": lambda: each(lambda m: numpy_gather(whole, m)),
    }

    epoch = Operation("gather an epoch", lambda: each(whole.gather), **peers)
    yield epoch
    if MAX_THREADS >= 2:
        yield dataclasses.replace(epoch, threads=2, reason="two threads")


def combinations(case: Case) -> Iterator[Operation]:
    rng = np.random.default_rng(1)
    parts = [case.whole.gather(m).copy() for m in case.minibatches]
    rust_parts = [case.in_rust(p) for p in parts] if rust else []
    awkward_parts = [in_awkward(p) for p in parts] if awkward else []
    yield Operation(
        "concatenate",
        lambda: concatenate(parts),
        rust and (lambda: rust.cat(rust_parts, dim=0)),
        awkward and (lambda: awkward.concatenate(awkward_parts)),
        lambda: (
            np.concatenate([p.values for p in parts]),
            np.cumsum(np.concatenate([p.lengths for p in parts])),
        ),
    )
    share = rng.integers(0, 3, parts[0].num_items)  # each entity of a minibatch gets one of three types
    sequence = parts[0].sequence_indices()
    types = [
        RaggedArray.from_lengths(
            parts[0].values[share == t], np.bincount(sequence[share == t], minlength=len(parts[0]))
        )
        for t in range(3)
    ]
    rust_types = [case.in_rust(t) for t in types] if rust else []
    offsets = [t.offsets for t in types]
    starts = np.concatenate([[0], np.cumsum([t.num_items for t in types])]).tolist()
    yield Operation(
        "rows of 3 types joined",
        lambda: join_rows(offsets),
        rust
        and (
            lambda: rust.cat([t.flat_indices() + s for t, s in zip(rust_types, starts, strict=False)], dim=1)
        ),
        numpy=lambda: numpy_join_rows(offsets),
    )


def numpy_join_rows(offsets: list[np.ndarray]) -> list[np.ndarray]:
    lengths = np.stack([np.diff(o) for o in offsets])
    starts = np.concatenate([[0], np.cumsum(lengths.sum(0))])[:-1] + np.cumsum(lengths, 0) - lengths
    return [
        np.arange(o[-1]) + np.repeat(start - o[:-1], length)
        for o, start, length in zip(offsets, starts, lengths, strict=True)
    ]


def shapes(case: Case) -> Iterator[Operation]:
    """On one minibatch."""
    part = case.whole.gather(case.minibatches[0])
    theirs: Any = case.in_rust(part) if rust else None
    yield Operation(
        "sequence indices",
        part.sequence_indices,
        rust and (lambda: theirs.indices(0)),
        numpy=lambda: np.repeat(np.arange(len(part)), part.lengths),
        reason="calls",
    )
    yield Operation(
        "item indices",
        part.item_indices,
        rust and (lambda: theirs.indices(1)),
        numpy=lambda: np.arange(part.num_items) - np.repeat(part.offsets[:-1], part.lengths),
        reason="calls",
    )


GROUPS = (appends, gathers, combinations, shapes)


# -- measuring and printing ---------------------------------------------------------------------------------


def measure(operation: Operation, repeats: int, seconds: float = math.inf) -> dict[str, float]:
    """Median milliseconds per library."""
    set_num_threads(operation.threads)
    clock = time.process_time if operation.threads == 1 else time.perf_counter
    runs: dict[str, Callable[[], Any]] = {"ours": operation.ours}
    runs |= {peer: run for peer in PEERS if (run := getattr(operation, peer))}
    times = median_times(runs, repeats, seconds, at_least=2e-4, clock=clock)
    return {name: 1e3 * each for name, each in times.items()}


HEADER = f"{'entities × features':>19}  {'operation':<24}{'threads':>7}" + "".join(
    f"{column:>10}" for column in ("ours ms", *PEERS, "rust/ours", "numpy/ours")
)


def show(row: dict[str, Any]) -> str:
    times = row["ms"]
    cells = "".join(f"{times[name]:>10.4f}" if name in times else f"{'-':>10}" for name in ("ours", *PEERS))
    ratios = "".join(
        f"{times[name] / times['ours']:>9.2f}x" if name in times else f"{'-':>10}"
        for name in ("rust", "numpy")
    )
    size = f"{row['entities']:>9} × {row['features']:<7}"
    return f"{size}  {row['operation']:<24}{row['threads']:>7}{cells}{ratios}"


def footer(rows: list[dict[str, Any]]) -> str:
    """Return the notes of the table: missing cases, and missed targets with reasons."""
    lines = [
        f"Left out, because it is not installed: {name}"
        for name, module in (("ragged_buffer (Rust)", rust), ("awkward", awkward))
        if module is None
    ]
    if MAX_THREADS < 2:
        lines.append("Left out, because there is one core: the gather on two threads")
    lines.append("From values + lengths: ours and NumPy adopt the values, Rust copies them")
    missed: dict[str, list[str]] = {}
    for row in rows:
        if "rust" not in row["ms"]:
            continue
        target, ratio = (2.0 if row["threads"] == 2 else 1.0), row["ms"]["rust"] / row["ms"]["ours"]
        if ratio < target:
            case = f"{row['operation']} at {row['entities']} × {row['features']}"
            missed.setdefault(row["reason"], []).append(f"{case}: {ratio:.2f}x instead of {target:.0f}x")
    if rust is not None:
        lines.append(
            "Targets (no slower than Rust on one thread, twice as fast on two): "
            + ("" if missed else "all met")
        )
    for reason, cases in missed.items():
        lines += [f"  missed: {REASONS[reason]}", *(f"    {case}" for case in cases)]
    return "\n".join(lines)


def measure_case(case: Case, repeats: int) -> Iterator[dict[str, Any]]:
    """One row of the table per operation."""
    for group in GROUPS:
        for operation in group(case):
            yield {
                "entities": case.entities,
                "features": case.features,
                "operation": operation.name,
                "threads": operation.threads,
                "reason": operation.reason,
                "ms": measure(operation, repeats),
            }


def bench_rows(budget: Budget) -> Iterator[Row]:
    """At 40 entities of 20 features; against NumPy where Rust has no such operation."""
    case = Case(40, 20, 64, 256)
    operations = [operation for group in GROUPS for operation in group(case)]
    for index, operation in enumerate(operations):
        ms = measure(operation, 15, budget.share(len(operations) - index))
        peer = "rust" if "rust" in ms else "numpy"
        threads = f", {operation.threads} threads" if operation.threads > 1 else ""
        target = float(operation.threads) if peer == "rust" else None
        name = {"rust": "ragged-buffer (Rust)", "numpy": "NumPy"}[peer]
        note = "adopted here, copied there" if operation.name == "from values + lengths" else ""
        yield Row(operation.name + threads, ms["ours"], ms[peer], name, "ms", False, target=target, note=note)


def main() -> None:
    parser = script_parser(__doc__, quick="two small cases, 32 steps, few repeats", json=True, rows=True)
    parser.add_argument("--repeats", type=int, default=15, help="timings per library and operation")
    options = parser.parse_args()
    if has_written_rows(options, bench_rows):
        return
    sizes = [(10, 5), (40, 20)] if options.quick else [(e, f) for e in (10, 40, 80) for f in (5, 20, 50)]
    num_steps, repeats = (32, 5) if options.quick else (256, options.repeats)
    machine = {"processor": platform.processor(), "cores": os.cpu_count(), "load": os.getloadavg()[0]}
    print(f"64 environments × {num_steps} steps, median of {repeats}; a ratio above 1: ours is faster")
    print(f"load of the machine at the start: {machine['load']} on {machine['cores']} cores")
    print(HEADER)
    rows: list[dict[str, Any]] = []
    for entities, features in sizes:
        for row in measure_case(Case(entities, features, 64, num_steps), repeats):
            rows.append(row)
            print(show(row), flush=True)
    print(footer(rows))
    report = {"machine": machine, "num_steps": num_steps, "repeats": repeats, "rows": rows}
    write_json(options.json, report)


if __name__ == "__main__":
    main()
