"""MoveToOrigin and Minefield follow the reference's rules, and their stated optima are reached."""

from __future__ import annotations

import heapq
import math
from typing import Any

import entitize as ez
import numpy as np
import pytest
from entitize.envs import sample_actions
from entitize.ragged import RaggedArray
from hypothesis import given
from hypothesis import strategies as st

from peers import entity_gym_module

THRUSTS = (10, 1, 0, -1, -10)  # thousandths


def told(actors: list[Any], labels: list[str], choice: int) -> Any:
    action = entity_gym_module("env").CategoricalAction
    return action(actors=actors, indices=np.array([choice]), index_to_label=labels)


def rows_of(batch: ez.EntityBatch, lane: int) -> dict[str, np.ndarray]:
    return {name: rows[lane] for name, rows in batch.entities.items()}


def expected_rows(observation: Any) -> dict[str, np.ndarray]:
    return {name: np.array(rows, np.float32) for name, rows in observation.features.items()}


@given(seed=st.integers(0, 2**32))
def test_the_spaceship_flies_as_the_references_does(seed: int) -> None:
    venv = ez.make_vec("MoveToOrigin", 2)
    batch, _ = venv.reset(seed=seed)
    ship = entity_gym_module("examples.move_to_origin").MoveToOrigin()
    ship.reset()
    ship.x_pos, ship.y_pos, ship.x_velocity, ship.y_velocity = venv.ships[1].tolist()
    assert math.hypot(ship.x_pos, ship.y_pos) == pytest.approx(1.0)
    rng = np.random.default_rng(seed)
    for _ in range(32):
        actions = sample_actions(venv.single_action_space, batch, rng)
        orders = {
            name: told([0], list(space.choices), int(actions[name][1][0]))
            for name, space in venv.single_action_space.items()
        }
        observation = ship.act(orders)
        batch, rewards, terminated, truncated, info = venv.step(actions)
        seen = info.get("final_obs", batch)
        np.testing.assert_allclose(rows_of(seen, 1)["Spaceship"], observation.features["Spaceship"], 1e-6)
        assert rewards[1] == pytest.approx(observation.reward, abs=1e-7)
        assert terminated.tolist() == [observation.done] * 2
        assert not truncated.any()
    assert observation.done


def test_a_perfect_pilot_ends_within_half_a_thousandth_of_the_origin_along_each_axis() -> None:
    venv = ez.make_vec("MoveToOrigin", 64)
    venv.reset(seed=1)
    left = np.rint(-1000 * venv.ships[:, :2]).astype(int)  # thousandths that are still to cover
    returns = np.zeros(64)
    for remaining in range(32, 0, -1):  # a thrust now moves the ship by it in each of the remaining steps
        costs = np.abs(left[..., None] - remaining * np.array(THRUSTS))
        choices = np.where(costs.min(-1) < np.abs(left), costs.argmin(-1), 2)
        left -= remaining * np.array(THRUSTS)[choices]
        orders = [RaggedArray.from_arrays(list(choices[:, axis : axis + 1])) for axis in (0, 1)]
        names = ("horizontal_thruster", "vertical_thruster")
        _, rewards, *_ = venv.step(dict(zip(names, orders, strict=True)))
        returns += rewards
    assert returns.min() >= 1 - 0.0005 * math.sqrt(2) - 1e-6
    assert returns.mean() == pytest.approx(1 - 0.00038, abs=5e-5)


@given(
    seed=st.integers(0, 2**32),
    translate=st.booleans(),
    width=st.sampled_from([40.0, 80.0, 200.0]),
    max_mines=st.integers(0, 12),
)
def test_the_vehicle_drives_as_the_references_does(
    seed: int, translate: bool, width: float, max_mines: int
) -> None:
    options = {"translate": translate, "width": width, "max_mines": max_mines, "max_steps": 40}
    venv = ez.make_vec("Minefield", 3, **options)
    batch, _ = venv.reset(seed=seed)
    module = entity_gym_module("examples.minefield")
    field = module.Minefield(**{**options, "max_steps": 10**6})
    field.reset()
    field.mines = [module.Mine(*mine) for mine in venv.mines[2, : venv.mine_counts[2]].tolist()]
    field.target = module.Target(*venv.targets[2].tolist())
    field.vehicle = module.Vehicle(*venv.vehicles[2].tolist(), step=0)
    seen = expected_rows(field.observe(field.obs_space()))
    rng = np.random.default_rng(seed)
    for step in range(40):
        for name, rows in rows_of(batch, 2).items():
            np.testing.assert_allclose(rows, seen[name].reshape(rows.shape), atol=1e-4)
        # Forwards more often than not, or nothing is ever reached.
        moves = np.where(rng.random(3) < 0.7, 1, rng.integers(3, size=3))
        orders = {"move": RaggedArray.from_lengths(moves, [1, 1, 1])}
        labels = ["turn left", "move forward", "turn right"]
        observation = field.act({"move": told(["Vehicle"], labels, int(moves[2]))})
        batch, rewards, terminated, truncated, info = venv.step(orders)
        assert (rewards[2], terminated[2]) == (observation.reward, observation.done)
        assert truncated[2] == (step == 39 and not observation.done)
        seen = expected_rows(observation)
        if observation.done or truncated[2]:
            last = rows_of(info["final_obs"], -1)
            for name, rows in last.items():
                np.testing.assert_allclose(rows, seen[name].reshape(rows.shape), atol=1e-4)
            return


@given(seed=st.integers(0, 2**32))
def test_mines_keep_their_distance(seed: int) -> None:
    venv = ez.make_vec("Minefield", 4, width=120.0)
    batch, _ = venv.reset(seed=seed)
    for lane in range(4):
        rows = rows_of(batch, lane)
        places = np.concatenate([rows["Mine"], rows["Vehicle"][:, :2], rows["Target"]])
        assert np.abs(places).max() <= 60
        assert len(rows["Mine"]) <= 10
        gaps = np.hypot(*(places[: len(rows["Mine"]), None] - places[None]).transpose(2, 0, 1))
        assert (gaps[gaps > 0] >= 15 - 1e-4).all()
        assert 0 <= rows["Vehicle"][0, 2] < 2 * math.pi + 1e-6
        assert rows["Vehicle"][0, 3] == 0


def way_through(vehicle: np.ndarray, target: np.ndarray, mines: np.ndarray) -> list[int]:
    """The moves of a short way to the target, by weighted A* over places and headings."""

    def is_free(x: float, y: float) -> bool:
        return bool(((mines - (x, y)) ** 2).sum(1).min(initial=1e9) >= 25)

    def guess(x: float, y: float) -> float:
        return 1.5 * math.hypot(target[0] - x, target[1] - y) / 3

    start = (float(vehicle[0]), float(vehicle[1]), 0)
    queue: list[Any] = [(guess(*start[:2]), 0, start, None)]
    seen = set()
    while queue:
        _, cost, (x, y, turns), path = heapq.heappop(queue)
        if cost and math.hypot(target[0] - x, target[1] - y) < 5:
            moves = []
            while path is not None:
                path, move = path
                moves.append(move)
            return moves[::-1]
        key = (round(x), round(y), turns % 16)
        if key in seen:
            continue
        seen.add(key)
        angle = float(vehicle[2]) + turns * math.pi / 8
        ahead = (x + 3 * math.cos(angle), y + 3 * math.sin(angle), turns)
        for move, place in ((0, (x, y, turns - 1)), (1, ahead), (2, (x, y, turns + 1))):
            if move != 1 or is_free(*ahead[:2]):
                heapq.heappush(queue, (cost + 1 + guess(*place[:2]), cost + 1, place, (path, move)))
    raise AssertionError("there is no way")


def test_there_is_a_way_through_every_minefield() -> None:
    count = 40
    venv = ez.make_vec("Minefield", count)
    venv.reset(seed=3)
    plans = [
        way_through(venv.vehicles[i], venv.targets[i], venv.mines[i, : venv.mine_counts[i]])
        for i in range(count)
    ]
    assert max(map(len, plans)) < 200
    returns, is_over = np.zeros(count), np.zeros(count, bool)
    for step in range(200):
        moves = np.array([plan[step] if step < len(plan) else 0 for plan in plans])
        _, rewards, terminated, truncated, _ = venv.step(
            {"move": RaggedArray.from_lengths(moves, np.ones(count, np.int64))}
        )
        returns += np.where(is_over, 0, rewards)
        is_over |= terminated | truncated
    assert returns.mean() == 1.0


def test_a_picture_of_a_minefield_shows_each_thing_at_its_place() -> None:
    venv = ez.make_vec("Minefield", 1, render_mode="rgb_array", max_mines=1)
    venv.reset(seed=0)
    venv.mines[0], venv.mine_counts[0] = (50.0, 50.0), 1
    venv.targets[0], venv.vehicles[0] = (-50.0, 50.0), (0.0, -50.0, 0.0)
    frames = venv.render()
    assert frames is not None
    picture = frames[0]
    assert (picture.shape, picture.dtype) == ((256, 256, 3), np.uint8)
    mine, target, vehicle, ground = picture[192, 192], picture[192, 64], picture[64, 128], picture[64, 192]
    assert len({tuple(colour) for colour in (mine, target, vehicle, ground)}) == 4
    assert tuple(picture[64, 128 + 6]) == tuple(vehicle)  # its nose
    assert tuple(picture[64, 128 - 6]) == tuple(ground)
    left = venv.single_action_space["move"].choices.index("turn left")
    for _ in range(4):  # a quarter of a turn: upwards
        venv.step({"move": RaggedArray.from_arrays([[left]], dtype=np.int64)})
    picture = venv.render()[0]
    assert tuple(picture[64 - 6, 128]) == tuple(vehicle)
    assert tuple(picture[64 + 6, 128]) == tuple(ground)
