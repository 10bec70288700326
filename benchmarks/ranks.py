"""PPO by several processes on one machine, beside one process with as many threads.

    python benchmarks/ranks.py [--env Procgen/bigfish] [--ranks 2] [--updates 8] [--rounds 5]

Both train in the same number of environments with the same minibatches, and take turns. `one process, 1
thread` says what the second core is worth at all.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from rows import script_parser, wait_for_ranks

PROGRAM = """
import json, sys, time
import entitize as ez
from entitize.trainers.ranks import process_group
game, lanes, threads, updates, path = json.loads(sys.argv[1])
with process_group() as ranks:
    venv = ez.make_vec(game, lanes // ranks.size)
    policy = ez.RogueNet(venv.single_observation_space, venv.single_action_space, d_model=16, n_layer=2)
    config = ez.PPOConfig(num_steps=128, minibatch_size=2048, num_threads=threads)
    ppo = ez.PPO(policy, venv, config)
    ppo.train(128 * lanes, progress=False)  # kernels are loaded
    step, began = ppo.step, time.perf_counter()
    ppo.train(128 * lanes * (updates + 1), progress=False)
    if ranks.is_first:
        with open(path, "w") as file:
            json.dump((ppo.step - step) / (time.perf_counter() - began), file)
"""


def samples_per_second(game: str, lanes: int, updates: int, ranks: int, threads: int) -> float:
    """Train in fresh processes; return the environment steps per second after the first update."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "result.json"
        argument = json.dumps([game, lanes, threads, updates, str(path)])
        shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(ranks)}
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", PROGRAM, argument], env={**os.environ, **shared, "RANK": str(rank)}
            )
            for rank in range(ranks)
        ]
        wait_for_ranks(processes)
        speed: float = json.loads(path.read_text())
        return speed


def main() -> None:
    parser = script_parser(__doc__)
    parser.add_argument("--env", default="Procgen/bigfish", help="id of the environment")
    parser.add_argument("--lanes", type=int, default=64, help="environments of all ranks")
    parser.add_argument("--ranks", type=int, default=2, help="processes, and threads of the one beside them")
    parser.add_argument("--updates", type=int, default=8, help="updates that are timed")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each")
    options = parser.parse_args()
    cases = {
        "one process, 1 thread": (1, 1),
        f"one process, {options.ranks} threads": (1, options.ranks),
        f"{options.ranks} ranks": (options.ranks, 1),
    }
    speeds: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(options.rounds):
        for name, (ranks, threads) in cases.items():
            speeds[name].append(
                samples_per_second(options.env, options.lanes, options.updates, ranks, threads)
            )
    print(f"{options.env}, {options.lanes} environments: medians of {options.rounds} turns")
    first = statistics.median(next(iter(speeds.values())))
    for name, found in speeds.items():
        median = statistics.median(found)
        print(f"{name:28} {median:9,.0f} samples/s  {median / first:5.2f} ×")


if __name__ == "__main__":
    main()
