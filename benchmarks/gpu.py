"""RogueNet on a GPU: is it correct, how many samples per second does PPO reach, and where does the time go?

    python benchmarks/gpu.py [--parts tests ppo few ranks sb3] [--seconds 5] [--json PATH] [--profile FOLDER]
    python benchmarks/gpu.py --cpu        a tiny version on the CPU, to see that it works
    ENTITIZE_TRITON=1 python benchmarks/gpu.py        with layer norms and attention as kernels in Triton

A sample is one environment step. Five parts:

- tests: tests/trainers/test_devices.py, where engines on the GPU are compared with float64 torch on the CPU,
  and tests/policies/test_gpu_kernels.py;
- ppo: the trainer on MultiSnake and MineSweeper (both Numba), and on steps of the sizes of Procgen's CoinRun
  that cost nothing to make. 4,096 environments, rollouts of 32 steps, minibatches of 16,384. Each engine of
  RogueNet, 2 layers with d_model 16 (float32), 64 and 128 (tf32), 1 epoch (and 3 once); then 16,384
  environments, in this process and shared between worker processes (`--workers`). Gathers of minibatches
  use up to eight threads;
- few: 64 to 1,024 environments with the other settings of `--config procgen` and rollouts of 4,096 steps,
  networks of that size and wider ones, on the GPU and on one core;
- ranks: several processes that train one policy (MultiSnake, d_model 16), each in 16,384 environments of its
  own, with 32,768 of its steps in each minibatch: on the GPU that they share, and on the cores alone;
- sb3: Stable-Baselines3's PPO with `ez.sb3.RogueNetPolicy`, d_model 128, on the GPU and on the CPU in turn.

The first updates (compilation, capture of CUDA graphs) are left out. Times are of the host's clock; the
trainer waits for the device at every step of a rollout and at the end of every epoch, so that each part's
time is its own. `--profile` writes a trace (chrome://tracing) of one rollout and one update of every case of
"ppo", and prints the operations that take most of the device's time, how many kernels are launched per
minibatch, and how much of the time the device is busy: below one half, the next factor lies on the host.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import entitize as ez
import numpy as np
import torch
from entitize.envs import ActionMask, EntityBatch
from entitize.policies.gpu_kernels import runs_triton
from entitize.ragged import RaggedArray, available_cores, set_num_threads
from entitize.trainers import PPO, PPOConfig, process_group
from numpy.typing import NDArray

from rows import script_parser, wait_for_ranks, write_json

PARTS = ("tests", "ppo", "few", "ranks", "sb3")
TESTS = ("tests/trainers/test_devices.py", "tests/policies/test_gpu_kernels.py")
#: The trainer's clock.
CLOCK = ("env", "inference", "storage", "update")
#: Updates that are not measured.
WARM_UP = 3


# -- environments -------------------------------------------------------------------------------------------

#: CoinRun's entity types: features, and how many a step has on average in random play.
COINRUN = {"Player": (4, 1), "Saw": (4, 1.1), "Enemy": (6, 0.3), "Crate": (4, 3.9), "Tiles": (104, 9.4)}


class Sizes(ez.EntityVectorEnv):
    """Random steps of the sizes of CoinRun's, made beforehand: an environment that costs nothing."""

    def __init__(self, num_envs: int, num_batches: int = 8) -> None:
        self.num_envs = num_envs
        self.single_action_space = ez.EntityActionSpace({"act": ez.GlobalCategorical(15)})
        features = {name: [f"f{i}" for i in range(width)] for name, (width, _) in COINRUN.items()}
        self.single_observation_space = ez.EntitySpace(features, self.single_action_space, ["a", "b"])
        rng = np.random.default_rng(0)
        self._batches = [self._draw(rng) for _ in range(num_batches)]
        self._at = 0

    def _draw(self, rng: np.random.Generator) -> EntityBatch:
        entities = {}
        for name, (width, mean) in COINRUN.items():
            lengths = np.ones(self.num_envs, int) if name == "Player" else rng.poisson(mean, self.num_envs)
            rows = rng.standard_normal((lengths.sum(), width), np.float32)
            entities[name] = RaggedArray.from_lengths(rows, lengths)
        one = np.ones(self.num_envs, np.int64)
        actors = RaggedArray.from_lengths(np.full(self.num_envs, -1), one)
        allowed = RaggedArray.from_lengths(np.ones((self.num_envs, 15), bool), one)
        numbers = rng.standard_normal((self.num_envs, 2), np.float32)
        return EntityBatch(entities, numbers, {"act": ActionMask(actors, allowed)})

    def _next(self) -> EntityBatch:
        self._at = (self._at + 1) % len(self._batches)
        return self._batches[self._at]

    def _reset(self, seeds: Any, options: dict[str, Any] | None) -> tuple[EntityBatch, dict[str, Any]]:
        return self._next(), {}

    def _step(self, actions: dict[str, RaggedArray]) -> Any:
        ends: NDArray[np.bool_] = np.zeros(self.num_envs, bool)
        return self._next(), np.ones(self.num_envs, np.float32), ends, ends.copy(), {}


def make_env(game: str, num_envs: int, num_workers: int) -> ez.EntityVectorEnv:
    if game == "CoinRun's sizes":
        return Sizes(num_envs)
    return ez.make_vec(f"entitize/{game}-v0", num_envs=num_envs, num_workers=num_workers)


GAMES = ("MultiSnake", "MineSweeper", "CoinRun's sizes")


# -- PPO ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """Training to measure."""

    game: str
    engine: str
    precision: str = "float32"
    d_model: int = 16
    n_head: int = 2
    update_epochs: int = 1
    num_workers: int = 0
    num_envs: int = 4096
    num_steps: int = 32
    minibatch_size: int = 16_384


@dataclass
class Result:
    """Results of a case; samples per second are medians over the updates."""

    engine: str  # what computed, which may be another engine than the case asked for
    samples_per_second: float
    slowest: float
    fastest: float
    microseconds: dict[str, float]  # per sample, by part


#: Many environments.
WIDE = Case("MultiSnake", "graphs", num_envs=16_384, num_steps=16, minibatch_size=32_768)


def cases(workers: list[int]) -> Iterator[Case]:
    for game in GAMES:
        for engine in ("torch", "graphs"):
            yield Case(game, engine)
            yield Case(game, engine, "tf32", 64, 4)
    yield Case("MultiSnake", "torch", "tf32", 128, 4)
    yield Case("MultiSnake", "graphs", "tf32", 128, 4)
    yield Case("MultiSnake", "graphs", update_epochs=3)
    for num_workers in (0, *workers):
        yield replace(WIDE, num_workers=num_workers)


def make_trainer(case: Case, device: str) -> PPO:
    """On the CPU the same computation, so that all of the code is run."""
    venv = make_env(case.game, case.num_envs, case.num_workers)
    torch.manual_seed(0)
    policy = ez.RogueNet(
        venv.single_observation_space,
        venv.single_action_space,
        d_model=case.d_model,
        n_layer=2,
        n_head=case.n_head,
        engine=case.engine,  # type: ignore[arg-type]
    )
    config = PPOConfig(
        total_timesteps=10**12,
        num_steps=case.num_steps,
        minibatch_size=case.minibatch_size,
        update_epochs=case.update_epochs,
        device=device,
        precision=case.precision,  # type: ignore[arg-type]
    )
    return PPO(policy, venv, config)


def measure(case: Case, device: str, seconds: float, min_updates: int) -> tuple[PPO, Result]:
    """Train until `seconds` and `min_updates` have passed after the warm-up."""
    trainer = make_trainer(case, device)
    for _ in range(WARM_UP):
        trainer.collect()
        trainer.update()
    trainer.clock.clear()
    began, times, step = time.perf_counter(), [], trainer.step
    while len(times) < min_updates or time.perf_counter() - began < seconds:
        start = time.perf_counter()
        trainer.collect()
        trainer.update()
        times.append(time.perf_counter() - start)
    samples = trainer.step - step
    rates = [samples / len(times) / t for t in times]
    microseconds = {part: 1e6 * trainer.clock.wall[part] / samples for part in CLOCK}
    engine = trainer.policy.engine.name  # type: ignore[attr-defined]
    return trainer, Result(engine, statistics.median(rates), min(rates), max(rates), microseconds)


def profile(trainer: PPO, folder: Path, name: str, device: str) -> None:
    """One rollout and one update under torch's profiler."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    if device != "cpu":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    config, rows = trainer.config, 0

    def collect() -> None:
        nonlocal rows
        rows = len(trainer.collect())

    runs: dict[str, Callable[[], Any]] = {"rollout": collect, "update": trainer.update}
    for part, run in runs.items():
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
            minibatches = -(-rows // config.minibatch_size) * config.update_epochs
            times, what = (config.num_steps, "step") if part == "rollout" else (minibatches, "minibatch")
            print(f"{len(kernels) / times:.0f} kernels and copies per {what}; device busy {busy / wall:.0%}")


def print_table(results: list[tuple[Case, Result]]) -> None:
    head = ("game", "engine", "precision", "d_model", "epochs", "workers", "samples/s", "(slowest-fastest)")
    widths = (16, 7, 9, 7, 6, 7, 12, 23)
    parts = "  ".join(f"{part:>9}" for part in CLOCK)
    print("  ".join(f"{h:>{w}}" for h, w in zip(head, widths, strict=True)), "|", parts, " (µs per sample)")
    for case, r in results:
        row: tuple[Any, ...] = (
            case.game, r.engine, case.precision, case.d_model, case.update_epochs, case.num_workers,
            f"{r.samples_per_second:,.0f}", f"{r.slowest:,.0f}-{r.fastest:,.0f}",
        )  # fmt: skip
        split = "  ".join(f"{r.microseconds[part]:9.3f}" for part in CLOCK)
        print("  ".join(f"{cell:>{w}}" for cell, w in zip(row, widths, strict=True)), "|", split)


def run_ppo(options: argparse.Namespace) -> list[dict[str, Any]]:
    if options.cpu:
        small = {"num_envs": 64, "num_steps": 4, "minibatch_size": 128}
        chosen = [Case(game, engine, **small) for game in GAMES for engine in ("torch", "graphs")]  # type: ignore[arg-type]
        chosen.append(replace(chosen[0], num_workers=2))
    else:
        chosen = list(cases(options.workers))
    seconds, updates = (0.0, 1) if options.cpu else (options.seconds, 5)
    results = []
    for case in chosen:
        trainer, result = measure(case, options.device, seconds, updates)
        results.append((case, result))
        print(f"{case}: {result.samples_per_second:,.0f} samples/s", flush=True)
        if options.profile is not None:
            label = f"{case.game}-{case.engine}-{case.precision}-d{case.d_model}-{case.update_epochs}epochs"
            profile(trainer, options.profile, label.replace("'", "").replace(" ", "-"), options.device)
        trainer.venv.close()
    print_table(results)
    return [{"case": asdict(case), **asdict(result)} for case, result in results]


def run_few(options: argparse.Namespace) -> list[dict[str, Any]]:
    few = Case("CoinRun's sizes", "auto", update_epochs=3, minibatch_size=2048)
    chosen = []
    for d_model in (16, 64):
        network = replace(few, d_model=d_model, n_head=d_model // 8)
        chosen += [
            (options.device, replace(network, num_envs=n, num_steps=4096 // n)) for n in (64, 256, 1024)
        ]
        chosen.append(("cpu", replace(network, num_envs=64, num_steps=64)))
    if options.cpu:
        chosen = [("cpu", replace(few, num_envs=16, num_steps=4, minibatch_size=32))]
    results = []
    for device, case in chosen:
        trainer, result = measure(case, device, 0.0 if options.cpu else 2.0, 1 if options.cpu else 3)
        results.append({"device": device, "case": asdict(case), **asdict(result)})
        print(
            f"{case.num_envs:5} environments, d_model {case.d_model:3}, {device} ({result.engine}):"
            f" {result.samples_per_second:,.0f} samples/s ({result.slowest:,.0f}-{result.fastest:,.0f})",
            flush=True,
        )
        trainer.venv.close()
    return results


# -- several processes --------------------------------------------------------------------------------------


def run_rank(options: argparse.Namespace) -> None:
    """Train as one of several ranks; the first prints the result."""
    with process_group() as ranks:
        case = WIDE if options.device == "cuda" else replace(WIDE, engine="auto")
        if options.cpu:
            case = replace(case, num_envs=64, num_steps=4, minibatch_size=128)
        set_num_threads(max(1, min(8, available_cores() // ranks.size)))
        case = replace(case, minibatch_size=case.minibatch_size * ranks.size)
        _, result = measure(case, options.device, 0.0, 1 if options.cpu else options.updates)
        if ranks.is_first:
            print(json.dumps({"device": options.device, "ranks": ranks.size, **asdict(result)}))


def run_ranks(options: argparse.Namespace) -> list[dict[str, Any]]:
    chosen = [*(("cuda", n) for n in options.ranks), *(("cpu", n) for n in options.cpu_ranks)]
    if options.cpu:
        chosen = [("cpu", 2)]
    results = []
    for device, size in chosen:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(size)}
        command = [sys.executable, __file__, "--rank-on", device, *(["--cpu"] if options.cpu else [])]
        command += ["--updates", str(options.updates)]
        processes = [
            subprocess.Popen(
                command, env={**os.environ, **shared, "RANK": str(rank)}, stdout=subprocess.PIPE, text=True
            )
            for rank in range(size)
        ]
        wait_for_ranks(processes)
        found = json.loads(processes[0].communicate()[0])
        split = "  ".join(f"{part} {us * size:.2f}" for part, us in found["microseconds"].items())
        print(
            f"{size:3} ranks on {device}: {found['samples_per_second']:,.0f} samples/s"
            f" ({found['slowest']:,.0f}-{found['fastest']:,.0f}); µs per sample of one rank: {split}",
            flush=True,
        )
        results.append(found)
    return results


# -- Stable-Baselines3 --------------------------------------------------------------------------------------


def sb3_rate(device: str, tiny: bool) -> float:
    """Samples per second of SB3's PPO with RogueNet on MultiSnake."""
    import stable_baselines3  # worker processes import this file, but not this

    num_envs, d_model = (4, 16) if tiny else (256, 128)
    venv = ez.sb3.make_vec(ez.make_vec("entitize/MultiSnake-v0", num_envs=num_envs))
    torch.manual_seed(0)
    model = stable_baselines3.PPO(
        ez.sb3.RogueNetPolicy,
        venv,
        n_steps=8 if tiny else 64,
        batch_size=16 if tiny else 4096,
        n_epochs=4,
        device=device,
        seed=0,
        rollout_buffer_class=ez.sb3.RaggedRolloutBuffer,
        policy_kwargs={"d_model": d_model, "n_layer": 2, "n_head": 4},
    )
    rollout = num_envs * model.n_steps
    model.learn(rollout)
    start = time.perf_counter()
    model.learn(rollout if tiny or device == "cpu" else 4 * rollout, reset_num_timesteps=False)
    rate = (model.num_timesteps - rollout) / (time.perf_counter() - start)
    venv.close()
    return float(rate)


def run_sb3(options: argparse.Namespace) -> dict[str, float]:
    rounds = 1 if options.cpu else options.rounds
    rates: dict[str, list[float]] = {"cpu": [], options.device: []}
    for _ in range(rounds):
        for device, of_device in rates.items():
            torch.set_num_threads(1 if options.cpu or device != "cpu" else available_cores())
            of_device.append(sb3_rate(device, options.cpu))
    middle = {device: statistics.median(of_device) for device, of_device in rates.items()}
    for device, rate in middle.items():
        print(f"SB3 on {device}: {rate:,.0f} samples/s, {rate / middle['cpu']:.2f} times the CPU")
    return middle


# -- all ----------------------------------------------------------------------------------------------------


def run_tests(options: argparse.Namespace) -> dict[str, Any]:
    root = Path(__file__).parents[1]
    chosen = ["-k", "test_acting"] if options.cpu else []
    command = [sys.executable, "-m", "pytest", "-q", *TESTS, *chosen]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    print(done.stdout[-6000:], done.stderr[-2000:])
    return {"passed": done.returncode == 0, "summary": done.stdout.strip().splitlines()[-1:]}


def main() -> None:
    parser = script_parser(__doc__, json=True)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--seconds", type=float, default=5.0, help="measured time per case of ppo")
    parser.add_argument("--workers", nargs="+", type=int, default=[8, 14], help="processes that step")
    parser.add_argument(
        "--ranks", nargs="*", type=int, default=[1, 4, 8, 14], help="processes that share the GPU, for ranks"
    )
    parser.add_argument(
        "--cpu-ranks",
        nargs="*",
        type=int,
        default=[available_cores()],
        help="processes that train on the CPU, for ranks",
    )
    parser.add_argument("--updates", type=int, default=20, help="updates to measure, for ranks")
    parser.add_argument("--rank-on", metavar="DEVICE", help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=3, help="of sb3 on each device")
    parser.add_argument("--cpu", action="store_true", help="a tiny version, to see that it works")
    parser.add_argument("--profile", metavar="FOLDER", type=Path, help="also write traces there")
    options = parser.parse_args()
    if options.rank_on:  # one of the processes of `run_ranks`
        torch.set_num_threads(1)
        options.device = options.rank_on
        run_rank(options)
        return
    if not options.cpu and not torch.cuda.is_available():
        print("This machine has no GPU that torch can use, so nothing was measured.")
        return
    options.device = "cpu" if options.cpu else "cuda"
    name = "CPU, tiny" if options.cpu else torch.cuda.get_device_name()
    has_kernels = runs_triton(torch.empty(0, device=options.device))
    print(name, "torch", torch.__version__, "with kernels in Triton" if has_kernels else "")
    results: dict[str, Any] = {"device": name, "torch": torch.__version__, "triton": has_kernels}
    runs = {"tests": run_tests, "ppo": run_ppo, "few": run_few, "ranks": run_ranks, "sb3": run_sb3}
    for part in options.parts:
        torch.set_num_threads(1)  # of the processor: more would only wait for each other
        set_num_threads(min(8, available_cores()))  # of gathers
        results[part] = partial(runs[part], options)()
        write_json(options.json, results)


if __name__ == "__main__":
    main()
