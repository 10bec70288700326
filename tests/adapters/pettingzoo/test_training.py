"""PPO trains on lanes and on teams of PettingZoo's games."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import entitize as ez
import pettingzoo
import pytest
from mpe2 import simple_speaker_listener_v4, simple_tag_v3

CONNECT_FOUR = partial(pettingzoo.make, "aec", "classic/connect_four-v3")
TAG = partial(simple_tag_v3.parallel_env, max_cycles=8)
TALK = partial(simple_speaker_listener_v4.parallel_env, max_cycles=8)


@pytest.mark.parametrize(
    ("make", "mode", "options"),
    [
        (TALK, "lanes", {}),
        (CONNECT_FOUR, "lanes", {}),
        (CONNECT_FOUR, "lanes", {"opponents": {"player_1": "random"}}),
        (TAG, "team", {"team": "adversary", "opponents": "random"}),
    ],
)
def test_training_runs(make: Any, mode: Any, options: dict[str, Any]) -> None:
    venv = ez.from_pettingzoo(make, mode, num_envs=4, **options)
    space = venv.single_observation_space
    policy = ez.RogueNet(space, space.actions, d_model=8, n_layer=1, n_head=1)
    config = ez.PPOConfig(num_steps=12, minibatch_size=64, update_epochs=1, anneal_lr=False)
    trainer = ez.PPO(policy, venv, config)
    for _ in range(3):
        trainer.collect()
        metrics = trainer.update()
        losses = [value for name, value in metrics.items() if name.startswith("losses/")]
        assert len(losses) > 3 and all(map(math.isfinite, losses))
    venv.close()


def test_the_network_in_training_can_be_its_own_opponent() -> None:
    everyone = ez.from_pettingzoo(CONNECT_FOUR, num_envs=3)
    space = everyone.single_observation_space
    policy = ez.RogueNet(space, space.actions, d_model=8, n_layer=1, n_head=1)
    venv = ez.from_pettingzoo(CONNECT_FOUR, num_envs=3, opponents={"player_0": policy})
    assert venv.single_observation_space == space
    results = ez.evaluate(policy, venv, episodes=6, seed=1)
    assert set(results.returns) <= {-1.0, 0.0, 1.0}
    venv.close()
    everyone.close()
