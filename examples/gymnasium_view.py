"""A Gymnasium environment of one's own as entities, by a view.

    python examples/gymnasium_view.py

The observation is a Dict of a player and a Sequence of coins, which has another length at every step.
"""

from __future__ import annotations

import argparse

import entitize as ez
import gymnasium
import numpy as np
from gymnasium import spaces

MOVES = np.array([(0, 1), (0, -1), (-1, 0), (1, 0)])  # up, down, left, right


class Coins(gymnasium.Env):
    """Collect the coins of a 7 x 7 board within 30 moves."""

    cell = spaces.Box(0, 6, (2,), np.float32)
    observation_space = spaces.Dict({"player": cell, "coins": spaces.Sequence(cell, stack=True)})
    action_space = spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        cells = self.np_random.permutation(49)[: self.np_random.integers(3, 8)]
        player, *coins = np.stack([cells // 7, cells % 7], 1).astype(np.float32)
        self.player, self.coins, self.steps = player, np.array(coins), 0
        return self.observation(), {}

    def step(self, action):
        self.steps += 1
        self.player = np.clip(self.player + MOVES[action], 0, 6).astype(np.float32)
        here = (self.coins == self.player).all(1)
        self.coins = self.coins[~here]
        return self.observation(), float(here.sum()), not len(self.coins), self.steps == 30, {}

    def observation(self):
        return {"player": self.player.copy(), "coins": self.coins.copy()}


#: The names of the entity types' features; without a view they would be player_0, player_1, ...
VIEW = ez.views.Items(
    {
        "player": ez.views.Vector({"Player": ["x", "y"]}),
        "coins": ez.views.Rows(features=["x", "y"], name="Coin"),
    }
)


def make() -> ez.EntityEnv:
    """Make one game; the command line finds it by "gymnasium_view:make"."""
    return ez.wrap(Coins(), VIEW)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--steps", type=int, default=20_000)
    options = parser.parse_args()

    ez.check_entity_env(make())
    venv = ez.make_vec(make, num_envs=32)
    policy = ez.RogueNet(
        venv.single_observation_space,
        venv.single_action_space,
        d_model=32,
        n_layer=1,
        translation={"reference": "Player", "position": ["x", "y"]},  # coins as the player sees them
    )
    config = ez.PPOConfig(options.steps, num_steps=32, minibatch_size=256, learning_rate=0.003)
    ez.PPO(policy, venv, config).train()

    for name, actor in {
        "random": ez.evaluation.RandomActor(venv.single_action_space),
        "trained": policy,
    }.items():
        results = ez.evaluate(actor, venv, episodes=128)
        print(name, results.interval())
    venv.close()


if __name__ == "__main__":
    main()
