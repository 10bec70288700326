"""RogueNet's engines: acting and training over steps of different lengths.

    python benchmarks/policy.py [--quick] [--json PATH] [--repeats 9] [--threads 1] [--networks d16 d64]
        [--relative]

A whole network: 5 entity types of 50 features, one actor per step with 15 choices, a value. "act": `act` on
64 steps; "train": `evaluate`, a loss and backward on 2048 steps, without the optimizer. "learner" is the
same with PPO's loss, as the trainer does it: without torch's autograd. "groups" is the torch engine
without its attention kernel, as on a GPU. Lengths: "geom n" are skewed with mean n (up to 8 n), "unif n"
uniform from 1 to 2 n - 1. `--relative`: the networks have relative positions, in a grid of 11 x 11 offsets,
for which torch has no attention kernel.

The paths take turns in random order, each after an untimed run of its own; medians of processor time on one
thread, of wall time on more.
"""

from __future__ import annotations

import math
import os
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
import torch
from entitize.envs import ActionMask, Categorical, EntityActionSpace, EntityBatch, EntitySpace
from entitize.policies.rogue_net import RogueNet, attention
from entitize.ragged import RaggedArray
from entitize.trainers import PPOConfig, Samples
from entitize.trainers.learners import AdamW, FusedLearner
from entitize.trainers.learners.losses import count
from entitize.trainers.learners.optimizer import forget_gradients
from numpy.typing import NDArray

from rows import Budget, has_written_rows, median_times, script_parser, write_json
from rows import Row as BenchRow

#: The fused engine, its gradients without autograd, and the torch engine with and without its kernel.
PATHS = ("fused", "learner", "torch", "groups")

#: Width, layers and heads.
NETWORKS = {"d16": (16, 2, 2), "d64": (64, 2, 4), "murts": (64, 5, 4), "d128": (128, 4, 4)}

#: Which distributions each network is measured at.
LENGTHS = {
    "d16": ("geom 6", "geom 10", "unif 10", "geom 20", "unif 20", "geom 40", "unif 40", "unif 80", "geom 80"),
    "d64": ("geom 10", "unif 40"),
    "murts": ("unif 26",),
    "d128": ("geom 10",),
}

NUM_TYPES, NUM_FEATURES, NUM_CHOICES = 5, 50, 15

#: Relative positions of entities that stand within a few cells.
RELATIVE = {"position": ["f0", "f1"], "extent": [5, 5], "scale": 0.5}


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    network: str
    lengths: str
    mode: str
    ms: dict[str, float]  # per path


def draw_lengths(name: str, steps: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Entities per step."""
    kind, mean = name.split()[0], int(name.split()[1])
    if kind == "unif":
        return rng.integers(1, 2 * mean, steps)
    least = 6 if mean >= 10 else 1
    return np.minimum(least + rng.geometric(1 / (mean - least + 1), steps) - 1, 8 * mean)


def make_batch(name: str, steps: int) -> tuple[EntitySpace, EntityBatch]:
    """Steps with one entity of the first type and the rest spread over the others."""
    rng = np.random.default_rng(0)
    lengths = np.ones((NUM_TYPES, steps), np.int64)
    lengths[1:] = rng.multinomial(draw_lengths(name, steps, rng) - 1, [0.4, 0.3, 0.2, 0.1]).T
    features = [f"f{i}" for i in range(NUM_FEATURES)]
    action_space = EntityActionSpace({"move": Categorical(NUM_CHOICES)})
    space = EntitySpace({f"type {t}": features for t in range(NUM_TYPES)}, action_space)
    entities = {
        type_name: RaggedArray.from_lengths(rng.standard_normal((own.sum(), NUM_FEATURES), np.float32), own)
        for type_name, own in zip(space.entities, lengths, strict=True)
    }
    ones = np.ones(steps, np.int64)
    actors = RaggedArray.from_lengths(np.zeros(steps, np.int64), ones)
    mask = RaggedArray.from_lengths(np.ones((steps, NUM_CHOICES), bool), ones)
    return space, EntityBatch(entities, np.zeros((steps, 0), np.float32), {"move": ActionMask(actors, mask)})


def make_run(net: RogueNet, batch: EntityBatch, mode: str) -> Callable[[], Any]:
    """Return the function to time."""
    rng = np.random.default_rng(0)
    if mode == "act":
        return lambda: net.act(batch, rng)
    actions = net.act(batch, rng).actions

    def train() -> None:
        net.zero_grad()
        got = net.evaluate(batch, actions)
        loss = got.values.square().mean() - got.log_probs["move"].mean() - 0.01 * got.entropies["move"].mean()
        loss.backward()

    return train


def without_kernel(run: Callable[[], Any]) -> Callable[[], Any]:
    """The same with attention over groups of steps."""

    def patched() -> Any:
        with mock.patch.object(attention, "runs_kernels", lambda x: False):
            return run()

    return patched


def make_learner_run(net: RogueNet, batch: EntityBatch) -> Callable[[], Any]:
    """Return the function of "train" with the trainer's loss; its gradients come from the fused engine."""
    rng = np.random.default_rng(0)
    got = net.act(batch, rng)
    advantages, returns = rng.standard_normal((2, len(batch)), np.float32)
    samples = Samples(batch, got.raw, got.log_probs, got.values, advantages, returns)
    counts, config = count(samples, False), PPOConfig()
    learner = FusedLearner(net, AdamW(net.parameters()), config)

    def train() -> None:
        forget_gradients(learner.parameters)
        learner.differentiate(samples, counts, config.ent_coef)

    return train


def milliseconds(
    runs: dict[str, Callable[[], Any]], repeats: int, seconds: float = math.inf
) -> dict[str, float]:
    """Median milliseconds of each."""
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    return {name: 1e3 * each for name, each in median_times(runs, repeats, seconds, clock=clock).items()}


def measure_row(
    network: str, lengths: str, mode: str, repeats: int, seconds: float = math.inf, relative: bool = False
) -> Row:
    space, batch = make_batch(lengths, 64 if mode == "act" else 2048)
    width, layers, heads = NETWORKS[network]
    options: dict[str, Any] = {"relative_position": RELATIVE} if relative else {}
    runs = {}
    for path in PATHS:
        if (path == "learner" and mode == "act") or (path == "groups" and relative):
            continue
        engine = "fused" if path in ("fused", "learner") else "torch"
        net = RogueNet(
            space, space.actions, d_model=width, n_layer=layers, n_head=heads, engine=engine, **options
        )
        net.update_normalization(batch)
        runs[path] = make_learner_run(net, batch) if path == "learner" else make_run(net, batch, mode)
        if path == "groups":
            runs[path] = without_kernel(runs[path])
    return Row(network, lengths, mode, milliseconds(runs, repeats, seconds))


HEADER = f"{'network':<8}{'lengths':<9}{'mode':<6}" + "".join(f"{path + ' ms':>12}" for path in PATHS)


def show(row: Row) -> str:
    cells = "".join(f"{row.ms[path]:>12.2f}" if path in row.ms else f"{'-':>12}" for path in PATHS)
    return f"{row.network:<8}{row.lengths:<9}{row.mode:<6}{cells}"


def bench_rows(budget: Budget) -> Iterator[BenchRow]:
    """The fused engine against the torch engine without kernels."""
    cases = [
        (network, lengths, mode)
        for network, lengths in (("d16", "geom 10"), ("d16", "geom 40"), ("d64", "geom 10"))
        for mode in ("act", "train")
    ]
    for index, (network, lengths, mode) in enumerate(cases):
        ms = measure_row(network, lengths, mode, 9, budget.share(len(cases) - index)).ms
        yield BenchRow(f"{network} {lengths} {mode}", ms["fused"], ms["groups"], "torch, groups", "ms", False)


def main() -> None:
    parser = script_parser(__doc__, quick="two short cases, few repeats", json=True, rows=True)
    parser.add_argument("--repeats", type=int, default=9, help="timings per path and case")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch and of the kernels")
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--relative", action="store_true", help="networks with relative positions")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if has_written_rows(options, bench_rows):
        return
    repeats = 3 if options.quick else options.repeats
    machine = {"processor": platform.processor(), "cores": os.cpu_count(), "load": os.getloadavg()[0]}
    print(f"{options.threads} threads, median of {repeats}")
    print(f"load of the machine at the start: {machine['load']} on {machine['cores']} cores")
    print(HEADER)
    rows = []
    for network in ["d16"] if options.quick else options.networks:
        for lengths in ("geom 6", "geom 10") if options.quick else LENGTHS[network]:
            for mode in ("act", "train"):
                rows.append(measure_row(network, lengths, mode, repeats, relative=options.relative))
                print(show(rows[-1]), flush=True)
    report = {
        "machine": machine,
        "threads": options.threads,
        "repeats": repeats,
        "relative": options.relative,
    }
    write_json(options.json, {**report, "rows": [vars(row) for row in rows]})


if __name__ == "__main__":
    main()
