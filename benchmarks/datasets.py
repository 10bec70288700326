"""Recorded play: writing and reading steps, and behaviour cloning beside PPO's updates.

    python benchmarks/datasets.py [--quick] [--json PATH] [--parts 8] [--rows PATH]
    python benchmarks/datasets.py --size 10_000_000 [--folder /scratch]

Steps of 10 entities of two types with 8 features, one actor with 15 choices. Processor time on one thread:
"write" appends batches of 64 steps and writes files of 65,536; "read" opens them, checksums included, and
gathers every step once in minibatches; "minibatch" gathers 2,048 random steps of all files, which are opened
before. The peer of writing is `write_table` of Parquet with the same arrays as nested lists, that of
"minibatch" the same rows by pyarrow's `take`. "clone" is one gradient step of `BehaviorCloning` on 2,048
steps, "PPO" the same of PPO's learner; both on the fused engine, in turn.

With --size it measures one large dataset instead: writing it, and, in a process of its own that does not
verify the files, opening it and drawing minibatches of 2,048 steps: processor time, memory, and how much is
read from the disk, from which all files have to come.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import torch
from entitize.datasets import DatasetWriter, EntityDataset, Steps
from entitize.envs import ActionMask, Categorical, EntityActionSpace, EntityBatch, EntitySpace
from entitize.policies.rogue_net import RogueNet
from entitize.ragged import RaggedArray
from entitize.trainers import PPOConfig, Samples
from entitize.trainers.cloning import BehaviorCloningConfig, FusedCloningLearner
from entitize.trainers.cloning.demonstrations import Demonstration
from entitize.trainers.learners import AdamW, FusedLearner

from rows import Row, rounds, script_parser, write_json, write_rows

FEATURES, CHOICES, LANES, PART = 8, 15, 64, 65_536
SPACE = EntitySpace(
    {name: [f"f{n}" for n in range(FEATURES)] for name in ("Unit", "Wall")},
    EntityActionSpace({"move": Categorical(CHOICES)}),
)


def make_steps(count: int, seed: int) -> Steps:
    """Steps of 1 to 9 units and as many walls as make 10 entities."""
    rng = np.random.default_rng(seed)
    units = rng.integers(1, 10, count)
    entities = {
        name: RaggedArray.from_lengths(rng.standard_normal((n.sum(), FEATURES), np.float32), n)
        for name, n in (("Unit", units), ("Wall", 10 - units))
    }
    ones = np.ones(count, np.int64)
    actors = RaggedArray.from_lengths(np.zeros(count, np.int64), ones)
    mask = RaggedArray.from_lengths(np.ones((count, CHOICES), bool), ones)
    choices = RaggedArray.from_lengths(rng.integers(CHOICES, size=count), ones)
    no = np.zeros(count, bool)
    return Steps(
        EntityBatch(entities, np.zeros((count, 0), np.float32), {"move": ActionMask(actors, mask)}),
        {"move": choices},
        lane=(np.arange(count) % LANES).astype(np.int32),
        episode=np.arange(count) % LANES,
        step=(np.arange(count) // LANES).astype(np.int32),
        reward=rng.standard_normal(count).astype(np.float32),
        terminated=no,
        truncated=no,
        final=no,
        inactive=no,
    )


def processor_seconds(run: Callable[..., Any], *arguments: Any) -> float:
    began = time.process_time()
    run(*arguments)
    return time.process_time() - began


def write(path: Path, batches: list[Steps], parts: int) -> None:
    with DatasetWriter(path, SPACE, steps_per_part=PART) as writer:
        for index in range(parts * PART // LANES):
            writer.append(batches[index % len(batches)])


def write_parquet(path: Path, table: pa.Table, parts: int) -> None:
    for index in range(parts):
        pyarrow.parquet.write_table(table, path / f"{index}.parquet", compression="none")


def read(path: Path) -> None:
    dataset = EntityDataset(path)
    for rows in np.array_split(np.arange(len(dataset)), len(dataset) // 2048):
        dataset.gather(rows)


def files(folder: Path, parts: int, repeats: int) -> dict[str, float]:
    """Steps per second and core of writing and reading; minibatches in µs."""
    batches = [make_steps(LANES, seed) for seed in range(64)]
    steps = parts * PART
    seconds: dict[str, list[float]] = {"write": [], "parquet": [], "read": [], "minibatch": [], "take": []}
    write(folder / "first", batches, parts)
    dataset = EntityDataset(folder / "first", verify=False)
    tables = [
        pa.ipc.open_file(pa.memory_map(str(file))).read_all()
        for file in sorted((folder / "first").glob("*.arrow"))
    ]
    table, one = pa.concat_tables(tables), tables[0]
    rng = np.random.default_rng(0)
    dataset.gather(rng.integers(0, steps, 2048))
    for index in rounds(repeats):
        plays, parquet = folder / f"plays{index}", folder / f"parquet{index}"
        parquet.mkdir()
        seconds["write"].append(processor_seconds(write, plays, batches, parts))
        seconds["parquet"].append(processor_seconds(write_parquet, parquet, one, parts))
        seconds["read"].append(processor_seconds(read, plays))
        for _ in range(20):
            rows = rng.integers(0, steps, 2048)
            seconds["minibatch"].append(processor_seconds(dataset.gather, rows))
            seconds["take"].append(processor_seconds(table.take, pa.array(rows)))
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    return {
        **{name: steps / medians[name] for name in ("write", "parquet", "read")},
        **{name: medians[name] * 1e6 for name in ("minibatch", "take")},
    }


def cloning(repeats: int) -> dict[str, float]:
    """Steps per second of a gradient step, of behaviour cloning and of PPO."""
    torch.manual_seed(0)
    steps, rng = make_steps(2048, 1), np.random.default_rng(0)
    nets = [RogueNet(SPACE, SPACE.actions, d_model=16, n_layer=2, n_head=2) for _ in range(2)]
    demonstration = Demonstration(steps.observations, steps.actions, steps.reward)
    acted = nets[1].act(steps.observations, rng)
    advantages, returns = rng.standard_normal((2, 2048)).astype(np.float32)
    samples = Samples(steps.observations, acted.raw, acted.log_probs, acted.values, advantages, returns)
    clone = FusedCloningLearner(
        nets[0], AdamW(nets[0].parameters()), BehaviorCloningConfig(vf_coef=0.5, ent_coef=0.01)
    )
    ppo = FusedLearner(nets[1], AdamW(nets[1].parameters()), PPOConfig())
    runs: dict[str, Callable[[], Any]] = {
        "clone": lambda: clone.step(demonstration),
        "PPO": lambda: ppo.step(samples, 0.01),
    }
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run()
    for _ in rounds(10 * repeats):
        for name, run in runs.items():
            seconds[name].append(processor_seconds(run))
    return {name: 2048 / statistics.median(times) for name, times in seconds.items()}


def memory() -> dict[str, float]:
    """Memory of this process, and what it has read from the disk, in MiB."""
    found = {}
    for file, name, unit in (("status", "RssAnon", 2**10), ("io", "read_bytes", 1)):
        lines = Path("/proc/self", file).read_text().splitlines()
        sizes = {key: rest for key, _, rest in (line.partition(":") for line in lines)}
        found[name] = int(sizes[name].split()[0]) * unit / 2**20
    return found


def forget(folder: Path) -> None:
    """Drop the files from the system's cache, so that what is read next comes from the disk."""
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def large(folder: Path, steps: int) -> None:
    """Write `steps` steps, and draw from them in another process."""
    batches = [make_steps(LANES, seed) for seed in range(64)]
    began = time.perf_counter()
    seconds = processor_seconds(write, folder / "plays", batches, -(-steps // PART))
    size = sum(file.stat().st_size for file in (folder / "plays").iterdir())
    print(
        f"write: {steps / seconds:,.0f} steps/s of processor time, {time.perf_counter() - began:.0f} s of"
        f" wall clock, {size / 2**30:.2f} GiB; {memory()['RssAnon']:.0f} MiB of memory"
    )
    subprocess.run([sys.executable, __file__, "--draw", str(folder / "plays")], check=True)


def draw(path: Path) -> None:
    """Draw minibatches from a dataset that is not verified; print time and memory."""
    make_steps(LANES, 0).gather([0])  # loads the kernels
    forget(path)
    before, began = memory(), time.perf_counter()
    dataset = EntityDataset(path, verify=False)
    rng = np.random.default_rng(0)
    print(f"open: {(time.perf_counter() - began) * 1e3:.0f} ms for {len(dataset):,} steps")
    for name in ("first minibatch", "second", "third", "tenth"):
        for _ in range(7 if name == "tenth" else 1):
            seconds = processor_seconds(dataset.gather, rng.integers(0, len(dataset), 2048))
        after = memory()
        grown = ", ".join(f"{kind} +{after[kind] - before[kind]:.0f} MiB" for kind in before)
        print(f"{name}: {seconds * 1e3:.1f} ms of processor time; since the start: {grown}")


def bench_rows(report: dict[str, dict[str, float]]) -> Iterator[Row]:
    found, learned = report["files"], report["cloning"]
    yield Row("write", found["write"], found["parquet"], "pyarrow to Parquet", "steps/s")
    yield Row("read", found["read"], 200_000, "goal", "steps/s", kind="recorded", target=1.0)
    yield Row(
        *("minibatch of 2,048", found["minibatch"], found["take"], "pyarrow's take", "µs"),
        higher_is_better=False,
    )
    yield Row("clone", learned["clone"], learned["PPO"], "PPO's update", "steps/s", target=0.8)


def main() -> None:
    parser = script_parser(__doc__, quick="few repeats, few files", json=True, rows=True)
    parser.add_argument("--parts", type=int, default=8, help="files of 65,536 steps")
    parser.add_argument("--size", type=int, help="measure one dataset of so many steps (about 0.5 KiB each)")
    parser.add_argument("--folder", help="where to write it (default: the folder of temporary files)")
    parser.add_argument("--draw", help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.draw is not None:
        draw(Path(options.draw))
        return
    if options.size is not None:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            large(Path(folder), options.size)
        return
    short = options.quick or options.rows is not None
    parts, repeats = (2, 3) if short else (options.parts, 7)
    print(f"load of the machine at the start: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as folder:
        report = {"files": files(Path(folder), parts, repeats), "cloning": cloning(repeats)}
    for name, unit in (("write", "steps/s"), ("parquet", "steps/s"), ("read", "steps/s")):
        print(f"{name:<10}{report['files'][name]:>12,.0f} {unit}")
    for name in ("minibatch", "take"):
        print(f"{name:<10}{report['files'][name]:>12,.0f} µs for 2,048 of {parts * PART:,} steps")
    for name, speed in report["cloning"].items():
        print(f"{name:<10}{speed:>12,.0f} steps/s")
    write_json(options.json, report)
    if options.rows is not None:
        write_rows(options.rows, bench_rows(report))


if __name__ == "__main__":
    main()
