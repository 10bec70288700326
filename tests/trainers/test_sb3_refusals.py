"""What can't work is refused when it is put together, with what to use instead."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import entitize as ez
import pytest
from stable_baselines3 import DDPG, DQN, PPO, SAC, TD3
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import (
    DummyVecEnv,
    VecEnv,
    VecExtractDictObs,
    VecFrameStack,
    VecNormalize,
    VecTransposeImage,
)

from facts import raises

BUFFER: dict[str, Any] = {"rollout_buffer_class": ez.sb3.RaggedRolloutBuffer}


@pytest.fixture
def venv() -> VecEnv:
    return ez.sb3.make_vec("Xor", num_envs=2)


def contrib(name: str) -> Any:
    return getattr(pytest.importorskip("sb3_contrib"), name)


@pytest.mark.parametrize("algorithm", [DQN, SAC, TD3, DDPG])
def test_off_policy_algorithms_are_refused(algorithm: Any, venv: VecEnv) -> None:
    with raises(AssertionError, "stable_baselines3.PPO", "A2C", "padded"):
        algorithm(ez.sb3.RogueNetPolicy, venv)


@pytest.mark.parametrize(
    ("algorithm", "facts"),
    [
        ("RecurrentPPO", ["RecurrentPPO", "RogueNetPolicy", "memory"]),
        ("MaskablePPO", ["MaskablePPO", "masks"]),
        ("TRPO", ["TRPO", "distribution"]),
    ],
)
def test_algorithms_of_contrib_are_refused(algorithm: str, facts: list[str], venv: VecEnv) -> None:
    kwargs = {} if algorithm == "RecurrentPPO" else BUFFER
    with raises(TypeError, "stable_baselines3.PPO", *facts):
        contrib(algorithm)(ez.sb3.RogueNetPolicy, venv, n_steps=8, batch_size=8, **kwargs).learn(16)


@pytest.mark.parametrize(
    "build",
    [
        lambda venv: PPO(ez.sb3.RogueNetPolicy, venv),  # with Stable-Baselines3's own buffer
        lambda venv: PPO("MultiInputPolicy", venv, **BUFFER),
        lambda venv: VecFrameStack(venv, 2),
        VecNormalize,
    ],
)
def test_what_needs_shapes_is_told_what_to_use(build: Callable[[VecEnv], Any], venv: VecEnv) -> None:
    with raises(
        (NotImplementedError, TypeError, ValueError),
        "ragged array 'globals'",
        "RaggedRolloutBuffer",
        "VecFrameStack",
        "norm_obs=False",
    ):
        build(venv)


@pytest.mark.parametrize(
    ("build", "facts"),
    [
        (lambda venv: Monitor(venv), ["gymnasium.Env"]),
        (lambda venv: DummyVecEnv([lambda: venv]), ["Gymnasium"]),
        (lambda venv: make_vec_env(lambda: venv), ["Gymnasium"]),
        (lambda venv: PPO(ez.sb3.RogueNetPolicy, ez.make_vec("Xor"), **BUFFER), ["Gymnasium"]),
        (lambda venv: make_vec_env("entitize/MineSweeper-v0"), ["Nested observation spaces"]),
        (
            lambda venv: PPO(ez.sb3.RogueNetPolicy, "CartPole-v1", **BUFFER),
            ["RaggedRolloutBuffer", "entitize.sb3.make_vec"],
        ),
        (
            lambda venv: PPO(ez.sb3.RogueNetPolicy, VecExtractDictObs(venv, "globals"), **BUFFER),
            ["entitize.sb3.make_vec", "wrapper"],
        ),
    ],
)
def test_other_environments_are_refused(
    build: Callable[[VecEnv], Any], facts: list[str], venv: VecEnv
) -> None:
    with raises((TypeError, ValueError, NotImplementedError), *facts):
        build(venv)


@pytest.mark.parametrize(
    ("env", "facts"),
    [
        (lambda venv: "Xor", ["'Xor'", "entitize.sb3.make_vec('Xor', num_envs)"]),
        (lambda venv: ez.make_vec, ["entitize.sb3.make_vec"]),
        (lambda venv: make_vec_env("CartPole-v1"), ["DummyVecEnv", "make_vec_env"]),
        (
            lambda venv: ez.wrap(__import__("gymnasium").make("CartPole-v1")),
            ["ListVectorEnv([make_env] * num"],
        ),
        (VecTransposeImage, ["VecTransposeImage", "image"]),
    ],
)
def test_ppo_says_which_environment_it_wants(
    env: Callable[[VecEnv], Any], facts: list[str], venv: VecEnv
) -> None:
    with raises(TypeError, *facts):
        ez.sb3.PPO(env(venv))


def test_a_wrapper_that_only_looks_like_one_of_ours_is_refused(venv: VecEnv) -> None:
    """Wrappers whose constructors were content, but that change what is shown."""
    normalized = VecNormalize(venv, norm_obs=False)
    normalized.norm_obs = True
    with raises(TypeError, "VecNormalize(venv, norm_obs=False)"):
        ez.sb3.PPO(normalized)
    stacked = object.__new__(VecFrameStack)
    stacked.venv = venv
    with raises(TypeError, "VecFrameStack", "features"):
        ez.sb3.PPO(stacked)


def test_the_policy_of_a_model_is_no_network(venv: VecEnv) -> None:
    policy = ez.sb3.PPO(venv).policy
    with raises(TypeError, "network", "RogueNet", "RogueNetPolicy"):
        ez.sb3.PPO(venv, network=policy)  # type: ignore[arg-type]
    with raises(TypeError, "evaluate", "RogueNetPolicy", "network") as caught:
        ez.evaluate(policy, ez.make_vec("Xor"), 2)  # type: ignore[arg-type]
    assert len(str(caught.value)) < 200


def test_options_are_not_given_twice(venv: VecEnv) -> None:
    space = ez.make_vec("Xor").single_observation_space
    network = ez.RogueNet(space, space.actions)
    with raises(ValueError, "d_model", "policy_kwargs"):
        ez.sb3.PPO(venv, network=network, policy_kwargs={"d_model": 8})
    other = ez.make_vec("MineSweeper").single_observation_space
    with raises(ValueError, "network", "EntitySpace"):
        ez.sb3.PPO(venv, network=ez.RogueNet(other, other.actions))


def test_without_stable_baselines_the_extra_is_named() -> None:
    program = (
        "import importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'stable_baselines3' else find(name, *a)\n"
        "import entitize\n"
        "try: entitize.sb3\n"
        "except ImportError as error: print(error)"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "entitize.sb3 needs Stable-Baselines3: pip install 'entitize[sb3]'"


def test_the_import_prints_nothing() -> None:
    """Stable-Baselines3 imports Gym, which comes with Procgen and prints that it is unmaintained."""
    program = "import entitize; entitize.sb3.make_vec; import stable_baselines3"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (result.stdout, result.stderr) == ("", "")
