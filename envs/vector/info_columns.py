"""Infos between processes: what has a number for every lane goes through memory, the rest is pickled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...ragged.blocks import aligned, write_array

#: Name, dtype and shape (lanes, …) of each array, in the order in which they stand in memory.
Formats = tuple[tuple[str, np.dtype[Any], tuple[int, ...]], ...]

Columns = dict[str, NDArray[Any]]


def split_info(info: Any, num_lanes: int) -> tuple[Columns, Any]:
    """An info in Gymnasium's vector layout as its arrays of numbers (num_lanes, …), and the rest of it.

    An info that is no dict is all rest.
    """
    if type(info) is not dict:
        return {}, info
    columns = {
        key: value
        for key, value in info.items()
        if type(value) is np.ndarray and value.dtype.kind in "biuf" and value.shape[:1] == (num_lanes,)
    }
    return columns, {key: value for key, value in info.items() if key not in columns}


def formats_of(columns: Mapping[str, NDArray[Any]]) -> Formats:
    return tuple((name, column.dtype, column.shape) for name, column in columns.items())


def columns_size(formats: Formats) -> int:
    """Bytes that columns take, a multiple of eight."""
    return sum(aligned(dtype.itemsize * int(np.prod(shape))) for _, dtype, shape in formats)


def write_columns(memory: NDArray[np.uint8], columns: Mapping[str, NDArray[Any]]) -> None:
    """Write them to the beginning of `memory`, where there must be room."""
    start = 0
    for column in columns.values():
        start = write_array(memory, start, column)


def read_columns(memory: NDArray[np.uint8], formats: Formats) -> Columns:
    """What `write_columns` has written, as copies."""
    columns, start = {}, 0
    for name, dtype, shape in formats:
        column: NDArray[Any] = np.ndarray(shape, dtype, memory, start)
        columns[name] = column.copy()
        start += aligned(column.nbytes)
    return columns
