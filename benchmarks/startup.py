"""From nothing to the first update of PPO: processor time with no compiled kernels on disk, and with all.

    python benchmarks/startup.py [--env MineSweeper] [--quick] [--json PATH]
    python benchmarks/startup.py --peer CHECKOUT    the same beside another checkout of Entitize, alternately

Each figure is from a fresh process with a cache folder of its own: import, 16 environments, RogueNet with
d_model 16 and 2 layers, a rollout of 32 steps and one update. Processor time of all threads, which is blind
to what other programs do but not to caches that they share; the median of the warm runs, one cold run.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rows import script_parser, write_json

#: Seconds of processor time for MineSweeper.
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


def first_update(env_id: str, cache: Path, packages: Path | None = None) -> list[float]:
    """Processor seconds of each of `PARTS` in a fresh process, with `entitize` of the folder `packages`."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "OMP_NUM_THREADS": "1"}
    if packages is not None:
        environment["PYTHONPATH"] = str(packages)
    command = [sys.executable, "-c", PROGRAM, env_id]
    output = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    (line,) = [line for line in output.splitlines() if line.startswith("seconds")]
    return [float(seconds) for seconds in line.split()[1:]]


def measure(env_id: str, warm_runs: int, trees: dict[str, Path | None], scratch: Path) -> dict[str, Any]:
    """Measure each tree: one cold run, then `warm_runs` with what that left on disk, the trees in turn.

    Returns:
        tree -> "cold" and "warm": part -> median of its seconds; "kernels": the files left on disk.
    """
    caches = {tree: scratch / tree for tree in trees}
    runs = {tree: {"cold": [first_update(env_id, caches[tree], trees[tree])], "warm": []} for tree in trees}
    for _ in range(warm_runs):
        for tree, kinds in runs.items():
            kinds["warm"].append(first_update(env_id, caches[tree], trees[tree]))
    report: dict[str, Any] = {}
    for tree, kinds in runs.items():
        kernels = [*caches[tree].rglob("*.nbc")]
        size = sum(kernel.stat().st_size for kernel in kernels) / 2**20
        report[tree] = {"kernels": f"{len(kernels)} files of kernels, {size:.1f} MiB"}
        for kind, times in kinds.items():
            medians = map(statistics.median, zip(*times, strict=True))
            report[tree][kind] = dict(zip(PARTS, medians, strict=True))
    return report


def main() -> None:
    parser = script_parser(__doc__, quick="one warm run instead of five", json=True)
    parser.add_argument("--env", default="MineSweeper", help="id of the environment")
    parser.add_argument("--peer", metavar="CHECKOUT", type=Path, help="another checkout to measure as well")
    options = parser.parse_args()
    print(f"load of the machine at the start: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as folder:
        trees: dict[str, Path | None] = {"this": None}
        if options.peer is not None:
            trees["peer"] = packages = Path(folder, "packages")
            packages.mkdir()
            (packages / "entitize").symlink_to(options.peer.resolve(), target_is_directory=True)
        report = measure(options.env, 1 if options.quick else 5, trees, Path(folder))
    for tree, found in report.items():
        print(f"{tree}: {found['kernels']}; seconds of processor time")
        for kind, goal in GOALS.items():
            parts = ", ".join(f"{part} {seconds:.1f}" for part, seconds in found[kind].items())
            print(f"  {kind:<6}{sum(found[kind].values()):>8.1f}  (goal {goal:.0f}): {parts}")
    write_json(options.json, report)


if __name__ == "__main__":
    main()
