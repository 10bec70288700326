"""Perfect players of the larger native games: the optimum that each of them states can be reached."""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable
from typing import Any

import entitize as ez
import numpy as np
import pytest
from entitize.envs import unbatch_observation

Plain = dict[str, Any]
Cell = tuple[int, int]


def returns_of(
    name: str, episodes: int, player: Callable[[Plain, int], dict[str, Any]], **options: Any
) -> np.ndarray:
    """The returns of the first episode in each of `episodes` lanes; `player` gets observation and lane."""
    venv = ez.make_vec(name, episodes, **options)
    space = venv.single_observation_space
    batch, _ = venv.reset(seed=0)
    returns, running = np.zeros(episodes), np.ones(episodes, bool)
    while running.any():
        orders: dict[str, list[Any]] = {action: [] for action in space.actions}
        for lane in range(episodes):
            seen = unbatch_observation(space, batch, lane)
            told = player(seen, lane) if running[lane] else {}
            legal = space.actions.sample(mask=seen)
            for action, parts in orders.items():
                parts.append(np.array(told.get(action, legal[action]), np.int64))
        batch, rewards, terminated, truncated, _ = venv.step(
            {name: ez.RaggedArray.from_arrays(parts, inner_shape=()) for name, parts in orders.items()}
        )
        returns[running] += rewards[running]
        running &= ~(terminated | truncated)
    return returns


def cells(rows: Any) -> list[Cell]:
    return [(int(row[0]), int(row[1])) for row in rows]


def test_robots_that_defuse_before_they_walk_on_clear_every_field() -> None:
    moves = [(1, 0), (-1, 0), (0, 1), (0, -1)]

    def player(seen: Plain, lane: int) -> dict[str, Any]:
        mines, choices = cells(seen["entities"]["Mine"]), []
        for x, y in cells(seen["entities"]["Robot"]):
            u, v = min(mines, key=lambda mine: abs(mine[0] - x) + abs(mine[1] - y))
            if abs(u - x) + abs(v - y) == 1:
                choices.append(4)
            else:
                way = (int(np.sign(u - x)), 0) if u != x else (0, int(np.sign(v - y)))
                choices.append(moves.index(way))
        shots = len(seen["actions"]["Fire Orbital Cannon"]["actors"])
        return {"Move": choices, "Fire Orbital Cannon": [0] * shots}  # at the first mine

    for options in ({}, {"width": 4, "height": 4, "nmines": 9, "nrobots": 1, "orbital_cannon": False}):
        assert returns_of("MineSweeper", 100, player, **options).min() == 1


def test_a_spaceship_comes_to_rest_within_half_a_thousandth_along_each_axis() -> None:
    def thrusts(distance: float) -> list[int]:
        """What to do at each of 32 steps to travel `distance`: a thrust counts once for each step to come.

        In thousandths: full thrust while it does not go too far, then single thousandths, whose weights 1 to
        w make up every whole number.
        """
        left, choices = round(abs(distance) * 1000), []
        for weight in range(32, 0, -1):
            thrust = next(thrust for thrust in (10, 1, 0) if thrust * weight <= left)
            left -= thrust * weight
            choices.append({10: 0, 1: 1, 0: 2}[thrust] if distance > 0 else {10: 4, 1: 3, 0: 2}[thrust])
        assert left == 0
        return choices

    plans: dict[int, list[list[int]]] = {}

    def player(seen: Plain, lane: int) -> dict[str, Any]:
        x, y, _, _, step = seen["entities"]["Spaceship"][0].tolist()
        plan = plans.setdefault(lane, [thrusts(-x), thrusts(-y)])
        return {
            "horizontal_thruster": [plan[0][int(step)]],
            "vertical_thruster": [plan[1][int(step)]],
        }

    returns = returns_of("MoveToOrigin", 200, player)
    assert returns.min() > 1 - 0.00075
    assert returns.mean() == pytest.approx(0.9996, abs=5e-5)


def test_a_snake_that_plans_its_way_grows_to_full_length() -> None:
    moves = [(0, 1), (0, -1), (-1, 0), (1, 0)]

    def player(seen: Plain, lane: int) -> dict[str, Any]:
        """The first step of a shortest way to the food, around what is there now."""
        head, goal = cells(seen["entities"]["SnakeHead"])[0], cells(seen["entities"]["Food"])[0]
        came_by: dict[Cell, int] = dict.fromkeys([head, *cells(seen["entities"]["SnakeBody"])], -1)
        queue = deque([head])
        while goal not in came_by:
            cell = queue.popleft()
            for move, (dx, dy) in enumerate(moves):
                to = (cell[0] + dx, cell[1] + dy)
                if to not in came_by and min(to) >= 0 and max(to) < 10:
                    came_by[to] = move if cell == head else came_by[cell]
                    queue.append(to)
        return {"move": [came_by[goal]]}

    returns = returns_of("MultiSnake", 100, player, num_snakes=1, max_snake_length=5)
    assert returns == pytest.approx(1, abs=1e-6)


def drive(vehicle: list[float], target: list[float], mines: list[list[float]]) -> list[int]:
    """Moves from `vehicle` (x, y, direction) to within 5 of `target`, never within 5 of a mine: A*.

    Places are told apart by cells of 2 units and 16 directions.
    """
    x, y, direction = vehicle
    queue: list[tuple[float, int, float, float, int, tuple[Any, ...]]] = [(0, 0, x, y, 0, ())]
    known = set()
    while queue:
        _, count, x, y, turns, path = heapq.heappop(queue)
        if (x - target[0]) ** 2 + (y - target[1]) ** 2 < 4.9**2:
            moves: list[int] = []
            while path:
                path, move = path
                moves.append(move)
            return moves[::-1]
        place = (round(x / 2), round(y / 2), turns % 16)
        if place in known:
            continue
        known.add(place)
        angle = direction + turns * math.pi / 8
        ahead = (x + 3 * math.cos(angle), y + 3 * math.sin(angle), turns)
        for move, (u, v, turned) in enumerate([(x, y, turns - 1), ahead, (x, y, turns + 1)]):
            if all((u - a) ** 2 + (v - b) ** 2 > 5.1**2 for a, b in mines):
                rest = math.hypot(u - target[0], v - target[1]) / 3
                heapq.heappush(queue, (count + 1 + rest, count + 1, u, v, turned, (path, move)))
    raise AssertionError(f"there is no way from {vehicle} to {target} around {mines}")


def test_a_driver_who_plans_gets_past_the_mines() -> None:
    plans: dict[int, list[int]] = {}

    def player(seen: Plain, lane: int) -> dict[str, Any]:
        x, y, direction, step = seen["entities"]["Vehicle"][0].tolist()
        if lane not in plans:
            target = seen["entities"]["Target"][0].tolist()
            plans[lane] = drive([x, y, direction], target, seen["entities"]["Mine"].tolist())
        plan = plans[lane]
        return {"move": [plan[int(step)] if int(step) < len(plan) else 0]}

    assert returns_of("Minefield", 100, player).min() == 1
