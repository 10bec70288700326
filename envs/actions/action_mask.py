"""`ActionMask`: the actors of an action at many steps, and the allowed choices of each.

Shape alphabet: B steps, A actors, E actees, C choices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...ragged import RaggedArray
from ...ragged.compiled import compiled


@dataclass(frozen=True, eq=False, init=False)
class ActionMask:
    """The actors of one action at many steps, and the allowed choices of each.

    A global action is performed by no entity: its `actors` hold a single -1 at each step where the action is
    available.
    A continuous action has no choices to mask: its `mask` has no columns.
    """

    actors: RaggedArray  # (A,) int64: entity indices within the step
    #: bool, true = allowed; (multi-)categorical (A, C), continuous (A, 0), select-entity (sum A_b * E_b,) by
    #: actor
    mask: RaggedArray
    actees: RaggedArray | None = None  # (E,) int64: entity indices within the step; select-entity only

    def __init__(self, actors: RaggedArray, mask: RaggedArray, actees: RaggedArray | None = None) -> None:
        # What a frozen dataclass makes itself sets one attribute after the other, at twice the price.
        self.__dict__.update(actors=actors, mask=mask, actees=actees)

    def map(self, function: Callable[[RaggedArray], RaggedArray]) -> ActionMask:
        """Apply the same function to each of the arrays."""
        return ActionMask(
            function(self.actors), function(self.mask), None if self.actees is None else function(self.actees)
        )


def stack_ragged(parts: Sequence[NDArray[Any]], dtype: Any, inner_shape: tuple[int, ...] = ()) -> RaggedArray:
    """Checked arrays (n_b, *inner) as one ragged array; dtypes are converted once for all of them."""
    if not parts:
        return RaggedArray.empty(0, inner_shape, dtype)
    values = np.concatenate(parts).astype(dtype, copy=False)
    return RaggedArray.from_lengths(values, np.array([len(part) for part in parts], np.int64))


@compiled(cache=False)
def count_allowed(mask: NDArray[np.bool_]) -> int:
    """Count the allowed choices of one actor's `mask` (C,)."""
    count = 0
    for choice in range(len(mask)):  # for Numba, NumPy's sum is twenty functions to compile
        count += mask[choice]
    return count


@compiled(cache=False)
def allowed_choice(mask: NDArray[np.bool_], fraction: float) -> int:
    """Return the choice at `fraction`, in [0, 1), of those that one actor's `mask` (C,) allows; -1: none."""
    left = np.int64(fraction * count_allowed(mask))
    for choice in range(len(mask)):
        if mask[choice]:
            if left == 0:
                return choice
            left -= 1
    return -1
