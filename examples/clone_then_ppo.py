"""Clone a bot of μRTS, continue with PPO, and compare with PPO from scratch in the same total time.

    nice -n 19 python examples/clone_then_ppo.py runs/comparison --minutes 120
    nice -n 19 python examples/clone_then_ppo.py runs/big_map --minutes 1200 --map 16x16

Four stages in the folder runs/comparison: `plays` (games of the bot, recorded), `clone` (behaviour cloning),
`ppo` (PPO from the clone, in what is left of the time), and at the same time as all of these `scratch` (PPO
from a fresh network). Each way has one thread, so on two cores the two don't disturb each other, and what
else the machine does slows both. Then all three networks play the bots. After a stop, the same command
continues: PPO and the games where they were, recording and cloning at their start. `times.json` holds the
minutes of recording and cloning.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple


class Map(NamedTuple):
    """How to go about a map of μRTS."""

    config: str
    """The configuration of PPO."""
    gamma: float
    """The discount factor there."""
    steps: int
    """Steps to record in each lane."""
    epochs: int
    """Passes over them."""
    ppo: tuple[str, ...]
    """Options of PPO. The penalty for leaving the clone is in units of the rewards that PPO learns from."""


MAPS = {
    "8x8": Map(
        "microrts_8x8",
        0.997,
        84_000,
        3,
        ("--ppo.value-warmup-steps", "100000", "--ppo.start-kl-coef", "0.05"),
    ),
    "16x16": Map(
        "microrts",
        0.999,
        50_000,
        10,
        (
            *("--ppo.value-warmup-steps", "200000", "--ppo.start-kl-coef", "0.005"),
            *("--ppo.normalize-rewards", "--ppo.learning-rate", "0.0001", "--ppo.ent-coef", "0.001"),
            *("--env.kwargs", "reward_weights={win_loss: 10}"),  # what leads to winning, the clone can do
        ),
    ),
}
NETWORK = ("--net.d-model", "32", "--net.n-layer", "2", "--net.n-head", "4")
#: As in the configurations. On 8x8 these are PPO's rewards too; on 16x16 the value warm-up changes them.
GAMES = (
    *("features=units", "max_steps=2000", "side=both", "perspective=player"),
    "opponents={coacAI: 4, workerRushAI: 4, lightRushAI: 4, mayari: 2, randomBiasedAI: 2}",
    "reward_weights={win_loss: 10, gather: 0.3, worker: 0.3, building: 0.1, attack: 0.3, combat_unit: 1}",
)


def start(*words: object) -> subprocess.Popen[bytes]:
    """Start a command of Entitize."""
    command = [sys.executable, "-m", "entitize", *map(str, words)]
    print("$", *command[2:], flush=True)
    return subprocess.Popen(command)


def finish(command: subprocess.Popen[bytes]) -> None:
    """Wait for a command, which must succeed."""
    if command.wait():
        raise SystemExit(f"{command.args}: exit code {command.returncode}")


def entitize(*words: object) -> None:
    """Run a command of Entitize."""
    finish(start(*words))


def record(folder: Path, chosen: argparse.Namespace) -> None:
    """Record the bot in 16 lanes."""
    shutil.rmtree(folder / "plays.part", ignore_errors=True)
    lanes = ("--num-envs", 16, "--seed", 1, "--steps", chosen.record_steps or MAPS[chosen.map].steps)
    words = ("record", f"MicroRTS/basesWorkers{chosen.map}", "--bots", chosen.bot, *lanes)
    entitize(*words, "--out", folder / "plays.part", "--kwargs", *GAMES)
    (folder / "plays.part").rename(folder / "plays")


def train(run: Path, config: str, minutes: float, *options: object) -> subprocess.Popen[bytes]:
    """Start to train with PPO for so many minutes, or continue."""
    if (run / "config.yaml").exists():
        return start("train", "--resume", run)
    return start("train", "--config", config, "--max-minutes", minutes, "--run", run, *options)


def clone_then_ppo(folder: Path, chosen: argparse.Namespace) -> None:
    """Record, clone, and train from the clone for the rest of the minutes."""
    clock, way = folder / "times.json", MAPS[chosen.map]
    minutes: dict[str, float] = json.loads(clock.read_text()) if clock.exists() else {}

    def note(stage: str, began: float) -> None:
        minutes[stage] = (time.time() - began) / 60
        clock.write_text(json.dumps(minutes, indent=1))

    if "record" not in minutes:
        shutil.rmtree(folder / "plays", ignore_errors=True)
        began = time.time()
        record(folder, chosen)
        note("record", began)
    if "clone" not in minutes:
        # A stop of this short stage throws it away, so that its time is that of one run.
        shutil.rmtree(folder / "clone", ignore_errors=True)
        began = time.time()
        options = ("--cloning.vf-coef", 0.5, "--cloning.gamma", way.gamma, "--cloning.epochs", way.epochs)
        entitize("clone", folder / "plays", "--run", folder / "clone", *NETWORK, *options)
        note("clone", began)
    left = chosen.minutes - minutes["record"] - minutes["clone"]
    if left <= 0:
        raise SystemExit(
            f"recording and cloning took all of the {chosen.minutes:g} minutes: give more --minutes"
        )
    start = ("--init-from", folder / "clone", "--ppo.start-kl-share", 0.5)
    finish(train(folder / "ppo", way.config, left, *start, *way.ppo))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--map", choices=list(MAPS), default="8x8")
    parser.add_argument("--bot", default="mayari")
    parser.add_argument("--minutes", type=float, default=120.0, help="in total, for each of the two ways")
    parser.add_argument("--record-steps", type=int, help="in each of 16 lanes; default: the map's")
    parser.add_argument("--games", type=int, default=100, help="against each bot")
    chosen = parser.parse_args()
    folder: Path = chosen.folder
    folder.mkdir(parents=True, exist_ok=True)
    scratch = train(folder / "scratch", MAPS[chosen.map].config, chosen.minutes)
    try:
        clone_then_ppo(folder, chosen)
        finish(scratch)
    except BaseException as error:
        if not isinstance(error, KeyboardInterrupt):  # which it has heard as well
            scratch.terminate()  # it writes a checkpoint
        scratch.wait()
        raise
    for run in ("clone", "ppo", "scratch"):
        entitize("eval", "microrts", folder / run, "--fast", "--games", chosen.games)


if __name__ == "__main__":
    main()
