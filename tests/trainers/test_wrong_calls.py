"""Calls with wrong arguments: one error that says where, what was expected, and what was given."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import entitize as ez
import gymnasium
import numpy as np
import pytest

from facts import raises

OPTIONS: dict[str, Any] = {"total_timesteps": 16, "num_steps": 4, "minibatch_size": 8}


@pytest.fixture(scope="module")
def venv() -> Any:
    with ez.make_vec("Count", 2) as made:
        yield made


@pytest.fixture(scope="module")
def net(venv: Any) -> Any:
    return ez.RogueNet(venv.single_observation_space, venv.single_action_space, d_model=8, n_layer=1)


@pytest.mark.parametrize(
    ("arguments", "error", "fact"),
    [
        ({"total_timesteps": -5}, ValueError, -5),
        ({"total_timesteps": 0}, ValueError, 0),
        ({"total_timesteps": "5"}, TypeError, "'5'"),
        ({"total_timesteps": 1.5}, TypeError, 1.5),
        ({"total_timesteps": True}, TypeError, "True"),
        ({"max_seconds": 0}, ValueError, 0),
        ({"max_seconds": "x"}, TypeError, "'x'"),
    ],
)
def test_train(venv: Any, net: Any, arguments: Any, error: type[Exception], fact: object) -> None:
    trainer = ez.PPO(net, venv, ez.PPOConfig(**OPTIONS))
    with raises(error, *arguments, fact):
        trainer.train(**arguments)
    assert trainer.step == 0


@pytest.mark.parametrize(
    ("call", "error", "facts"),
    [
        (lambda net, venv, config: ez.PPO(net, venv, {}), TypeError, ("PPOConfig", "{}")),
        (lambda net, venv, config: ez.PPO(venv, net, config), TypeError, ("policy", "CountVectorEnv")),
        (lambda net, venv, config: ez.PPO(ez.RogueNet, venv, config), TypeError, ("policy", "RogueNet")),
        (lambda net, venv, config: ez.PPO(net, ez.make("Count"), config), TypeError, ("make_vec",)),
        (lambda net, venv, config: ez.PPO(net, "Count", config), TypeError, ("make_vec('Count')",)),
        (
            lambda net, venv, config: ez.PPO(net, gymnasium.make_vec("CartPole-v1", 2), config),
            TypeError,
            ("wrap_vec", "CartPoleVectorEnv"),
        ),
        (lambda net, venv, config: ez.PPO(net, venv, config, callbacks=print), TypeError, ("callbacks",)),
        (lambda net, venv, config: ez.PPO(net, venv, config, callbacks=[3]), TypeError, ("callbacks", 3)),
        (lambda net, venv, config: ez.PPO(net, venv, config, 3), TypeError, ("run_dir", 3)),
        (lambda net, venv, config: ez.PPO(net, venv, config, resume=True), ValueError, ("run_dir",)),
        (lambda net, venv, config: ez.evaluate(venv, net, 4), TypeError, ("venv", "RogueNet", "first")),
        (lambda net, venv, config: ez.evaluate(net, net, 4), TypeError, ("venv", "RogueNet")),
        (lambda net, venv, config: ez.evaluate(net, venv, 0), ValueError, ("episodes", 0)),
        (lambda net, venv, config: ez.evaluate(net, venv, "4"), TypeError, ("episodes", "'4'")),
        (lambda net, venv, config: ez.load_agent(3), TypeError, ("path", 3)),
        (lambda net, venv, config: ez.load_policy(3), TypeError, ("path", 3)),
        (lambda net, venv, config: ez.make_vec("Count", 1.5), TypeError, ("num_envs", 1.5)),
        (lambda net, venv, config: ez.make_vec("Count", 0), ValueError, ("num_envs", 0)),
        (lambda net, venv, config: ez.make_vec("Count", n_envs=2), TypeError, ("'n_envs'", "'num_envs'")),
        (lambda net, venv, config: ez.make_vec(lambda **_: None, n_envs=2), TypeError, ("'num_envs'",)),
        (lambda net, venv, config: ez.make_vec(ez.games.Count(), 2), TypeError, ("class, Count",)),
        (lambda net, venv, config: ez.record(net, venv, "x", episodes=1), TypeError, ("RogueNet", "first")),
        (lambda net, venv, config: ez.record("Count", None, "x", steps=1), TypeError, ("make_vec('Count')",)),
        (
            lambda net, venv, config: ez.datasets.replay("plays", venv),
            TypeError,
            ("EntityDataset", "'plays'"),
        ),
        (lambda net, venv, config: ez.datasets.EntityDataset(["plays"]), TypeError, ("['plays']",)),
        (lambda net, venv, config: ez.evaluation.RandomActor(venv), TypeError, ("EntityActionSpace",)),
        (lambda net, venv, config: ez.sb3.PPO(venv, n_steps=0), ValueError, ("n_steps", 0)),
    ],
)
def test_wrong_arguments(
    venv: Any, net: Any, call: Callable[..., Any], error: type[Exception], facts: Any
) -> None:
    with raises(error, *facts):
        call(net, venv, ez.PPOConfig(**OPTIONS))


def test_a_run_folder_that_is_no_folder(venv: Any, net: Any, tmp_path: Path) -> None:
    config = ez.PPOConfig(**OPTIONS)
    (tmp_path / "file").touch()
    with raises(NotADirectoryError, str(tmp_path / "file")):
        ez.PPO(net, venv, config, tmp_path / "file")
    with raises(FileNotFoundError, str(tmp_path / "missing")):
        ez.PPO(net, venv, config, tmp_path / "missing", resume=True)
    assert not (tmp_path / "missing").exists()


def test_a_policy_that_no_checkpoint_can_hold_is_refused_at_the_start(tmp_path: Path) -> None:
    class Moves(ez.Categorical):
        pass

    class Game(ez.EntityEnv):
        def __init__(self) -> None:
            self.action_space = ez.EntityActionSpace({"Go": Moves(2)})
            self.observation_space = ez.EntitySpace({"Unit": ["x"]}, self.action_space)

        def _reset(self, options: Any) -> ez.Observation:
            return ez.Observation(
                entities={"Unit": np.ones((1, 1))}, actions={"Go": ez.actions.CategoricalMask()}
            )

        def _step(self, actions: Any) -> Any:
            return self._reset(None), 0.0, True, False, {}

    games = ez.vector.ListVectorEnv([Game] * 2)
    net = ez.RogueNet(games.single_observation_space, games.single_action_space, d_model=8, n_layer=1)
    with raises(ValueError, "stored", "Moves"):
        ez.PPO(net, games, ez.PPOConfig(**OPTIONS), tmp_path)
    ez.PPO(net, games, ez.PPOConfig(**OPTIONS)).train(progress=False)  # writes none


def test_an_agent_takes_observations_only(venv: Any, net: Any, tmp_path: Path) -> None:
    ez.PPO(net, venv, ez.PPOConfig(**OPTIONS), tmp_path).train(progress=False)
    agent = ez.load_agent(tmp_path)
    for seen in (np.zeros(3), None, "x"):
        with raises(ez.ObservationError, type(seen).__name__):
            agent.act(seen)  # type: ignore[call-overload]
    with raises(TypeError, "Enum", "int"):
        agent.choose(np.zeros(3), int)  # type: ignore[type-var,arg-type]


@pytest.mark.parametrize("rng", [3, True, None])
def test_actions_are_drawn_from_a_generator_only(rng: Any, venv: Any, net: Any, tmp_path: Path) -> None:
    """`act(observation, True)` does not mean `deterministic=True`; None drew nothing in a network."""
    ez.PPO(net, venv, ez.PPOConfig(**OPTIONS), tmp_path).train(progress=False)
    batch, _ = venv.reset(seed=1)
    same = ez.RogueNet(net.observation_space, net.action_space, **{**net.config, "engine": "torch"})
    agent = ez.load_agent(tmp_path)
    for policy in (net, same) if rng is None else (net, same, agent):
        with raises(TypeError, "rng", "numpy.random.Generator", str(rng), "deterministic=True"):
            policy.act(batch, rng)
        assert policy.act(batch, rng, deterministic=True).actions == policy.act(batch, None, True).actions


@pytest.mark.parametrize("engine", ["fused", "torch"])
def test_actions_to_evaluate_are_ragged_arrays(engine: str, venv: Any, net: Any) -> None:
    batch, _ = venv.reset(seed=1)
    same = ez.RogueNet(net.observation_space, net.action_space, **{**net.config, "engine": engine})
    result = same.act(batch, np.random.default_rng(1))
    (name, chosen), *_ = result.actions.items()
    for array in (chosen.values, chosen.values.tolist()):
        with raises(TypeError, name, "RaggedArray", type(array).__name__, "with_values"):
            same.evaluate(batch, {name: array})  # type: ignore[dict-item]
    with raises(TypeError, "actions", "raw", "ActResult"):
        same.evaluate(batch, result)  # type: ignore[arg-type]
    again = {name: batch.actions[name].actors.with_values(chosen.values)}  # as the error says
    assert same.evaluate(batch, again).values.shape == (len(batch),)


def test_a_file_in_the_place_of_an_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_game.py").write_text("def make(): ...")
    monkeypatch.chdir(tmp_path)
    for name in ("my_game", "my_game.py"):
        with raises(gymnasium.error.NameNotFound, f"'{name}'", "'my_game:"):
            ez.make_vec(name)
