"""Check of arrays that come from a saved state, which may be damaged or of another environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

State = Mapping[str, NDArray[Any]]
Bound = float | tuple[float, ...]
#: The least and the greatest valid numbers of arrays by name; both broadcast against the array.
Bounds = dict[str, tuple[Bound, Bound]]


def check_arrays(where: str, own: State, given: State) -> None:
    """Check that `given` has the arrays of `own`, in their dtypes and shapes, and that bools are 0 or 1.

    Raises:
        ValueError: an array is missing or differs; the message starts with `where`.
    """
    for name, array in own.items():
        got = given.get(name)
        if got is None or got.shape != array.shape or got.dtype != array.dtype:
            found = "nothing" if got is None else f"{got.dtype} {got.shape}"
            raise ValueError(f"{where}: state {name!r}: expected {array.dtype} {array.shape}, got {found}")
        if got.dtype == bool and (got.view(np.uint8) > 1).any():  # bytes of a file; kernels count with them
            raise ValueError(
                f"{where}: state {name!r}: expected bytes 0 and 1, got {got.view(np.uint8).max()}"
            )
