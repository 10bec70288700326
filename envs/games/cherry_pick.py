"""CherryPick: take the best half of the cherries. A test of choosing among many entities."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from ...ragged import RaggedArray
from ...ragged.compiled import compiled
from ..actions import ActionMask, EntityActionSpace, SelectEntity
from ..batch.entity_batch import EntityBatch
from ..errors import whole_number
from ..randomness import uniform
from ..spaces import EntitySpace
from ..vector.native import NativeVectorEnv
from ..vector.native_arrays import (
    Doubles,
    Flags,
    Floats,
    Ints,
    Words,
    all_true,
    even,
    featureless,
    first_items,
)
from ..vector.native_env import native_game
from ..vector.saved_state import Bounds, State


class CherryPickVectorEnv(NativeVectorEnv):
    """Pick a cherry at each step, and leave the worse half.

    Entities: Cherry (quality), and the Player (no features). Qualities are drawn from the standard normal
    distribution and then moved, all by the same amount, so that those of the better half add up to 1.

    Actions: the player's `Pick Cherry` selects a cherry, which is gone then and pays its quality. The episode
    ends after `num_cherries` // 2 steps. Picking none pays nothing, and the step counts.

    Optimum: 1 in every episode, by picking the best half in any order: with at most one cherry a step, no
    other selection has a greater sum. Chance gets num_cherries // 2 times the mean quality, about -11.4 for
    32 cherries.

    Args:
        num_envs: how many games.
        num_cherries: how many cherries there are at the start, at least 2.

    Raises:
        TypeError: a number that is no whole number.
        ValueError: fewer cherries.
    """

    state_names: ClassVar[tuple[str, ...]] = ("_qualities", "_counts")

    def __init__(self, num_envs: int = 1, *, num_cherries: int = 32, render_mode: str | None = None) -> None:
        self.num_cherries = whole_number("num_cherries", num_cherries, 2)
        actions = EntityActionSpace({"Pick Cherry": SelectEntity()})
        space = EntitySpace({"Cherry": ["quality"], "Player": []}, actions)
        super().__init__(space, num_envs, render_mode=render_mode)
        self._qualities = np.zeros((num_envs, num_cherries))  # of those that are left, then anything
        self._counts = np.zeros(num_envs, np.int64)  # how many are left

    def _start(self, lanes: Ints) -> None:
        _draw_cherries(lanes, self.random_state, self._qualities, self._counts)

    def _bounds(self) -> Bounds:
        return {"_counts": (1, self.num_cherries)}

    def _check_state(self, state: State) -> None:
        counts = state["_counts"]
        at_steps_pace = counts >= self.num_cherries - state["steps"]
        self._expect(at_steps_pace, "_counts", "at most one cherry taken in each of 'steps'", counts)

    def _advance(self, actions: dict[str, RaggedArray]) -> tuple[Floats, Flags]:
        rewards = np.zeros(self.num_envs, np.float32)
        _pick(actions["Pick Cherry"].one_each(-1), self._qualities, self._counts, rewards)
        return rewards, self.steps + 1 >= self.num_cherries // 2

    def _look(self, lanes: Ints | None) -> EntityBatch:
        lanes = self.all_lanes if lanes is None else lanes
        cherries = first_items(self._qualities[:, :, None], self._counts, lanes)
        players = even(self._counts[lanes])  # the player's index is the number of cherries, which come first
        actees = cherries.with_values(cherries.item_indices())
        allowed = RaggedArray.unchecked(all_true(cherries.num_items), cherries.offsets)
        return EntityBatch(
            {"Cherry": cherries, "Player": featureless(players.offsets)},
            np.empty((len(lanes), 0), np.float32),
            {"Pick Cherry": ActionMask(players, allowed, actees)},
        )


CherryPick, make_vec = native_game(CherryPickVectorEnv)


@compiled
def _draw_normal(state: Words) -> float:
    """A number from the standard normal distribution, by the method of Box and Muller (1958)."""
    radius = math.sqrt(-2.0 * math.log(1.0 - uniform(state)))
    return radius * math.cos(2.0 * math.pi * uniform(state))


@compiled
def _draw_cherries(lanes: Ints, random_state: Words, qualities: Doubles, counts: Ints) -> None:
    """New cherries in each of `lanes`."""
    num_cherries = qualities.shape[1]
    half = num_cherries // 2
    for lane in lanes:
        row = qualities[lane]
        for i in range(num_cherries):
            row[i] = _draw_normal(random_state[lane])
        best = np.sort(row)[num_cherries - half :].sum()
        row += (1.0 - best) / half
        counts[lane] = num_cherries


@compiled
def _pick(choices: Ints, qualities: Doubles, counts: Ints, rewards: Floats) -> None:
    """Take the chosen cherry of each lane, and close the gap."""
    for lane in range(len(choices)):
        choice = choices[lane]
        if choice >= 0:
            rewards[lane] = qualities[lane, choice]
            counts[lane] -= 1
            for i in range(choice, counts[lane]):
                qualities[lane, i] = qualities[lane, i + 1]
