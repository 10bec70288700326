"""The rules of the built-in games."""

from __future__ import annotations

from typing import Any

import entitize as ez
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts import raises

UP, DOWN, LEFT, RIGHT, DEFUSE = range(5)


def sweeper(
    mines: list[Any], robots: list[Any], cooldown: int | None = None, **options: Any
) -> ez.games.MineSweeper:
    state: dict[str, Any] = {"mines": mines, "robots": robots, "orbital_cannon": cooldown is not None}
    if cooldown is not None:
        state["orbital_cannon_cooldown"] = cooldown
    env = ez.games.MineSweeper(**{"width": 4, "height": 3, "state": state, **options})
    env.reset(seed=0)
    return env


@pytest.mark.parametrize(("move", "cell"), [(UP, (2, 1)), (DOWN, (0, 1)), (LEFT, (1, 2)), (RIGHT, (1, 0))])
def test_robots_move_by_one_cell(move: int, cell: tuple[int, int]) -> None:
    observation, reward, terminated, *_ = sweeper([(3, 2)], [(1, 1)]).step({"Move": [move]})
    assert tuple(observation["entities"]["Robot"][0]) == cell
    assert (reward, terminated) == (0, False)


@given(x=st.integers(0, 3), y=st.integers(0, 2))
def test_a_move_is_masked_exactly_where_it_would_leave_the_map(x: int, y: int) -> None:
    mine = (0, 0) if (x, y) != (0, 0) else (3, 2)
    env = sweeper([mine], [(x, y)])
    observation, _ = env.reset()
    inside = [0 <= x + dx < 4 and 0 <= y + dy < 3 for dx, dy in ((1, 0), (-1, 0), (0, 1), (0, -1))]
    assert observation["actions"]["Move"]["mask"].astype(bool).tolist() == [[*inside, True]]


def test_defusing_removes_the_mines_in_the_four_cells_next_to_the_robot() -> None:
    env = sweeper([(2, 1), (0, 1), (1, 2), (1, 0), (2, 2), (3, 1)], [(1, 1)])
    observation, reward, terminated, *_ = env.step({"Move": [DEFUSE]})
    assert observation["entities"]["Mine"].tolist() == [[2, 2], [3, 1]]
    assert observation["entities"]["Robot"].tolist() == [[1, 1]]
    assert (reward, terminated) == (0, False)


def test_a_robot_on_a_mine_is_lost_with_it() -> None:
    env = sweeper([(2, 1), (0, 0)], [(1, 1), (3, 2)])
    observation, reward, terminated, *_ = env.step({"Move": [UP, DOWN]})
    assert observation["entities"]["Mine"].tolist() == [[0, 0]]
    assert observation["entities"]["Robot"].tolist() == [[2, 2]]
    assert (reward, terminated) == (0, False)
    observation, reward, terminated, *_ = sweeper([(2, 1), (0, 0)], [(1, 1)]).step({"Move": [UP]})
    assert (reward, terminated) == (0, True)  # no robot is left, a mine is


def test_a_mine_that_is_defused_in_the_same_step_harms_nobody() -> None:
    observation, reward, terminated, *_ = sweeper([(2, 1)], [(1, 1), (2, 2)]).step({"Move": [UP, DEFUSE]})
    assert observation["entities"]["Robot"].tolist() == [[2, 1], [2, 2]]
    assert (reward, terminated) == (1, True)


def test_clearing_all_mines_pays_one_and_ends_the_episode() -> None:
    _, reward, terminated, truncated, _ = sweeper([(1, 2)], [(1, 1)]).step({"Move": [DEFUSE]})
    assert (reward, terminated, truncated) == (1, True, False)


def test_the_cannon_fires_at_cooldown_zero_and_then_cools_down() -> None:
    env = sweeper([(3, 2), (0, 2)], [(0, 0)], cooldown=1, cooldown_period=3)
    stay = {"Move": [DEFUSE]}
    observation, *_ = env.step(stay)
    assert observation["entities"]["Orbital Cannon"].tolist() == [[0]]
    fire = observation["actions"]["Fire Orbital Cannon"]
    assert (fire["actors"].tolist(), fire["actees"].tolist()) == ([3], [0, 1, 2])
    observation, *_ = env.step({**stay, "Fire Orbital Cannon": [1]})
    assert observation["entities"]["Mine"].tolist() == [[3, 2]]
    cooldowns = [observation["entities"]["Orbital Cannon"][0, 0]]
    for _ in range(3):
        observation, *_ = env.step(stay)
        cooldowns.append(observation["entities"]["Orbital Cannon"][0, 0])
    assert cooldowns == [3, 2, 1, 0]
    with raises(ez.ActionError, "MineSweeper", "'Fire Orbital Cannon'", 1):
        env.step(stay)  # a cannon that is ready fires: the game has no no-op
    observation, *_ = env.step({**stay, "Fire Orbital Cannon": [0]})
    assert observation["entities"]["Orbital Cannon"].tolist() == [[3]]


def test_a_robot_that_is_fired_at_is_gone_before_it_moves() -> None:
    env = sweeper([(3, 2)], [(0, 0), (2, 2)], cooldown=0)
    observation, *_ = env.step({"Fire Orbital Cannon": [2], "Move": [UP, UP]})
    assert observation["entities"]["Robot"].tolist() == [[1, 0]]
    assert observation["entities"]["Mine"].tolist() == [[3, 2]]


def test_the_cannon_can_clear_the_last_mine_and_hit_the_last_robot() -> None:
    _, reward, terminated, *_ = sweeper([(3, 2)], [(0, 0)], cooldown=0).step(
        {"Fire Orbital Cannon": [0], "Move": [DEFUSE]}
    )
    assert (reward, terminated) == (1, True)
    observation, reward, terminated, *_ = sweeper([(3, 2)], [(0, 0)], cooldown=0, cooldown_period=0).step(
        {"Fire Orbital Cannon": [1], "Move": [DEFUSE]}
    )
    assert (reward, terminated) == (0, True)
    assert observation["actions"]["Fire Orbital Cannon"]["actees"].tolist() == [0]


def test_an_episode_is_truncated_at_its_limit_unless_it_has_ended() -> None:
    env = sweeper([(3, 2)], [(0, 0)], max_steps=2)
    assert env.step({"Move": [DEFUSE]})[2:4] == (False, False)
    assert env.step({"Move": [DEFUSE]})[2:4] == (False, True)
    assert sweeper([(1, 0)], [(0, 0)], max_steps=1).step({"Move": [DEFUSE]})[2:4] == (True, False)


@given(seed=st.integers(0, 2**32 - 1))
def test_random_starts_put_everything_on_cells_of_its_own(seed: int) -> None:
    env = ez.games.MineSweeper(width=3, height=4, nmines=4, nrobots=3, orbital_cannon=seed % 2 == 0)
    observation, _ = env.reset(seed=seed)
    cells = [tuple(row) for name in ("Mine", "Robot") for row in observation["entities"][name]]
    assert len(set(cells)) == len(cells) == 7
    assert all(0 <= x < 3 and 0 <= y < 4 for x, y in cells)
    assert len(observation["entities"]["Orbital Cannon"]) == (seed % 2 == 0)


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({"width": 0}, ("width", 1, 0)),
        ({"cooldown_period": -1}, ("cooldown_period", 0, -1)),
        (
            {"width": 2, "height": 2, "nmines": 3, "nrobots": 2},
            ("3 mines", "2 robots", "2 x 2"),
        ),
        ({"render_mode": "human"}, ("render_mode", "None, 'rgb_array'", "'human'")),
        ({"state": {"mines": [(0, 0)]}}, ("mines", "robots")),
        ({"state": {"mines": [(0, 0)], "robots": [(1, 1)], "cannon": True}}, ("mines", "robots")),
        ({"state": {"mines": [], "robots": [(1, 1)]}}, ("mines", "none")),
        ({"state": {"mines": [(0, 6)], "robots": [(1, 1)]}}, ("mines", "(0, 6)", "6 x 6")),
        ({"state": {"mines": [(0, 0)], "robots": [(0, 0)]}}, ("a mine and a robot",)),
        ({"state": {"mines": [(0, 0), (0, 0)], "robots": [(1, 0)]}}, ("two mines",)),
        (
            {"state": {"mines": [(0, 0)], "robots": [(1, 0)], "orbital_cannon_cooldown": -2}},
            ("orbital_cannon_cooldown", -2),
        ),
    ],
)
def test_impossible_games_are_refused(options: dict[str, Any], facts: tuple[object, ...]) -> None:
    with raises(ValueError, *facts):
        ez.games.MineSweeper(**options)


def test_a_wrong_state_for_one_episode_is_refused() -> None:
    with raises(ValueError, "robots", "none"):
        ez.games.MineSweeper().reset(options={"state": {"mines": [(0, 0)], "robots": []}})


def test_a_picture_shows_each_thing_at_its_place() -> None:
    env = sweeper([(3, 2)], [(0, 0)], cooldown=0, render_mode="rgb_array")
    picture = env.render()
    assert picture is not None
    assert (picture.shape, picture.dtype) == ((64, 64, 3), np.uint8)
    centres = {(x, y): tuple(picture[(3 - x) * 16 + 8, (2 - y) * 16 + 8]) for x in range(4) for y in range(3)}
    ground = centres[(1, 1)]
    mine, robot = centres[(3, 2)], centres[(0, 0)]
    assert len({ground, mine, robot}) == 3
    assert sum(colour == ground for colour in centres.values()) == 10
    lamp = tuple(picture[8, 56])
    env.step({"Fire Orbital Cannon": [0], "Move": [DEFUSE]})
    after = env.render()
    assert after is not None
    assert tuple(after[8, 56]) != lamp
    assert tuple(after[8, 8]) == ground  # the mine is gone
    assert ez.games.MineSweeper().render() is None
