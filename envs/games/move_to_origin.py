"""MoveToOrigin: steer a spaceship to the origin. A test of physics and of two actions at once."""

from __future__ import annotations

import math

import numpy as np

from ...ragged import RaggedArray
from ...ragged.compiled import compiled
from ..actions import Categorical, EntityActionSpace
from ..batch.entity_batch import EntityBatch
from ..errors import whole_number
from ..randomness import uniform
from ..spaces import EntitySpace
from ..vector.native import NativeVectorEnv
from ..vector.native_arrays import Doubles, Flags, Floats, Ints, Words, even_offsets, free_choice
from ..vector.native_env import native_game

#: What each choice adds to the velocity, horizontally to the right and vertically upwards.
_THRUSTS = np.array([0.01, 0.001, 0.0, -0.001, -0.01])
_HOLD = 2


class MoveToOriginVectorEnv(NativeVectorEnv):
    """A spaceship starts at rest on the unit circle and is paid for coming closer to the origin.

    Entity: Spaceship (x_pos, y_pos, x_velocity, y_velocity, step). Actions, both of the spaceship:
    `horizontal_thruster` and `vertical_thruster`, which add 0.01 or 0.001 to the velocity either way, or
    nothing; then it moves by its velocity. The reward is how much closer it came. An episode has `max_steps`
    steps and then terminates: its length is part of the game, and observed.

    The return is 1 minus the last distance, so the optimum is just below 1: with 32 steps every whole number
    of thousandths up to 5.28 can be covered along each axis, which leaves at most 0.0005 along each and a
    distance of 0.00038 on average. Ordering nothing returns 0.

    The rules are those of entity_gym's MoveToOrigin.

    Args:
        num_envs: how many lanes.
        max_steps: steps of an episode.
        render_mode: None; there are no pictures.
    """

    state_names = ("ships",)

    def __init__(self, num_envs: int = 1, *, max_steps: int = 32, render_mode: str | None = None) -> None:
        actions = EntityActionSpace(
            {
                "horizontal_thruster": Categorical(
                    ["100% right", "10% right", "hold", "10% left", "100% left"]
                ),
                "vertical_thruster": Categorical(["100% up", "10% up", "hold", "10% down", "100% down"]),
            }
        )
        features = ["x_pos", "y_pos", "x_velocity", "y_velocity", "step"]
        super().__init__(EntitySpace({"Spaceship": features}, actions), num_envs, render_mode=render_mode)
        self.episode_length = whole_number("max_steps", max_steps)
        self.ships = np.zeros((num_envs, 4))  # position, velocity
        self._offsets = even_offsets(num_envs, 1)

    def _start(self, lanes: Ints) -> None:
        _launch(lanes, self.random_state, self.ships)

    def _advance(self, actions: dict[str, RaggedArray]) -> tuple[Floats, Flags]:
        rewards = np.empty(self.num_envs, np.float32)
        across, along = actions["horizontal_thruster"], actions["vertical_thruster"]
        _fly(self.ships, across.values, across.offsets, along.values, along.offsets, rewards)
        return rewards, self.steps + 1 >= self.episode_length

    def _look(self, lanes: Ints | None) -> EntityBatch:
        lanes = self.all_lanes if lanes is None else lanes
        count = len(lanes)
        offsets = self._offsets[: count + 1]
        rows = np.empty((count, 5), np.float32)
        _observe(lanes, self.ships, self.steps, rows)
        return EntityBatch(
            {"Spaceship": RaggedArray.unchecked(rows, offsets)},
            np.empty((count, 0), np.float32),
            {
                name: free_choice(RaggedArray.unchecked(np.zeros(count, np.int64), offsets), len(_THRUSTS))
                for name in self.single_action_space
            },
        )


MoveToOrigin, make_vec = native_game(MoveToOriginVectorEnv)


@compiled
def _launch(lanes: Ints, random_state: Words, ships: Doubles) -> None:
    for lane in lanes:
        angle = 2.0 * math.pi * uniform(random_state[lane])
        ships[lane, 0] = math.cos(angle)
        ships[lane, 1] = math.sin(angle)
        ships[lane, 2:] = 0.0


@compiled
def _thrust(choices: Ints, offsets: Ints, lane: int) -> float:
    is_told = offsets[lane + 1] > offsets[lane]
    return float(_THRUSTS[choices[offsets[lane]] if is_told else _HOLD])


@compiled
def _fly(
    ships: Doubles, across: Ints, across_offsets: Ints, along: Ints, along_offsets: Ints, rewards: Floats
) -> None:
    for lane in range(len(ships)):
        ship = ships[lane]
        before = math.sqrt(ship[0] * ship[0] + ship[1] * ship[1])
        ship[2] += _thrust(across, across_offsets, lane)
        ship[3] += _thrust(along, along_offsets, lane)
        ship[0] += ship[2]
        ship[1] += ship[3]
        rewards[lane] = before - math.sqrt(ship[0] * ship[0] + ship[1] * ship[1])


@compiled
def _observe(lanes: Ints, ships: Doubles, steps: Ints, rows: Floats) -> None:
    for row, lane in enumerate(lanes):
        rows[row, :4] = ships[lane]
        rows[row, 4] = steps[lane]
