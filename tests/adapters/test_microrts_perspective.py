"""`perspective="player"`: a game seen from both corners is the same game, turned."""

from __future__ import annotations

from typing import Any

import entitize as ez
import numpy as np
import pytest
from entitize.envs import ActionError
from gymnasium.error import Error

from facts import raises

BOARD = "basesWorkers8x8Obstacle"
OPPOSITE = {"up": "down", "down": "up", "left": "right", "right": "left"}


def make(perspective: str, **options: Any) -> ez.microrts.MicroRTSVectorEnv:
    board = options.pop("board", BOARD)
    defaults: dict[str, Any] = {"opponents": "workerRushAI", "selfplay": 2, "side": "both", "max_steps": 90}
    env = ez.make_vec(f"MicroRTS/{board}", 4, perspective=perspective, **{**defaults, **options})
    assert isinstance(env, ez.microrts.MicroRTSVectorEnv)
    return env


def turned_name(name: str) -> str:
    """The name of a choice on the turned board: a direction, or a cell such as "+2,-1"."""
    if "," in name:
        x, y = (-int(part) for part in name.split(","))
        return f"{x:+d},{y:+d}"
    return OPPOSITE.get(name, name)


def turned_row(row: dict[str, float], width: int, height: int) -> dict[str, float]:
    """An entity's features on the turned board, one by one."""
    turned = {}
    for name, value in row.items():
        if name in ("x", "y"):
            turned[name] = (width if name == "x" else height) - 1 - value
        elif name in ("target_x", "target_y"):
            turned[name] = -value
        elif name.startswith("direction_"):
            turned["direction_" + OPPOSITE[name.removeprefix("direction_")]] = value
        else:
            turned[name] = value
    return turned


def turned_order(space: ez.MultiCategorical, order: list[int]) -> list[int]:
    return [
        names.index(turned_name(names[choice]))
        for names, choice in zip(space.components.values(), order, strict=True)
    ]


def turned_mask(space: ez.MultiCategorical, mask: list[bool]) -> list[bool]:
    allowed = iter(mask)
    turned: list[bool] = []
    for names in space.components.values():
        by_name = {turned_name(name): next(allowed) for name in names}
        turned += [by_name[name] for name in names]
    return turned


def check_turned(space: ez.EntitySpace, plain: ez.EntityBatch, seen: ez.EntityBatch, lane: int) -> None:
    """Lane `lane` of `seen` is that of `plain`, turned."""
    for name, features in space.entities.items():
        for before, after in zip(plain.entities[name][lane], seen.entities[name][lane], strict=True):
            expected = turned_row(dict(zip(features, before.tolist(), strict=True)), 8, 8)
            assert dict(zip(features, after.tolist(), strict=True)) == expected
    order: Any = space.actions["order"]
    masks = plain.actions["order"].mask[lane].tolist()
    assert seen.actions["order"].mask[lane].tolist() == [turned_mask(order, mask) for mask in masks]
    assert np.array_equal(plain.actions["order"].actors[lane], seen.actions["order"].actors[lane])


@pytest.mark.parametrize("options", [{}, {"features": "planes29"}, {"targets": "entities"}], ids=str)
def test_a_turned_game_goes_as_the_plain_one(options: dict[str, Any]) -> None:
    with make("board", **options) as plain, make("player", **options) as turned:
        space = plain.single_observation_space
        order_space: Any = space.actions["order"]
        players = plain.engine.lane_player.tolist()
        assert sorted(players[2:]) == [0, 1]
        before, _ = plain.reset(seed=1)
        seen, _ = turned.reset(seed=1)
        plain.action_space.seed(2)
        ends = 0
        for _ in range(120):
            for lane, player in enumerate(players):
                if player:
                    check_turned(space, before, seen, lane)
                else:
                    part = slice(lane, lane + 1)
                    for name, array in before[part].arrays().items():
                        assert np.array_equal(array, seen[part].arrays()[name])
            actions = dict(plain.action_space.sample(mask=before))
            rows = [
                turned_order(order_space, order.tolist()) if player else order.tolist()
                for lane, player in enumerate(players)
                for order in actions["order"][lane]
            ]
            orders = actions["order"].with_values(
                np.array(rows, np.int64).reshape(-1, len(order_space.sizes))
            )
            before, rewards, terminated, truncated, _ = plain.step(actions)
            seen, turned_rewards, turned_terminated, turned_truncated, _ = turned.step(
                {**actions, "order": orders}
            )
            assert np.array_equal(rewards, turned_rewards)
            assert np.array_equal(terminated, turned_terminated)
            assert np.array_equal(truncated, turned_truncated)
            ends += int(terminated.sum() + truncated.sum())
        assert ends


def test_both_players_of_a_symmetric_board_start_from_the_same_view() -> None:
    with make("player", board="basesWorkers8x8") as env:
        batch, _ = env.reset(seed=0)
        for name in ("Own", "Enemy", "Resource"):
            views = [sorted(map(tuple, batch.entities[name][lane].tolist())) for lane in range(4)]
            assert views[0] == views[1] == views[2] == views[3]


def test_a_picture_is_turned_like_the_view() -> None:
    with make("player", render_mode="rgb_array") as env:
        env.reset(seed=0)
        first, second, *_ = env.render() or ()
        assert np.array_equal(first[::-1, ::-1], second) and not np.array_equal(first, second)


def test_an_illegal_order_is_told_as_it_was_given() -> None:
    with make("player") as env:
        batch, _ = env.reset(seed=0)
        space: Any = env.single_action_space["order"]
        move = space.offsets[1]
        lane = 1
        masks = batch.actions["order"].mask[lane]
        unit = int(np.flatnonzero(masks[:, space.kinds.index("move")])[0])
        forbidden = int(np.flatnonzero(~masks[unit, move : move + 4])[0])
        actions = env.action_space.sample(mask=batch)
        rows = actions["order"].values.copy()
        row = actions["order"].offsets[lane] + unit
        rows[row] = 0
        rows[row, :2] = space.kinds.index("move"), forbidden
        with raises(ActionError, f"'{space.components['move'][forbidden]}'"):
            env.step({"order": actions["order"].with_values(rows)})
        env.step(actions)


def test_an_unknown_perspective_is_refused() -> None:
    with raises((ValueError, Error), "perspective", "'board', 'player'", "'mine'"):
        make("mine")
