"""PPO with RogueNet end to end: samples per second, and where the time goes.

    python benchmarks/train.py [--quick] [--json PATH] [--cases bigfish coinrun] [--threads 1] [--seconds 20]

A sample is one environment step. The first cases repeat what the reference trainer was measured at: d_model
16, 2 layers, 2 heads, 3 epochs, the same number of environments, rollout and minibatch, and for Procgen the
reference's features. The others, which have to be named, have goals in samples per second of real time on
two cores, to be measured with `--threads 2` on a quiet machine: toy games with one epoch, and Procgen with
our own features (`--cases bigfish-ours coinrun-ours`, or `--cases ours` for all 16 games), for which the
table says how long 25 million steps take, or with Fourier features (`--cases bigfish-ours-fourier`).
`--cases views` trains games with and without the options that show fewer entities. The first updates
(compilation, first pages, first episodes) are left out.

Samples per core-second divide by the processor time of all threads of this process, so they don't change with
what else the machine does, nor with `--threads`, unless threads wait for each other. What several threads
bring where cores are free is told from the main thread's own processor time: it does its share of what is
split and all that is not, so no run is faster than that.
"""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch
from entitize import make_vec
from entitize.adapters.procgen import GAMES
from entitize.policies.rogue_net import RogueNet
from entitize.trainers import PPO, PPOConfig

from rows import Budget, Row, has_written_rows, script_parser, write_json

PARTS = ("env", "inference", "storage", "update")

#: The part of the time that env, inference and update may leave to all else.
OTHERS_TARGET = 0.05

#: Updates that are not measured.
WARM_UP = 2


@dataclass(frozen=True)
class Case:
    """One environment and what the reference trainer reached on it."""

    env_id: str
    num_envs: int
    num_steps: int
    minibatch_size: int
    #: Samples per core-second of enn-trainer 0.1.16 (rogue-net 0.1.9, torch 2.13 CPU, one thread, medians of
    #: 3 or 4 runs) at d_model 16, 2 layers, 3 epochs, measured by this project in November 2026 on the same
    #: kind of machine; MultiSnake spread over 3,217-4,616, MineSweeper 3,672-4,196, BigFish 1,061-1,737,
    #: CoinRun 245-411, BossFight 102-120. None: it was not measured.
    reference: float | None = None
    #: How many times the reference the project set out to reach; None: no target.
    target: float | None = None
    kwargs: dict[str, Any] = field(default_factory=dict)
    epochs: int = 3
    #: Options of the network beside its size.
    net: dict[str, Any] = field(default_factory=dict)
    #: Samples per second of real time that the project set out to reach on two cores.
    goal: float | None = None


EASY: dict[str, Any] = {"distribution_mode": "easy"}
REFERENCE = {**EASY, "features": "reference"}
#: What `make bench` runs.
COMPARED = {
    "multisnake": Case("entitize/MultiSnake-v0", 128, 16, 1024, 3773, 8),
    "minesweeper": Case("entitize/MineSweeper-v0", 128, 16, 1024, 3915, 8),
    "bigfish": Case("Procgen/bigfish", 64, 32, 1024, 1543, 5, REFERENCE),
    "coinrun": Case("Procgen/coinrun", 64, 32, 1024, 304, 12, REFERENCE),
    "bossfight": Case("Procgen/bossfight", 64, 32, 1024, 115, 20, REFERENCE),
}
#: 25 million steps.
RUN = 25_000_000
#: Of Procgen with our own features: such a run in one hour, and in two.
GOALS = {"bigfish": RUN / 3600, "coinrun": RUN / 7200}
OURS = {
    f"{game}-ours": Case(f"Procgen/{game}", 64, 128, 2048, kwargs=EASY, goal=GOALS.get(game))
    for game in GAMES
}
#: 2 to 32 cells; beside the same without, what Fourier features cost.
FOURIER = {"features": ("relative_x", "relative_y"), "wavelengths": (0.2, 0.4, 0.8, 1.6, 3.2)}
#: Games with many entities, and the options that show fewer.
FEWER: dict[str, tuple[str, dict[str, Any]]] = {
    "breakout": ("Atari/Breakout", {"chunks": True}),
    "mspacman": ("Atari/MsPacman", {"chunks": True}),
    "orbitwars": ("OrbitWars", {"fleets": "forecast"}),
    "planetwars": ("PlanetWars", {"fleets": "forecast"}),
    "caveflyer": ("Procgen/caveflyer", {"visible_only": True}),
    "jumper": ("Procgen/jumper", {"visible_only": True}),
}
VIEWS = {name: Case(env_id, 32, 64, 512) for name, (env_id, _) in FEWER.items()}
VIEWS |= {f"{name}-fewer": replace(VIEWS[name], kwargs=options) for name, (_, options) in FEWER.items()}
#: Names that stand for several cases.
GROUPS = {"ours": OURS, "views": VIEWS}
CASES = {
    **COMPARED,
    **VIEWS,
    "multisnake-1": Case("entitize/MultiSnake-v0", 1024, 16, 4096, epochs=1, goal=100_000),
    "minesweeper-1": Case("entitize/MineSweeper-v0", 1024, 16, 4096, epochs=1, goal=100_000),
    **OURS,
    **{f"{name}-fourier": replace(case, net={"fourier": FOURIER}, goal=None) for name, case in OURS.items()},
}


@dataclass
class Result:
    """Results of a case."""

    samples: int
    samples_per_second: float  # wall clock
    samples_per_core_second: float  # processor time; the median over the measured updates
    slowest: float  # the same, of the slowest and the fastest update
    fastest: float
    entities: float  # mean per step
    microseconds: dict[str, float]  # processor time per sample, by part
    main_thread: dict[str, float]  # of that the main thread's own
    real_time: dict[str, float]  # microseconds of real time per sample, by part
    times_reference: float | None
    others: float  # the part of the processor time that is neither env, inference nor update


class Meter:
    """A callback that measures updates from the third on and stops after enough of them."""

    def __init__(self, seconds: float, min_updates: int) -> None:
        self.seconds, self.min_updates = seconds, min_updates
        self.cpu: list[float] = []  # per update
        self.samples_per_update = 0
        self._last = 0.0

    def __call__(self, trainer: PPO, metrics: dict[str, float]) -> bool:
        now = time.process_time()
        if trainer.updates <= WARM_UP:
            trainer.clock.clear()
            self.samples_per_update = trainer.step // trainer.updates
            self.began, self._last = time.perf_counter(), time.process_time()
            return False
        self.cpu.append(now - self._last)
        self._last = now
        self.wall = time.perf_counter() - self.began
        return len(self.cpu) >= self.min_updates and self.wall >= self.seconds


def measure(case: Case, threads: int, seconds: float, min_updates: int) -> Result:
    """Train until `seconds` and `min_updates` have passed after the warm-up."""
    kwargs = dict(case.kwargs)
    if case.env_id.startswith("Procgen/"):
        kwargs["num_threads"] = threads
    config = PPOConfig(
        total_timesteps=10**9,
        num_steps=case.num_steps,
        minibatch_size=case.minibatch_size,
        update_epochs=case.epochs,
        num_threads=threads,
    )
    meter = Meter(seconds, min_updates)
    with make_vec(case.env_id, num_envs=case.num_envs, **kwargs) as venv:
        torch.manual_seed(0)
        policy = RogueNet(
            venv.single_observation_space,
            venv.single_action_space,
            d_model=16,
            n_layer=2,
            n_head=2,
            **case.net,
        )
        trainer = PPO(policy, venv, config, callbacks=[meter])
        trainer.train()
        clock = trainer.clock
        cpu, own, wall = dict(clock.cpu), dict(clock.own), dict(clock.wall)
        entities = trainer.collect().observations.num_entities / meter.samples_per_update
    samples = len(meter.cpu) * meter.samples_per_update
    rates = sorted(meter.samples_per_update / cpu for cpu in meter.cpu)
    return Result(
        samples,
        samples / meter.wall,
        statistics.median(rates),
        rates[0],
        rates[-1],
        entities,
        *({part: 1e6 * seconds[part] / samples for part in PARTS} for seconds in (cpu, own, wall)),
        statistics.median(rates) / case.reference if case.reference else None,
        1 - sum(cpu[part] for part in ("env", "inference", "update")) / sum(meter.cpu),
    )


def print_table(results: dict[str, Result]) -> None:
    """All cases, and below them whether the targets are met."""
    head = (
        *("case", "entities", "samples/s", "25M steps", "per core-second", "(slowest-fastest)"),
        *("reference", "times"),
    )
    widths = (14, 8, 10, 9, 15, 17, 9, 6)
    parts = "  ".join(f"{part:>9}" for part in PARTS)
    print("  ".join(f"{h:>{w}}" for h, w in zip(head, widths, strict=True)), "|", parts, " (µs per sample)")
    for name, r in results.items():
        case = CASES[name]
        row = (
            name, f"{r.entities:.1f}", f"{r.samples_per_second:,.0f}",
            f"{RUN / 3600 / r.samples_per_second:.2f} h", f"{r.samples_per_core_second:,.0f}",
            f"{r.slowest:,.0f}-{r.fastest:,.0f}", f"{case.reference:,.0f}" if case.reference else "",
            f"{r.times_reference:.1f}x" if r.times_reference else "",
        )  # fmt: skip
        split = "  ".join(f"{r.microseconds[part]:9.1f}" for part in PARTS)
        print("  ".join(f"{cell:>{w}}" for cell, w in zip(row, widths, strict=True)), "|", split)
    others = max(r.others for r in results.values())
    verdict = "reached" if others < OTHERS_TARGET else "NOT reached"
    print(f"neither env, inference nor update: at most {others:.1%}, target {OTHERS_TARGET:.0%}, {verdict}")
    for name, r in results.items():
        target, goal = CASES[name].target, CASES[name].goal
        if target is not None and r.times_reference is not None:
            verdict = "reached" if r.times_reference >= target else "NOT reached"
            print(f"{name}: target {target:g}x the reference per core-second, {verdict}")
        if goal is not None:
            verdict = "reached" if r.samples_per_second >= goal else "NOT reached"
            print(f"{name}: target {goal:,.0f} samples/s on two cores, {verdict}")


def print_threads(results: dict[str, Result]) -> None:
    """By part the time of all threads, of the main one, and real time."""
    columns = "  ".join(f"{part:>22}" for part in (*PARTS, "sum"))
    print(f"{'case':>14}  {columns}  (µs per sample: all threads / main thread / real time)")
    for name, r in results.items():
        triples = [(r.microseconds[part], r.main_thread[part], r.real_time[part]) for part in PARTS]
        sums = tuple(sum(numbers) for numbers in zip(*triples, strict=True))
        cells = ("  ".join(f"{number:6.1f}" for number in numbers) for numbers in (*triples, sums))
        bound = f"at most {1e6 / sums[1]:,.0f} samples/s where cores are free"
        print(f"{name:>14}  {'  '.join(f'{cell:>22}' for cell in cells)}  {bound}")


def bench_rows(budget: Budget) -> Iterator[Row]:
    """Half of each case's time is for what is not measured: the environment's start and the warm-up."""
    for index, (name, case) in enumerate(COMPARED.items()):
        assert case.reference is not None
        rate = measure(case, 1, budget.share(len(COMPARED) - index) / 2, 3).samples_per_core_second
        peer, unit = "enn-trainer 0.1.16", "samples/core-s"
        yield Row(name, rate, case.reference, peer, unit, kind="recorded", target=case.target)


def main() -> None:
    parser = script_parser(__doc__, quick="two updates per case, to see that it runs", json=True, rows=True)
    parser.add_argument("--cases", nargs="+", choices=[*CASES, *GROUPS], default=list(COMPARED))
    parser.add_argument("--seconds", type=float, default=20.0, help="measured time per case")
    parser.add_argument("--threads", type=int, default=1, help="of the network and of Procgen")
    options = parser.parse_args()
    if has_written_rows(options, bench_rows):
        return
    results = {}
    for name in [name for case in options.cases for name in GROUPS.get(case, [case])]:
        seconds, updates = (0.0, 2) if options.quick else (options.seconds, 5)
        results[name] = measure(CASES[name], options.threads, seconds, updates)
        print(f"{name}: {results[name].samples_per_core_second:,.0f} samples per core-second", flush=True)
    print_table(results)
    if options.threads > 1:
        print_threads(results)
    machine = {
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
    }
    cases = {name: {"case": asdict(CASES[name]), **asdict(result)} for name, result in results.items()}
    write_json(options.json, {"machine": machine, "threads": options.threads, "cases": cases})


if __name__ == "__main__":
    main()
