"""Layout of rows: whole steps in tiles of fixed widths, so that attention is a product of tiles.

A step of n rows goes into a tile of the smallest width that is at least 2 n, among 64, 128, 256 and so on; a
tile takes steps in their order as long as they fit. Tiles of one width are contiguous, the narrow ones first.
So with skewed lengths a step costs a multiple of its own length, not of the longest.

Shape alphabet: B steps, N rows, R slots (tiles × widths).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....ragged.compiled import compiled
from ...inputs.rows import RowLayout

#: Width of the narrowest tiles: they hold several small steps, and their scores are cheap.
NARROWEST = 64
_CLASSES = 24


@compiled
def _place(lengths: Any, narrowest: int, classes: Any, starts: Any, tiles: Any) -> None:
    """Written, for each step (B,): `classes`, the doublings of its width, and `starts` among the slots of
    that class; `tiles` (classes,), which is 0 before: how many there are."""
    used = np.zeros(len(tiles), np.int64)
    for b in range(len(lengths)):
        c, width = 0, narrowest
        while width < 2 * lengths[b]:
            c, width = c + 1, 2 * width
        if lengths[b] > 0 and (tiles[c] == 0 or used[c] + lengths[b] > width):
            tiles[c] += 1
            used[c] = 0
        classes[b] = c
        starts[b] = max(tiles[c] - 1, 0) * width + used[c]
        used[c] += lengths[b]


@compiled
def _fill_slots(offsets: Any, starts: Any, slots: Any, steps: Any) -> None:
    """Written: `slots` (N,), the slot of each row, and the step of each of these slots in `steps` (R,)."""
    for b in range(len(starts)):
        for row in range(offsets[b], offsets[b + 1]):
            slot = starts[b] + row - offsets[b]
            slots[row] = slot
            steps[slot] = b


class Tiles:
    """Assignment of a batch's steps to tiles."""

    def __init__(self, rows: RowLayout) -> None:
        self.rows = rows
        self._classes = np.zeros(len(rows), np.int64)
        self._starts = np.zeros(len(rows), np.int64)
        tiles = np.zeros(_CLASSES, np.int64)
        _place(rows.lengths, NARROWEST, self._classes, self._starts, tiles)
        #: How many tiles there are of each width that occurs, the narrow ones first; never none.
        self.counts = {NARROWEST << int(c): int(tiles[c]) for c in np.flatnonzero(tiles)} or {NARROWEST: 1}

    def place(self, room: dict[int, int], steps: NDArray[np.int64]) -> NDArray[np.int64]:
        """The slot of each row (N,), where there is room for so many tiles of each width.

        Written: `steps` (R,), the step that each slot is of, and B's capacity where it is of none: that is
        what the caller has filled it with.
        """
        bases = np.zeros(_CLASSES, np.int64)
        base = 0
        for width, count in room.items():
            bases[(width // NARROWEST).bit_length() - 1] = base
            base += width * count
        slots = np.empty(self.rows.num_rows, np.int64)
        _fill_slots(self.rows.offsets, self._starts + bases[self._classes], slots, steps)
        return slots
