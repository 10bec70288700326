"""Ragged arrays as the types of other libraries, which are imported only when asked for."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray


def arrow_of(values: NDArray[Any], offsets: NDArray[np.int64]) -> Any:
    """Return a `pyarrow.LargeListArray` that shares memory; bool is a copy."""
    if 0 in values.shape[1:]:
        raise ValueError(f"Arrow has no items without features, these have shape {values.shape[1:]}")
    try:
        pyarrow: Any = importlib.import_module("pyarrow")
    except ImportError as error:
        raise ImportError("to_arrow needs the package 'pyarrow': pip install pyarrow") from error
    items = pyarrow.array(values.reshape(-1))
    for size in reversed(values.shape[1:]):
        items = pyarrow.FixedSizeListArray.from_arrays(items, size)
    return pyarrow.LargeListArray.from_arrays(pyarrow.array(offsets), items)
