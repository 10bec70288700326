"""Teach one network what two can, where it gets to itself (DAgger).

    python examples/one_from_two.py runs/one --start CLONE --expert PPO --rounds 8

Two runs of μRTS that are good against different bots: `--expert` against those of `--expert-bots`, `--start`
against all others. In each round the network plays all of them; what the run that is good against the lane's
bot would do there is recorded, and the network learns from the plays of all rounds. It does not see which
bot it plays: it has to recognise it by what the enemy does. In some lanes (`--taught`) the teachers play
themselves.

The folder has `plays_1`, `round_1`, `plays_2`, …; after a stop the same command continues at the stage
that was under way.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

import entitize as ez
import numpy as np
from entitize.adapters.microrts import MicroRTSVectorEnv
from entitize.experiments import read_run_config
from entitize.policies.runtime import Agent

Actions = dict[str, ez.RaggedArray]
LANES = {
    "coacAI": 7,
    "mayari": 5,
    "workerRushAI": 8,
    "rojo": 4,
    "randomBiasedAI": 3,
    "lightRushAI": 2,
    "randomAI": 2,
    "passiveAI": 1,
}


def lanes_of(lanes: np.ndarray, chosen: Actions, otherwise: Actions) -> Actions:
    """Take the actions of `lanes` (num_envs,) bool from `chosen`, and those of the rest from `otherwise`."""
    return {
        name: other.with_values(np.where(other.broadcast(lanes)[:, None], chosen[name].values, other.values))
        for name, other in otherwise.items()
    }


class Teachers:
    """The orders of the run that is good against the bot of each lane: the most probable ones, or drawn."""

    def __init__(self, venv: MicroRTSVectorEnv, chosen: argparse.Namespace) -> None:
        self.start, self.expert = ez.load_agent(chosen.start), ez.load_agent(chosen.expert)
        self.is_expert = np.array([game.bot in chosen.expert_bots.split(",") for game in venv.games])
        self.deterministic = not chosen.drawn
        self._answered: tuple[ez.EntityBatch, Actions] | None = None

    def __call__(self, batch: ez.EntityBatch, rng: np.random.Generator) -> Actions:
        if self._answered is None or self._answered[0] is not batch:
            expert = self.expert.act(batch, rng, self.deterministic).actions
            start = self.start.act(batch, rng, self.deterministic).actions
            self._answered = batch, lanes_of(self.is_expert, dict(expert), dict(start))
        return self._answered[1]


class Mixed:
    """Plays as `teachers` in lanes that are drawn once, and as `network` in the others."""

    def __init__(self, network: Agent, teachers: Teachers, is_taught: np.ndarray) -> None:
        self.network, self.teachers, self.is_taught = network, teachers, is_taught

    def __call__(self, batch: ez.EntityBatch, rng: np.random.Generator) -> Actions:
        own = dict(self.network.act(batch, rng).actions)
        return lanes_of(self.is_taught, self.teachers(batch, rng), own)


def play(folder: Path, network: Path, number: int, chosen: argparse.Namespace) -> None:
    """Record a round, and print how many games were won."""
    part, options = folder / f"plays_{number}.part", {"opponents": LANES, "reward_weights": {"win_loss": 10}}
    shutil.rmtree(part, ignore_errors=True)
    env = read_run_config(chosen.start).env
    if not env.id.startswith("MicroRTS/"):
        raise SystemExit(f"--start {chosen.start}: expected a run of μRTS, got one of {env.id}")
    kwargs = {**env.kwargs, **options}
    is_taught = np.random.default_rng(number).random(sum(LANES.values())) < chosen.taught
    facts = {"env": env.id, "kwargs": kwargs, "policy": str(network)}
    with ez.make_vec(env.id, num_envs=len(is_taught), **kwargs) as venv:
        assert isinstance(venv, MicroRTSVectorEnv)
        teachers = Teachers(venv, chosen)
        player = Mixed(ez.load_agent(network), teachers, is_taught)
        ez.record(venv, player, part, steps=chosen.steps, seed=number, metadata=facts, teacher=teachers)
    part.rename(folder / f"plays_{number}")
    results: dict[str, list[bool]] = {}
    for episode in ez.datasets.EntityDataset(folder / f"plays_{number}", verify=False).episodes:
        if episode.is_complete and not is_taught[episode.lane]:
            results.setdefault(str(venv.games[episode.lane].bot), []).append(episode.total_reward > 0)
    print(
        f"{network} won", ", ".join(f"{sum(won)} of {len(won)} against {bot}" for bot, won in results.items())
    )


def learn(folder: Path, network: Path, number: int, chosen: argparse.Namespace) -> None:
    """Let the network learn from the plays of all rounds so far."""
    part = folder / f"round_{number}.part"
    shutil.rmtree(part, ignore_errors=True)
    plays = [folder / f"plays_{past}" for past in range(1, number + 1)]
    words = ["clone", *plays, "--init-from", network, "--run", part, "--cloning.epochs", chosen.epochs]
    words += ["--cloning.learning-rate", 0.002]
    subprocess.run([sys.executable, "-m", "entitize", *map(str, words)], check=True)
    part.rename(folder / f"round_{number}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--start", type=Path, required=True, help="a run: the network starts as it")
    parser.add_argument("--expert", type=Path, required=True, help="a run that is better against some bots")
    parser.add_argument("--expert-bots", default="coacAI,mayari,lightRushAI", help="these bots")
    parser.add_argument(
        "--drawn", action="store_true", help="teachers draw their orders, not: take the most probable ones"
    )
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=10_000, help="in each of 32 lanes, a round")
    parser.add_argument("--epochs", type=int, default=4, help="passes over the plays, a round")
    parser.add_argument("--taught", type=float, default=0.2, help="share of lanes in which the teachers play")
    chosen = parser.parse_args()
    folder: Path = chosen.folder
    folder.mkdir(parents=True, exist_ok=True)
    network = chosen.start
    for number in range(1, chosen.rounds + 1):
        if not (folder / f"plays_{number}").exists():
            play(folder, network, number, chosen)
        if not (folder / f"round_{number}").exists():
            learn(folder, network, number, chosen)
        network = folder / f"round_{number}"
    print(f"the network of the last round is in {network}")


if __name__ == "__main__":
    main()
