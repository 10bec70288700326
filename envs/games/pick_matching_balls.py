"""PickMatchingBalls: keep picking the same colour. A test of choosing by what was chosen before."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ...ragged import RaggedArray
from ...ragged.compiled import compiled
from ..actions import ActionMask, EntityActionSpace, SelectEntity
from ..batch.entity_batch import EntityBatch
from ..errors import whole_number
from ..randomness import below
from ..spaces import EntitySpace
from ..vector.native import NativeVectorEnv
from ..vector.native_arrays import Flags, Floats, Ints, Words, all_true, even, offsets_of
from ..vector.native_env import native_game
from ..vector.saved_state import Bounds, State

_NUM_COLORS = 6
_MIN_BALLS = 3  # of a random number of balls
_FEATURES = [*(f"color{i}" for i in range(_NUM_COLORS)), "selected"]


class PickMatchingBallsVectorEnv(NativeVectorEnv):
    """Pick balls of one colour for as long as possible, and best of the commonest one.

    Entities: Ball (color0 … color5, selected), and the Player (no features). Each ball has one of six colours
    with equal probability. Its number stands in all six features, or with `one_hot` there is a 1 in the one
    of its colour. Picked balls stay, with `selected` 1.

    Actions: the player's `Pick Ball` selects a ball that was not picked before. The episode ends when the
    picked balls have two colours, or all balls are picked. Only its last step pays: the number of picked
    balls that match, divided by the number of balls of the commonest colour. (If all balls are picked, that
    is 1.) Picking none changes nothing.

    Optimum: 1 in every episode, by picking all balls of the commonest colour and then one more, if there is
    one. More than 1 is not possible, because all matching balls have the colour of the first.

    Args:
        num_envs: how many games.
        max_balls: how many balls there are, at least 3.
        one_hot: whether colours are shown one-hot.
        randomize: whether the number of balls is random, uniform from 3 to `max_balls`.

    Raises:
        TypeError: a number that is no whole number.
        ValueError: fewer balls.
    """

    state_names: ClassVar[tuple[str, ...]] = ("_colors", "_selected", "_counts", "_num_selected", "_wanted")

    def __init__(
        self,
        num_envs: int = 1,
        *,
        max_balls: int = 32,
        one_hot: bool = False,
        randomize: bool = False,
        render_mode: str | None = None,
    ) -> None:
        self.max_balls = whole_number("max_balls", max_balls, _MIN_BALLS)
        self.one_hot = bool(one_hot)
        self.randomize = bool(randomize)
        actions = EntityActionSpace({"Pick Ball": SelectEntity()})
        space = EntitySpace({"Ball": _FEATURES, "Player": []}, actions)
        super().__init__(space, num_envs, render_mode=render_mode)
        self._colors = np.zeros((num_envs, max_balls), np.int64)
        self._selected = np.zeros((num_envs, max_balls), bool)
        self._counts = np.zeros(num_envs, np.int64)  # how many balls there are
        self._num_selected = np.zeros(num_envs, np.int64)
        self._wanted = np.zeros(num_envs, np.int64)  # the colour of the ball picked first

    def _start(self, lanes: Ints) -> None:
        fewest = _MIN_BALLS if self.randomize else self.max_balls
        _draw_balls(
            lanes, self.random_state, fewest, self._colors, self._selected, self._counts, self._num_selected
        )

    def _bounds(self) -> Bounds:
        return {
            "_colors": (0, _NUM_COLORS - 1),
            "_counts": (_MIN_BALLS, self.max_balls),
            "_num_selected": (0, self.max_balls - 1),
            "_wanted": (0, _NUM_COLORS - 1),
        }

    def _check_state(self, state: State) -> None:
        counts, num_selected = state["_counts"], state["_num_selected"]
        is_there = np.arange(self.max_balls) < counts[:, None]
        selected = (state["_selected"] & is_there).sum(1)
        self._expect(num_selected == selected, "_num_selected", "the number of '_selected'", num_selected)
        self._expect(num_selected < counts, "_num_selected", "less than in '_counts'", num_selected)

    def _advance(self, actions: dict[str, RaggedArray]) -> tuple[Floats, Flags]:
        rewards, terminated = np.zeros(self.num_envs, np.float32), np.zeros(self.num_envs, bool)
        choices = actions["Pick Ball"].one_each(-1)
        _pick(
            choices, self._colors, self._selected, self._counts, self._num_selected, self._wanted,
            rewards, terminated,
        )  # fmt: skip
        return rewards, terminated

    def _look(self, lanes: Ints | None) -> EntityBatch:
        lanes = self.all_lanes if lanes is None else lanes
        counts = self._counts[lanes]
        left = counts - self._num_selected[lanes]
        ball_offsets, left_offsets = offsets_of(counts), offsets_of(left)
        player_offsets = offsets_of(left > 0)  # with no ball left there is nothing to do
        balls = np.empty((ball_offsets.item(-1), len(_FEATURES)), np.float32)
        actees = np.empty(left_offsets.item(-1), np.int64)
        _write_balls(
            lanes, ball_offsets, left_offsets, self._colors, self._selected, self.one_hot, balls, actees
        )
        mask = ActionMask(
            RaggedArray.unchecked(counts[left > 0], player_offsets),  # the player comes after the balls
            RaggedArray.unchecked(all_true(len(actees)), left_offsets),
            RaggedArray.unchecked(actees, left_offsets),
        )
        return EntityBatch(
            {
                "Ball": RaggedArray.unchecked(balls, ball_offsets),
                "Player": even(np.empty((len(lanes), 0), np.float32)),
            },
            np.empty((len(lanes), 0), np.float32),
            {"Pick Ball": mask},
        )


PickMatchingBalls, make_vec = native_game(PickMatchingBallsVectorEnv)


@compiled
def _draw_balls(
    lanes: Ints,
    random_state: Words,
    fewest: int,
    colors: Ints,
    selected: Flags,
    counts: Ints,
    num_selected: Ints,
) -> None:
    """New balls in each of `lanes`, `fewest` or more."""
    max_balls = colors.shape[1]
    for lane in lanes:
        counts[lane] = fewest + below(random_state[lane], max_balls - fewest + 1)
        num_selected[lane] = 0
        for ball in range(counts[lane]):
            colors[lane, ball] = below(random_state[lane], _NUM_COLORS)
            selected[lane, ball] = False


@compiled
def _commonest(colors: Ints) -> int:
    """Count the balls of the most frequent of `colors` (n,)."""
    counts = np.zeros(_NUM_COLORS, np.int64)
    for color in colors:
        counts[color] += 1
    return counts.max()


@compiled
def _pick(
    choices: Ints,
    colors: Ints,
    selected: Flags,
    counts: Ints,
    num_selected: Ints,
    wanted: Ints,
    rewards: Floats,
    terminated: Flags,
) -> None:
    """Pick the chosen ball of each lane; pay where that ends the episode."""
    for lane in range(len(choices)):
        choice = choices[lane]
        if choice < 0:
            continue
        if num_selected[lane] == 0:
            wanted[lane] = colors[lane, choice]
        selected[lane, choice] = True
        num_selected[lane] += 1
        if num_selected[lane] == counts[lane]:
            rewards[lane], terminated[lane] = 1.0, True
        elif colors[lane, choice] != wanted[lane]:
            most = _commonest(colors[lane, : counts[lane]])
            rewards[lane], terminated[lane] = (num_selected[lane] - 1) / most, True


@compiled
def _write_balls(
    lanes: Ints,
    ball_offsets: Ints,
    left_offsets: Ints,
    colors: Ints,
    selected: Flags,
    one_hot: bool,
    balls: Floats,
    actees: Ints,
) -> None:
    """The features (N, 7) of the balls of `lanes`, and the indices of those that were not picked."""
    for step in range(len(lanes)):
        lane, actee = lanes[step], left_offsets[step]
        for row in range(ball_offsets[step], ball_offsets[step + 1]):
            ball = row - ball_offsets[step]
            color = colors[lane, ball]
            balls[row] = np.float32(0.0 if one_hot else color)
            if one_hot:
                balls[row, color] = 1.0
            balls[row, _NUM_COLORS] = selected[lane, ball]
            if not selected[lane, ball]:
                actees[actee] = ball
                actee += 1
