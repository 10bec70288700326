""" "entitize/Padded-v0": any entity environment with fixed arrays, by name."""

from __future__ import annotations

import copy
from typing import Any

import entitize as ez
import gymnasium
import numpy as np
import pytest

from facts import raises

PADDED = "entitize/Padded-v0"
MINES: dict[str, Any] = {
    "env_id": "MineSweeper",
    "env_kwargs": {"nmines": 4, "orbital_cannon": False},
    "maxima": {"Mine": 4, "Robot": 2, "Orbital Cannon": 0},
    "max_actors": {"Move": 2, "Fire Orbital Cannon": 0},
    "flat_actions": True,
    "illegal": "replace",
}


def test_it_is_what_to_gymnasium_makes() -> None:
    made = gymnasium.make(PADDED, **MINES)
    options = {name: MINES[name] for name in ("maxima", "max_actors", "flat_actions", "illegal")}
    same = ez.to_gymnasium(ez.make("MineSweeper", **MINES["env_kwargs"]), "padded", **options)
    assert made.observation_space == same.observation_space
    assert made.action_space == same.action_space
    made.action_space.seed(1)
    first, other = made.reset(seed=3)[0], same.reset(seed=3)[0]
    for _ in range(10):
        for name, array in first.items():
            np.testing.assert_array_equal(array, other[name])
        action = made.action_space.sample()
        first, other = made.step(action)[0], same.step(action)[0]
    assert made.get_wrapper_attr("action_masks")().shape == (10,)


def test_its_spec_makes_it_again_and_vectors_keep_the_layout() -> None:
    env = gymnasium.make(PADDED, **MINES)
    assert gymnasium.make(env.spec).observation_space == env.observation_space
    for mode in ("sync", "async"):
        venv = gymnasium.make_vec(PADDED, 2, mode, **MINES)
        assert isinstance(venv.single_observation_space, type(env.observation_space))
        venv.reset(seed=1)
        venv.step(venv.action_space.sample())
        venv.close()


def test_other_environments_and_the_flat_layout_have_it_too() -> None:
    options = {"sutton_barto_reward": True}
    env = gymnasium.make(PADDED, env_id="CartPole-v1", layout="flat", maxima=1, env_kwargs=options)
    assert isinstance(env.observation_space, gymnasium.spaces.Box)
    env.reset(seed=1)
    assert env.step(0)[1] == 0  # the reward of that option
    shown = gymnasium.make(PADDED, render_mode="rgb_array", env_id="CartPole-v1", maxima=1)
    assert shown.render_mode == "rgb_array"
    shown.close()


@pytest.mark.parametrize(
    ("change", "facts"),
    [
        ({"env_id": None}, ("env_id", "MineSweeper")),
        ({"maxima": None}, ("maxima",)),
        ({"layout": "ragged"}, ("layout", "'padded', 'flat'", "'ragged'")),
        ({"maxima": {"Mine": 4}}, ("MineSweeper", "Robot")),
        ({"maxima": -1}, ("MineSweeper", "maxima", "'Mine'", -1)),
        ({"maxima": "6"}, ("MineSweeper", "maxima", "whole number", "'6'")),
        ({"max_actors": 2}, ("max_actors", "mapping", "'Move'", 2)),
        ({"env_kwargs": "nmines=3"}, (PADDED, "env_kwargs", "'nmines=3'")),
        ({"max_actor": {"Move": 2}}, (PADDED, "'max_actor'", "'max_actors'")),
    ],
)
def test_wrong_options_are_named(change: dict[str, Any], facts: tuple[str, ...]) -> None:
    options = {**copy.deepcopy(MINES), **change}
    with raises((TypeError, ValueError), *facts):
        gymnasium.make(PADDED, **options)


def test_one_array_for_named_actions_is_an_error_with_the_option_to_use() -> None:
    face = gymnasium.make(PADDED, disable_env_checker=True, **{**MINES, "flat_actions": False})
    face.reset(seed=1)
    with raises(ez.ActionError, "MineSweeper", "'Move'", "flat_actions=True"):
        face.step(np.array([0, 0]))
