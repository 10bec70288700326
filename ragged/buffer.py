"""`RaggedBuffer`: growable storage of sequences, for rollouts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from .array import RaggedArray


class RaggedBuffer:
    """Append many sequences at a time; read everything back as one `RaggedArray` without a copy."""

    def __init__(
        self,
        inner_shape: tuple[int, ...] = (),
        dtype: DTypeLike = np.float32,
        capacity: tuple[int, int] = (0, 0),
    ) -> None:
        """`capacity` is (sequences, items) to reserve room for."""
        self._values: NDArray[Any] = np.empty((capacity[1], *inner_shape), dtype)
        self._offsets = np.zeros(capacity[0] + 1, np.int64)
        self._sequences = 0

    def __len__(self) -> int:
        return self._sequences

    @property
    def num_items(self) -> int:
        return int(self._offsets[self._sequences])

    def append(self, step: RaggedArray) -> None:
        """Copy the sequences of `step` in behind the others; grows by doubling."""
        items, sequences = self.num_items, self._sequences
        if items + step.num_items > len(self._values):
            grown = np.empty(
                (max(2 * len(self._values), items + step.num_items), *self._values.shape[1:]),
                self._values.dtype,
            )
            grown[:items] = self._values[:items]
            self._values = grown
        if sequences + len(step) >= len(self._offsets):
            offsets = np.zeros(max(2 * len(self._offsets), sequences + len(step) + 1), np.int64)
            offsets[: sequences + 1] = self._offsets[: sequences + 1]
            self._offsets = offsets
        self._values[items : items + step.num_items] = step.values
        self._offsets[sequences + 1 : sequences + len(step) + 1] = step.offsets[1:] + items
        self._sequences += len(step)

    def clear(self) -> None:
        """Forget the content and keep the memory."""
        self._sequences = 0

    def array(self) -> RaggedArray:
        """All sequences, as a view that is valid until the next `append` or `clear`."""
        return RaggedArray._trusted(self._values[: self.num_items], self._offsets[: self._sequences + 1])

    def gather(self, indices: ArrayLike) -> RaggedArray:
        """The sequences at `indices` (K,), as a copy."""
        return self.array().gather(indices)
