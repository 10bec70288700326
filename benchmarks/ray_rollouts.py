"""Rollouts from Ray actors: the cost of one on its way, samples per second, and how many a learner takes in.

    python benchmarks/ray_rollouts.py transport              # bytes and µs of 64 environments × 256 steps
    python benchmarks/ray_rollouts.py train --rounds 3       # samples per second beside one process
    python benchmarks/ray_rollouts.py simulated --plot PATH  # up to 256 simulated actors

`transport` collects a rollout of Procgen's BigFish and measures what of it is pickled and what travels as it
lies in memory (protocol 5), how long Ray's object store takes for it, and how long the learner takes to join
two halves. `simulated` actors wait as long as `--latency` says and return a rollout that they have played
before; many live in one process, since they only wait. Their rollouts go through Ray like those of others.
The learner takes them in, first alone and then with updates.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import os
import pickle
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import entitize as ez
import numpy as np
import ray
from entitize.trainers import PPO, PPOConfig
from entitize.trainers.distributed import ActorRollouts, RayRollouts, RolloutActor
from entitize.trainers.rollout import Rollout

from rows import script_parser

GAME = "Procgen/bigfish"


def network(game: str) -> ez.RogueNet:
    with ez.make_vec(game, 1) as venv:
        return ez.RogueNet(venv.single_observation_space, venv.single_action_space, d_model=16, n_layer=2)


def played(game: str, lanes: int, steps: int) -> Rollout:
    """Return a rollout as an actor plays it."""
    policy = network(game)
    actor = RolloutActor(partial(ez.make_vec, game))
    actor.make(lanes)
    actor.open(policy.observation_space, policy.config, steps)
    actor.start_episodes(1)
    trainer = PPO(policy, ez.make_vec(game, 1), PPOConfig())
    engine = trainer.policy.fused_engine()  # type: ignore[attr-defined]
    weights = engine.parameters.flat(engine.parameters.tensors())
    for draws in range(2):  # the first one has allocated the memory
        rollout = actor.play(weights, (draws,), 0.0)
    return copy.deepcopy(rollout)


def microseconds(function: Callable[[], Any], rounds: int) -> float:
    """Return the median time of a call."""
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        function()
        times.append(time.perf_counter() - began)
    return 1e6 * statistics.median(times)


@contextmanager
def own_ray(num_cpus: int) -> Iterator[None]:
    os.environ |= {"RAY_worker_niceness": "0"}  # as `RayRollouts` starts it
    ray.init("local", num_cpus=num_cpus, include_dashboard=False, log_to_driver=False, logging_level=40)
    try:
        yield
    finally:
        ray.shutdown()


def transport(options: argparse.Namespace) -> None:
    whole = played(options.env, 64, 256)
    half = played(options.env, 32, 256)
    buffers: list[pickle.PickleBuffer] = []
    text = pickle.dumps(whole, 5, buffer_callback=buffers.append)
    sizes = [len(buffer.raw()) for buffer in buffers]
    print(f"{options.env}, 64 environments × 256 steps: {len(whole):,} samples")
    print(f"pickled                 {len(text):12,} bytes")
    print(f"as it lies in memory    {sum(sizes):12,} bytes in {len(sizes)} buffers")
    rounds = options.rounds * 5
    with own_ray(1):
        put = microseconds(lambda: ray.put(whole), rounds)
        reference = ray.put(whole)
        got: Rollout = ray.get(reference)
        get = microseconds(lambda: ray.get(reference), rounds)
        is_view = not got.values.flags.owndata and not got.values.flags.writeable
        halves = [ray.get(ray.put(half)) for _ in range(2)]
        join = microseconds(lambda: Rollout.of_neighbours(halves), rounds)
    print(f"into the object store   {put:12,.0f} µs (one copy)")
    print(f"out of it               {get:12,.0f} µs ({'no copy' if is_view else 'a copy'})")
    print(f"two halves joined       {join:12,.0f} µs")


def train(options: argparse.Namespace) -> None:
    cases: dict[str, tuple[int, int]] = {"one process": (0, 0)}
    for count in (1, 2):
        cases[f"{count} actors, staleness 0"] = (count, 0)
        cases[f"{count} actors, staleness 1"] = (count, 1)
    speeds: dict[str, list[float]] = {name: [] for name in cases}
    config = PPOConfig(num_steps=128, minibatch_size=2048)
    with own_ray(2):
        for _ in range(options.rounds):
            for name, (count, staleness) in cases.items():
                policy = network(options.env)
                source: Any = ez.make_vec(options.env, 64)
                if count:
                    source = RayRollouts(options.env, policy, count, num_envs=64, staleness=staleness)
                trainer = PPO(policy, source, config)
                trainer.train(2 * 128 * 64, progress=False)
                step, began = trainer.step, time.perf_counter()
                trainer.train(step + 6 * 128 * 64, progress=False)
                speeds[name].append((trainer.step - step) / (time.perf_counter() - began))
                source.close()
    first = statistics.median(speeds["one process"])
    for name, found in speeds.items():
        median = statistics.median(found)
        print(f"{name:24} {median:9,.0f} samples/s  {median / first:5.2f} ×")


class Waiting:
    """Many simulated actors in one process of Ray."""

    def __init__(self, game: str, lanes: int, steps: int, latency: float) -> None:
        self.rollout, self.latency = played(game, lanes, steps), latency
        actor = RolloutActor(partial(ez.make_vec, game))
        self.environments = actor.make(lanes)
        self.first = actor._venv.reset(seed=1)[0]

        self.turns: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def answer(self, index: int, method: str) -> Any:
        if method == "play":
            async with self.turns[index]:  # one rollout after the other
                await asyncio.sleep(self.latency)
            return self.rollout
        return {"make": self.environments, "start_episodes": self.first}.get(method)


class SimulatedActor:
    def __init__(self, process: Any, index: int) -> None:
        self._process, self._index = process, index

    def call(self, method: str, *arguments: Any) -> Callable[[float | None], Any]:
        reference = self._process.answer.remote(self._index, method)
        return lambda seconds: ray.get(reference, timeout=seconds)

    def kill(self) -> None:
        pass


class SimulatedRollouts(ActorRollouts):
    """`ActorRollouts` whose actors are simulated, in `processes`."""

    def __init__(self, policy: ez.Policy, processes: list[Any], num_actors: int, lanes: int) -> None:
        super().__init__(policy, num_actors, num_actors * lanes, staleness=1)
        self._processes = processes
        self.start_actors()

    def start_actor(self, index: int) -> SimulatedActor:
        return SimulatedActor(self._processes[index % len(self._processes)], index)

    def broadcast(self, weights: Any) -> Any:
        return ray.put(weights)


def simulated(options: argparse.Namespace) -> None:
    lanes, steps = options.lanes, options.steps
    config = PPOConfig(num_steps=steps, minibatch_size=2048, update_epochs=options.epochs)
    print(f"{options.env}, actors of {lanes} environments, {steps} steps each {options.latency:g} s")
    print("actors    offered      taken in    with an update (samples/s)")
    rows = []
    with own_ray(2):
        make = ray.remote(num_cpus=1, max_concurrency=1000)(Waiting)
        processes = [make.remote(options.env, lanes, steps, options.latency) for _ in range(2)]
        for count in options.actors:
            policy = network(options.env)
            rollouts = SimulatedRollouts(policy, processes, count, lanes)
            trainer = PPO(policy, rollouts, config)
            trainer.collect()

            def learn(trainer: PPO = trainer) -> int:
                samples = trainer.collect()
                trainer.update()
                return len(samples)

            found = [
                speed(turn, options.rounds) for turn in (lambda source=rollouts: len(source.play()), learn)
            ]
            offered = count * lanes * steps / options.latency
            rows.append((count, offered, *found))
            print(f"{count:6}  {offered:9,.0f}  {found[0]:12,.0f}  {found[1]:12,.0f}", flush=True)
    if options.plot:
        draw(rows, options)


def speed(turn: Callable[[], int], rounds: int) -> float:
    """Return the samples per second of turns, once the actors are ahead."""
    for _ in range(2):
        turn()
    began = time.perf_counter()
    samples = sum(turn() for _ in range(rounds))
    return samples / (time.perf_counter() - began)


def draw(rows: list[tuple[float, ...]], options: argparse.Namespace) -> None:
    from matplotlib.figure import Figure

    figure = Figure((6, 4), layout="constrained")
    axes = figure.subplots()
    counts, offered, taken, learnt = np.array(rows).T
    axes.plot(counts, offered, "k:", label="offered by the actors")
    axes.plot(counts, taken, "o-", label="taken in")
    axes.plot(counts, learnt, "s-", label="taken in and learned from")
    axes.set(xscale="log", yscale="log", xlabel="simulated actors", ylabel="samples per second")
    axes.legend()
    figure.savefig(options.plot, dpi=110)


def main() -> None:
    parser = script_parser(__doc__)
    parts = {"transport": transport, "train": train, "simulated": simulated}
    parser.add_argument("part", choices=parts)
    parser.add_argument("--env", default=GAME, help="id of the environment")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each case")
    parser.add_argument("--latency", type=float, default=1.0, help="seconds that a simulated rollout takes")
    parser.add_argument("--lanes", type=int, default=4, help="environments of a simulated actor")
    parser.add_argument("--steps", type=int, default=128, help="steps of a simulated rollout")
    parser.add_argument("--epochs", type=int, default=3, help="passes over each rollout")
    parser.add_argument("--actors", type=int, nargs="+", default=[4, 16, 64, 256], help="simulated actors")
    parser.add_argument("--plot", type=Path, help="draw the figure of `simulated` there")
    options = parser.parse_args()
    parts[options.part](options)


if __name__ == "__main__":
    main()
