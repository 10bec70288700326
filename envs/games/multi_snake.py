"""MultiSnake: snakes of different colours on one board, moved by one player. A test of several actors."""

from __future__ import annotations

import numpy as np

from ...ragged import RaggedArray
from ...ragged.compiled import compiled
from ..batch.entity_batch import EntityBatch
from ..vector.native_arrays import Flags, Floats, Ints, Pixels, Words, even_offsets, free_choice
from ..vector.native_env import native_game
from ..vector.saved_state import Bounds
from .snake_boards import ALIVE, MOVES, SnakeBoards, creep, free_cell, head_cell, neighbour, write_cell


class MultiSnakeVectorEnv(SnakeBoards):
    """Snakes of different colours eat the food of their own colour, and grow. One player moves all of them.

    Entities: SnakeHead (x, y, color), one per snake in the order of the colours; SnakeBody (x, y, color), the
    other segments, snake by snake from the tail on; Food (x, y, color), new pieces last. Global feature:
    step. Action: each head's `move`: up (y + 1), down, left (x - 1) or right; without it no snake moves.

    The snakes move one after the other. One that eats food of its colour grows by a segment, up to
    `max_snake_length`; new food appears once all have moved. The episode terminates when a snake runs into
    the wall or into a segment (a tail that is about to move on included), when one eats food of another
    colour, or when all snakes have full length; after `max_steps` steps it is truncated. Each growth pays
    1 / (max_snake_length - 1) / num_snakes, also in the last step, so a perfect player's return is 1.

    The rules are those of entity_gym's MultiSnake with one player, but for the time limit, which counts as
    truncation here. `SnakeLanesVectorEnv` is the game with a player for each snake.

    Args:
        num_envs: how many lanes, which are games.
        board_size: cells along each side, at most 100.
        num_snakes: 1 to 8.
        max_snake_length: segments of a full-grown snake, head included, at least 2.
        max_steps: steps until truncation.
        render_mode: "rgb_array" for pictures.

    Raises:
        TypeError: a number that is no whole number.
        ValueError: an option out of its range, or a board too small for all snakes and their food.
    """

    def __init__(
        self,
        num_envs: int = 1,
        *,
        board_size: int = 10,
        num_snakes: int = 2,
        max_snake_length: int = 11,
        max_steps: int = 180,
        render_mode: str | None = None,
    ) -> None:
        entities = {name: ["x", "y", "color"] for name in ("SnakeHead", "SnakeBody", "Food")}
        super().__init__(
            entities,
            num_envs,
            num_envs,
            num_snakes=num_snakes,
            board_size=board_size,
            max_snake_length=max_snake_length,
            max_steps=max_steps,
            render_mode=render_mode,
        )
        self._offsets = even_offsets(num_envs, num_snakes)
        self._actors = np.tile(np.arange(num_snakes), num_envs)

    def _bounds(self) -> Bounds:
        return {**super()._bounds(), "status": (ALIVE, ALIVE)}  # the game ends with the first snake

    def _advance(self, actions: dict[str, RaggedArray]) -> tuple[Floats, Flags]:
        rewards, terminated = np.empty(self.num_envs, np.float32), np.empty(self.num_envs, bool)
        _advance_games(
            actions["move"].values,
            actions["move"].offsets,
            self.random_state,
            self.board_size,
            self.segments,
            self.tails,
            self.lengths,
            self.taken,
            self.food,
            rewards,
            terminated,
        )
        return rewards, terminated

    def _look(self, lanes: Ints | None) -> EntityBatch:
        lanes = self.all_lanes if lanes is None else lanes
        count = len(lanes)
        offsets = self._offsets[: count + 1]
        heads = np.empty((count * self.num_snakes, 3), np.float32)
        food = np.empty((count * self.num_snakes, 3), np.float32)
        body_offsets = np.empty(count + 1, np.int64)
        _add_up_bodies(lanes, self.lengths, body_offsets)
        bodies = np.empty((body_offsets[-1], 3), np.float32)
        _observe(
            lanes,
            self.board_size + 2,
            self.segments,
            self.tails,
            self.lengths,
            self.food,
            heads,
            bodies,
            food,
        )
        return EntityBatch(
            {
                "SnakeHead": RaggedArray.unchecked(heads, offsets),
                "SnakeBody": RaggedArray.unchecked(bodies, body_offsets),
                "Food": RaggedArray.unchecked(food, offsets),
            },
            self.steps[lanes].astype(np.float32)[:, None],
            {
                "move": free_choice(
                    RaggedArray.unchecked(self._actors[: len(heads)].copy(), offsets), len(MOVES)
                )
            },
        )

    def _draw(self, lane: int) -> Pixels:
        return self._draw_game(lane)


MultiSnake, make_vec = native_game(MultiSnakeVectorEnv)


@compiled
def _advance_games(
    moves: Ints,
    move_offsets: Ints,
    random_state: Words,
    board_size: int,
    segments: Ints,
    tails: Ints,
    lengths: Ints,
    taken: Ints,
    food: Ints,
    rewards: Floats,
    terminated: Flags,
) -> None:
    num_snakes, full = segments.shape[1:]
    for game in range(len(segments)):
        grown, num_food, is_over = 0, num_snakes, False
        for snake in range(move_offsets[game + 1] - move_offsets[game]):
            move = moves[move_offsets[game] + snake]
            head = head_cell(segments[game, snake], tails[game, snake], lengths[game, snake])
            cell = neighbour(head, move, board_size + 2)
            is_over |= taken[game, cell] > 0
            grows = False
            for i in range(num_food):
                if food[game, i, 0] == cell:
                    if food[game, i, 1] != snake:
                        is_over = True
                    elif lengths[game, snake] < full:
                        grows = True
                    # New food is of the eater's colour and comes behind the rest, when all have moved.
                    food[game, i : num_snakes - 1] = food[game, i + 1 :].copy()
                    food[game, num_snakes - 1, 0] = -1
                    food[game, num_snakes - 1, 1] = snake
                    num_food -= 1
                    break
            grown += grows
            creep(cell, grows, snake, segments[game], tails[game], lengths[game], taken[game])
        is_full = True
        for snake in range(num_snakes):
            is_full &= lengths[game, snake] == full
        for i in range(num_food, num_snakes):
            food[game, i, 0] = free_cell(random_state[game], taken[game], food[game], board_size)
        rewards[game] = grown / (full - 1) / num_snakes
        terminated[game] = is_over or is_full


@compiled
def _add_up_bodies(lanes: Ints, lengths: Ints, offsets: Ints) -> None:
    """Set the offsets (L + 1,) of the segments behind the heads in each of `lanes` (L,)."""
    offsets[0] = 0
    for row, lane in enumerate(lanes):
        offsets[row + 1] = offsets[row] + lengths[lane].sum() - lengths.shape[1]


@compiled
def _observe(
    lanes: Ints,
    across: int,
    segments: Ints,
    tails: Ints,
    lengths: Ints,
    food: Ints,
    heads: Floats,
    bodies: Floats,
    food_rows: Floats,
) -> None:
    row, body_row = 0, 0
    ring = segments.shape[2]
    for lane in lanes:
        for snake in range(segments.shape[1]):
            for place in range(lengths[lane, snake] - 1):
                cell = segments[lane, snake, (tails[lane, snake] + place) % ring]
                write_cell(bodies[body_row], cell, across, snake)
                body_row += 1
            write_cell(
                heads[row],
                head_cell(segments[lane, snake], tails[lane, snake], lengths[lane, snake]),
                across,
                snake,
            )
            write_cell(food_rows[row], food[lane, snake, 0], across, food[lane, snake, 1])
            row += 1
