"""Saved states of native games, which come from checkpoints of others: a damaged one is refused.

Kernels check no bounds: a count or an index out of range would read and write foreign memory.
"""

from __future__ import annotations

from typing import Any

import entitize as ez
import numpy as np
import pytest
from entitize.envs import EntityBatch, NativeVectorEnv, sample_actions

from facts import raises

GAMES: list[tuple[str, dict[str, Any]]] = [
    ("CherryPick", {"num_cherries": 6}),
    ("Count", {}),
    ("FloorIsLava", {}),
    ("MaskedBandit", {}),
    ("MineSweeper", {}),
    ("Minefield", {}),
    ("MoveToOrigin", {}),
    ("MultiArmedBandit", {}),
    ("MultiSnake", {"board_size": 5, "max_snake_length": 5}),
    ("MultiSnake/lanes", {"board_size": 5, "max_snake_length": 4}),
    ("OrbitWars", {"max_fleets": 64}),
    ("OrbitWars/lanes", {"max_fleets": 64}),
    ("PlanetWars", {"max_fleets": 32}),
    ("PlanetWars/lanes", {"max_fleets": 32}),
    ("MultiSnake/lanes", {"num_snakes": 4, "board_size": 4, "max_snake_length": 2, "max_steps": 9}),
    ("NotHotdog", {}),
    ("PickMatchingBalls", {"max_balls": 6, "randomize": True, "one_hot": True}),
    ("RockPaperScissors", {}),
    ("TreasureHunt", {}),
    ("Xor", {"negate": True}),
]
games = pytest.mark.parametrize(("name", "options"), GAMES)
NUM_ENVS = 4
State = dict[str, np.ndarray]


def playing(name: str, options: dict[str, Any], num_steps: int = 3) -> NativeVectorEnv:
    venv = ez.make_vec(name, NUM_ENVS, **options)
    assert isinstance(venv, NativeVectorEnv)
    play(venv, venv.reset(seed=3)[0], num_steps)
    return venv


def play(venv: NativeVectorEnv, batch: EntityBatch, num_steps: int) -> None:
    rng = np.random.default_rng(0)
    for _ in range(num_steps):
        batch, *_ = venv.step(sample_actions(venv.single_action_space, batch, rng))


def with_last(state: State, name: str, value: Any) -> State:
    """The state with another last number in array `name`."""
    changed = state[name].copy()
    changed.reshape(-1)[-1] = value
    return {**state, name: changed}


def assert_refused(venv: NativeVectorEnv, state: State, *facts: object) -> None:
    before = venv.get_state()
    with raises(ValueError, type(venv).__name__, *facts):
        venv.set_state(state)
    for name, array in venv.get_state().items():
        np.testing.assert_array_equal(array, before[name])


@games
def test_numbers_out_of_range_are_refused_and_change_nothing(name: str, options: dict[str, Any]) -> None:
    venv = playing(name, options)
    state = venv.get_state()
    last_lane = NUM_ENVS - (options.get("num_snakes", 2) if name.endswith("/lanes") else 1)
    for array, values in state.items():
        if not values.size:
            continue
        if values.dtype == np.int64:
            lane = NUM_ENVS - 1 if array in ("steps", "lane_players") else last_lane
            for number in (-(2**40), np.iinfo(np.int64).min):
                bad = with_last(state, array, number)
                assert_refused(venv, bad, f"state {array!r}", f"lane {lane}", "expected", number)
            if array not in ("steps", "cooldowns"):
                assert_refused(venv, with_last(state, array, 2**40), f"state {array!r}", 2**40)
        elif values.dtype.kind == "f":
            for number in (np.nan, np.inf, -np.inf):
                assert_refused(venv, with_last(state, array, number), f"state {array!r}", number)
        elif values.dtype == bool:
            bad = {**state, array: np.full(values.shape, 7, np.uint8).view(bool)}
            assert_refused(venv, bad, f"state {array!r}", 7)
    assert_refused(venv, {**state, "random_state": np.zeros((NUM_ENVS, 4), np.uint64)}, "random_state")
    play(venv, venv.set_state(state), 20)


@games
def test_every_state_of_play_is_taken_back(name: str, options: dict[str, Any]) -> None:
    venv, rng = playing(name, options, 0), np.random.default_rng(1)
    batch = venv.set_state(venv.get_state())
    for _ in range(60):
        batch, *_ = venv.step(sample_actions(venv.single_action_space, batch, rng))
        assert venv.set_state(venv.get_state()).equals(batch)


def test_after_going_back_actions_are_drawn_for_that_moment() -> None:
    venv = playing("MineSweeper", {}, 0)
    state, space = venv.get_state(), venv.action_space
    for _ in range(4):
        venv.step(space.sample())
    batch, drawn = venv.set_state(state), []
    for mask in (None, batch):
        space.seed(5)
        drawn.append(space.sample(mask=mask))
    assert drawn[0] == drawn[1] and space.contains(drawn[0])
    venv.step(drawn[0])


@games
def test_a_state_with_other_small_numbers_is_refused_or_plays_on(name: str, options: dict[str, Any]) -> None:
    """Arrays that contradict each other lead to no error later, and to no endless search."""
    venv, rng = playing(name, options), np.random.default_rng(4)
    state = venv.get_state()
    numbers = [array for array, values in state.items() if array != "random_state" and values.size]
    for _ in range(100):
        changed = {array: values.copy() for array, values in state.items()}
        for array in rng.choice(numbers, rng.integers(1, 3)):
            flat = changed[array].reshape(-1)
            flat[rng.integers(len(flat))] = rng.integers(0, 2 if flat.dtype == bool else 8)
        try:
            batch = venv.set_state(changed)
        except ValueError:
            continue
        play(venv, batch, 12)


@pytest.mark.parametrize(
    ("name", "array", "place", "value"),
    [
        ("CherryPick", "_counts", 0, 1),  # fewer than its steps can have taken
        ("Count", "_allowed", slice(None), False),  # nothing is allowed
        ("MaskedBandit", "_open", slice(None), False),
        ("MultiSnake", "segments", (0, 0, 0), 0),  # in the wall
        ("MultiSnake", "status", (0, 0), 0),
        ("MultiSnake", "food", (0, 0, 0), -1),
        ("MultiSnake", "taken", 0, 1),  # `free_cell` would search for ever
        ("MultiSnake/lanes", "taken", (0, 0), 0),
        ("MultiSnake/lanes", "steps", 1, 3),  # its lane would end again and again
        ("MultiSnake/lanes", "status", slice(None), 0),  # no game would ever end
        ("PickMatchingBalls", "_num_selected", 0, 1),
        ("PickMatchingBalls", "_selected", 0, True),
    ],
)
def test_arrays_that_contradict_each_other_are_refused(name: str, array: str, place: Any, value: Any) -> None:
    venv = playing(name, {}, num_steps=0)
    state = venv.get_state()
    state[array][place] = value
    assert_refused(venv, state, "lane 0", "expected")
