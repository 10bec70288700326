"""What can't work is refused when it is put together, with what to use instead."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import entitize as ez
import gymnasium
import pytest
import supersuit
from mpe2 import simple_spread_v3
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


def supersuit_env() -> Any:
    games = supersuit.pettingzoo_env_to_vec_env_v1(simple_spread_v3.parallel_env())
    return supersuit.concat_vec_envs_v1(games, 1, base_class="stable_baselines3")


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
    kind = AttributeError if algorithm == "RecurrentPPO" else TypeError
    with raises(kind, "stable_baselines3.PPO", *facts):
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
        (lambda venv: supersuit_env(), ["ConcatVecEnv", "entitize.from_pettingzoo(game"]),
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


def test_make_vec_takes_no_vector_environment_of_others(venv: VecEnv) -> None:
    with raises(TypeError, "DummyVecEnv", "make_vec(make_env, num_envs)"):
        ez.sb3.make_vec(make_vec_env("CartPole-v1"))  # type: ignore[arg-type]
    with raises(TypeError, "VecMonitor", "unchanged"):
        ez.sb3.make_vec(venv)  # type: ignore[arg-type]


@pytest.mark.parametrize("env", ["MineSweeper", "CartPole-v1"])
def test_arguments_of_make_vec_env_are_translated(env: str) -> None:
    with raises(TypeError, "monitor_dir") as caught:
        ez.sb3.make_vec(env, monitor_dir="logs")
    assert any("VecMonitor(entitize.sb3.vec_env(...), filename)" in note for note in caught.value.__notes__)


def test_observations_of_other_environments_are_refused() -> None:
    model = ez.sb3.PPO(ez.sb3.make_vec("CartPole-v1", num_envs=2), n_steps=8)
    observation = gymnasium.make("CartPole-v1").reset(seed=0)[0]
    with raises(ez.ObservationError, "ndarray", "entitize.make(name)"):
        model.predict(observation)
    action, _ = model.predict(ez.make("CartPole-v1").reset(seed=0)[0])
    assert isinstance(action, dict)
    with raises(TypeError, "PPO", "policy.network"):
        ez.evaluate(model, ez.make_vec("CartPole-v1"), 2)  # type: ignore[arg-type]
    with raises(TypeError, "VecMonitor", "Stable-Baselines3", "entitize.make_vec"):
        ez.evaluate(model.policy.network, ez.sb3.make_vec("CartPole-v1"), 2)  # type: ignore[arg-type,union-attr]
    with raises(TypeError, "network", "str", "entitize.load_policy"):
        ez.sb3.PPO(ez.sb3.make_vec("CartPole-v1"), network="folder")  # type: ignore[arg-type]


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
