"""What users of Stable-Baselines3 do by habit: evaluate in between, interrupt, look into the policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import entitize as ez
import gymnasium
import pytest
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback, EvalCallback
from stable_baselines3.common.evaluation import evaluate_policy

from facts import raises

SMALL: dict[str, Any] = {"n_steps": 16, "policy_kwargs": {"d_model": 8, "n_layer": 1}, "seed": 1}


@ez.entity
class Unit:
    x: float


class Counted(ez.EntityEnv):
    """Each step shows more units; notes the progress of training, and raises at a step of choice."""

    progress: ClassVar[list[float]] = []
    breaks_at: ClassVar[int | None] = None

    def __init__(self) -> None:
        self.observation_space, self.action_space = ez.declare(
            entities=[Unit], actions={"go": ez.Categorical(["left", "right"])}
        )

    def set_progress(self, fraction: float) -> None:
        self.progress.append(fraction)

    def _reset(self, options: Any) -> ez.Obs:
        self.steps = 0
        return self.look()

    def look(self) -> ez.Obs:
        units = [Unit(float(x)) for x in range(1 + self.steps % 5)]
        return ez.Obs(units, actions={"go": ez.actions.CategoricalMask(actor_ids=units)})

    def _step(self, actions: Any) -> Any:
        self.steps += 1
        if self.steps == self.breaks_at:
            raise RuntimeError("a rare fault")
        return self.look(), 1.0, False, self.steps == 7, {}


class Interrupt(BaseCallback):
    """Stands for Ctrl-C between a step and the next."""

    def _on_step(self) -> bool:
        if self.n_calls == 3:
            raise KeyboardInterrupt
        return True


def interrupted(model: PPO) -> None:
    with pytest.raises(KeyboardInterrupt):
        model.learn(64, callback=Interrupt())


def evaluated(model: PPO) -> None:
    model.learn(64)
    assert model.env is not None
    evaluate_policy(model, model.env, n_eval_episodes=3)


@pytest.mark.parametrize("what", [interrupted, evaluated])
def test_training_that_was_cut_in_on_says_how_it_goes_on(what: Callable[[PPO], None]) -> None:
    model = ez.sb3.PPO(ez.sb3.make_vec(Counted, 2), **SMALL)
    what(model)
    venv = model.env
    assert venv is not None
    with raises(ez.ActionError, "set_env", "evaluate_policy"):
        model.learn(64, reset_num_timesteps=False)
    model.set_env(venv)
    before = model.num_timesteps
    model.learn(64, reset_num_timesteps=False)
    assert model.num_timesteps == before + 64


def test_evaluation_by_the_most_probable_actions_leaves_a_seeded_training_as_it_is() -> None:
    def trained(*callbacks: BaseCallback) -> list[torch.Tensor]:
        model = ez.sb3.PPO(ez.sb3.make_vec("MineSweeper", num_envs=4), **SMALL)
        model.learn(192, callback=list(callbacks))
        return list(model.policy.parameters())

    arena = ez.sb3.make_vec("MineSweeper", num_envs=2)
    look = EvalCallback(arena, eval_freq=10, n_eval_episodes=2, verbose=0, deterministic=True, warn=False)
    for alone, watched in zip(trained(), trained(look), strict=True):
        assert torch.equal(alone, watched)


def test_environments_hear_of_the_progress_that_ppo_of_entitize_tells_them() -> None:
    def heard(train: Callable[[], object]) -> list[float]:
        Counted.progress.clear()
        train()
        return list(Counted.progress)

    model = ez.sb3.PPO(ez.sb3.make_vec(Counted, 2), **SMALL)
    ours = heard(lambda: model.learn(96, callback=ez.sb3.SetProgressCallback()))
    venv = ez.make_vec(Counted, 2)
    net = ez.RogueNet(venv.single_observation_space, venv.single_action_space, d_model=8, n_layer=1)
    config = ez.PPOConfig(total_timesteps=96, num_steps=16)
    theirs = heard(lambda: ez.PPO(net, venv, config).train(progress=False))
    assert ours == pytest.approx(theirs) and len(ours) == 6
    with raises(TypeError, "SetProgressCallback", "make_vec", "DummyVecEnv"):
        PPO("MlpPolicy", "CartPole-v1", n_steps=16, batch_size=16).learn(
            16, callback=ez.sb3.SetProgressCallback()
        )


def test_values_after_training_are_those_of_the_saved_network() -> None:
    venv = ez.sb3.make_vec("MineSweeper", num_envs=4)
    model = ez.sb3.PPO(venv, learning_rate=0.003, **SMALL).learn(256)
    seen, _ = model.policy.obs_to_tensor(venv.reset())
    before = model.policy.predict_values(seen)
    model.policy.state_dict()  # as `save` does
    assert torch.equal(before, model.policy.predict_values(seen))


def test_an_environment_that_raised_says_why_it_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counted, "breaks_at", 5)
    model = ez.sb3.PPO(ez.sb3.make_vec(Counted, 2), **SMALL)
    with raises(ez.WorkerError, "a rare fault"):
        model.learn(64)
    with raises(gymnasium.error.ClosedEnvironmentError, "WorkerError"):
        model.learn(64)


@pytest.mark.parametrize("name", ["net_arch", "features_extractor_class", "activation_fn", "ortho_init"])
def test_options_of_other_policies_are_named(name: str) -> None:
    with raises(TypeError, name, "Stable-Baselines3", "d_model"):
        ez.sb3.PPO(ez.sb3.make_vec("Xor", 2), policy_kwargs={name: None})


def test_a_policy_can_be_asked_what_it_has() -> None:
    policy = ez.sb3.PPO(ez.sb3.make_vec("Xor", 2), **SMALL).policy
    assert not hasattr(policy, "lstm_actor") and not hasattr(policy, "mlp_extractor")


def test_an_observation_of_another_environment_is_told_by_its_entities() -> None:
    model = ez.sb3.PPO(ez.sb3.make_vec(Counted, 2), **SMALL)
    with raises(ez.ObservationError, "Unit", "Mine") as caught:
        model.predict(ez.sb3.make_vec("MineSweeper", 2).reset())
    assert len(str(caught.value)) < 500


def test_a_class_in_place_of_an_environment_is_told_how_to_make_one() -> None:
    with raises(TypeError, "make_vec(Counted"):
        ez.sb3.PPO(Counted)  # type: ignore[arg-type]
