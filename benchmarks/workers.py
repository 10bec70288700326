"""From how long a step on it pays to share an environment between processes.

    python benchmarks/workers.py [--quick] [--json PATH]

Microseconds per step by the clock, medians of rounds in which everyone takes their turn, of an environment
that only looks at the clock until the time of its lanes is over, and then returns a batch like that of μRTS
on 16x16 (24 lanes with 30 entities of 27 features and 8 actors with 78 choices each):

- one process;
- two workers, for which the parent waits.

What two processes add to half of the time is what sharing costs; it pays where that is less than the other
half. Run it where nothing else runs.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import entitize as ez
import numpy as np
from entitize.envs.actions import ActionMask
from entitize.ragged import RaggedArray, available_cores

from rows import script_parser, write_json

LANES, ENTITIES, FEATURES, ACTORS, CHOICES = 24, 30, 27, 8, 78
NAMES = ("one process", "two workers")


class Busy(ez.EntityVectorEnv):
    """Takes its time, and gives the same batch every time."""

    def __init__(self, num_envs: int, microseconds: float) -> None:
        self.num_envs = num_envs
        self.seconds = 1e-6 * microseconds * num_envs / LANES
        order = ez.Categorical(CHOICES)
        self.single_action_space = ez.EntityActionSpace({"order": order})
        features = [f"feature {number}" for number in range(FEATURES)]
        self.single_observation_space = ez.EntitySpace({"Unit": features}, self.single_action_space, ["time"])
        rows = np.zeros((num_envs * ENTITIES, FEATURES), np.float32)
        actors = np.tile(np.arange(ACTORS), num_envs)
        counts = np.full(num_envs, ACTORS)
        mask = np.ones((len(actors), CHOICES), bool)
        self.batch = ez.EntityBatch(
            {"Unit": RaggedArray.from_lengths(rows, np.full(num_envs, ENTITIES))},
            np.zeros((num_envs, 1), np.float32),
            {
                "order": ActionMask(
                    RaggedArray.from_lengths(actors, counts), RaggedArray.from_lengths(mask, counts)
                )
            },
        )

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return self.batch, {}

    def step(self, actions: Any) -> Any:
        end = time.perf_counter() + self.seconds
        nothing = np.zeros(self.num_envs, bool)
        result = self.batch, np.zeros(self.num_envs, np.float32), nothing, nothing, {}
        while time.perf_counter() < end:
            pass
        return result


def time_steps(microseconds: float, most: int, steps: int) -> dict[str, float]:
    """Medians in microseconds per step, by name."""
    halves: Sequence[Any] = [partial(Busy, LANES // 2, microseconds)] * 2
    shared = ez.vector.ShardedVectorEnv(halves, [LANES // 2] * 2)
    envs: dict[str, ez.EntityVectorEnv] = dict(zip(NAMES, (Busy(LANES, microseconds), shared), strict=True))
    times: dict[str, list[float]] = {name: [] for name in envs}
    for round_number in range(most + 1):
        for name, env in envs.items():
            batch, _ = env.reset(seed=0)
            actions = env.action_space.sample(mask=batch)
            for _ in range(steps):
                start = time.perf_counter()
                env.step(actions)
                if round_number:  # the first one warms up
                    times[name].append(1e6 * (time.perf_counter() - start))
    for env in envs.values():
        env.close()
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    parser = script_parser(__doc__, quick="few rounds", json=True)
    options = parser.parse_args()
    most, steps = (5, 100) if options.quick else (15, 300)
    print(f"{available_cores()} cores; microseconds per step of {LANES} lanes")
    print("the lanes take" + "".join(f"{name:>20}" for name in NAMES))
    results = {}
    for microseconds in (0, 100, 200, 500, 1000, 3000):
        results[microseconds] = times = time_steps(microseconds, most, steps)
        print(f"{microseconds:14}" + "".join(f"{times[name]:20.0f}" for name in NAMES), flush=True)
    write_json(options.json, results)


if __name__ == "__main__":
    main()
