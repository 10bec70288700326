"""A PettingZoo game as a team: one policy acts for three predators at once.

    python examples/pettingzoo_team.py            # needs the package mpe2

The predators are entities of one observation, each an actor; the prey, which they chase, acts at random.
"""

from __future__ import annotations

import argparse

import entitize as ez
from mpe2 import simple_tag_v3


def make() -> ez.EntityEnv:
    """Make one game, seen as the team of the adversaries."""
    game = simple_tag_v3.parallel_env(max_cycles=25)
    return ez.from_pettingzoo(game, "team", team="adversary", opponents="random", reward="mean")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--steps", type=int, default=40_000)
    options = parser.parse_args()

    venv = ez.make_vec(make, num_envs=16)
    print(venv.single_observation_space)
    policy = ez.RogueNet(venv.single_observation_space, venv.single_action_space, d_model=32, n_layer=1)
    config = ez.PPOConfig(
        options.steps, num_steps=64, minibatch_size=256, learning_rate=0.002, normalize_rewards=True
    )
    ez.PPO(policy, venv, config).train()

    for name, actor in {
        "random": ez.evaluation.RandomActor(venv.single_action_space),
        "trained": policy,
    }.items():
        results = ez.evaluate(actor, venv, episodes=64)
        print(name, results.interval())
    venv.close()


if __name__ == "__main__":
    main()
