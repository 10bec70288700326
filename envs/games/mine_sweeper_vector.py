"""`MineSweeperVectorEnv`: many games of `MineSweeper` in compiled code."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from ...ragged import RaggedArray
from ...ragged.compiled import compiled
from ..actions import ActionMask
from ..batch.entity_batch import EntityBatch
from ..errors import reset_option
from ..randomness import draw_first
from ..registration import share_lanes
from ..vector.native import NativeVectorEnv
from ..vector.native_arrays import Flags, Floats, Ints, Pixels, Words, all_true
from ..vector.saved_state import Bounds
from .mine_sweeper import MineSweeper

#: The moves of `MineSweeper`: how they change (x, y); the one after them defuses.
_STEPS = np.array([(1, 0), (-1, 0), (0, 1), (0, -1)])
_DEFUSE = len(_STEPS)
_NUM_MOVES = _DEFUSE + 1


class MineSweeperVectorEnv(NativeVectorEnv):
    """Many games of `MineSweeper`, which says the rules: everything is the same but the random numbers.

    Args:
        num_envs: how many lanes.
        max_steps: steps until truncation.
        render_mode: "rgb_array" for pictures.
        options: the other options of `MineSweeper`. A `state` holds for all lanes, and
            `reset(options={"state": …})` for their next episode.

    Raises:
        TypeError: a number that is no whole number.
        ValueError: a size that makes no game, or a state that is not one of this map.
    """

    metadata = {**NativeVectorEnv.metadata, **MineSweeper.metadata}  # noqa: RUF012 - as Gymnasium's
    state_names = ("mines", "mine_counts", "robots", "robot_counts", "has_cannon", "cooldowns")

    def __init__(
        self, num_envs: int = 1, *, max_steps: int = 100, render_mode: str | None = None, **options: Any
    ) -> None:
        self.game = MineSweeper(max_steps=max_steps, render_mode=render_mode, **options)  # never played
        super().__init__(self.game.observation_space, num_envs, max_steps=max_steps, render_mode=render_mode)
        self.mines = np.zeros((num_envs, self.game.nmines, 2), np.int64)
        self.mine_counts = np.zeros(num_envs, np.int64)
        self.robots = np.zeros((num_envs, self.game.nrobots, 2), np.int64)
        self.robot_counts = np.zeros(num_envs, np.int64)
        self.has_cannon = np.zeros(num_envs, bool)
        self.cooldowns = np.zeros(num_envs, np.int64)
        self._next_state = self.game.state
        self._make_room()

    def _take_options(self, options: dict[str, Any]) -> None:
        given = reset_option(type(self).__name__, options, "state")
        self._next_state = self.game.state if given is None else self.game.checked_state(given)
        self._make_room()

    def _make_room(self) -> None:
        """Make the lists long enough for the state that comes next."""
        if self._next_state is not None:
            for name in ("mines", "robots"):
                cells = getattr(self, name)
                missing = max(0, len(self._next_state[name]) - cells.shape[1])
                setattr(self, name, np.pad(cells, ((0, 0), (0, missing), (0, 0))))

    def _start(self, lanes: Ints) -> None:
        game = self.game
        state, self._next_state = self._next_state, game.state
        if state is None:
            self.mine_counts[lanes], self.robot_counts[lanes] = game.nmines, game.nrobots
            _place(
                lanes,
                self.random_state,
                game.width,
                game.height,
                game.nmines,
                game.nrobots,
                self.mines,
                self.robots,
            )
            self.has_cannon[lanes] = game.orbital_cannon
            self.cooldowns[lanes] = game.cooldown_period
            return
        for name, counts in (("mines", self.mine_counts), ("robots", self.robot_counts)):
            counts[lanes] = len(state[name])
            getattr(self, name)[lanes, : len(state[name])] = state[name]
        self.has_cannon[lanes] = bool(state.get("orbital_cannon", game.orbital_cannon))
        self.cooldowns[lanes] = int(state.get("orbital_cannon_cooldown", game.cooldown_period))

    def _bounds(self) -> Bounds:
        corner = (self.game.width - 1, self.game.height - 1)
        return {
            "mines": (0, corner),
            "mine_counts": (1, self.mines.shape[1]),
            "robots": (0, corner),
            "robot_counts": (1, self.robots.shape[1]),
            "cooldowns": (0, math.inf),
        }

    def _advance(self, actions: dict[str, RaggedArray]) -> tuple[Floats, Flags]:
        rewards, terminated = np.empty(self.num_envs, np.float32), np.empty(self.num_envs, bool)
        moves, shots = actions["Move"], actions["Fire Orbital Cannon"]
        _sweep(
            moves.values,
            moves.offsets,
            shots.values,
            shots.offsets,
            self.game.cooldown_period,
            self.mines,
            self.mine_counts,
            self.robots,
            self.robot_counts,
            self.cooldowns,
            rewards,
            terminated,
        )
        return rewards, terminated

    def _look(self, lanes: Ints | None) -> EntityBatch:
        lanes = self.all_lanes if lanes is None else lanes
        offsets = np.empty((5, len(lanes) + 1), np.int64)
        _count(lanes, self.mine_counts, self.robot_counts, self.has_cannon, self.cooldowns, offsets)
        num_mines, num_robots, num_cannons, num_shots, num_actees = offsets[:, -1].tolist()
        mines, robots = np.empty((num_mines, 2), np.float32), np.empty((num_robots, 2), np.float32)
        cannons = np.empty((num_cannons, 1), np.float32)
        movers, move_mask = np.empty(num_robots, np.int64), np.empty((num_robots, _NUM_MOVES), bool)
        shooters, actees = np.empty(num_shots, np.int64), np.empty(num_actees, np.int64)
        _observe(
            lanes,
            self.game.width,
            self.game.height,
            self.mines,
            self.robots,
            self.cooldowns,
            offsets,
            mines,
            robots,
            cannons,
            movers,
            move_mask,
            shooters,
            actees,
        )
        ragged = RaggedArray.unchecked
        return EntityBatch(
            {
                "Mine": ragged(mines, offsets[0]),
                "Robot": ragged(robots, offsets[1]),
                "Orbital Cannon": ragged(cannons, offsets[2]),
            },
            np.empty((len(lanes), 0), np.float32),
            {
                "Move": ActionMask(ragged(movers, offsets[1]), ragged(move_mask, offsets[1])),
                "Fire Orbital Cannon": ActionMask(
                    ragged(shooters, offsets[3]),
                    ragged(all_true(num_actees), offsets[4]),
                    ragged(actees, offsets[4]),
                ),
            },
        )

    def _draw(self, lane: int) -> Pixels:
        """Draw the map of a lane (width * 16, height * 16 + 16, 3), like `MineSweeper.render`."""
        mines = self.mines[lane, : self.mine_counts[lane]].tolist()
        robots = self.robots[lane, : self.robot_counts[lane]].tolist()
        return self.game.draw(mines, robots, int(self.cooldowns[lane]) if self.has_cannon[lane] else None)


make_vec = partial(share_lanes, MineSweeperVectorEnv)


@compiled
def _place(
    lanes: Ints,
    random_state: Words,
    width: int,
    height: int,
    num_mines: int,
    num_robots: int,
    mines: Ints,
    robots: Ints,
) -> None:
    """Put mines and robots on random cells of their own."""
    for lane in lanes:
        cells = np.arange(width * height)
        draw_first(random_state[lane], cells, num_mines + num_robots)
        for i in range(num_mines + num_robots):
            thing = mines[lane, i] if i < num_mines else robots[lane, i - num_mines]
            thing[0] = cells[i] % width
            thing[1] = cells[i] // width


@compiled
def _sweep(
    moves: Ints,
    move_offsets: Ints,
    shots: Ints,
    shot_offsets: Ints,
    cooldown_period: int,
    mines: Ints,
    mine_counts: Ints,
    robots: Ints,
    robot_counts: Ints,
    cooldowns: Ints,
    rewards: Floats,
    terminated: Flags,
) -> None:
    is_live = np.empty(mines.shape[1], np.bool_)  # a mine
    is_left = np.empty(robots.shape[1], np.bool_)  # a robot
    for lane in range(len(mines)):
        num_mines, num_robots = mine_counts[lane], robot_counts[lane]
        for i in range(num_mines):
            is_live[i] = True
        for i in range(num_robots):
            is_left[i] = True
        has_fired = shot_offsets[lane + 1] > shot_offsets[lane]
        if has_fired:
            target = shots[shot_offsets[lane]]
            if target < num_mines:
                is_live[target] = False
            else:
                is_left[target - num_mines] = False
        if move_offsets[lane + 1] > move_offsets[lane]:
            for i in range(num_robots):
                if is_left[i]:
                    _carry_out(moves[move_offsets[lane] + i], lane, i, robots, mines, num_mines, is_live)
        _blow_up(lane, mines, num_mines, robots, num_robots, is_live, is_left)
        mine_counts[lane] = _keep(lane, mines, num_mines, is_live)
        robot_counts[lane] = _keep(lane, robots, num_robots, is_left)
        cooldowns[lane] = cooldown_period if has_fired else max(0, cooldowns[lane] - 1)
        rewards[lane] = mine_counts[lane] == 0
        terminated[lane] = mine_counts[lane] == 0 or robot_counts[lane] == 0


# The parts of a step take whole arrays and an index: making views of a lane would cost more than the work.


@compiled
def _carry_out(
    move: int, lane: int, robot: int, robots: Ints, mines: Ints, num_mines: int, is_live: Flags
) -> None:
    """Move a robot, or let it defuse the mines next to it."""
    if move < _DEFUSE:
        robots[lane, robot, 0] += _STEPS[move, 0]
        robots[lane, robot, 1] += _STEPS[move, 1]
        return
    for i in range(num_mines):
        across = abs(mines[lane, i, 0] - robots[lane, robot, 0])
        if across + abs(mines[lane, i, 1] - robots[lane, robot, 1]) == 1:
            is_live[i] = False


@compiled
def _blow_up(
    lane: int, mines: Ints, num_mines: int, robots: Ints, num_robots: int, is_live: Flags, is_left: Flags
) -> None:
    """Take the robots that stand on live mines away, and these mines with them."""
    for i in range(num_mines):
        if not is_live[i]:
            continue
        x, y = mines[lane, i, 0], mines[lane, i, 1]
        for j in range(num_robots):
            if is_left[j] and robots[lane, j, 0] == x and robots[lane, j, 1] == y:
                is_left[j] = False
                is_live[i] = False


@compiled
def _keep(lane: int, cells: Ints, count: int, stays: Flags) -> int:
    """Move those of the first `count` cells that stay to the front, in order; returns how many these are."""
    kept = 0
    for i in range(count):
        if stays[i]:
            cells[lane, kept, 0] = cells[lane, i, 0]
            cells[lane, kept, 1] = cells[lane, i, 1]
            kept += 1
    return kept


@compiled
def _count(
    lanes: Ints, mine_counts: Ints, robot_counts: Ints, has_cannon: Flags, cooldowns: Ints, offsets: Ints
) -> None:
    """Set the `offsets` (5, L + 1) of mines, robots, cannons, ready cannons, and their actees."""
    offsets[:, 0] = 0
    for row, lane in enumerate(lanes):
        num_things = mine_counts[lane] + robot_counts[lane]
        is_ready = has_cannon[lane] and cooldowns[lane] == 0 and num_things > 0
        offsets[0, row + 1] = offsets[0, row] + mine_counts[lane]
        offsets[1, row + 1] = offsets[1, row] + robot_counts[lane]
        offsets[2, row + 1] = offsets[2, row] + has_cannon[lane]
        offsets[3, row + 1] = offsets[3, row] + is_ready
        offsets[4, row + 1] = offsets[4, row] + (num_things if is_ready else 0)


@compiled
def _observe(
    lanes: Ints,
    width: int,
    height: int,
    mines: Ints,
    robots: Ints,
    cooldowns: Ints,
    offsets: Ints,
    mine_rows: Floats,
    robot_rows: Floats,
    cannon_rows: Floats,
    movers: Ints,
    move_mask: Flags,
    shooters: Ints,
    actees: Ints,
) -> None:
    for row, lane in enumerate(lanes):
        first_mine, first_robot = offsets[0, row], offsets[1, row]
        num_mines = offsets[0, row + 1] - first_mine
        num_robots = offsets[1, row + 1] - first_robot
        for i in range(num_mines):
            mine_rows[first_mine + i, 0] = mines[lane, i, 0]
            mine_rows[first_mine + i, 1] = mines[lane, i, 1]
        for i in range(num_robots):
            x, y = robots[lane, i, 0], robots[lane, i, 1]
            robot = first_robot + i
            robot_rows[robot, 0] = x
            robot_rows[robot, 1] = y
            movers[robot] = num_mines + i
            move_mask[robot, 0] = x < width - 1
            move_mask[robot, 1] = x > 0
            move_mask[robot, 2] = y < height - 1
            move_mask[robot, 3] = y > 0
            move_mask[robot, _DEFUSE] = True
        for i in range(offsets[2, row], offsets[2, row + 1]):
            cannon_rows[i, 0] = cooldowns[lane]
        for i in range(offsets[3, row], offsets[3, row + 1]):
            shooters[i] = num_mines + num_robots
        for i in range(offsets[4, row + 1] - offsets[4, row]):
            actees[offsets[4, row] + i] = i
