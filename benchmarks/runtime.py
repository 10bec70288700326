"""Agents without torch: the time of one decision, of loading, and of one long step among short ones.

A decision by ONNX Runtime is measured as well, if it is installed.

    python benchmarks/runtime.py [--quick] [--json PATH]

The network has d_model 16, 2 layers, 2 heads, random parameters, one categorical action of 15 choices and 5
entity types of 8 features. Times are processor time on one thread, which is blind to what other programs do;
the players take turns, medians. Loading is reported in wall time as well.
"""

from __future__ import annotations

import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import entitize as ez
import numpy as np
import torch
from entitize.envs import (
    ActionMask,
    Categorical,
    EntityActionSpace,
    EntityBatch,
    EntitySpace,
    unbatch_observation,
)
from entitize.policies.rogue_net import RogueNet
from entitize.policies.runtime import Agent
from entitize.ragged import RaggedArray
from numpy.typing import ArrayLike

from rows import median_times, script_parser, write_json

NUM_TYPES, NUM_FEATURES, NUM_CHOICES = 5, 8, 15
SPACE = EntitySpace(
    {f"type {t}": [f"f{i}" for i in range(NUM_FEATURES)] for t in range(NUM_TYPES)},
    EntityActionSpace({"move": Categorical(NUM_CHOICES)}),
)

#: What a fresh process does until it has decided for the first time.
LOADING = """
import sys, time
began = time.perf_counter(), time.process_time()
import entitize as ez
ez.load_agent(sys.argv[1])
print(time.perf_counter() - began[0], time.process_time() - began[1])
"""


def make_batch(lengths: ArrayLike) -> EntityBatch:
    """Steps with so many entities, spread over the types; the first entity of each acts."""
    rng, lengths = np.random.default_rng(0), np.asarray(lengths, np.int64)
    counts = np.stack([(lengths + NUM_TYPES - 1 - t) // NUM_TYPES for t in range(NUM_TYPES)])
    entities = {
        name: RaggedArray.from_lengths(rng.standard_normal((own.sum(), NUM_FEATURES), np.float32), own)
        for name, own in zip(SPACE.entities, counts, strict=True)
    }
    ones = np.ones(len(lengths), np.int64)
    actors = RaggedArray.from_lengths(np.zeros(len(lengths), np.int64), ones)
    mask = RaggedArray.from_lengths(np.ones((len(lengths), NUM_CHOICES), bool), ones)
    return EntityBatch(entities, np.zeros((len(lengths), 0), np.float32), {"move": ActionMask(actors, mask)})


def make_players(folder: Path, **options: Any) -> tuple[Agent, RogueNet, RogueNet]:
    """The same network as an agent, on the fused and on the torch engine."""
    torch.manual_seed(0)
    fused = RogueNet(SPACE, SPACE.actions, engine="fused", **options)
    reference = RogueNet(SPACE, SPACE.actions, engine="torch", **options)
    reference.load_state_dict(fused.state_dict())
    ez.save_policy(fused, folder)
    return ez.load_agent(folder), fused.eval(), reference.eval()


def microseconds(runs: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Median microseconds of each."""
    return {name: 1e6 * each for name, each in median_times(runs, repeats, at_least=0.004).items()}


def decisions(folder: Path, repeats: int) -> dict[str, float]:
    """Microseconds of one decision for one step of 10 entities."""
    agent, fused, reference = make_players(folder)
    batch, rng = make_batch([10]), np.random.default_rng(0)
    observation = unbatch_observation(SPACE, batch, 0)
    runs: dict[str, Callable[[], Any]] = {
        "agent, batch of one step": lambda: agent.act(batch, rng),
        "agent, observation dict": lambda: agent.act(observation),
        "RogueNet, fused engine": lambda: fused.act(batch, rng),
        "RogueNet, torch engine": lambda: reference.act(batch, rng),
    }
    return microseconds(runs, repeats)


def beside_onnx(folder: Path, repeats: int) -> dict[str, float]:
    """Microseconds of one decision by the agent, and of one run of the ONNX file on one thread."""
    if importlib.util.find_spec("onnxruntime") is None:
        return {}
    import onnxruntime
    from entitize.policies.export.comparison import flat_observation

    agent, _, _ = make_players(folder)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    path = ez.export_onnx(folder, folder.with_suffix(".onnx")).path
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    runs: dict[str, Callable[[], Any]] = {}
    for count in (10, 50):
        observation = unbatch_observation(SPACE, make_batch([count]), 0)
        feeds = flat_observation(observation)
        runs[f"agent, {count} entities"] = lambda seen=observation: agent.act(seen)
        runs[f"ONNX Runtime, {count} entities"] = lambda feeds=feeds: session.run(None, feeds)
    return microseconds(runs, repeats)


def skewed(folder: Path, repeats: int) -> dict[str, float]:
    """Microseconds of 2,047 steps of 5 entities and one of 1,000: together, and apart."""
    agent, _, _ = make_players(folder)
    rng, short = np.random.default_rng(0), np.full(2047, 5)
    batches = {
        "together": make_batch(np.insert(short, 1000, 1000)),
        "2,047 of 5": make_batch(short),
        "one of 1,000": make_batch([1000]),
    }
    return microseconds({name: lambda b=batch: agent.act(b, rng) for name, batch in batches.items()}, repeats)


def loading(folder: Path, repeats: int) -> dict[str, float]:
    """Microseconds from the start of a process's own code to a loaded agent, with a warm Numba cache."""
    times = []
    for _ in range(repeats + 1):
        command = [sys.executable, "-c", LOADING, str(folder)]
        answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        times.append([float(seconds) * 1e6 for seconds in answer.split()])
    wall, processor = (statistics.median(column) for column in zip(*times[1:], strict=True))
    return {"wall": wall, "processor": processor}


def main() -> None:
    parser = script_parser(__doc__, quick="few repeats", json=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    repeats = 5 if options.quick else 101
    print(f"load of the machine at the start: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "agent"
        report = {
            "one decision": decisions(folder, repeats),
            "one decision beside ONNX Runtime": beside_onnx(folder, repeats),
            "one long step among short ones": skewed(folder, max(5, repeats // 4)),
            "import and load_agent": loading(folder, 2 if options.quick else 5),
        }
    for title, numbers in report.items():
        print(title)
        for row, time in numbers.items():
            print(f"  {row:<28}{time:>12,.1f} µs")
    write_json(options.json, report)


if __name__ == "__main__":
    main()
