"""PPO on μRTS with RogueNet and the published networks: samples per second, parameters, multiply-adds.

    python benchmarks/microrts_train.py [--map basesWorkers8x8] [--rounds 5] [--quick] [--json PATH]

Everyone is trained by the same PPO with the papers' hyper-parameters (24 environments, the papers' mix of
bots, 4 epochs of 4 minibatches) in rounds: one update of each network per round, so that all see the same
machine, and medians over the rounds. Warm-up rounds, in which Java and Numba compile, are left out. A sample
is one step of one environment; samples per core-second divide by the processor time of all threads, Java's
included. Multiply-adds are those of one pass over the mean numbers of entities and actors that the network's
own last rollout had.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch
from entitize import make_vec
from entitize.adapters.microrts import find_map
from entitize.envs import EntityVectorEnv
from entitize.policies.baselines import GridNet, ImpalaGridNet, TransformerNet, UnitActionNet
from entitize.policies.rogue_net import RogueNet
from entitize.trainers import PPO, PPOConfig

from rows import Budget, Row, has_written_rows, rounds, script_parser, write_json

NUM_ENVS = 24
OPPONENTS = {"coacAI": 18, "randomBiasedAI": 2, "lightRushAI": 2, "workerRushAI": 2}
WARM_UP = 3
PARTS = ("env", "inference", "storage", "update")

#: Row of the table -> network, its options, and whether it needs the size of the map.
NETWORKS: dict[str, tuple[type[Any], dict[str, Any]]] = {
    "RogueNet d32 L2": (RogueNet, {"d_model": 32, "n_layer": 2, "n_head": 4}),
    "RogueNet d64 L2": (RogueNet, {"d_model": 64, "n_layer": 2, "n_head": 4}),
    "TransformerNet": (TransformerNet, {}),
    "GridNet": (GridNet, {}),
    "ImpalaGridNet": (ImpalaGridNet, {}),
    "UnitActionNet": (UnitActionNet, {}),
}


@dataclass
class Result:
    """Results of one network; medians over the rounds."""

    parameters: int
    multiply_adds: float  # one step
    samples_per_second: float  # wall clock
    samples_per_core_second: float
    microseconds: dict[str, float]  # processor time per sample, by part


class Contestant:
    """A network, its environments and its trainer."""

    def __init__(self, name: str, board: str, num_steps: int) -> None:
        kind, options = NETWORKS[name]
        size = {} if kind is RogueNet else {"height": find_map(board).height, "width": find_map(board).width}
        self.venv: EntityVectorEnv = make_vec(
            f"MicroRTS/{board}",
            NUM_ENVS,
            opponents=OPPONENTS,
            features="units" if kind is RogueNet else "planes",
        )
        torch.manual_seed(0)
        spaces = self.venv.single_observation_space, self.venv.single_action_space
        self.net = kind(*spaces, **size, **options)
        config = PPOConfig(
            total_timesteps=10**9,
            num_steps=num_steps,
            minibatch_size=NUM_ENVS * num_steps // 4,
            update_epochs=4,
            learning_rate=2.5e-4,
            clip_coef=0.1,
            max_grad_norm=0.5,
        )
        self.trainer = PPO(self.net, self.venv, config)
        self.samples = NUM_ENVS * num_steps
        self.wall: list[float] = []
        self.cpu: list[float] = []

    def round(self) -> None:
        """One rollout and one update, timed."""
        wall, cpu = time.perf_counter(), time.process_time()
        self.rollout = self.trainer.collect()
        self.trainer.update()
        self.wall.append(time.perf_counter() - wall)
        self.cpu.append(time.process_time() - cpu)

    def forget(self) -> None:
        """Leave out what was measured so far."""
        self.wall, self.cpu = [], []
        self.trainer.clock.clear()

    @property
    def samples_per_core_second(self) -> float:
        return self.samples / statistics.median(self.cpu)

    def result(self) -> Result:
        rollout = self.trainer.collect().observations
        steps = len(rollout)
        counts = {name: rows.num_items / steps for name, rows in rollout.entities.items() if rows.num_items}
        actors = {name: part.actors.num_items / steps for name, part in rollout.actions.items()}
        summary = self.net.summary(counts, actors)
        clock, samples = self.trainer.clock.cpu, self.samples * len(self.wall)
        return Result(
            summary.total,
            summary.cost.total,
            self.samples / statistics.median(self.wall),
            self.samples_per_core_second,
            {part: 1e6 * clock[part] / samples for part in PARTS},
        )


def print_table(results: dict[str, Result]) -> None:
    print(
        f"{'network':<16} {'parameters':>10} {'MMAC':>6} {'samples/s':>10} {'per core-s':>10}  µs per sample"
    )
    for name, r in results.items():
        split = "  ".join(f"{part} {r.microseconds[part]:.0f}" for part in PARTS)
        print(
            f"{name:<16} {r.parameters:>10,} {r.multiply_adds / 1e6:>6.2f} {r.samples_per_second:>10,.0f}"
            f" {r.samples_per_core_second:>10,.0f}  {split}"
        )
    best = results[next(iter(results))]
    for name, r in list(results.items())[1:]:
        ratio = best.samples_per_core_second / r.samples_per_core_second
        print(f"{next(iter(results))} trains {ratio:.1f} times as fast as {name}, per core-second")


def bench_rows(budget: Budget) -> Iterator[Row]:
    """Short rollouts of three networks on the small map."""
    names = ("RogueNet d32 L2", "TransformerNet", "GridNet")
    contestants = {name: Contestant(name, "basesWorkers8x8", 32) for name in names}
    for index in rounds(2 * WARM_UP + 9, budget.share(1), least=WARM_UP + 2):
        for contestant in contestants.values():
            if index == WARM_UP:
                contestant.forget()
            contestant.round()
    ours, *peers = (contestant.samples_per_core_second for contestant in contestants.values())
    for name, peer in zip(names[1:], peers, strict=True):
        yield Row("train, " + names[0], ours, peer, name, "samples/core-s")


def main() -> None:
    parser = script_parser(__doc__, quick="short rollouts, to see that it runs", json=True, rows=True)
    parser.add_argument("--map", default="basesWorkers8x8")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    if has_written_rows(options, bench_rows):
        return
    num_steps, num_rounds, warm_up = (16, 1, 1) if options.quick else (128, options.rounds, WARM_UP)
    contestants = {name: Contestant(name, options.map, num_steps) for name in options.networks}
    for index in range(warm_up + num_rounds):
        for contestant in contestants.values():
            if index == warm_up:
                contestant.forget()
            contestant.round()
        print(f"round {index + 1} of {warm_up + num_rounds}", flush=True)
    results = {name: contestant.result() for name, contestant in contestants.items()}
    print_table(results)
    write_json(options.json, {name: asdict(r) for name, r in results.items()})


if __name__ == "__main__":
    main()
