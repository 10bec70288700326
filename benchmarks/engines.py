"""Compare the learning of all engines of RogueNet: trainings from the same seeds, compared with their noise.

    python benchmarks/engines.py [--quick] [--games Xor MultiSnake] [--paths fused torch] [--seeds 6]
                                 [--updates 200] [--envs 32] [--json PATH]

Every path starts from the same parameters, sees the same first episodes and draws from the same generators;
it makes 200 updates of 16 steps of 32 environments. Paths round differently, so after some updates their runs
go apart as runs of different seeds do. Told of each path:

- "first loss": the largest difference of the first update's loss from the first path's with the same seed,
  relative to that loss (to 0.01 if it is smaller). It is the paths' rounding, and must be small.
- "return": the mean episodic return of the last quarter of the updates; mean and standard error over seeds.
- "difference": of that mean from the first path's; and "chance", how often a difference at least as large
  comes about where runs are given to the two paths at random (exact permutation test over the seeds).

All paths agree if no chance is below 5 % divided by the number of comparisons. With fewer than 6 seeds no
chance can become that small for all paths; then only the first losses are judged. Exits with 1 if paths
disagree.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from entitize import make_vec
from entitize.policies import Evaluation
from entitize.policies.rogue_net import RogueNet
from entitize.trainers import PPO, PPOConfig

from rows import script_parser, write_json

#: Options of games that shall be half learned after 100,000 steps, where differences would show.
GAMES: dict[str, dict[str, Any]] = {
    "Xor": {},
    "MineSweeper": {},
    "MultiSnake": {"num_snakes": 1, "max_snake_length": 5},
}

#: How each path is asked for: options of RogueNet.
PATHS: dict[str, dict[str, Any]] = {
    "fused": {"engine": "fused"},
    "autograd": {"engine": "fused"},  # with torch's loss and graph around the kernels
    "torch": {"engine": "torch"},
    "float64": {"engine": "torch"},
    "fixed shapes": {"engine": "graphs"},
}

#: A larger relative difference of the first losses is more than rounding.
ROUNDING = 1e-4
#: With so many seeds an exact test can distinguish engines: 2 of 924 ways to share runs are the most extreme.
ENOUGH_SEEDS = 6
LEVEL = 0.05


class ByAutograd(RogueNet):
    """A subclass with an `evaluate` of its own, which the trainer calls: kernels inside torch's autograd."""

    def evaluate(self, batch: Any, actions: Any) -> Evaluation:
        return super().evaluate(batch, actions)


@dataclass
class Run:
    """One training."""

    first_loss: float
    final_return: float


def train(game: str, path: str, seed: int, updates: int, num_envs: int) -> Run:
    """`updates` updates of 16 steps of `num_envs` environments."""
    losses: list[float] = []
    returns: list[float] = []

    def note(trainer: PPO, metrics: Mapping[str, float]) -> bool:
        losses.append(metrics["losses/loss"])
        returns.append(metrics.get("charts/episodic_return", math.nan))
        return False

    config = PPOConfig(
        total_timesteps=updates * num_envs * 16, num_steps=16, minibatch_size=256, update_epochs=2,
        learning_rate=0.005, seed=seed,
    )  # fmt: skip
    with make_vec(f"entitize/{game}-v0", num_envs=num_envs, **GAMES[game]) as venv:
        torch.manual_seed(seed)
        kind = ByAutograd if path == "autograd" else RogueNet
        policy = kind(venv.single_observation_space, venv.single_action_space, **PATHS[path])
        if path == "float64":
            policy = policy.double()
        trainer = PPO(policy, venv, config, callbacks=[note])
        trainer.train()
    return Run(losses[0], float(np.mean(returns[-max(1, updates // 4) :])))


def chance(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Return the share of splits of all numbers into two parts whose means differ by at least as much."""
    numbers = np.array([*ours, *theirs])
    halves = np.array(list(itertools.combinations(range(len(numbers)), len(ours))))
    sums = numbers[halves].sum(1)
    differences = sums / len(ours) - (numbers.sum() - sums) / len(theirs)
    return float(np.mean(np.abs(differences) >= abs(np.mean(ours) - np.mean(theirs)) - 1e-12))


@dataclass
class Comparison:
    """One path beside the first one."""

    path: str
    first_loss: float
    final_return: float
    standard_error: float  # nan with one seed
    difference: float
    chance: float


def compare(runs: Mapping[str, Sequence[Run]]) -> list[Comparison]:
    """All paths with the first, which stands among them."""
    base, *_ = runs.values()
    wanted = [run.final_return for run in base]
    result = []
    for path, mine in runs.items():
        returns = [run.final_return for run in mine]
        error = float(np.std(returns, ddof=1)) / math.sqrt(len(returns)) if len(returns) > 1 else math.nan
        first = max(
            abs(a.first_loss - b.first_loss) / max(abs(b.first_loss), 0.01)
            for a, b in zip(mine, base, strict=True)
        )
        mean = float(np.mean(returns))
        difference = mean - float(np.mean(wanted))
        result.append(Comparison(path, first, mean, error, difference, chance(returns, wanted)))
    return result


def apart(comparisons: Sequence[Comparison], seeds: int) -> list[str]:
    """The paths that don't learn as the first one does."""
    others = comparisons[1:]
    return [
        c.path
        for c in others
        if not c.first_loss < ROUNDING or (seeds >= ENOUGH_SEEDS and not c.chance >= LEVEL / len(others))
    ]


def print_table(comparisons: Sequence[Comparison]) -> None:
    print(f"{'path':<14}{'first loss':>12}{'return':>18}{'difference':>12}{'chance':>8}")
    for c in comparisons:
        returns = f"{c.final_return:.3f} ± {c.standard_error:.3f}"
        print(f"{c.path:<14}{c.first_loss:>12.0e}{returns:>18}{c.difference:>+12.3f}{c.chance:>8.3f}")


def main() -> None:
    parser = script_parser(__doc__, quick="one seed and one update, to see that it runs", json=True)
    parser.add_argument("--games", nargs="+", choices=list(GAMES), default=list(GAMES))
    parser.add_argument("--paths", nargs="+", choices=list(PATHS), default=list(PATHS))
    parser.add_argument("--seeds", type=int, default=6, help="trainings of each path")
    parser.add_argument("--updates", type=int, default=200, help="of each training")
    parser.add_argument("--envs", type=int, default=32, help="environments of each training")
    options = parser.parse_args()
    seeds, updates, num_envs = options.seeds, options.updates, options.envs
    if options.quick:
        seeds, updates, num_envs = 1, 1, 8
    torch.set_num_threads(1)
    report, disagree = {}, False
    for game in options.games:
        runs: dict[str, list[Run]] = {path: [] for path in options.paths}
        for seed in range(seeds):
            for path, mine in runs.items():
                mine.append(train(game, path, seed, updates, num_envs))
        comparisons = compare(runs)
        print(f"{game}, {updates} updates, {seeds} seeds")
        print_table(comparisons)
        names = apart(comparisons, seeds)
        judged = "losses and returns" if seeds >= ENOUGH_SEEDS else "first losses"
        print(f"DIFFERENT: {', '.join(names)}\n" if names else f"all agree by {judged}\n", flush=True)
        disagree = disagree or bool(names)
        report[game] = {path: [asdict(run) for run in mine] for path, mine in runs.items()}
    write_json(options.json, {"updates": updates, "games": report})
    if disagree:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
