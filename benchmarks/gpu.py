"""PPO on a GPU: samples per second, inference and update apart, environments included.

    python benchmarks/gpu.py [--seconds 20] [--precision float32 tf32 bf16] [--json PATH] [--profile FOLDER]
    python benchmarks/gpu.py --cpu        a tiny version on the CPU, to see that it works

A sample is one environment step. The game is MineSweeper in Numba with 4,096 lanes, stepped by one thread;
RogueNet has 2 layers, d_model 16 with 2 heads and 64 with 4; rollouts of 32 steps, minibatches of 16,384, and
1 and 3 epochs. The first updates (compilation, capture of CUDA graphs) are left out. Times are of the host's
clock; the trainer waits for the device at every step of a rollout and at the end of every epoch, so that each
part's time is its own.

"transferred" is what goes to the device for a minibatch, per sample; "filled" is how much of the padded rows
is real. `--profile` writes a trace (chrome://tracing) of one rollout and one update of every case, and prints
the operations that take most of the device's time, how many kernels are launched per minibatch, and how much
of the wall clock the device is busy: below one half, the next factor lies on the host.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from entitize import make_vec
from entitize.policies.engines.graphs.capacity import Capacities
from entitize.policies.engines.graphs.packing import Packing
from entitize.policies.engines.graphs.static_network import Plan, room_of
from entitize.policies.rogue_net import RogueNet
from entitize.trainers import PPO, PPOConfig
from entitize.trainers.learners.graph_learner import GraphLearner

GAME = "entitize/MineSweeper-v0"
PARTS = ("env", "inference", "storage", "update")
#: Updates that are not measured.
WARM_UP = 3


@dataclass(frozen=True)
class Case:
    """What is trained."""

    d_model: int
    n_head: int
    update_epochs: int
    precision: str
    num_envs: int = 4096
    num_steps: int = 32
    minibatch_size: int = 16_384


@dataclass
class Result:
    """What a case came to; seconds are of an update with its rollout, medians."""

    samples_per_second: float
    slowest: float
    fastest: float
    microseconds: dict[str, float]  # per sample, by part
    filled: float
    bytes_per_sample: float


def make_trainer(case: Case, device: str) -> PPO:
    """On the CPU the same computation on arrays of fixed shapes, so that all of the code is run."""
    venv = make_vec(GAME, num_envs=case.num_envs)
    torch.manual_seed(0)
    policy = RogueNet(
        venv.single_observation_space,
        venv.single_action_space,
        d_model=case.d_model,
        n_layer=2,
        n_head=case.n_head,
        engine="graphs",
    )
    config = PPOConfig(
        total_timesteps=10**12,
        num_steps=case.num_steps,
        minibatch_size=case.minibatch_size,
        update_epochs=case.update_epochs,
        device=device,
        precision=case.precision,
    )
    return PPO(policy, venv, config)


def measure(case: Case, device: str, seconds: float, min_updates: int) -> tuple[PPO, Result]:
    """Train until `seconds` and `min_updates` have passed after the warm-up."""
    trainer = make_trainer(case, device)
    for _ in range(WARM_UP):
        trainer.collect()
        trainer.update()
    trainer.clock.clear()
    began, times, samples = time.perf_counter(), [], 0
    while len(times) < min_updates or time.perf_counter() - began < seconds:
        start = time.perf_counter()
        samples += len(trainer.collect())
        trainer.update()
        times.append(time.perf_counter() - start)
    per_update = samples / len(times)
    rates = [per_update / t for t in times]
    microseconds = {part: 1e6 * trainer.clock.wall[part] / samples for part in PARTS}
    filled, transferred = layout(trainer)
    rate = statistics.median(rates)
    return trainer, Result(rate, min(rates), max(rates), microseconds, filled, transferred)


def layout(trainer: PPO) -> tuple[float, float]:
    """Which part of a minibatch's slots holds rows, and its bytes per sample, without those of the loss."""
    samples = trainer.collect()
    minibatch = samples.gather(trainer.rng.permutation(len(samples))[: trainer.config.minibatch_size])
    trainer.update()
    assert isinstance(trainer.learner, GraphLearner)
    form = trainer.learner.form
    plan = Plan(form, minibatch.observations, minibatch.actions)
    capacity = Capacities().fit(plan.sizes)
    slots = sum(width * count for width, count in room_of(capacity).items())
    num_bytes = Packing(form.fields(capacity)).num_bytes
    return plan.prepared.rows.num_rows / slots, num_bytes / len(minibatch)


def profile(trainer: PPO, folder: Path, name: str, device: str) -> None:
    """One rollout and one update under torch's profiler."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    if device != "cpu":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    for part, run in (("rollout", trainer.collect), ("update", trainer.update)):
        start = time.perf_counter()
        with torch.profiler.profile(activities=activities) as trace:
            run()
        wall = time.perf_counter() - start
        folder.mkdir(parents=True, exist_ok=True)
        trace.export_chrome_trace(str(folder / f"{name}-{part}.json"))
        key = "self_cpu_time_total" if device == "cpu" else "self_device_time_total"
        print(f"\n{name}, {part}:")
        print(trace.key_averages().table(sort_by=key, row_limit=12, max_name_column_width=60))
        if device != "cpu":
            kernels = [e for e in trace.events() if e.device_type == torch.autograd.DeviceType.CUDA]
            busy = sum(event.self_device_time_total for event in kernels) / 1e6
            config = trainer.config
            minibatches = -(-trainer._buffer.num_rows // config.minibatch_size) * config.update_epochs
            runs = config.num_steps if part == "rollout" else minibatches
            what = "step" if part == "rollout" else "minibatch"
            print(f"{len(kernels) / runs:.0f} kernels and copies per {what}; device busy {busy / wall:.0%}")


def print_table(results: list[tuple[Case, Result]]) -> None:
    head = ("d_model", "epochs", "precision", "samples/s", "(slowest-fastest)", "filled", "transferred")
    widths = (7, 6, 9, 12, 23, 6, 11)
    parts = "  ".join(f"{part:>9}" for part in PARTS)
    print("  ".join(f"{h:>{w}}" for h, w in zip(head, widths, strict=True)), "|", parts, " (µs per sample)")
    for case, r in results:
        row: tuple[Any, ...] = (
            case.d_model, case.update_epochs, case.precision, f"{r.samples_per_second:,.0f}",
            f"{r.slowest:,.0f}-{r.fastest:,.0f}", f"{r.filled:.0%}", f"{r.bytes_per_sample:,.0f} B",
        )  # fmt: skip
        split = "  ".join(f"{r.microseconds[part]:9.3f}" for part in PARTS)
        print("  ".join(f"{cell:>{w}}" for cell, w in zip(row, widths, strict=True)), "|", split)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=20.0, help="measured time per case")
    parser.add_argument("--precision", nargs="+", default=["float32", "tf32", "bf16"])
    parser.add_argument("--cpu", action="store_true", help="a tiny version, to see that it works")
    parser.add_argument("--profile", metavar="FOLDER", type=Path, help="also write traces there")
    parser.add_argument("--json", metavar="PATH", help="write the results there too")
    options = parser.parse_args()
    if not options.cpu and not torch.cuda.is_available():
        print("This machine has no GPU that torch can use, so nothing was measured.")
        return
    if options.cpu:
        name, device, seconds, updates = "CPU, tiny", "cpu", 0.0, 1
        cases = [Case(16, 2, 1, "float32", num_envs=64, num_steps=4, minibatch_size=128)]
    else:
        name, device, seconds, updates = torch.cuda.get_device_name(), "cuda", options.seconds, 5
        cases = [Case(d, h, e, p) for p in options.precision for d, h in ((16, 2), (64, 4)) for e in (1, 3)]
    torch.set_num_threads(1)  # of the processor: more would only wait for each other
    results = []
    for case in cases:
        trainer, result = measure(case, device, seconds, updates)
        results.append((case, result))
        print(f"{case}: {result.samples_per_second:,.0f} samples/s", flush=True)
        if options.profile is not None:
            label = f"d{case.d_model}-{case.update_epochs}epochs-{case.precision}"
            profile(trainer, options.profile, label, device)
        trainer.venv.close()
    print(name)
    print_table(results)
    if options.json:
        rows = [{"case": asdict(case), **asdict(result)} for case, result in results]
        Path(options.json).write_text(
            json.dumps({"device": name, "torch": torch.__version__, "cases": rows}, indent=1)
        )


if __name__ == "__main__":
    main()
