"""Boards with snakes on them: the state and the parts that both kinds of MultiSnake share.

A board of N x N cells is kept with a wall around it: cell (x, y) is number (y + 1) * (N + 2) + x + 1, and a
snake that leaves the board has its head in the wall. A snake's segments lie in a ring of cells, tail first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...ragged.compiled import compiled
from ..actions import Categorical, EntityActionSpace
from ..errors import whole_number
from ..randomness import below
from ..spaces import EntitySpace
from ..vector.native import NativeVectorEnv
from ..vector.native_arrays import Floats, Ints, Pixels, Words
from ..vector.saved_state import Bounds, State

MOVES = ["up", "down", "left", "right"]
PICTURES: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 8}
MOST_SNAKES = 8

#: What a snake is: off the board, on it, or on it for the last time because its episode ended.
GONE, ALIVE, ENDED = range(3)

_CELL = 16  # pixels
_GROUND, _WALL = (238, 236, 228), (90, 90, 90)
_COLOURS = np.array(
    [
        (40, 90, 200), (220, 60, 40), (40, 160, 70), (230, 160, 30),
        (140, 70, 180), (40, 170, 180), (220, 100, 160), (130, 90, 50),
    ],
    np.uint8,
)  # fmt: skip


class SnakeBoards(NativeVectorEnv):
    """The boards of `num_games` games of snakes. Abstract: a lane may be a game, or a snake.

    Raises:
        TypeError: a number that is no whole number.
        ValueError: an option out of its range, or a board too small for all snakes and their food.
    """

    metadata = {**NativeVectorEnv.metadata, **PICTURES}  # noqa: RUF012 - Gymnasium declares no ClassVar
    state_names = ("segments", "tails", "lengths", "status", "taken", "food")

    def __init__(
        self,
        entities: Mapping[str, Sequence[str]],
        num_envs: int,
        num_games: int,
        *,
        num_snakes: int,
        board_size: int,
        max_snake_length: int,
        max_steps: int,
        render_mode: str | None,
    ) -> None:
        whole_number("num_snakes", num_snakes, 1, MOST_SNAKES)
        whole_number("max_snake_length", max_snake_length, 2)
        whole_number("board_size", board_size, 1, 100)
        if num_snakes * (max_snake_length + 1) > board_size**2:
            raise ValueError(
                f"{num_snakes} snakes of length {max_snake_length} and their food do not fit: expected"
                " a board"
                f" of at least {num_snakes * (max_snake_length + 1)} cells, got {board_size} x {board_size}"
            )
        actions = EntityActionSpace({"move": Categorical(MOVES)})
        space = EntitySpace(entities, actions, global_features=["step"])
        super().__init__(space, num_envs, max_steps=max_steps, render_mode=render_mode)
        self.num_games = num_games
        self.num_snakes = num_snakes
        self.board_size = board_size
        self.max_snake_length = max_snake_length
        games_and_snakes = (num_games, num_snakes)
        self.segments = np.zeros((*games_and_snakes, max_snake_length), np.int64)  # cells, a ring per snake
        self.tails = np.zeros(games_and_snakes, np.int64)  # where in the ring
        self.lengths = np.zeros(games_and_snakes, np.int64)
        self.status = np.zeros(games_and_snakes, np.int64)
        self.taken = np.zeros((num_games, (board_size + 2) ** 2), np.int64)  # segments, or wall, in each cell
        self.food = np.zeros((*games_and_snakes, 2), np.int64)  # cell (-1: none), colour

    @property
    def boards(self) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints]:
        """The arrays of `state_names`, as kernels take them."""
        return self.segments, self.tails, self.lengths, self.status, self.taken, self.food

    def _start(self, lanes: Ints) -> None:
        lanes_per_game = self.num_envs // self.num_games
        _set_up(lanes[::lanes_per_game] // lanes_per_game, self.random_state, self.board_size, *self.boards)

    def _bounds(self) -> Bounds:
        last_cell = self.taken.shape[1] - 1
        return {
            "segments": (0, last_cell),
            "tails": (0, self.max_snake_length - 1),
            "lengths": (1, self.max_snake_length),
            "status": (GONE, ENDED),
            "food": ((-1, 0), (last_cell, self.num_snakes - 1)),
        }

    def _check_state(self, state: State) -> None:
        segments, status, food = state["segments"], state["status"], state["food"][..., 0]
        wall = np.pad(np.zeros((self.board_size, self.board_size), np.int64), 1, constant_values=1).ravel()
        is_alive = status == ALIVE
        places = (np.arange(self.max_snake_length) - state["tails"][..., None]) % self.max_snake_length
        is_there = (places < state["lengths"][..., None]) & (status != GONE)[..., None]
        # The head of a snake that ended may be in the wall.
        fits = (wall[segments] == 0) | ~(is_there & is_alive[..., None])
        self._expect(fits, "segments", "cells inside the wall", segments)
        fits = (wall[food] == 0) | ((food == -1) & ~is_alive)
        self._expect(fits, "food", "cells inside the wall, or -1 for a snake that ended", food)
        # Else `free_cell` may find none.
        taken = np.tile(wall, (self.num_games, 1))
        np.add.at(taken, (is_there.nonzero()[0], segments[is_there]), 1)
        self._expect(state["taken"] == taken, "taken", "the wall and the segments", state["taken"])

    def _draw_game(self, game: int) -> Pixels:
        """The board with its wall, y upwards: (16 * board_size + 32, same, 3)."""
        across = self.board_size + 2
        cells = np.full((across**2, 3), _WALL, np.uint8)
        cells.reshape(across, across, 3)[1:-1, 1:-1] = _GROUND
        picture = cells.reshape(across, across, 3).repeat(_CELL, 0).repeat(_CELL, 1)
        for cell, colour in self.food[game]:
            if cell >= 0:
                _square(picture, divmod(int(cell), across), 5, _COLOURS[colour])
        for snake in np.flatnonzero(self.status[game] != GONE):
            for place in range(self.lengths[game, snake]):
                cell = self.segments[game, snake, (self.tails[game, snake] + place) % self.max_snake_length]
                _square(picture, divmod(int(cell), across), 2, _COLOURS[snake])
            _square(picture, divmod(int(cell), across), 6, _GROUND)  # the last one is the head
        return picture[::-1].copy()


def _square(picture: Pixels, place: tuple[int, int], margin: int, colour: Any) -> None:
    top, left = place[0] * _CELL, place[1] * _CELL
    picture[top + margin : top + _CELL - margin, left + margin : left + _CELL - margin] = colour


@compiled
def neighbour(cell: int, move: int, across: int) -> int:
    """The cell next to `cell`, on boards that are `across` cells wide with their walls."""
    if move == 0:
        return cell + across
    if move == 1:
        return cell - across
    return cell - 1 if move == 2 else cell + 1


@compiled
def head_cell(segments: Ints, tail: int, length: int) -> np.int64:
    """The head of a snake with the ring `segments` (L,)."""
    return segments[(tail + length - 1) % len(segments)]


@compiled
def free_cell(random_state: Words, taken: Ints, food: Ints, board_size: int) -> int:
    """A random cell without segment and food; there must be one."""
    while True:
        x = below(random_state, board_size)
        y = below(random_state, board_size)
        cell = (y + 1) * (board_size + 2) + x + 1
        is_free = taken[cell] == 0
        for i in range(len(food)):
            is_free &= food[i, 0] != cell
        if is_free:
            return cell


@compiled
def _set_up(
    games: Ints,
    random_state: Words,
    board_size: int,
    segments: Ints,
    tails: Ints,
    lengths: Ints,
    status: Ints,
    taken: Ints,
    food: Ints,
) -> None:
    """Start `games`, each with the random numbers of its first lane.

    First all snakes get a random place, with length 1, then a piece of food of each colour.
    """
    across, num_snakes = board_size + 2, segments.shape[1]
    for game in games:
        state = random_state[game * (len(random_state) // len(segments))]
        taken[game] = 1
        for first in range(across + 1, across * (across - 1), across):
            taken[game, first : first + board_size] = 0
        food[game] = -1
        segments[game] = 0
        for snake in range(num_snakes):
            cell = free_cell(state, taken[game], food[game], board_size)
            segments[game, snake, 0] = cell
            tails[game, snake] = 0
            lengths[game, snake] = 1
            status[game, snake] = ALIVE
            taken[game, cell] += 1
        for snake in range(num_snakes):
            food[game, snake, 0] = free_cell(state, taken[game], food[game], board_size)
            food[game, snake, 1] = snake


@compiled
def creep(
    cell: int, grows: bool, snake: int, segments: Ints, tails: Ints, lengths: Ints, taken: Ints
) -> None:
    """Put the head of a game's `snake` onto `cell`; its tail follows unless it `grows`."""
    ring = segments.shape[1]
    if not grows:
        taken[segments[snake, tails[snake]]] -= 1
        tails[snake] = (tails[snake] + 1) % ring
        lengths[snake] -= 1
    segments[snake, (tails[snake] + lengths[snake]) % ring] = cell
    lengths[snake] += 1
    taken[cell] += 1


@compiled
def write_cell(row: Floats, cell: int, across: int, colour: int) -> None:
    """Write the place of `cell` and, where `row` (2 or 3,) has room for it, the colour."""
    row[0] = cell % across - 1
    row[1] = cell // across - 1
    if len(row) == 3:
        row[2] = colour
