"""Entities and global features of observations, for all lanes in one pass.

Shape alphabet: E lanes, S slots, C columns of a slot, T entity types, F features of a type, G global
features.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...envs import EntityActionSpace, EntityBatch, EntitySpace
from ...envs.vector.native_arrays import all_true, global_choice, typed_rows
from ...ragged.compiled import compiled
from .game import FRAMES, FURTHER, HEIGHT, LEFT, TOP, WIDTH, AtariGame

#: Pixels that count as 1 in positions and sizes, and pixels per step in velocities.
LENGTH, SPEED = 100.0, 10.0

#: Columns that the features of a type are chosen from; the further columns of a slot follow.
_X, _Y, _WIDTH, _HEIGHT, _VELOCITY_X, _VELOCITY_Y, _FURTHER = range(7)

ACTION = "act"


class AtariObserver:
    """Converts what a game's table reads to batches.

    Args:
        frames: the most frames of a step.

    Attributes:
        space: the observation space.
    """

    def __init__(
        self, game: AtariGame, actions: tuple[str, ...], action_space: EntityActionSpace, frames: int
    ) -> None:
        self._game = game
        farthest = [kind.farthest * max(1.0, frames / FRAMES) for kind in game.types]
        self._farthest = np.array(farthest, np.float32)
        self._num_actions = len(actions)
        self._scales = np.array(list(game.status.values()), np.float32)
        chosen, entities = [], {}
        for kind in game.types:
            columns = {"x": _X, "y": _Y}
            if kind.sized:
                columns |= {"width": _WIDTH, "height": _HEIGHT}
            if kind.moves:
                columns |= {"velocity_x": _VELOCITY_X, "velocity_y": _VELOCITY_Y}
            columns |= {name: _FURTHER + index for index, name in enumerate(kind.features)}
            entities[kind.name] = tuple(columns)
            chosen.append(list(columns.values()))
        self._widths = np.array([len(columns) for columns in chosen], np.int64)
        self._columns = np.zeros((len(chosen), self._widths.max()), np.int64)
        for row, columns_of_type in zip(self._columns, chosen, strict=True):
            row[: len(columns_of_type)] = columns_of_type
        self.space = EntitySpace(entities, action_space, list(game.status))

    def observe(
        self, slots: NDArray[np.float32], before: NDArray[np.float32], status: NDArray[np.float32]
    ) -> EntityBatch:
        """Return the batch of slots (E, S, C), of those of the step before, and of global features (E, G)."""
        values, starts, offsets = fill_entities(
            slots, before, self._game.firsts, self._columns, self._widths, self._farthest
        )
        widths = dict(zip(self.space.entities, self._widths.tolist(), strict=True))
        entities = typed_rows(values, starts, offsets, widths)
        mask = all_true((len(slots), self._num_actions))
        return EntityBatch(entities, status / self._scales, {ACTION: global_choice(mask)})


@compiled
def fill_entities(
    slots: NDArray[np.float32],
    before: NDArray[np.float32],
    firsts: NDArray[np.int64],
    columns: NDArray[np.int64],
    widths: NDArray[np.int64],
    farthest: NDArray[np.float32],
) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]]:
    """Gather the objects of all lanes by type, and compute their features.

    Args:
        slots, before: (E, S, C) now and at the step before.
        firsts: (T + 1,) the first slot of each type.
        columns: (T, F) the features of each type.
        widths: (T,) how many they are.
        farthest: (T,) the pixels that an object moves at most.

    Returns:
        the features of all types one after the other, where those of each type start (T + 1,), and for each
        type the offsets of its lanes (T, E + 1).
    """
    lanes, num_types = len(slots), len(widths)
    offsets = np.zeros((num_types, lanes + 1), np.int64)
    starts = np.zeros(num_types + 1, np.int64)
    for t in range(num_types):
        for lane in range(lanes):
            count = 0
            for slot in range(firsts[t], firsts[t + 1]):
                count += slots[lane, slot, WIDTH] > 0
            offsets[t, lane + 1] = offsets[t, lane] + count
        starts[t + 1] = starts[t] + offsets[t, lanes] * widths[t]
    values = np.empty(starts[num_types], np.float32)
    source = np.zeros(_FURTHER + slots.shape[2] - FURTHER, np.float32)
    place = 0
    for t in range(num_types):
        for lane in range(lanes):
            for slot in range(firsts[t], firsts[t + 1]):
                if slots[lane, slot, WIDTH] > 0:
                    _describe(source, slots[lane, slot], before[lane, slot], farthest[t])
                    for column in range(widths[t]):
                        values[place + column] = source[columns[t, column]]
                    place += widths[t]
    return values, starts, offsets


@compiled
def _describe(
    source: NDArray[np.float32], now: NDArray[np.float32], before: NDArray[np.float32], farthest: float
) -> None:
    """Fill the columns that features are chosen from."""
    x, y = now[LEFT] + now[WIDTH] / 2, now[TOP] + now[HEIGHT] / 2
    source[_X], source[_Y] = x / LENGTH, y / LENGTH
    source[_WIDTH], source[_HEIGHT] = now[WIDTH] / LENGTH, now[HEIGHT] / LENGTH
    dx, dy = x - (before[LEFT] + before[WIDTH] / 2), y - (before[TOP] + before[HEIGHT] / 2)
    if before[WIDTH] == 0 or abs(dx) > farthest or abs(dy) > farthest:
        dx, dy = np.float32(0), np.float32(0)
    source[_VELOCITY_X], source[_VELOCITY_Y] = dx / SPEED, dy / SPEED
    for column in range(FURTHER, len(now)):
        source[_FURTHER + column - FURTHER] = now[column]
