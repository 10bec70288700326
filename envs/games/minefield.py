"""Minefield: drive a vehicle to a target, past mines. A test of geometry."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...ragged import RaggedArray
from ...ragged.compiled import compiled
from ..actions import Categorical, EntityActionSpace
from ..batch.entity_batch import EntityBatch
from ..errors import positive_number, whole_number
from ..randomness import uniform
from ..spaces import EntitySpace
from ..vector.native import NativeVectorEnv
from ..vector.native_arrays import (
    Doubles,
    Flags,
    Floats,
    Ints,
    Pixels,
    Words,
    even_offsets,
    free_choice,
    lane_offsets,
)
from ..vector.native_env import native_game
from ..vector.saved_state import Bounds

_LEFT, _FORWARD, _RIGHT = range(3)
_TURN = math.pi / 8
_STRIDE = 3.0
#: Closer than this to the target the vehicle has arrived, closer to a mine it is lost.
_REACH = 5.0
#: No mine lies closer than this to another, to the vehicle's start or to the target.
_SPACING = 15.0
_PICTURES = {"render_modes": ["rgb_array"], "render_fps": 15}
_PICTURE = 256  # pixels
_GROUND, _MINE, _VEHICLE, _TARGET = (222, 216, 200), (40, 40, 40), (40, 90, 200), (40, 160, 70)


class MinefieldVectorEnv(NativeVectorEnv):
    """A vehicle has to reach a target, which pays 1; a mine on the way ends the episode and pays nothing.

    Entities: Vehicle (x_pos, y_pos, direction, step), Mine (x_pos, y_pos), Target (x_pos, y_pos), all on a
    square of `width` units around the origin; the vehicle may leave it. Action: the vehicle's `move`: turn
    left or right by π/8, or move forward by 3 units. The episode terminates when the vehicle is within 5
    units of the target, or else of a mine, and is truncated after `max_steps` steps.

    The optimum is 1 wherever there is a way: mines are at least 15 units apart, so it takes a closed ring of
    them to bar it, and enough steps, width / 2 of them at most for the longest way and a few for turns. With
    the default options it is 1 in practice.

    The rules are those of entity_gym's Minefield, but for its first observation, which shows the last step of
    the episode before, and for the time limit, which counts as truncation here.

    Args:
        num_envs: how many lanes.
        max_mines: how many mines are tried to be put down; those too close to something are left out.
        max_steps: steps until truncation.
        translate: mines and target are relative to the vehicle (but not rotated) instead of from the origin.
        width: the size of the field in units.
        render_mode: "rgb_array" for pictures.

    Raises:
        TypeError: an option that is no number, or a count that is no whole one.
        ValueError: a negative number of mines, or a width that is not positive.
    """

    metadata = {**NativeVectorEnv.metadata, **_PICTURES}  # noqa: RUF012 - Gymnasium declares no ClassVar
    state_names = ("vehicles", "targets", "mines", "mine_counts")

    def __init__(
        self,
        num_envs: int = 1,
        *,
        max_mines: int = 10,
        max_steps: int = 200,
        translate: bool = False,
        width: float = 200.0,
        render_mode: str | None = None,
    ) -> None:
        whole_number("max_mines", max_mines, 0)
        if not positive_number("width", width) < math.inf:
            raise ValueError(f"width: expected a positive number, got {width}")
        actions = EntityActionSpace({"move": Categorical(["turn left", "move forward", "turn right"])})
        entities = {
            "Vehicle": ["x_pos", "y_pos", "direction", "step"],
            "Mine": ["x_pos", "y_pos"],
            "Target": ["x_pos", "y_pos"],
        }
        space = EntitySpace(entities, actions)
        super().__init__(space, num_envs, max_steps=max_steps, render_mode=render_mode)
        self.width = float(width)
        self.translate = bool(translate)
        self.vehicles = np.zeros((num_envs, 3))  # position, direction
        self.targets = np.zeros((num_envs, 2))
        self.mines = np.zeros((num_envs, max_mines, 2))
        self.mine_counts = np.zeros(num_envs, np.int64)
        self._offsets = even_offsets(num_envs, 1)

    def _start(self, lanes: Ints) -> None:
        _lay_out(
            lanes, self.random_state, self.width, self.vehicles, self.targets, self.mines, self.mine_counts
        )

    def _bounds(self) -> Bounds:
        return {"mine_counts": (0, self.mines.shape[1])}

    def _advance(self, actions: dict[str, RaggedArray]) -> tuple[Floats, Flags]:
        rewards = np.empty(self.num_envs, np.float32)
        terminated = np.empty(self.num_envs, bool)
        move = actions["move"]
        _drive(
            move.values,
            move.offsets,
            self.vehicles,
            self.targets,
            self.mines,
            self.mine_counts,
            rewards,
            terminated,
        )
        return rewards, terminated

    def _look(self, lanes: Ints | None) -> EntityBatch:
        lanes = self.all_lanes if lanes is None else lanes
        count = len(lanes)
        ones = self._offsets[: count + 1]
        vehicle_rows, target_rows = np.empty((count, 4), np.float32), np.empty((count, 2), np.float32)
        mine_offsets = lane_offsets(self.mine_counts, lanes)
        mine_rows = np.empty((mine_offsets[-1], 2), np.float32)
        _observe(
            lanes,
            self.steps,
            self.vehicles,
            self.targets,
            self.mines,
            self.translate,
            mine_offsets,
            vehicle_rows,
            mine_rows,
            target_rows,
        )
        return EntityBatch(
            {
                "Vehicle": RaggedArray.unchecked(vehicle_rows, ones),
                "Mine": RaggedArray.unchecked(mine_rows, mine_offsets),
                "Target": RaggedArray.unchecked(target_rows, ones),
            },
            np.empty((count, 0), np.float32),
            {"move": free_choice(RaggedArray.unchecked(np.zeros(count, np.int64), ones), 3)},
        )

    def _draw(self, lane: int) -> Pixels:
        """The field (256, 256, 3), y downwards, so that left and right are the vehicle's; its nose says where
        it heads.
        """
        picture = np.full((_PICTURE, _PICTURE, 3), _GROUND, np.uint8)
        x, y, direction = self.vehicles[lane]
        nose = (x + _REACH * math.cos(direction), y + _REACH * math.sin(direction))
        for mine in self.mines[lane, : self.mine_counts[lane]]:
            self._dot(picture, mine, _REACH, _MINE)
        self._dot(picture, self.targets[lane], _REACH, _TARGET)
        self._dot(picture, (x, y), _REACH / 2, _VEHICLE)
        self._dot(picture, nose, _REACH / 4, _VEHICLE)
        return picture

    def _dot(self, picture: Pixels, place: Any, radius: float, colour: Any) -> None:
        scale = _PICTURE / self.width
        rows, columns = np.ogrid[:_PICTURE, :_PICTURE]
        column, row = (place[0] + self.width / 2) * scale, (place[1] + self.width / 2) * scale
        distance = (rows + 0.5 - row) ** 2 + (columns + 0.5 - column) ** 2
        picture[distance <= max(radius * scale, 1.0) ** 2] = colour


Minefield, make_vec = native_game(MinefieldVectorEnv)


@compiled
def _squared_distance(a: Doubles, b: Doubles) -> float:
    return float((a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2)


@compiled
def _put(place: Doubles, width: float, random_state: Words) -> None:
    """Put something on a random place of the field."""
    place[0] = (uniform(random_state) - 0.5) * width
    place[1] = (uniform(random_state) - 0.5) * width


@compiled
def _lay_out(
    lanes: Ints,
    random_state: Words,
    width: float,
    vehicles: Doubles,
    targets: Doubles,
    mines: Doubles,
    mine_counts: Ints,
) -> None:
    for lane in lanes:
        state, vehicle, target = random_state[lane], vehicles[lane], targets[lane]
        _put(vehicle, width, state)
        _put(target, width, state)
        count = 0
        for _ in range(mines.shape[1]):
            mine = mines[lane, count]
            _put(mine, width, state)
            is_free = _squared_distance(mine, vehicle) >= _SPACING**2
            is_free &= _squared_distance(mine, target) >= _SPACING**2
            for other in range(count):
                is_free &= _squared_distance(mine, mines[lane, other]) >= _SPACING**2
            count += is_free
        mines[lane, count:] = 0.0
        mine_counts[lane] = count
        vehicle[2] = 2.0 * math.pi * uniform(state)


@compiled
def _drive(
    moves: Ints,
    move_offsets: Ints,
    vehicles: Doubles,
    targets: Doubles,
    mines: Doubles,
    mine_counts: Ints,
    rewards: Floats,
    terminated: Flags,
) -> None:
    for lane in range(len(vehicles)):
        vehicle = vehicles[lane]
        if move_offsets[lane + 1] > move_offsets[lane]:
            move = moves[move_offsets[lane]]
            if move == _FORWARD:
                vehicle[0] += _STRIDE * math.cos(vehicle[2])
                vehicle[1] += _STRIDE * math.sin(vehicle[2])
            else:
                vehicle[2] = (vehicle[2] + (_TURN if move == _RIGHT else -_TURN)) % (2.0 * math.pi)
        has_arrived = _squared_distance(vehicle, targets[lane]) < _REACH**2
        is_lost = False
        for mine in range(mine_counts[lane]):
            is_lost |= _squared_distance(vehicle, mines[lane, mine]) < _REACH**2
        rewards[lane] = has_arrived
        terminated[lane] = has_arrived or is_lost


@compiled
def _observe(
    lanes: Ints,
    steps: Ints,
    vehicles: Doubles,
    targets: Doubles,
    mines: Doubles,
    translate: bool,
    mine_offsets: Ints,
    vehicle_rows: Floats,
    mine_rows: Floats,
    target_rows: Floats,
) -> None:
    for row, lane in enumerate(lanes):
        x = vehicles[lane, 0] if translate else 0.0
        y = vehicles[lane, 1] if translate else 0.0
        vehicle_rows[row, :3] = vehicles[lane]
        vehicle_rows[row, 3] = steps[lane]
        target_rows[row, 0] = targets[lane, 0] - x
        target_rows[row, 1] = targets[lane, 1] - y
        first = mine_offsets[row]
        for mine in range(mine_offsets[row + 1] - first):
            mine_rows[first + mine, 0] = mines[lane, mine, 0] - x
            mine_rows[first + mine, 1] = mines[lane, mine, 1] - y
