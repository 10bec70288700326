"""From nothing to the first update of PPO: processor time with no compiled kernels on disk, and with all.

    python benchmarks/startup.py [--env Procgen/coinrun] [--quick] [--json PATH]

Each figure is from a fresh process with a cache folder of its own: import, 16 environments, RogueNet with
d_model 16 and 2 layers, a rollout of 32 steps and one update. Processor time of all threads, which is blind
to what other programs do but not to caches that they share; the median of the warm runs, one cold run.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

#: Seconds of processor time, on a quiet machine.
GOALS = {"cold": 25.0, "warm": 3.0}

PROGRAM = """
import sys, time
import entitize as ez
imported = time.process_time()
venv = ez.make_vec(sys.argv[1], num_envs=16)
policy = ez.RogueNet(venv.single_observation_space, venv.single_action_space, d_model=16, n_layer=2)
ppo = ez.PPO(policy, venv, ez.PPOConfig(num_steps=32))
ready = time.process_time()
ppo.train(16 * 32)
print("seconds", imported, ready - imported, time.process_time() - ready)
"""

PARTS = ("import", "environments, network", "rollout, update")


def first_update(env_id: str, cache: Path) -> list[float]:
    """Processor seconds of each of `PARTS` in a fresh process."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", PROGRAM, env_id]
    output = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    (line,) = [line for line in output.splitlines() if line.startswith("seconds")]
    return [float(seconds) for seconds in line.split()[1:]]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--env", default="Procgen/coinrun", help="id of the environment")
    parser.add_argument("--quick", action="store_true", help="one warm run instead of five")
    parser.add_argument("--json", metavar="PATH", help="write the numbers there as well")
    options = parser.parse_args()
    print(f"load of the machine at the start: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder)
        runs = {"cold": [first_update(options.env, cache)]}
        runs["warm"] = [first_update(options.env, cache) for _ in range(1 if options.quick else 5)]
        kernels = list(cache.rglob("*.nbc"))
        size = sum(kernel.stat().st_size for kernel in kernels) / 2**20
    print(f"{len(kernels)} kernels, {size:.1f} MiB; seconds of processor time")
    report = {}
    for name, times in runs.items():
        medians = [statistics.median(part) for part in zip(*times, strict=True)]
        report[name] = dict(zip(PARTS, medians, strict=True))
        parts = ", ".join(f"{part} {seconds:.1f}" for part, seconds in report[name].items())
        print(f"  {name:<6}{sum(medians):>8.1f}  (goal {GOALS[name]:.0f}): {parts}")
    if options.json:
        Path(options.json).write_text(json.dumps({"kernels": len(kernels), **report}, indent=1))


if __name__ == "__main__":
    main()
