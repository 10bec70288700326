"""Rollouts from Ray actors: as one process with all their environments would collect them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import entitize as ez
import numpy as np
import pytest
import torch
from entitize.policies import ActResult
from entitize.ragged import concatenate
from entitize.trainers import PPO, PPOConfig

from facts import mentions

ray = pytest.importorskip("ray")


@pytest.fixture(scope="module")
def running_ray() -> Iterator[None]:
    """Ray as a user has started it: actors of all tests are there, which is faster than starting it anew."""
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="error")
    yield
    ray.shutdown()


class GroupByGroup(ez.RogueNet):
    """Draws the actions of each group of lanes from numbers of its own, as actors do."""

    rngs: list[np.random.Generator]

    def act(self, batch: ez.EntityBatch, *args: Any, **kwargs: Any) -> ActResult:
        lanes = len(batch) // len(self.rngs)
        parts = [
            super(GroupByGroup, self).act(batch[i * lanes : (i + 1) * lanes], rng)
            for i, rng in enumerate(self.rngs)
        ]
        names = list(parts[0].actions)
        return ActResult(
            {name: concatenate([part.actions[name] for part in parts]) for name in names},
            {name: concatenate([part.log_probs[name] for part in parts]) for name in names},
            np.concatenate([part.values for part in parts]),
            {name: concatenate([part.drawn[name] for part in parts]) for name in names},
        )


def network(game: str, kind: type[ez.RogueNet] = ez.RogueNet) -> ez.RogueNet:
    torch.manual_seed(0)
    with ez.make_vec(game, 1) as venv:
        return kind(venv.single_observation_space, venv.single_action_space, d_model=16, n_layer=1)


@pytest.mark.parametrize(
    "options",
    [
        {"game": "MultiSnake", "num_steps": 16, "minibatch_size": 64, "normalize_rewards": True},
        {"game": "MineSweeper", "num_steps": 8, "minibatch_size": 5, "joint_log_prob": True},
        {"game": "CherryPick", "num_steps": 8, "minibatch_size": 24, "start_kl_coef": 0.1},
    ],
    ids=lambda options: options["game"],
)
def test_two_actors_collect_and_train_what_one_process_does(
    options: dict[str, Any], running_ray: None
) -> None:
    game = options.pop("game")
    config = PPOConfig(seed=3, **options)
    policy, one = network(game), network(game, GroupByGroup)
    assert isinstance(one, GroupByGroup)
    with ez.distributed.RayRollouts(game, policy, 2, num_envs=6) as rollouts, ez.make_vec(game, 6) as venv:
        ours, alone = PPO(policy, rollouts, config), PPO(one, venv, config)
        for update in range(3):
            one.rngs = [np.random.default_rng((3, actor, update)) for actor in range(2)]
            samples, expected = ours.collect(), alone.collect()
            assert samples.observations.equals(expected.observations)
            for name, chosen in expected.actions.items():
                assert samples.actions[name] == chosen
                np.testing.assert_allclose(
                    samples.log_probs[name].values, expected.log_probs[name].values, rtol=1e-5, atol=1e-5
                )
            for name in ("values", "advantages", "returns"):
                theirs = getattr(expected, name)
                np.testing.assert_allclose(getattr(samples, name), theirs, rtol=1e-4, atol=1e-5, err_msg=name)
            metrics = ours.update()
            assert metrics == pytest.approx(alone.update(), rel=1e-4, abs=1e-5)
        assert ours.step == alone.step and ours.episodes.finished == alone.episodes.finished
    theirs = one.state_dict()
    for name, tensor in policy.state_dict().items():
        torch.testing.assert_close(tensor, theirs[name], rtol=1e-4, atol=1e-5)


def test_actors_load_no_torch_and_a_running_ray_stays(running_ray: None) -> None:
    policy = network("MultiSnake")
    with ez.distributed.RayRollouts("MultiSnake", policy, 2) as rollouts:
        trainer = PPO(policy, rollouts, PPOConfig(num_steps=8, total_timesteps=32))
        trainer.train(progress=False)
        loaded = [member.actor.call("loaded", name)(60) for member in rollouts._members for name in ("torch",)]
        assert loaded == [False, False]
        assert trainer.step == 32 and rollouts.num_envs == 2
    assert ray.is_initialized()


def test_numbers_that_cannot_be_divided_are_refused() -> None:
    with pytest.raises(ValueError, match=mentions("num_envs", "multiple", 2, 3)):
        ez.distributed.RayRollouts("MultiSnake", network("MultiSnake"), 2, num_envs=3)
