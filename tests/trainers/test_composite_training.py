"""PPO with composite orders: what is stored, learned, saved and loaded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from entitize import RogueNet
from entitize.envs import (
    ActionMask,
    Categorical,
    EntityActionSpace,
    EntityBatch,
    EntitySpace,
    EntityVectorEnv,
    MultiCategorical,
    sample_actions,
    schema_difference,
    space_from_schema,
    space_schema,
    validate_actions,
)
from entitize.ragged import RaggedArray
from entitize.trainers import PPO, PPOConfig, evaluate, load_policy

ORDER = MultiCategorical(
    {"kind": ["rest", "go", "fetch"], "where": ["left", "ahead", "right"], "what": ["wood", "stone"]},
    uses={"go": ["where"], "fetch": ["where", "what"]},
)
ACTIONS = EntityActionSpace({"Order": ORDER, "Shout": Categorical(2)})
SPACE = EntitySpace({"Dog": ["rest", "go", "fetch", "place", "stone"]}, ACTIONS)


class Errands(EntityVectorEnv):
    """Episodes of one step: 0 to 3 dogs are to do what their features say, and to shout where it is stone.

    A dog earns 1 for the right kind, times the share of the components that this kind uses which are right;
    of other kinds the components don't matter. The mean over the dogs of the best orders is 1, of random
    ones about a third. Half of what would be wrong is forbidden, and of components that no allowed kind uses
    everything.
    """

    single_observation_space, single_action_space = SPACE, ACTIONS

    def __init__(self, num_envs: int) -> None:
        self.num_envs = num_envs
        self.metadata = {**EntityVectorEnv.metadata}

    def _show(self) -> EntityBatch:
        rng = np.random.default_rng([self._seed, self._clock])
        counts = rng.integers(0, 4, self.num_envs)
        self._best = rng.integers(0, ORDER.sizes, (counts.sum(), 3))
        rows = np.concatenate([np.eye(3)[self._best[:, 0]], self._best[:, 1:] - [1, 0]], 1)
        dogs = RaggedArray.from_lengths(rows.astype(np.float32), counts)
        mask = rng.random((len(rows), ORDER.num_choices)) < 0.5
        np.put_along_axis(mask, self._best + ORDER.offsets[:-1], True, 1)
        mask &= np.repeat(mask[:, :3] @ ORDER.used, ORDER.sizes, axis=1)
        actors = dogs.with_values(dogs.item_indices())
        masks = {
            "Order": ActionMask(actors, dogs.with_values(mask)),
            "Shout": ActionMask(actors, dogs.with_values(np.ones((len(rows), 2), bool))),
        }
        self._shown = EntityBatch({"Dog": dogs}, np.zeros((self.num_envs, 0), np.float32), masks)
        return self._shown

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[EntityBatch, dict[str, Any]]:
        self._seed, self._clock = seed or 0, 0
        return self._show(), {}

    def step(self, actions: Any) -> Any:
        orders = validate_actions(SPACE, self._shown, actions)
        chosen, counted = orders["Order"].values, ORDER.used[self._best[:, 0]]
        right = (chosen == self._best) & counted
        earned = right[:, 0] * right.sum(1) / counted.sum(1)
        earned = earned * (orders["Shout"].values == self._best[:, 2])
        dogs = self._shown.entities["Dog"]
        sums = np.bincount(dogs.sequence_indices(), earned, self.num_envs)
        rewards = np.where(dogs.lengths, sums / np.maximum(dogs.lengths, 1), 1)
        self._clock += 1
        ended = np.ones(self.num_envs, bool)
        return self._show(), rewards.astype(np.float32), ended, ~ended, {}

    def get_state(self) -> dict[str, np.ndarray]:
        return {"counters": np.array([self._seed, self._clock])}

    def set_state(self, state: Mapping[str, np.ndarray]) -> EntityBatch:
        self._seed, self._clock = map(int, state["counters"])
        return self._show()


composites = pytest.mark.parametrize("composite", ["used", "all"])
CONFIG = PPOConfig(total_timesteps=96, num_steps=4, minibatch_size=16, checkpoint_interval=32)


def make_net(**options: Any) -> RogueNet:
    torch.manual_seed(0)
    return RogueNet(SPACE, ACTIONS, n_layer=1, **options)


@composites
def test_ppo_learns_kinds_and_what_they_need(composite: str) -> None:
    net = make_net(composite=composite)
    venv = Errands(64)
    before = evaluate(net, venv, 256, seed=5).returns.mean()
    config = PPOConfig(
        total_timesteps=16_384, num_steps=8, minibatch_size=256, learning_rate=0.02, gamma=0.0, ent_coef=0.0
    )
    PPO(net, venv, config).train()
    after = evaluate(net, venv, 256, deterministic=True, seed=5).returns.mean()
    assert before < 0.6, "there must be something to learn"
    assert after > 0.97, "1 is the optimum"


@composites
def test_the_rollout_keeps_the_orders_and_one_log_probability_for_each(composite: str) -> None:
    samples = PPO(make_net(composite=composite), Errands(8), CONFIG).collect()
    orders, dogs = samples.actions["Order"], samples.observations.entities["Dog"]
    assert orders.dtype == np.int64 and orders.inner_shape == (3,)
    assert orders.lengths.tolist() == dogs.lengths.tolist()
    assert samples.log_probs["Order"].inner_shape == () and samples.log_probs["Order"].dtype == np.float32
    assert samples.num_actors == 2 * dogs.num_items
    unused = ~ORDER.used[orders.values[:, 0]]
    assert unused.any() and (composite == "all" or (orders.values[unused] == 0).all())


@composites
@pytest.mark.parametrize("joint", [False, True])
def test_ratios_start_at_one_and_entropies_count_what_is_used(composite: str, joint: bool) -> None:
    config = PPOConfig(
        num_steps=4, update_epochs=1, minibatch_size=1000, microbatch_size=7, joint_log_prob=joint
    )
    trainer = PPO(make_net(composite=composite), Errands(8), config)
    for _ in range(2):
        trainer.collect()
        metrics = trainer.update()
        assert metrics["losses/approx_kl"] == pytest.approx(0, abs=1e-6)
        assert metrics["losses/clipfrac"] == 0
        assert metrics["losses/entropy"] > 0


@composites
def test_the_kernels_of_the_loss_learn(composite: str, caplog: pytest.LogCaptureFixture) -> None:
    """They are compared with torch on actions that the network can evaluate: no warning."""
    PPO(make_net(composite=composite), Errands(8), CONFIG).train(progress=False)
    assert not caplog.records


@composites
def test_a_resumed_run_is_bit_equal_and_a_loaded_network_acts_alike(composite: str, tmp_path: Path) -> None:
    whole = PPO(make_net(composite=composite), Errands(4), CONFIG, tmp_path / "whole")
    whole.train()
    stop = [lambda trainer, _: trainer.step == 32]
    PPO(make_net(composite=composite), Errands(4), CONFIG, tmp_path / "parts", callbacks=stop).train()
    torch.manual_seed(9)
    resumed = PPO(make_net(composite=composite), Errands(4), CONFIG, tmp_path / "parts", resume=True)
    resumed.train()
    assert resumed.step == whole.step == 96
    for one, other in zip(whole.policy.parameters(), resumed.policy.parameters(), strict=True):
        assert torch.equal(one, other)
    loaded = load_policy(tmp_path / "parts")
    assert loaded.observation_space == SPACE and loaded.action_space == ACTIONS
    assert loaded.config["composite"] == composite
    batch, _ = Errands(4).reset(seed=3)
    results = [net.act(batch, np.random.default_rng(1)) for net in (whole.policy.eval(), loaded)]
    assert results[0].actions == results[1].actions and results[0].log_probs == results[1].log_probs


def test_composite_orders_survive_as_json_and_their_differences_are_told() -> None:
    again = space_from_schema(json.loads(json.dumps(space_schema(SPACE))))
    assert again == SPACE and again.actions["Order"] == ORDER
    free = MultiCategorical(ORDER.components)
    swapped = MultiCategorical(
        {name: ORDER.components[name] for name in ("kind", "what", "where")}, ORDER.uses
    )
    for other in (free, swapped):
        schema = space_schema(
            EntitySpace(SPACE.entities, EntityActionSpace({**ACTIONS.spaces, "Order": other}))
        )
        difference = schema_difference(space_schema(SPACE), schema)
        assert difference is not None and difference.startswith("action 'Order': ")
        assert space_from_schema(json.loads(json.dumps(schema))).actions["Order"] == other


def test_random_orders_are_taken_and_bring_little() -> None:
    """That the game can be lost, and that its masks leave something to draw from."""
    venv, rng = Errands(200), np.random.default_rng(0)
    batch, _ = venv.reset(seed=1)
    rewards = venv.step(sample_actions(ACTIONS, batch, rng))[1]
    assert 0.2 < rewards.mean() < 0.6
