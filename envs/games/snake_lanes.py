"""MultiSnake with a player for each snake: `SnakeLanesVectorEnv`, every snake a lane.

`MultiSnakeAgents` in the module beside is the same game as a `MultiAgentEnv`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ragged import RaggedArray
from ...ragged.compiled import compiled
from ..batch.entity_batch import EntityBatch
from ..errors import whole_number
from ..registration import share_lanes
from ..vector.native_arrays import Flags, Floats, Ints, Pixels, Words, free_choice
from ..vector.saved_state import State
from ..vector.vector_env import EntityVectorEnv
from .snake_boards import (
    ALIVE,
    ENDED,
    GONE,
    MOST_SNAKES,
    MOVES,
    SnakeBoards,
    creep,
    free_cell,
    head_cell,
    neighbour,
    write_cell,
)

_TYPES = ("Head", "Body", "Food", "Other Head", "Other Body", "Other Food")
_NO_MOVE = -1


class SnakeLanesVectorEnv(SnakeBoards):
    """Snakes on one board, each with a player of its own: every snake is a lane.

    Lanes 0 to num_snakes - 1 are the snakes of the first game, and so on. The rules are those of
    `MultiSnakeVectorEnv`, made for snakes that move all at once and live by themselves:

    - A snake dies when it enters the wall, a cell in which there was a segment before the step (a tail that
      is about to move on included), the cell that another snake enters too, or a cell with another's food.
    - One that eats its own food grows, which pays it 1 / (max_snake_length - 1). With full length it has won.
    - Dead and winning snakes leave the board after the step, with their food. Their lanes terminate, and are
      inactive until the game starts over: when no snake is left, or after `max_steps` steps, when those that
      are left are truncated. New food of a living snake that was eaten appears on a random free cell.

    A perfect player's return is 1 for each snake.

    Entities, as a living snake sees them: Head (x, y), itself, which acts; Body (x, y), its other segments
    from the tail on; Food (x, y), its own; Other Head, Other Body and Other Food (x, y, color), those of the
    others in the order of their colours, which count from the observer's own: 1 to num_snakes - 1. Global
    feature: step. Action: `move`: up (y + 1), down, left (x - 1) or right. An inactive lane observes nothing.

    Args:
        num_envs: how many lanes, a multiple of `num_snakes`.
        board_size, num_snakes, max_snake_length, max_steps, render_mode: as for `MultiSnakeVectorEnv`. Each
            lane's picture is that of its game.

    Raises:
        TypeError: a number that is no whole number.
        ValueError: an option out of its range, or a board too small for all snakes and their food.
    """

    def __init__(
        self,
        num_envs: int = 2,
        *,
        board_size: int = 10,
        num_snakes: int = 2,
        max_snake_length: int = 11,
        max_steps: int = 180,
        render_mode: str | None = None,
    ) -> None:
        if num_envs % whole_number("num_snakes", num_snakes, 1, MOST_SNAKES):
            raise ValueError(
                f"num_envs (the number of snakes): expected a multiple of num_snakes = {num_snakes},"
                f" got {num_envs}"
            )
        entities = {name: ["x", "y", "color"] if name.startswith("Other") else ["x", "y"] for name in _TYPES}
        super().__init__(
            entities,
            num_envs,
            num_envs // num_snakes,
            num_snakes=num_snakes,
            board_size=board_size,
            max_snake_length=max_snake_length,
            max_steps=max_steps,
            render_mode=render_mode,
        )
        self.lane_games = self.all_lanes // self.num_snakes

    def _check_state(self, state: State) -> None:
        super()._check_state(state)
        is_alive, lengths = state["status"] == ALIVE, state["lengths"]
        steps = state["steps"].reshape(is_alive.shape)
        self._expect(steps == steps[:, :1], "steps", "equal numbers in a game", steps)
        self._expect(is_alive.any(1), "status", "a living snake in each game", state["status"])
        # One with full length has won.
        fits = ~is_alive | (lengths < self.max_snake_length)
        self._expect(fits, "lengths", f"less than {self.max_snake_length} of a living snake", lengths)

    def _advance(self, actions: dict[str, RaggedArray]) -> tuple[Floats, Flags]:
        rewards, terminated = np.zeros(self.num_envs, np.float32), np.zeros(self.num_envs, bool)
        _advance_games(
            actions["move"].values,
            actions["move"].offsets,
            self.random_state,
            self.board_size,
            *self.boards,
            rewards,
            terminated,
        )
        return rewards, terminated

    def _truncations(self, terminated: Flags) -> Flags:
        assert self.max_steps is not None
        return (self.steps >= self.max_steps) & (self.status.reshape(-1) == ALIVE)

    def _to_restart(self, ended: Flags) -> Ints:
        """The lanes of the games in which no snake is left."""
        has_living = (self.status == ALIVE) & ~ended.reshape(self.status.shape)
        return np.repeat(~has_living.any(1), self.num_snakes).nonzero()[0]

    def _info(self) -> dict[str, Any]:
        return {"inactive": self.status.reshape(-1) != ALIVE}

    def _look(self, lanes: Ints | None) -> EntityBatch:
        """Return the last observations of `lanes`, or with None those of the boards after the step."""
        shown = ALIVE if lanes is None else ENDED
        lanes = self.all_lanes if lanes is None else lanes
        offsets = np.empty((len(_TYPES), len(lanes) + 1), np.int64)
        _count(lanes, shown, self.lengths, self.status, self.food, offsets)
        rows = [np.empty((offsets[i, -1], 2 if i < 3 else 3), np.float32) for i in range(len(_TYPES))]
        steps = np.zeros((len(lanes), 1), np.float32)
        _observe(
            lanes,
            shown,
            self.board_size + 2,
            self.segments,
            self.tails,
            self.lengths,
            self.status,
            self.food,
            self.steps,
            offsets,
            steps,
            *rows,
        )
        actors = RaggedArray.unchecked(np.zeros(len(rows[0]), np.int64), offsets[0])
        return EntityBatch(
            {name: RaggedArray.unchecked(rows[i], offsets[i]) for i, name in enumerate(_TYPES)},
            steps,
            {"move": free_choice(actors, len(MOVES))},
        )

    def _draw(self, lane: int) -> Pixels:
        return self._draw_game(lane // self.num_snakes)


def make_vec(num_envs: int = 2, num_workers: int = 0, **options: Any) -> EntityVectorEnv:
    """`num_envs` snakes, in `num_workers` processes or (with 0) in this one.

    Options as for `SnakeLanesVectorEnv`.
    """
    lanes_per_game = whole_number("num_snakes", options.get("num_snakes", 2), 1, MOST_SNAKES)
    return share_lanes(SnakeLanesVectorEnv, num_envs, num_workers, lanes_per_game=lanes_per_game, **options)


@compiled
def _clear(segments: Ints, tails: Ints, lengths: Ints, status: Ints, taken: Ints, food: Ints) -> None:
    """Take the snakes of a game that ended at the last step off the board, with their food."""
    for snake in range(len(status)):
        if status[snake] == ENDED:
            for place in range(lengths[snake]):
                taken[segments[snake, (tails[snake] + place) % segments.shape[1]]] -= 1
            status[snake] = GONE
            food[snake, 0] = -1


@compiled
def _advance_games(
    moves: Ints,
    move_offsets: Ints,
    random_state: Words,
    board_size: int,
    segments: Ints,
    tails: Ints,
    lengths: Ints,
    status: Ints,
    taken: Ints,
    food: Ints,
    rewards: Floats,
    terminated: Flags,
) -> None:
    num_snakes, full = segments.shape[1:]
    entered = np.empty(num_snakes, np.int64)  # the cell that each snake enters, or _NO_MOVE
    dies = np.empty(num_snakes, np.bool_)
    for game in range(len(segments)):
        first = game * num_snakes
        _clear(segments[game], tails[game], lengths[game], status[game], taken[game], food[game])
        for snake in range(num_snakes):
            entered[snake] = _NO_MOVE
            lane = first + snake
            if status[game, snake] == ALIVE and move_offsets[lane + 1] > move_offsets[lane]:
                head = head_cell(segments[game, snake], tails[game, snake], lengths[game, snake])
                entered[snake] = neighbour(head, moves[move_offsets[lane]], board_size + 2)
        for snake in range(num_snakes):
            dies[snake] = entered[snake] != _NO_MOVE and taken[game, entered[snake]] > 0
            for other in range(num_snakes):
                if other != snake and entered[snake] != _NO_MOVE:
                    dies[snake] |= entered[snake] == entered[other]
                    dies[snake] |= entered[snake] == food[game, other, 0]
        for snake in range(num_snakes):
            if entered[snake] == _NO_MOVE:
                continue
            grows = entered[snake] == food[game, snake, 0] and not dies[snake]
            creep(entered[snake], grows, snake, segments[game], tails[game], lengths[game], taken[game])
            if grows:
                rewards[first + snake] = 1.0 / (full - 1)
            if dies[snake] or lengths[game, snake] == full:
                status[game, snake] = ENDED
                terminated[first + snake] = True
        _renew_food(random_state[first], board_size, entered, status[game], taken[game], food[game])


@compiled
def _renew_food(
    random_state: Words, board_size: int, entered: Ints, status: Ints, taken: Ints, food: Ints
) -> None:
    """Put new food on a game's board for what was eaten; that of dying snakes is not renewed."""
    for owner in range(len(food)):
        is_eaten = False
        for snake in range(len(entered)):
            is_eaten |= entered[snake] != _NO_MOVE and entered[snake] == food[owner, 0]
        if is_eaten:
            food[owner, 0] = -1
            if status[owner] == ALIVE:
                food[owner, 0] = free_cell(random_state, taken, food, board_size)


@compiled
def _is_shown(status: int, shown: int) -> bool:
    """Return whether a snake is on the board: living ones are, ended ones where `shown` is ENDED."""
    return status in (ALIVE, shown)


@compiled
def _count(lanes: Ints, shown: int, lengths: Ints, status: Ints, food: Ints, offsets: Ints) -> None:
    """Set the `offsets` (6, L + 1) of the entities that each of `lanes` (L,) sees, by type."""
    num_snakes = status.shape[1]
    offsets[:, 0] = 0
    for row, lane in enumerate(lanes):
        game, me = lane // num_snakes, lane % num_snakes
        offsets[:, row + 1] = offsets[:, row]
        if not _is_shown(status[game, me], shown):
            continue
        for snake in range(num_snakes):
            if _is_shown(status[game, snake], shown):
                kind = 0 if snake == me else 3
                offsets[kind, row + 1] += 1
                offsets[kind + 1, row + 1] += lengths[game, snake] - 1
                offsets[kind + 2, row + 1] += food[game, snake, 0] >= 0


@compiled
def _observe(
    lanes: Ints,
    shown: int,
    across: int,
    segments: Ints,
    tails: Ints,
    lengths: Ints,
    status: Ints,
    food: Ints,
    steps: Ints,
    offsets: Ints,
    step_rows: Floats,
    heads: Floats,
    bodies: Floats,
    food_seen: Floats,
    other_heads: Floats,
    other_bodies: Floats,
    other_food: Floats,
) -> None:
    num_snakes, ring = segments.shape[1:]
    for row, lane in enumerate(lanes):
        game, me = lane // num_snakes, lane % num_snakes
        if not _is_shown(status[game, me], shown):
            continue
        step_rows[row, 0] = steps[lane]
        own = (offsets[0, row], offsets[1, row], offsets[2, row])
        others = (offsets[3, row], offsets[4, row], offsets[5, row])
        for colour in range(num_snakes):
            snake = (me + colour) % num_snakes
            if not _is_shown(status[game, snake], shown):
                continue
            head_row, body_row, food_row = own if colour == 0 else others
            head_rows = heads if colour == 0 else other_heads
            body_rows = bodies if colour == 0 else other_bodies
            food_rows = food_seen if colour == 0 else other_food
            head = head_cell(segments[game, snake], tails[game, snake], lengths[game, snake])
            write_cell(head_rows[head_row], head, across, colour)
            for place in range(lengths[game, snake] - 1):
                cell = segments[game, snake, (tails[game, snake] + place) % ring]
                write_cell(body_rows[body_row + place], cell, across, colour)
            has_food = food[game, snake, 0] >= 0
            if has_food:
                write_cell(food_rows[food_row], food[game, snake, 0], across, colour)
            if colour:
                others = (head_row + 1, body_row + lengths[game, snake] - 1, food_row + has_food)
