"""RogueNet as a policy of Stable-Baselines3: the same numbers as the network's own, summed over each step."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import entitize as ez
import numpy as np
import pytest
import torch
from entitize.envs import PackedActionSpace, PackedBatchSpace, batch_observations
from entitize.ragged import RaggedArray
from entitize.trainers.sb3 import RolloutSteps
from stable_baselines3.common.utils import obs_as_tensor

from facts import raises

CPU = torch.device("cpu")
SPACE = ez.EntitySpace(
    {"Unit": ["x", "y"], "Rock": ["x"]},
    ez.EntityActionSpace(
        {
            "Walk": ez.Categorical(3),
            "Aim": ez.SelectEntity(),
            "Alarm": ez.GlobalCategorical(2),
            "Turn": ez.Continuous([-1.0, 0.0], [1.0, 5.0]),
            "Wind": ez.GlobalContinuous(-2.0, 2.0),
            "Order": ez.MultiCategorical({"kind": ["wait", "move"], "where": 3}, {"move": ["where"]}),
        }
    ),
    global_features=["time"],
)
SMALL: dict[str, Any] = {"d_model": 8, "n_layer": 1, "n_head": 2}


def make_policy(seed: int = 0, space: ez.EntitySpace = SPACE, **options: Any) -> ez.sb3.RogueNetPolicy:
    torch.manual_seed(seed)
    packed = PackedBatchSpace(space), PackedActionSpace(space.actions)
    return ez.sb3.RogueNetPolicy(*packed, lambda _: 1e-3, use_sde=False, **{**SMALL, **options})


def batch_of(seed: int, steps: int = 6, space: ez.EntitySpace = SPACE) -> ez.EntityBatch:
    space.seed(seed)
    return batch_observations(space, [space.sample() for _ in range(steps)])


def tensors(policy: ez.sb3.RogueNetPolicy, batch: ez.EntityBatch) -> Any:
    return obs_as_tensor(policy.observation_space.layout.pack(batch), CPU)


def statistics(policy: ez.sb3.RogueNetPolicy) -> dict[str, torch.Tensor]:
    """Copies, read without asking for the network (which would settle them)."""
    return {name: buffer.clone() for name, buffer in policy.named_buffers()}


def moved(before: dict[str, torch.Tensor], policy: ez.sb3.RogueNetPolicy) -> bool:
    return any(not torch.equal(before[name], now) for name, now in policy.named_buffers())


def test_acting_sums_over_the_actors_and_actions_of_each_step() -> None:
    policy, batch = make_policy(), batch_of(1)
    policy.network.update_normalization(batch)
    torch.manual_seed(7)
    packed, values, log_probs = policy(tensors(policy, batch))
    torch.manual_seed(7)
    result = policy.network.act(batch, np.random.default_rng(int(torch.randint(2**63 - 1, ()))))
    layout = policy.observation_space.layout
    actions = layout.unpack_actions(batch, packed.numpy())
    drawn = layout.unpack_actions(batch, packed.numpy(), as_raw=True)
    for name in SPACE.actions:
        assert actions[name] == result.actions[name] and drawn[name] == result.raw[name]
    assert actions["Turn"] != drawn["Turn"]
    by_hand = [sum(float(of[b].sum()) for of in result.log_probs.values()) for b in range(len(batch))]
    np.testing.assert_allclose(log_probs.numpy(), by_hand, rtol=1e-6)
    np.testing.assert_array_equal(values.numpy(), result.values)
    np.testing.assert_array_equal(policy.predict_values(tensors(policy, batch)), result.values)


def test_evaluation_is_that_of_acting_with_gradients() -> None:
    policy, batch = make_policy(), batch_of(2)
    policy.network.update_normalization(batch)
    obs = tensors(policy, batch)
    packed, values, log_probs = policy(obs)
    again, log_probs_again, entropies = policy.evaluate_actions(obs, packed)
    np.testing.assert_allclose(again.detach(), values, atol=1e-5)
    np.testing.assert_allclose(log_probs_again.detach(), log_probs, rtol=1e-4, atol=1e-4)
    drawn = policy.observation_space.layout.unpack_actions(batch, packed.numpy(), as_raw=True)
    evaluation = policy.network.evaluate(batch, drawn)
    for b in range(len(batch)):
        by_hand = 0.0
        for name, order in drawn.items():
            of_step = slice(order.offsets[b], order.offsets[b + 1])
            by_hand += float(evaluation.entropies[name][of_step].detach().sum())
        assert entropies[b].item() == pytest.approx(by_hand, rel=1e-5)
    (log_probs_again.sum() + entropies.sum() + again.sum()).backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in policy.parameters())


@pytest.mark.parametrize("squash", [False, True])
def test_predicted_actions_are_evaluated_in_their_own_units(squash: bool) -> None:
    """Raw numbers, which `forward` returns behind the actions, are in units of the bounds."""
    finite = ez.EntityActionSpace({"Turn": ez.Continuous([-1.0, 0.0], [1.0, 5.0]), "Walk": ez.Categorical(3)})
    space = ez.EntitySpace({"Unit": ["x"]}, finite)
    policy, batch = make_policy(space=space, squash=squash, log_std_init=-2), batch_of(5, space=space)
    obs = tensors(policy, batch)
    torch.manual_seed(3)
    _, _, expected = policy(obs)
    torch.manual_seed(3)
    predicted, _ = policy.predict(batch)  # far from the bounds, at which clipping would lose something
    for actions in (predicted, torch.from_numpy(predicted)):
        _, log_probs, _ = policy.evaluate_actions(obs, actions)
        np.testing.assert_allclose(log_probs.detach(), expected, rtol=1e-3, atol=1e-3)


def test_a_step_at_which_nobody_acts_has_no_log_probability_and_no_entropy() -> None:
    space = ez.EntitySpace({"Unit": ["x"]}, ez.EntityActionSpace({"Walk": ez.Categorical(2)}))
    policy = make_policy(space=space)
    rows = RaggedArray.from_lengths(np.ones((3, 1), np.float32), [2, 1])
    mask = RaggedArray.from_lengths(np.ones((2, 2), bool), [2, 0])
    walk = ez.envs.ActionMask(RaggedArray.from_lengths(np.array([0, 1]), [2, 0]), mask)
    batch = ez.EntityBatch({"Unit": rows}, np.zeros((2, 0), np.float32), {"Walk": walk})
    obs = tensors(policy, batch)
    packed, _, log_probs = policy(obs)
    assert len(packed) == 2 and log_probs[0] < 0 and log_probs[1] == 0
    _, log_probs, entropies = policy.evaluate_actions(obs, packed)
    assert log_probs[1] == entropies[1] == 0 and entropies[0] > 0


def test_predict_takes_batches_and_single_observations() -> None:
    policy = make_policy()
    SPACE.seed(3)
    plain = [SPACE.sample() for _ in range(4)]
    batch = batch_observations(SPACE, plain)
    packed = policy.observation_space.layout.pack(batch)
    flat, state = policy.predict(packed, deterministic=True)
    assert state is None and flat.ndim == 1
    again, state = policy.predict(batch, state=(np.zeros(1),), deterministic=True)
    np.testing.assert_array_equal(flat, again)
    assert state is not None
    orders = policy.observation_space.layout.unpack_actions(batch, flat)
    for b, observation in enumerate(plain):
        action, _ = policy.predict(observation, deterministic=True)
        assert action in SPACE.actions and action.keys() == SPACE.actions.spaces.keys()
        for name, order in orders.items():
            np.testing.assert_allclose(action[name], order[b], atol=1e-5)
            assert action[name].dtype == SPACE.actions[name].dtype


def test_a_torch_seed_repeats_what_predict_draws() -> None:
    policy, batch = make_policy(), batch_of(4, steps=30)
    draws = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        draws.append(policy.predict(batch)[0])
    np.testing.assert_array_equal(draws[0], draws[1])
    assert not np.array_equal(draws[0], draws[2])


def test_observations_as_tensors_are_those_of_the_environment() -> None:
    policy, batch = make_policy(), batch_of(5, steps=1)
    observation = ez.envs.unbatch_observation(SPACE, batch, 0)
    single, is_batch = policy.obs_to_tensor(observation)
    assert not is_batch
    both, is_batch = policy.obs_to_tensor(policy.observation_space.layout.pack(batch))
    assert is_batch and single.keys() == both.keys()
    assert all(torch.equal(single[name], both[name]) for name in both)
    torch.testing.assert_close(policy.predict_values(single), policy.predict_values(both))


def test_statistics_move_before_the_first_action_and_after_an_update() -> None:
    policy, first, later = make_policy(), batch_of(6), batch_of(7)
    policy.set_training_mode(False)
    policy(tensors(policy, first))
    before = statistics(policy)
    twin = make_policy()
    twin.network.update_normalization(first)
    assert not moved(statistics(twin), policy)
    for _ in range(2):  # a rollout
        packed, _, _ = policy(tensors(policy, later))
    assert not moved(before, policy)
    policy.set_training_mode(True)
    drawn = policy.observation_space.layout.unpack_actions(later, packed.numpy(), as_raw=True)
    for _ in range(2):  # epochs
        policy.evaluate_actions(RolloutSteps(later, later), drawn)
    assert not moved(before, policy)
    policy.set_training_mode(False)
    twin.network.update_normalization(later)
    assert not moved(statistics(twin), policy) and moved(before, policy)
    settled = statistics(policy)
    policy.set_training_mode(False)
    assert not moved(settled, policy)


def test_whatever_looks_at_the_policy_after_an_update_sees_its_statistics() -> None:
    for look in (
        lambda policy: policy.state_dict(),
        lambda policy: policy.network,
        lambda policy: policy.predict(batch_of(9, steps=1)),
    ):
        policy, rollout = make_policy(), batch_of(8)
        policy.set_training_mode(True)
        actions = policy.network.act(rollout, np.random.default_rng(0)).raw
        policy.evaluate_actions(RolloutSteps(rollout, rollout), actions)
        before = statistics(policy)
        look(policy)
        twin = make_policy()
        twin.network.update_normalization(rollout)
        assert moved(before, policy) and not moved(statistics(twin), policy)


def test_predict_never_moves_statistics() -> None:
    policy = make_policy()
    before = statistics(policy)
    for seed in range(3):
        policy.predict(batch_of(seed))
        policy.predict(ez.envs.unbatch_observation(SPACE, batch_of(seed), 0))
        policy.predict_values(tensors(policy, batch_of(seed)))
        policy.evaluate_actions(  # not in training mode
            RolloutSteps(batch_of(seed), batch_of(seed)),
            policy.network.act(batch_of(seed), np.random.default_rng(0)).raw,
        )
        policy.set_training_mode(False)
    assert not moved(before, policy)


def test_weights_go_in_and_out() -> None:
    torch.manual_seed(3)
    network = ez.RogueNet(SPACE, SPACE.actions, **SMALL)
    network.update_normalization(batch_of(10))
    policy = ez.sb3.RogueNetPolicy.from_policy(network, optimizer_class=torch.optim.SGD)
    assert isinstance(policy.optimizer, torch.optim.SGD)
    assert policy.network.config == network.config and policy.network is not network
    first, second = (p.act(batch_of(11), np.random.default_rng(1)) for p in (network, policy.network))
    assert first.actions == second.actions
    other = make_policy(seed=5)
    other.load_network(policy.network)
    assert all(torch.equal(a, b) for a, b in zip(network.parameters(), other.parameters(), strict=True))
    assert not moved(statistics(other), policy)
    settled = statistics(other)
    other(tensors(other, batch_of(12)))  # statistics are there: the first action moves none
    assert not moved(settled, other)


def test_a_network_that_is_loaded_after_an_update_keeps_its_statistics() -> None:
    network = ez.RogueNet(SPACE, SPACE.actions, **SMALL)
    network.update_normalization(batch_of(10))
    policy, rollout = make_policy(), batch_of(8)
    policy.set_training_mode(True)
    actions = policy.network.act(rollout, np.random.default_rng(0)).raw
    policy.evaluate_actions(RolloutSteps(rollout, rollout), actions)
    policy.load_network(network)
    policy.set_training_mode(False)
    assert all(torch.equal(policy.network.state_dict()[name], t) for name, t in network.state_dict().items())


def test_a_network_that_does_not_fit_is_refused() -> None:
    policy = make_policy()
    before = {name: tensor.clone() for name, tensor in policy.state_dict().items()}
    wider = ez.RogueNet(SPACE, SPACE.actions, **{**SMALL, "d_model": 16})
    with raises(ValueError, "network", "(8, 2)", "(16, 2)"):
        policy.load_network(wider)
    deeper = ez.RogueNet(SPACE, SPACE.actions, **{**SMALL, "n_layer": 2})
    with raises(ValueError, "network", "blocks.1", "absent"):
        policy.load_network(deeper)
    heads = 1 if policy.network.settings.n_head > 1 else 2
    other = ez.RogueNet(SPACE, SPACE.actions, **{**SMALL, "n_head": heads})  # parameters of the same shapes
    with raises(ValueError, "network", "n_head", heads):
        policy.load_network(other)
    separate = {**SMALL, "separate_value_net": True}
    with raises(ValueError, "network", "value_n_head", heads):
        make_policy(**separate).load_network(
            ez.RogueNet(SPACE, SPACE.actions, **separate, value_n_head=heads)
        )
    space = ez.EntitySpace({"Unit": ["x"]}, SPACE.actions)
    with raises(ValueError, "network", "EntitySpace(Unit[1]"):
        policy.load_network(ez.RogueNet(space, space.actions, **SMALL))
    assert all(torch.equal(before[name], tensor) for name, tensor in policy.state_dict().items())


def test_a_saved_policy_acts_as_before(tmp_path: Path) -> None:
    policy = make_policy(optimizer_class=torch.optim.SGD, optimizer_kwargs={"momentum": 0.5})
    policy(tensors(policy, batch_of(13)))
    policy.save(str(tmp_path / "policy.pt"))
    loaded = ez.sb3.RogueNetPolicy.load(str(tmp_path / "policy.pt"), device="cpu")
    assert loaded.network.config == policy.network.config
    assert loaded.optimizer_class is torch.optim.SGD and loaded.optimizer_kwargs == {"momentum": 0.5}
    for deterministic in (True, False):
        actions = []
        for one in (policy, loaded):
            torch.manual_seed(1)
            actions.append(one.predict(batch_of(14), deterministic=deterministic)[0])
        np.testing.assert_array_equal(*actions)


def test_adam_has_the_epsilon_of_stable_baselines() -> None:
    assert make_policy().optimizer.defaults["eps"] == 1e-5
    assert make_policy(optimizer_kwargs={"eps": 1e-3}).optimizer.defaults["eps"] == 1e-3
    assert make_policy().optimizer.defaults["lr"] == 1e-3
    decaying = make_policy(optimizer_class=partial(torch.optim.AdamW, weight_decay=0.5)).optimizer
    assert isinstance(decaying, torch.optim.AdamW) and decaying.defaults["weight_decay"] == 0.5


def test_what_does_not_fit_is_refused_at_construction() -> None:
    packed = PackedBatchSpace(SPACE), PackedActionSpace(SPACE.actions)
    others = ez.EntityActionSpace({"Walk": ez.Categorical(2)})
    with raises(TypeError, "'d_modl'", "'d_model'"):
        make_policy(d_modl=3)
    with raises(TypeError, "RogueNetPolicy", "entitize.sb3.make_vec", "EntitySpace"):
        ez.sb3.RogueNetPolicy(SPACE, SPACE.actions, lambda _: 1e-3, use_sde=False)
    with raises(TypeError, "actions"):
        ez.sb3.RogueNetPolicy(packed[0], PackedActionSpace(others), lambda _: 1e-3, use_sde=False)
    with raises(TypeError, "MaskablePPO", "use_sde", "stable_baselines3.PPO"):
        ez.sb3.RogueNetPolicy(*packed, lambda _: 1e-3)
    with raises(ValueError, "use_sde", False):
        ez.sb3.RogueNetPolicy(*packed, lambda _: 1e-3, use_sde=True)


def test_observations_that_do_not_fit_are_told() -> None:
    policy = make_policy()
    SPACE.seed(1)
    plain = SPACE.sample()
    with raises(ez.ObservationError, "entity type 'Unit' (x, y)", "array"):
        policy.predict({**plain, "entities": {**plain["entities"], "Unit": np.zeros((1, 3), np.float32)}})
    with raises(ez.ObservationError, "packed batch"):
        policy.predict({"globals": np.zeros((1, 1), np.float32)})
    with raises(ez.ObservationError, "EntityBatch", "ndarray"):
        policy.predict(np.zeros(3))  # type: ignore[arg-type]
    with raises(ValueError, "env.reset()"):
        policy.predict((plain, {}))  # type: ignore[arg-type]
