"""`perspective="player"`: the board turned by half for the player who starts in the lower right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...envs import ActionMask, EntitySpace
from ...ragged import RaggedArray
from ...ragged.compiled import compiled
from .features import ATTACKED, DIRECTIONS
from .java.engine import MicroRTSEngine


@compiled
def _turn_rows(
    rows: NDArray[np.float32],
    offsets: NDArray[np.int64],
    turned: NDArray[np.bool_],
    sizes: NDArray[np.int64],
    negated: NDArray[np.int64],
    swapped: NDArray[np.int64],
) -> None:
    """Turn the rows of the lanes that are `turned`, whose first two columns are x and y.

    Args:
        sizes: width and height of each lane's map (2, L).
        negated: columns of offsets.
        swapped: pairs of columns (P, 2) that change places.
    """
    for lane in range(len(offsets) - 1):
        if not turned[lane]:
            continue
        for k in range(offsets[lane], offsets[lane + 1]):
            row = rows[k]
            row[0], row[1] = sizes[0, lane] - 1 - row[0], sizes[1, lane] - 1 - row[1]
            for column in negated:
                row[column] = 0.0 - row[column]
            for p in range(len(swapped)):
                first, second = swapped[p, 0], swapped[p, 1]
                row[first], row[second] = row[second], row[first]


@compiled
def _turn_masks(
    masks: NDArray[np.bool_],
    offsets: NDArray[np.int64],
    turned: NDArray[np.bool_],
    permutation: NDArray[np.int64],
    out: NDArray[np.bool_],
) -> None:
    """The masks (A, C), those of the lanes that are `turned` with permuted columns."""
    for lane in range(len(offsets) - 1):
        for k in range(offsets[lane], offsets[lane + 1]):
            for c in range(masks.shape[1]):
                out[k, c] = masks[k, permutation[c] if turned[lane] else c]


@compiled
def _turn_orders(
    orders: NDArray[np.int64],
    offsets: NDArray[np.int64],
    turned: NDArray[np.bool_],
    components: NDArray[np.int64],
    permutation: NDArray[np.int64],
    out: NDArray[np.int64],
) -> None:
    """The orders (n, M), those of the lanes that are `turned` turned; choices that there are not stay."""
    for lane in range(len(offsets) - 1):
        for k in range(offsets[lane], offsets[lane + 1]):
            for m in range(orders.shape[1]):
                choice, first = orders[k, m], components[m]
                if turned[lane] and 0 <= choice < components[m + 1] - first:
                    choice = permutation[first + choice] - first
                out[k, m] = choice


class Perspective:
    """Turns what lanes of player 1 see, and their orders back; to turn twice is to do nothing.

    Args:
        space: what a lane sees.
    """

    def __init__(self, engine: MicroRTSEngine, space: EntitySpace) -> None:
        maps = [engine.games[game].map for game in engine.lane_game]
        self._sizes = np.array([[board.width for board in maps], [board.height for board in maps]])
        self.turned: NDArray[np.bool_] = engine.lane_player == 1  # (lanes,)
        self._columns = {name: _columns(names) for name, names in space.entities.items()}
        order: Any = space.actions["order"]
        self._components = order.offsets
        places = [_turned_places(choices) for choices in order.components.values()]
        self._permutation = np.concatenate(
            [first + turned for first, turned in zip(order.offsets, places, strict=False)]
        )

    def turn_entities(self, entities: Mapping[str, RaggedArray]) -> None:
        """Turn rows of features (N, F), whose first two are x and y, in place."""
        for name, rows in entities.items():
            _turn_rows(rows.values, rows.offsets, self.turned, self._sizes, *self._columns[name])

    def turn_mask(self, mask: ActionMask) -> ActionMask:
        """The masks of orders (A, C), in fresh arrays."""
        out = np.empty_like(mask.mask.values)
        _turn_masks(mask.mask.values, mask.mask.offsets, self.turned, self._permutation, out)
        return ActionMask(mask.actors, mask.mask.with_values(out))

    def turn_orders(self, orders: RaggedArray) -> RaggedArray:
        """Orders int64 (n, M), in a fresh array; choices that there are not stay as they are."""
        out = np.empty_like(orders.values)
        layout = self._components, self._permutation
        _turn_orders(orders.values, orders.offsets, self.turned, *layout, out)
        return orders.with_values(out)


def _columns(names: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Of one type's features: offsets, which change their sign, and pairs of opposite directions."""
    offsets = [k for k, name in enumerate(names) if name in ("target_x", "target_y")]
    directions = [k for k, name in enumerate(names) if name.startswith("direction_")]
    half = len(directions) // 2
    pairs = list(zip(directions[:half], directions[half:], strict=True))
    return np.array(offsets, np.int64), np.array(pairs, np.int64).reshape(-1, 2)


def _turned_places(choices: tuple[str, ...]) -> NDArray[np.int64]:
    """Return the index of each choice of a component after the board is rotated by 180°."""
    places = np.arange(len(choices))
    if choices == DIRECTIONS:
        return np.roll(places, 2)
    return places[::-1] if choices == ATTACKED else places
