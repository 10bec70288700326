"""`RogueNetExtractor` inside Stable-Baselines3's and sb3-contrib's algorithms."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import entitize as ez
import gymnasium
import numpy as np
import pytest
import torch
from sb3_contrib import MaskablePPO
from stable_baselines3 import A2C, DQN, PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecFrameStack, VecNormalize

from facts import raises

SIZES: dict[str, Any] = {"d_model": 8, "n_layer": 1, "n_head": 2}


def kwargs(**options: Any) -> dict[str, Any]:
    extractor = {"features_extractor_class": ez.sb3.RogueNetExtractor, "features_extractor_kwargs": SIZES}
    return {**extractor, "net_arch": [], **options}


class Crowd(ez.EntityEnv):
    """Zero to five people and, at times, a pot of gold: to take it pays, and to leave alone what isn't there.

    `who`: "all" choose, each for themselves, "nobody" in particular does, or it is a number, "amount".
    """

    def __init__(self, who: str = "nobody") -> None:
        kinds: dict[str, Any] = {
            "all": ez.Categorical(["leave", "take"]),
            "nobody": ez.GlobalCategorical(["leave", "take"]),
            "amount": ez.GlobalContinuous(-1, 1),
        }
        self.who, self.action_space = who, ez.EntityActionSpace({"do": kinds[who]})
        self.observation_space = ez.EntitySpace({"Person": ["x", "y"], "Gold": []}, self.action_space)

    def _reset(self, options: dict[str, Any]) -> ez.Observation:
        self.steps = 0
        return self._look()

    def _step(self, actions: dict[str, Any]) -> Any:
        did = actions.get("do")
        takes = bool(np.any(getattr(did, "choices", getattr(did, "choice", 0))))
        reward = float(self.gold == takes)
        self.steps += 1
        return self._look(), reward, False, self.steps == 8, {}

    def _look(self) -> ez.Observation:
        count, self.gold = int(self.np_random.integers(6)), bool(self.np_random.integers(2))
        entities = {"Person": self.np_random.normal(3, 10, (count, 2)), "Gold": np.zeros((int(self.gold), 0))}
        masks: dict[str, Any] = {
            "all": ez.actions.CategoricalMask(actor_types=["Person"]),
            "nobody": ez.actions.GlobalCategoricalMask(),
            "amount": ez.actions.GlobalContinuousMask(),
        }
        return ez.Observation(entities, actions={"do": masks[self.who]})


def face(who: str = "nobody", most: int = 5) -> gymnasium.Env[Any, Any]:
    maxima = {"Person": most, "Gold": 1}
    actors = {"do": most} if who == "all" else None
    return ez.to_gymnasium(Crowd(who), "padded", maxima=maxima, max_actors=actors, flat_actions=True)


def crowd(who: str = "nobody", num_envs: int = 3) -> Any:
    return make_vec_env(partial(face, who), num_envs, seed=1)


ON_POLICY = {
    "PPO": partial(PPO, n_steps=8, batch_size=12, n_epochs=2),
    "A2C": partial(A2C, n_steps=8),
    "MaskablePPO": partial(MaskablePPO, n_steps=8, batch_size=12, n_epochs=2),
}


@pytest.mark.parametrize(
    ("algorithm", "who"),
    [(name, who) for name in ON_POLICY for who in ("nobody", "all", "amount")][:-1],  # masks are for choices
)
def test_on_policy_algorithms_train_every_parameter(algorithm: str, who: str) -> None:
    model = ON_POLICY[algorithm]("MultiInputPolicy", crowd(who), policy_kwargs=kwargs(), seed=1)
    before = {name: array.clone() for name, array in model.policy.state_dict().items()}
    model.learn(48)
    same = [n for n, array in model.policy.state_dict().items() if torch.equal(array, before[n])]
    assert same == []


def test_dqn_trains_and_its_target_network_has_the_same_statistics() -> None:
    model = DQN(
        "MultiInputPolicy", crowd(num_envs=1), policy_kwargs=kwargs(), seed=1, learning_starts=8,
        buffer_size=64, batch_size=8, train_freq=1, target_update_interval=10,
    )  # fmt: skip
    before = {name: array.clone() for name, array in model.q_net.state_dict().items()}
    model.learn(60)
    net, target = model.q_net.features_extractor.net, model.q_net_target.features_extractor.net
    assert all(not torch.equal(array, before[name]) for name, array in model.q_net.state_dict().items())
    counts = [float(one.running_normalization["Person"].count) for one in (target, net)]
    assert 1000 < counts[0] < counts[1] < counts[0] + 50  # copied at step 60, before that step's update
    observations, _ = model.policy.obs_to_tensor(model.env.reset())
    features = target(observations)
    net.load_state_dict(target.state_dict())
    assert torch.equal(net.eval()(observations), features)


def test_sb3_does_not_start_the_residual_blocks_anew() -> None:
    torch.manual_seed(1)
    model = PPO("MultiInputPolicy", crowd(), policy_kwargs=kwargs(), n_steps=8, batch_size=8)
    block = model.policy.features_extractor.net.encoder.backbone.blocks[0]
    assert block.mlp[0].weight.std().item() == pytest.approx(0.02, rel=0.2)
    assert model.policy.action_net.weight.norm(dim=1).max().item() == pytest.approx(0.01, rel=0.01)


def test_a_policy_of_linear_heads_can_be_the_ragged_network() -> None:
    """The weights of a RogueNet in SB3's policy: the same probabilities and values."""
    venv = ez.vector.ListVectorEnv([Crowd] * 16)
    torch.manual_seed(1)
    ragged = ez.RogueNet(venv.single_observation_space, venv.single_action_space, **SIZES)
    batch, _ = venv.reset(seed=3)
    ragged.update_normalization(batch)
    with torch.no_grad():
        for parameter in ragged.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    policy = PPO("MultiInputPolicy", crowd(), policy_kwargs=kwargs(), n_steps=8, batch_size=8).policy
    policy.features_extractor.net.load_rogue_net(ragged)
    policy.set_training_mode(False)
    with torch.no_grad():
        for linear, head, rows in [
            (policy.value_net, ragged.value_head.proj, slice(0, 8)),  # of the mean row
            (policy.action_net, ragged.action_heads["do"].proj, slice(8, 16)),  # of the global row
        ]:
            linear.weight.zero_()
            linear.weight[:, rows] = head.weight
            linear.bias.copy_(head.bias)
    layout = ez.batch.PaddedLayout(venv.single_observation_space, {"Person": 5, "Gold": 1})
    keys = layout.observation_space.without_empty_arrays().spaces
    observations = {name: torch.from_numpy(layout.pad(batch)[name]) for name in keys}
    chosen = ez.RaggedArray.from_lengths(np.arange(16) % 2, np.ones(16, np.int64))
    expected = ragged.evaluate(batch, {"do": chosen})
    values, log_probs, entropy = policy.evaluate_actions(observations, torch.from_numpy(chosen.values))
    torch.testing.assert_close(values[:, 0], expected.values, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(log_probs, expected.log_probs["do"], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(entropy, expected.entropies["do"], atol=1e-5, rtol=1e-5)


def test_learning_a_rule_about_who_is_there() -> None:
    torch.manual_seed(1)
    model = PPO(
        "MultiInputPolicy", crowd(num_envs=16), policy_kwargs=kwargs(), n_steps=16, batch_size=64, n_epochs=4,
        learning_rate=5e-3, gamma=0.0, seed=1,
    )  # fmt: skip
    model.learn(2048)
    assert evaluate_policy(model, crowd(num_envs=8), n_eval_episodes=24)[0] > 7.5  # of 8; by chance 4


def test_dead_slots_weigh_nothing_with_masks() -> None:
    model = MaskablePPO("MultiInputPolicy", crowd("all"), policy_kwargs=kwargs(), n_steps=8, batch_size=8)
    venv = crowd("all", 24)
    observations = venv.reset()
    masks = np.stack(venv.env_method("action_masks"))
    dead = ~observations["actions/do/presence"]
    assert dead.any() and not dead.all()
    seen, _ = model.policy.obs_to_tensor(observations)
    actions, _, log_probs = model.policy(seen, action_masks=masks)
    assert not actions.numpy()[dead].any()
    logits = model.policy.action_net(model.policy.extract_features(seen)).view(24, 5, 2)
    living = torch.log_softmax(logits, 2).gather(2, actions[:, :, None])[:, :, 0]
    expected = torch.where(torch.from_numpy(dead), 0.0, living).sum(1)
    torch.testing.assert_close(log_probs, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("algorithm", [*ON_POLICY, "DQN"])
def test_saved_models_predict_the_same(algorithm: str, tmp_path: Path) -> None:
    make: Any = ON_POLICY.get(algorithm, partial(DQN, learning_starts=8, buffer_size=64, batch_size=8))
    model = make("MultiInputPolicy", crowd(), policy_kwargs=kwargs(), seed=1)
    model.learn(48)
    model.save(tmp_path / "model.zip")
    again = type(model).load(tmp_path / "model.zip", env=crowd())
    observations = crowd(num_envs=8).reset()
    expected, _ = model.predict(observations, deterministic=True)
    np.testing.assert_array_equal(again.predict(observations, deterministic=True)[0], expected)
    for name, array in again.policy.state_dict().items():
        assert torch.equal(array, model.policy.state_dict()[name]), name
    again.learn(24, reset_num_timesteps=False)
    one = {name: array[0] for name, array in observations.items()}
    assert model.predict(one, deterministic=True)[0].shape == ()


# -- what goes wrong ----------------------------------------------------------------------------------------


def test_frame_stacks_are_refused_at_construction() -> None:
    with raises(TypeError, "Dict", "VecFrameStack"):
        PPO("MultiInputPolicy", VecFrameStack(crowd(), 2), policy_kwargs=kwargs())


@pytest.mark.parametrize(
    "make", [lambda: gymnasium.make("CartPole-v1"), lambda: ez.to_gymnasium(Crowd(), "flat", maxima=5)]
)
def test_environments_that_are_not_padded_are_refused(make: Callable[[], Any]) -> None:
    with raises(TypeError, "ez.to_gymnasium(env, 'padded', maxima=…, flat_actions=True)"):
        PPO("MlpPolicy", make(), policy_kwargs=kwargs())


def test_normalized_observations_are_refused_and_normalized_rewards_fine() -> None:
    make = partial(PPO, "MultiInputPolicy", policy_kwargs=kwargs(), n_steps=8, batch_size=8, n_epochs=1)
    with raises(ValueError, "'presence/", 0, 1, "VecNormalize(norm_obs=False)"):
        make(VecNormalize(crowd())).learn(24)
    make(VecNormalize(crowd(), norm_obs=False)).learn(24)


def test_models_do_not_go_to_environments_with_other_maxima_or_features() -> None:
    model = PPO("MultiInputPolicy", crowd(), policy_kwargs=kwargs(), n_steps=8, batch_size=8)
    with raises(ValueError, "Observation spaces"):
        model.set_env(make_vec_env(partial(face, most=9), 3))
