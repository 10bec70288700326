"""Actions as arrays, a row for each actor of the batch, in place of ragged arrays."""

from __future__ import annotations

from typing import Any

import entitize as ez
import numpy as np
import pytest
import torch
from entitize.envs import ActionError, sample_actions
from entitize.ragged import RaggedArray

from facts import raises

#: With actors that vary, one for all, none at some steps, continuous and multi-discrete actions.
GAMES = [
    *("MultiSnake", "MultiSnake/lanes", "MineSweeper", "CherryPick", "Minefield", "MoveToOrigin"),
    *("OrbitWars", "CartPole-v1", "Pendulum-v1", "MicroRTS/basesWorkers8x8"),
]


def as_arrays(actions: dict[str, RaggedArray]) -> dict[str, Any]:
    return {name: chosen.values.copy() for name, chosen in actions.items()}


def played(venv: Any, as_given: Any, steps: int = 40) -> list[Any]:
    rng = np.random.default_rng(0)
    with venv:
        batch, _ = venv.reset(seed=3)
        results = [batch]
        for _ in range(steps):
            actions = sample_actions(venv.single_action_space, batch, rng)
            batch, rewards, terminated, truncated, _ = venv.step(as_given(actions))
            results += [batch, rewards.tolist(), terminated.tolist(), truncated.tolist()]
    return results


def assert_same(one: list[Any], other: list[Any]) -> None:
    for ours, theirs in zip(one, other, strict=True):
        assert ours.equals(theirs) if isinstance(ours, ez.EntityBatch) else ours == theirs


@pytest.mark.parametrize("game", GAMES)
def test_arrays_play_as_ragged_arrays(game: str) -> None:
    assert_same(played(ez.make_vec(game, 4), dict), played(ez.make_vec(game, 4), as_arrays))


def test_workers_take_arrays() -> None:
    ragged, arrays = (ez.make_vec("MineSweeper", 4, num_workers=2) for _ in range(2))
    assert_same(played(ragged, dict), played(arrays, as_arrays))


def test_self_play_takes_arrays_for_the_lanes_of_the_learner() -> None:
    def venv() -> Any:
        lanes = ez.make_vec("MultiSnake/lanes", 4)
        policy = ez.RogueNet(lanes.single_observation_space, lanes.single_action_space, d_model=8, n_layer=1)
        pool = ez.self_play.OpponentPool(policy)
        return ez.self_play.past_self_play(lanes, pool, latest_share=0.0, seed=0)

    torch.manual_seed(0)
    ragged = played(venv(), dict)
    torch.manual_seed(0)
    assert_same(ragged, played(venv(), as_arrays))


@pytest.mark.parametrize("game", ["MineSweeper", "Pendulum-v1", "MicroRTS/basesWorkers8x8"])
def test_an_empty_list_is_the_choice_of_no_actors(game: str) -> None:
    with ez.make_vec(game, 2) as venv:
        batch, _ = venv.reset(seed=0)
        rng = np.random.default_rng(0)
        for _ in range(30):
            actions = sample_actions(venv.single_action_space, batch, rng)
            lists = {name: np.array(chosen.values.tolist()) for name, chosen in actions.items()}
            batch, *_ = venv.step(lists)


def test_a_bot_may_return_arrays() -> None:
    def bot(batch: Any, rng: Any) -> Any:
        return as_arrays(sample_actions(venv.single_action_space, batch, rng))

    with ez.make_vec("MultiSnake/lanes", 4, max_steps=20) as venv:
        random = ez.evaluation.RandomActor(venv.single_action_space)
        ours, theirs = ez.evaluate(bot, venv, 12), ez.evaluate(random, venv, 12)
        assert (ours.returns == theirs.returns).all() and (ours.lengths == theirs.lengths).all()
        results = ez.self_play.play_matches({"bot": bot, "random": random}, venv, 8)
        assert int(results.games[0, 1]) == 8


def test_arrays_of_another_form_are_refused_and_no_lane_moves() -> None:
    venv = ez.make_vec("MineSweeper", 3)
    batch, _ = venv.reset(seed=0)
    (name, legal), *_ = sample_actions(venv.single_action_space, batch, np.random.default_rng(0)).items()
    count = legal.num_items
    for given, got in [
        (np.zeros(count + 1, np.int64), f"({count + 1},)"),
        (np.zeros((count, 2), np.int64), f"({count}, 2)"),
        ([0] * count, "list"),
        (3, "int"),
    ]:
        with raises(ActionError, name, f"({count},)", got):
            venv.step({name: given})
    with raises(ActionError, name):
        venv.step({name: np.full(count, 99)})
    with raises(ActionError, name):
        venv.step({name: np.full(count, 0.5)})
    with raises(ActionError, name):
        venv.step({name: np.full(count, "up", object)})
    everything = as_arrays(sample_actions(venv.single_action_space, batch, np.random.default_rng(0)))
    venv.step(everything)
    venv.close()
