"""A game of one's own: couriers choose which parcel to fetch.

    python examples/couriers.py                   # under a minute on two cores
    entitize play runs/couriers --out couriers.gif

Checks the game, trains RogueNet with PPO, compares it with random actions, and draws the learning curve.
"""

from __future__ import annotations

import argparse
import json
from math import dist
from pathlib import Path

import entitize as ez
from matplotlib.figure import Figure


@ez.entity
class Courier:
    x: float
    y: float


@ez.entity
class Parcel:
    x: float
    y: float


class Couriers(ez.EntityEnv):
    """Two couriers fly to the parcels that they select. The first to arrive collects it: reward 1."""

    def __init__(self) -> None:
        self.observation_space, self.action_space = ez.declare(
            entities=[Courier, Parcel], actions={"fetch": ez.SelectEntity()}
        )

    def _reset(self, options):
        self.steps = 0
        self.couriers = [Courier(*self.np_random.uniform(-1, 1, 2)) for _ in range(2)]
        self.parcels = [
            Parcel(*self.np_random.uniform(-1, 1, 2)) for _ in range(self.np_random.integers(4, 9))
        ]
        return self._observation()

    def _step(self, actions):
        self.steps += 1
        collected = 0
        for courier, parcel in zip(actions["fetch"].actors, actions["fetch"].actees, strict=True):
            distance = dist((courier.x, courier.y), (parcel.x, parcel.y))
            share = min(1.0, 0.25 / max(distance, 0.25))  # of the way: 0.25 per step
            courier.x += share * (parcel.x - courier.x)
            courier.y += share * (parcel.y - courier.y)
            if distance <= 0.25 and parcel in self.parcels:
                self.parcels.remove(parcel)
                collected += 1
        return self._observation(), collected, not self.parcels, self.steps == 15, {}

    def _observation(self):
        actors = self.couriers if self.parcels else []  # without parcels there is nothing to select
        choices = ez.actions.SelectEntityMask(actor_ids=actors, actee_ids=self.parcels)
        return ez.Obs(self.couriers, self.parcels, actions={"fetch": choices})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--run", type=Path, default=Path("runs/couriers"))
    options = parser.parse_args()

    ez.check_entity_env(Couriers())
    venv = ez.make_vec("couriers:Couriers", num_envs=32)
    policy = ez.RogueNet(venv.single_observation_space, venv.single_action_space, d_model=32, n_layer=1)
    config = ez.PPOConfig(options.steps, num_steps=32, minibatch_size=256, learning_rate=0.003)
    ez.PPO(policy, venv, config, run_dir=options.run).train()

    for name, actor in {
        "random": ez.evaluation.RandomActor(venv.single_action_space),
        "trained": policy,
    }.items():
        results = ez.evaluate(actor, venv, episodes=128)
        print(name, results.interval())
    venv.close()
    draw_curve(options.run)


def draw_curve(run: Path) -> None:
    """Draw the return of training episodes against environment steps."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    rows = [row for row in rows if "charts/episodic_return" in row]
    figure = Figure(figsize=(6, 3), layout="constrained")
    axes = figure.subplots()
    axes.plot([row["step"] for row in rows], [row["charts/episodic_return"] for row in rows])
    axes.set(xlabel="environment steps", ylabel="parcels per episode")
    figure.savefig(run / "curve.png")


if __name__ == "__main__":
    main()
