"""Where the definitions of Stable-Baselines3's PPO and ours agree, so do the numbers (see docs/sb3.md)."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import entitize as ez
import numpy as np
import pytest
import torch
from entitize.envs import batch_observations
from entitize.ragged import RaggedArray
from entitize.trainers import Samples, generalized_advantages
from entitize.trainers.learners import make_learner
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import configure

SMALL: dict[str, Any] = {"d_model": 8, "n_layer": 1, "n_head": 2}


def scramble(policy: Any, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for parameter in policy.parameters():
        parameter.data += 0.05 * torch.randn(parameter.shape, generator=generator)


class Record(BaseCallback):
    """What the environments said at each step of a rollout, before Stable-Baselines3 changes the rewards."""

    def __init__(self) -> None:
        super().__init__()
        self.rewards: list[Any] = []
        self.dones: list[Any] = []
        self.infos: list[Any] = []
        self.last_observation: Any = None

    def _on_step(self) -> bool:
        self.rewards.append(self.locals["rewards"].copy())
        self.dones.append(self.locals["dones"].copy())
        self.infos.append(self.locals["infos"])
        self.last_observation = self.locals["new_obs"]
        return True


def collected(venv: Any, **options: Any) -> tuple[Any, Record]:
    """A model with one rollout in its buffer, from which it has not learned."""
    model = ez.sb3.PPO(venv, policy_kwargs=SMALL, seed=1, **options)
    model.set_logger(configure(None, []))
    scramble(model.policy, seed=2)  # a fresh network values everything at 0
    model.train = lambda: None
    model.learn(model.n_steps * model.n_envs, record := Record())
    del model.train
    return model, record


@pytest.mark.parametrize("has_final_obs", [True, False])
def test_advantages_agree_at_every_kind_of_end(toy_venv: Any, has_final_obs: bool) -> None:
    """Terminated and truncated episodes, with and without their last observations."""
    engine = toy_venv(num_envs=4)
    if not has_final_obs:
        step = engine.step
        engine.step = lambda actions: (*step(actions)[:4], {})
    model, record = collected(ez.sb3.vec_env(engine), n_steps=12, gamma=0.9, gae_lambda=0.8)
    buffer, network = model.rollout_buffer, model.policy.network
    truncated = np.array([[i.get("TimeLimit.truncated", False) for i in infos] for infos in record.infos])
    terminated = np.array(record.dones) & ~truncated
    assert terminated.any() and truncated.any()
    finals = buffer.values.copy()  # where no last observation is given: of the one before
    if has_final_obs:
        for t, lane in np.argwhere(truncated):
            batch = batch_observations(
                engine.single_observation_space, [record.infos[t][lane]["terminal_observation"]]
            )
            finals[t, lane] = network.value(batch)[0]
    following = network.value(model.policy.observation_space.layout.unpack(record.last_observation))
    advantages, returns = generalized_advantages(
        np.array(record.rewards), buffer.values, following, finals, terminated, truncated, 0.9, 0.8
    )  # fmt: skip
    np.testing.assert_allclose(buffer.advantages, advantages, atol=1e-5)
    np.testing.assert_allclose(buffer.returns, returns, atol=1e-5)


def as_samples(model: Any) -> Samples:
    """The rollout of Stable-Baselines3 as one of ours.

    Its log-probabilities are sums over a step; only their sums count with `joint_log_prob`, so that the first
    actor of a step may have all of it.
    """
    rows = next(model.rollout_buffer.get())  # all of them, in random order
    left = rows.old_log_prob.numpy().copy()
    log_probs = {}
    for name, order in rows.actions.items():
        numbers = np.zeros(order.num_items, np.float32)
        first = order.offsets[:-1][order.lengths > 0]
        numbers[first] = left[order.lengths > 0]
        left[order.lengths > 0] = 0
        log_probs[name] = RaggedArray(numbers, order.offsets)
    assert not left.any()  # somebody acts at every step
    columns = (rows.old_values.numpy(), rows.advantages.numpy(), rows.returns.numpy())
    return Samples(rows.observations.batch, rows.actions, log_probs, *columns)


@pytest.mark.parametrize("game", ["MineSweeper", "Procgen/bigfish"])
@pytest.mark.parametrize("learned", [False, True])
def test_one_update_of_both_has_the_same_loss_and_gradients(game: str, learned: bool) -> None:
    """Plain gradient steps of size 1, whose difference is the gradient; `learned` moves the ratios off 1."""
    venv = ez.sb3.make_vec(game, num_envs=8)
    model, _ = collected(
        venv, n_steps=16, batch_size=128, n_epochs=1, ent_coef=0.02, vf_coef=0.4, max_grad_norm=0.5
    )
    config = ez.PPOConfig(
        joint_log_prob=True, clip_vloss=False, norm_adv=True, vf_coef=0.8, ent_coef=0.02, max_grad_norm=0.5,
        update_epochs=1, minibatch_size=128, anneal_lr=False, anneal_entropy=False, learning_rate=1.0,
    )  # fmt: skip
    if learned:
        scramble(model.policy, seed=3)
    network = deepcopy(model.policy.network)
    samples = as_samples(model)
    before = {name: tensor.clone() for name, tensor in network.named_parameters()}
    for optimised in (model.policy, network):
        optimised.optimizer = torch.optim.SGD(optimised.parameters(), lr=1.0)
    model.lr_schedule = lambda _: 1.0
    learner = make_learner(network, network.optimizer, config)
    losses = learner.step(samples, config.ent_coef)
    network.update_normalization(samples.observations)
    model.train()
    logged = model.logger.name_to_value
    assert logged["train/loss"] == pytest.approx(losses["loss"], abs=1e-5)
    assert logged["train/policy_gradient_loss"] == pytest.approx(losses["policy_loss"], abs=1e-5)
    assert logged["train/value_loss"] == pytest.approx(2 * losses["value_loss"], abs=1e-5)
    assert -logged["train/entropy_loss"] == pytest.approx(losses["entropy"], abs=1e-5)
    assert logged["train/approx_kl"] == pytest.approx(losses["approx_kl"], abs=1e-5)
    assert (logged["train/approx_kl"] > 1e-3) == learned
    theirs = dict(model.policy.network.named_parameters())
    gradients = {name: float((before[name] - theirs[name]).detach().abs().max()) for name in before}
    assert max(gradients.values()) > 1e-2
    for name, ours in network.named_parameters():
        torch.testing.assert_close(theirs[name], ours, atol=1e-5, rtol=0)
    for name, ours in network.named_buffers():  # the statistics that have moved
        torch.testing.assert_close(dict(model.policy.network.named_buffers())[name], ours)
