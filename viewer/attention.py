"""The attention that a page keeps of a step: the largest weights. Shape alphabet: H heads, n rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..policies.policy import Explanation

#: Weights kept at a step, for each head: the largest of each row, or all where they fit.
WEIGHTS_PER_STEP = 1600
#: At least this many of each row.
LEAST_WEIGHTS = 8
#: Steps with more rows are recorded without their smaller weights, of which there are n² in each head.
MOST_ROWS = 64


@dataclass(frozen=True, eq=False)
class LargestWeights:
    """The largest attention weights of a layer at one step; `np.asarray` gives (H, n, n), 0 for others."""

    rows: NDArray[np.int64]  # (H, n, k): the rows that each row attends to most, the largest weight first
    weights: NDArray[np.float32]  # (H, n, k)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(H, n, n)"""
        return len(self.rows), self.rows.shape[1], self.rows.shape[1]

    def __len__(self) -> int:
        return len(self.rows)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        heads, n, _ = self.rows.shape
        dense = np.zeros((heads, n, n), dtype or np.float32)
        np.put_along_axis(dense, self.rows, self.weights, -1)
        return dense


def largest_weights(weights: NDArray[np.float32] | LargestWeights) -> LargestWeights:
    """Return the weights of a layer (H, n, n) that are kept of it."""
    if isinstance(weights, LargestWeights):
        return weights
    n = weights.shape[-1]
    k = min(n, max(LEAST_WEIGHTS, WEIGHTS_PER_STEP // max(n, 1)))
    every = np.broadcast_to(np.arange(n), weights.shape)
    rows = np.argpartition(-weights, k - 1, -1)[..., :k] if k < n else every
    kept = np.take_along_axis(weights, rows, -1)
    order = np.argsort(-kept, -1, kind="stable")
    return LargestWeights(np.take_along_axis(rows, order, -1), np.take_along_axis(kept, order, -1))


def without_small_weights(explanation: Explanation) -> Explanation:
    """Return an explanation that fits into memory many times."""
    if len(explanation.rows) <= MOST_ROWS:
        return explanation
    attention: Any = tuple(map(largest_weights, explanation.attention))
    return replace(explanation, attention=attention)
