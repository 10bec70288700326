"""Arrays of native games: their types, ragged arrays and masks of steps that are alike, and offsets.

Shape alphabet: B steps, L lanes, N items in all, A actors, C choices.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...ragged import RaggedArray
from ...ragged.compiled import compiled
from ..actions import ActionMask

# Arrays by the type of their items: state and features of games, and the arguments of their kernels.
Ints = NDArray[np.int64]
Floats = NDArray[np.float32]  # features and rewards
Doubles = NDArray[np.float64]
Flags = NDArray[np.bool_]
Words = NDArray[np.uint64]  # the states of random generators
Pixels = NDArray[np.uint8]


def even_offsets(num_steps: int, length: int) -> NDArray[np.int64]:
    """Offsets (num_steps + 1,) of sequences that all have `length` items."""
    return np.arange(0, (num_steps + 1) * length, length) if length else np.zeros(num_steps + 1, np.int64)


def all_true(shape: int | tuple[int, int]) -> NDArray[np.bool_]:
    """Return `np.ones(shape, bool)`, six times as fast for the small arrays of a step."""
    flags = np.empty(shape, bool)
    flags.fill(True)
    return flags


def free_choice(actors: RaggedArray, num_choices: int) -> ActionMask:
    """The mask of a categorical action that allows `actors` (A,) everything."""
    allowed = all_true((len(actors.values), num_choices))
    return ActionMask(actors, RaggedArray.unchecked(allowed, actors.offsets))


def global_choice(mask: NDArray[np.bool_]) -> ActionMask:
    """The mask of a global categorical action that can be taken at every step: `mask` (B, C)."""
    offsets = np.arange(len(mask) + 1)
    return ActionMask(
        RaggedArray.unchecked(np.full(len(mask), -1, np.int64), offsets), RaggedArray.unchecked(mask, offsets)
    )


def even(values: NDArray[Any], per_step: int = 1) -> RaggedArray:
    """`values` (B * per_step, …) as B sequences of `per_step` items each."""
    return RaggedArray.unchecked(values, even_offsets(len(values) // per_step, per_step))


def featureless(offsets: NDArray[np.int64]) -> RaggedArray:
    """Entities without features, cut at `offsets` (B + 1,): float32 (N, 0)."""
    return RaggedArray.unchecked(np.empty((offsets.item(-1), 0), np.float32), offsets)


def no_actors(num_steps: int, num_choices: int) -> ActionMask:
    """The mask of a categorical action without actors at `num_steps` steps."""
    offsets = np.zeros(num_steps + 1, np.int64)
    return ActionMask(
        RaggedArray.unchecked(np.empty(0, np.int64), offsets),
        RaggedArray.unchecked(np.empty((0, num_choices), np.bool_), offsets),
    )


def typed_rows(
    values: Floats, ends: Ints, offsets: NDArray[np.int64], widths: Mapping[str, int]
) -> dict[str, RaggedArray]:
    """The rows of all entity types, which kernels write one type behind the other, by type.

    Args:
        values: float32, flat.
        ends: where the values of each type begin, and the last ones end (T + 1,).
        offsets: of each type (T, B + 1).
        widths: the number of features of each type; types with none are left out.
    """
    bounds = ends.tolist()
    return {
        name: RaggedArray.unchecked(values[start:stop].reshape(-1, width), lanes)
        for (name, width), start, stop, lanes in zip(
            widths.items(), bounds, bounds[1:], offsets, strict=False
        )
        if width
    }


def first_items(items: NDArray[Any], counts: Ints, lanes: Ints) -> RaggedArray:
    """The first `counts[lane]` of a lane's `items` (num_envs, M, F), for each of `lanes`: float32 (N, F)."""
    offsets = lane_offsets(counts, lanes)
    rows = np.empty((offsets.item(-1), items.shape[2]), np.float32)
    _copy_first(items, lanes, offsets, rows)
    return RaggedArray.unchecked(rows, offsets)


# These are kernels because NumPy takes several times as long for the small arrays of a step.


@compiled
def offsets_of(counts: NDArray[Any]) -> Ints:
    """The offsets (B + 1,) of sequences with so many items (B,), or one item where a flag is set."""
    offsets = np.zeros(len(counts) + 1, np.int64)
    for step in range(len(counts)):
        offsets[step + 1] = offsets[step] + counts[step]
    return offsets


@compiled
def lane_offsets(counts: Ints, lanes: Ints) -> Ints:
    """The offsets (L + 1,) of sequences with `counts[lane]` items for each of `lanes` (L,)."""
    offsets = np.zeros(len(lanes) + 1, np.int64)
    for step in range(len(lanes)):
        offsets[step + 1] = offsets[step] + counts[lanes[step]]
    return offsets


@compiled
def _copy_first(items: NDArray[Any], lanes: Ints, offsets: Ints, rows: Floats) -> None:
    for step in range(len(lanes)):
        for row in range(offsets[step], offsets[step + 1]):
            for feature in range(rows.shape[1]):
                rows[row, feature] = items[lanes[step], row - offsets[step], feature]
