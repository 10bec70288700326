"""The weights of μRTS's rewards, and their way through training."""

from __future__ import annotations

from typing import Any

import entitize as ez
import numpy as np
import pytest
from entitize.adapters.microrts.java import ACTIONS, SHAPED, UNIT_TYPES, weights_at

from facts import raises

WIN_ONLY = {"win_loss": 10.0}


def test_the_weights_go_linearly_from_the_first_to_the_last() -> None:
    first, last = ez.microrts.weights_array([10, 1, 1, 0.2, 1, 4]), ez.microrts.weights_array(WIN_ONLY)
    for fraction, weights in {
        0.0: [10, 1, 1, 0.2, 1, 4],
        0.25: [10, 0.75, 0.75, 0.15, 0.75, 3],
        0.5: [10, 0.5, 0.5, 0.1, 0.5, 2],
        1.0: [10, 0, 0, 0, 0, 0],
    }.items():
        np.testing.assert_allclose(weights_at(fraction, first, last), weights, atol=1e-15)


def test_equal_weights_stay_to_the_bit() -> None:
    weights = ez.microrts.weights_array({"gather": 0.1, "attack": 0.3})
    for fraction in (0.0, 1 / 3, 0.7, 1.0):
        assert weights_at(fraction, weights, weights).tolist() == weights.tolist()
    assert ez.microrts.weights_array(None).tolist() == ez.microrts.weights_array(SHAPED).tolist()


@pytest.mark.parametrize(
    ("last", "facts"),
    [
        ([1, 2], ["final_reward_weights", 6, "[1, 2]"]),
        ([0, 0, 0, 0, 0, float("nan")], ["final_reward_weights", "finite", "nan"]),
        ({"win_los": 1.0}, ["reward", "'win_los'", "'win_loss'"]),
    ],
)
def test_wrong_last_weights_are_told(last: Any, facts: list[object]) -> None:
    with raises(ValueError, *facts):
        ez.make_vec("MicroRTS/basesWorkers8x8", 1, final_reward_weights=last)


def reward_of_a_worker(venv: ez.EntityVectorEnv) -> float:
    """The reward of the step that orders the base to train a worker."""
    batch, _ = venv.reset(seed=0)
    actors = batch.actions["order"].actors
    rows = np.zeros((actors.num_items, 7), np.int64)
    rows[1] = ACTIONS.index("produce"), 0, 0, 0, 1, UNIT_TYPES.index("worker"), 0
    _, rewards, _, _, info = venv.step({"order": actors.with_values(rows)})
    assert info["raw_rewards"].tolist() == [[0, 0, 1, 0, 0, 0]]
    return float(rewards[0])


def test_rewards_are_weighed_as_progress_says() -> None:
    options: dict[str, Any] = {"opponents": "passiveAI", "reward_weights": {"worker": 2.0}}
    with ez.make_vec("MicroRTS/basesWorkers8x8", 1, final_reward_weights={"worker": 1.0}, **options) as venv:
        assert reward_of_a_worker(venv) == 2.0
        for fraction, reward in ((0.5, 1.5), (1.0, 1.0), (0.25, 1.75)):
            venv.set_progress(fraction)
            assert reward_of_a_worker(venv) == reward
        for wrong in (-0.1, 1.5, float("nan")):
            with raises(ValueError, "progress", 0, 1, wrong):
                venv.set_progress(wrong)
        assert reward_of_a_worker(venv) == 1.75
    with ez.make_vec("MicroRTS/basesWorkers8x8", 1, **options) as venv:
        venv.set_progress(1.0)
        assert reward_of_a_worker(venv) == 2.0
