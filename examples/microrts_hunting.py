"""Teach a network of μRTS to hunt an enemy that hides.

    python examples/microrts_hunting.py runs/states --run experiments/results/microrts_16x16_scratch
    PYTHONPATH=examples entitize train --config microrts --env.id microrts_hunting:make …

A network may destroy the enemy's base and army in each game, and still tie: the last worker runs, and nobody
follows. Such states are a small part of its games, so it learns little from them. This program lets a run
play naiveMCTSAI, and writes the states in which few enemies are left as maps; `make` makes an environment in
which some lanes begin there, with a further reward for coming near the enemy's units. Commands and results:
experiments/results/microrts_16x16_hunting.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import entitize as ez
import numpy as np
from entitize.adapters.microrts import MicroRTSVectorEnv
from numba import njit
from numpy.typing import NDArray

MAP = "basesWorkers16x16"
X, Y, IS_BASE, IS_BARRACKS = 0, 1, 7, 8  # columns of `Own` and `Enemy`
FARTHEST = 30.0  # cells: the distance of an enemy where no own unit is left that moves


@njit(cache=True)
def mean_distances(
    own: NDArray[np.float32],
    own_offsets: NDArray[np.int64],
    enemy: NDArray[np.float32],
    enemy_offsets: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Return of each lane (B,) the mean distance of its enemies from the nearest own unit that moves."""
    means = np.zeros(len(enemy_offsets) - 1)
    for lane in range(len(means)):
        first, last = enemy_offsets[lane], enemy_offsets[lane + 1]
        for other in range(first, last):
            nearest = FARTHEST
            for unit in range(own_offsets[lane], own_offsets[lane + 1]):
                if own[unit, IS_BASE] == 0 and own[unit, IS_BARRACKS] == 0:
                    steps = abs(own[unit, X] - enemy[other, X]) + abs(own[unit, Y] - enemy[other, Y])
                    nearest = min(nearest, steps)
            means[lane] += nearest / (last - first)
    return means


class Hunting(MicroRTSVectorEnv):
    """μRTS with a further reward: `near` for each cell by which the enemy's units are nearer than before.

    It is the difference of a potential, which changes no best policy (Ng, Harada and Russell 1999), and goes
    to 0 with the progress of training. Each lane's games begin at its tick of `ticks`: networks see the time,
    and do late in a game what they learned there.
    """

    def __init__(
        self, num_envs: int, near: float, ticks: Sequence[int], gamma: float = 0.999, **options: Any
    ) -> None:
        import jpype

        self.near, self.ticks, self.gamma = near, ticks, gamma
        super().__init__(MAP, num_envs, **options)
        self.clock = jpype.JClass("rts.GameState").class_.getDeclaredField("time")
        self.clock.setAccessible(True)

    def _restart(self, games: NDArray[np.int64]) -> None:
        super()._restart(games)
        for game in games:
            self.clock.setInt(self.engine.columns.states.array[game], self.ticks[game])

    def set_progress(self, fraction: float) -> None:
        super().set_progress(fraction)
        self.weight = self.near * (1 - fraction)

    def potential(self, batch: ez.EntityBatch) -> NDArray[np.float64]:
        own, enemy = batch.entities["Own"], batch.entities["Enemy"]
        return -mean_distances(own.values, own.offsets, enemy.values, enemy.offsets)

    def _reset(self, *args: Any) -> Any:
        batch, info = super()._reset(*args)
        self.before = self.potential(batch)
        return batch, info

    def _step(self, actions: Any) -> Any:
        batch, rewards, terminated, truncated, info = super()._step(actions)
        after = self.potential(batch)
        reached = np.where(terminated | truncated, 0.0, self.gamma * after)  # `after` is of the next game
        rewards = (rewards + self.weight * (reached - self.before)).astype(np.float32)
        self.before = after
        return batch, rewards, terminated, truncated, info


def make(
    num_envs: int,
    states: str,
    late: Mapping[str, int],
    opponents: Mapping[str, int],
    near: float,
    upper_left: Mapping[str, int] | None = None,
    **options: Any,
) -> Hunting:
    """Make the environment.

    Args:
        states: the folder of the late states.
        late: how many lanes begin in them, by bot; an even number in all.
        opponents: how many lanes play whole games, by bot; every other one from the upper left.
        upper_left: how many more lanes play whole games from the upper left, by bot.
    """
    whole, hunted, further = (
        [bot for bot, count in bots.items() for _ in range(count)]
        for bots in (opponents, late, upper_left or {})
    )
    rng = np.random.default_rng(0)
    files = [rng.permutation(sorted(Path(states).glob(f"side{side}_*.xml"))) for side in (0, 1)]
    chosen = [str(file) for pair in zip(*files, strict=False) for file in pair][: len(hunted)]
    if len(chosen) < len(hunted):
        raise ValueError(
            f"states {states}: expected at least {len(hunted)} for late lanes, got {len(chosen)}"
        )
    options |= {
        "opponents": [*further, *whole, *rng.permutation(hunted).tolist()],
        "maps": [*[MAP] * len(further + whole), *chosen],
        "side": [0] * len(further) + [lane % 2 for bots in (whole, hunted) for lane in range(len(bots))],
        "limit_is_end": True,
    }
    ticks = [0] * len(further + whole) + [int(Path(file).stem.partition("_step")[2]) for file in chosen]
    return Hunting(num_envs, near, ticks, **options)


def late_states(run: str, lanes: int, steps: int, search_iterations: int) -> Iterator[tuple[str, str]]:
    """Play naiveMCTSAI, and give a name and a map for states with 1 to 5 enemies and at least 8 own units."""
    import jpype

    network, rng = ez.load_policy(run), np.random.default_rng(0)
    options = {"perspective": "player", "search_iterations": search_iterations, "side": "both"}
    with MicroRTSVectorEnv(MAP, lanes, opponents="naiveMCTSAI", **options) as venv:
        batch, _ = venv.reset(seed=1)
        for step in range(1, steps + 1):
            batch, *_ = venv.step(network.act(batch, rng).actions)
            if step % 50:
                continue
            own, enemy = (
                np.array(
                    [(units[:, [IS_BASE, IS_BARRACKS]] == 0).all(1).sum() for units in batch.entities[name]]
                )
                for name in ("Own", "Enemy")
            )
            for lane in np.flatnonzero((enemy >= 1) & (enemy <= 5) & (own >= 8)):
                text = jpype.JClass("java.io.StringWriter")()
                writer = jpype.JClass("util.XMLWriter")(text)
                venv.engine.columns.states.array[lane].getPhysicalGameState().toxml(writer)
                writer.flush()
                yield f"side{venv.engine.lane_player[lane]}_lane{lane}_step{step}.xml", str(text)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("states", type=Path, help="the folder for the maps")
    parser.add_argument("--run", required=True, help="plays naiveMCTSAI")
    parser.add_argument("--lanes", type=int, default=12)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--search-iterations", type=int, default=100)
    chosen = parser.parse_args()
    chosen.states.mkdir(parents=True, exist_ok=True)
    states = dict(late_states(chosen.run, chosen.lanes, chosen.steps, chosen.search_iterations))
    for name, text in states.items():
        (chosen.states / name).write_text(text)
    print(f"{len(states)} states in {chosen.states}")


if __name__ == "__main__":
    main()
