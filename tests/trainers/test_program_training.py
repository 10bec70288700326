"""`train`: networks for games with loops of their own."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import entitize as ez
import numpy as np
import pytest
import torch

from chase import Cat, Mouse, Move
from facts import raises


def main(agent: Any) -> float:
    """One episode: go to the mouse. Returns the score."""
    cat, mouse = Cat(0.0), Mouse(float(agent.rng.choice([-2, 2])))
    score = 0.0
    for _ in range(6):
        distance = abs(cat.x - mouse.x)
        if not distance:
            break
        cat.x += agent.act(ez.Obs(cat, mouse, score=score), Move).value
        score += distance - abs(cat.x - mouse.x)
    agent.game_over(score=score)
    return score


DECLARED: dict[str, Any] = {"entities": [Cat, Mouse], "actions": {"move": Move}}
SMALL: dict[str, Any] = {"d_model": 16, "n_layer": 1}


def test_a_game_trains_and_plays_without_a_changed_line(tmp_path: Path) -> None:
    config = ez.PPOConfig(total_timesteps=6_000, num_steps=16, minibatch_size=256, learning_rate=3e-3)
    trained = ez.train(main, **DECLARED, num_games=16, config=config, run_dir=tmp_path / "run", network=SMALL)
    assert trained.metrics["charts/episodic_return"] > 1.5
    assert not any(thread.name.startswith("game ") for thread in threading.enumerate())
    loaded = ez.load_agent(tmp_path / "run", seed=0)
    for agent in (trained.agent, loaded):
        assert np.mean([main(agent) for _ in range(20)]) > 1.5
    with ez.make_vec(ez.Program(main, **DECLARED), 4) as venv:
        results = ez.evaluate(trained.policy, venv, 20)
    assert results.returns.mean() > 1.5


def test_the_same_seed_trains_the_same_network() -> None:
    def run(seed: int) -> Any:
        config = ez.PPOConfig(total_timesteps=128, num_steps=16, seed=seed)
        return ez.train(main, **DECLARED, num_games=4, config=config, network=SMALL)

    state = torch.get_rng_state()
    one, same, other = run(7), run(7), run(8)
    assert torch.equal(torch.get_rng_state(), state)
    weights = [
        torch.cat([p.flatten() for p in trained.policy.parameters()]) for trained in (one, same, other)
    ]
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])
    assert [main(one.agent) for _ in range(5)] == [main(same.agent) for _ in range(5)]


def test_a_game_that_is_slow_now_and_then_trains_as_well() -> None:
    def slow(agent: Any) -> None:
        main(agent)
        if agent.rng.random() < 0.3:
            threading.Event().wait(0.02)

    config = ez.PPOConfig(total_timesteps=300, num_steps=16)
    trained = ez.train(slow, **DECLARED, num_games=4, config=config, network=SMALL, max_wait=0.002)
    assert trained.metrics["charts/episodic_length"] >= 2


def test_a_game_that_fails_ends_the_training() -> None:
    def broken(agent: Any) -> None:
        main(agent)
        raise OSError("no disk")

    with raises(ez.WorkerError, "broken", "OSError", "no disk"):
        ez.train(broken, **DECLARED, num_games=4, network=SMALL)


def test_entities_and_actions_come_once() -> None:
    with raises(TypeError, "entities"):
        ez.train(main, entities=[Cat])
    with raises(TypeError, "entities"):
        ez.train(ez.Program(main, **DECLARED), **DECLARED)
    with pytest.raises(TypeError):
        ez.train(3, **DECLARED)  # type: ignore[arg-type]


def test_a_run_goes_on_in_a_second_call(tmp_path: Path) -> None:
    config = ez.PPOConfig(total_timesteps=128, num_steps=16)
    options: dict[str, Any] = {**DECLARED, "num_games": 4, "network": SMALL, "run_dir": tmp_path / "run"}
    ez.train(main, **options, config=config)
    seen: list[int] = []
    longer = ez.PPOConfig(total_timesteps=256, num_steps=16)
    ez.train(
        main,
        **options,
        config=longer,
        resume=True,
        callbacks=[lambda trainer, _: seen.append(trainer.step)],
        progress=False,
    )
    assert seen[0] > 128 and seen[-1] >= 256


@pytest.mark.parametrize(
    ("option", "hint"),
    [("num_envs", "'num_games'"), ("run", "'run_dir'"), ("total_timesteps", "PPOConfig(total_timesteps")],
)
def test_an_option_of_another_function_is_told(option: str, hint: str) -> None:
    with raises(TypeError, "train:", option, hint):
        ez.train(main, **DECLARED, **{option: 8})  # type: ignore[arg-type]


def test_an_unknown_option_names_the_function() -> None:
    with raises(TypeError, "train:", "'max_wat'", "'max_wait'"):
        ez.train(main, **DECLARED, max_wat=1.0)
