"""Answers of workers in shared memory: steps, the numeric arrays of infos, and all workers' as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....ragged import BlockLayout
from ....ragged.blocks import aligned, write_array
from ...batch.entity_batch import EntityBatch
from ...batch.packed import PackedLayout
from ...spaces import EntitySpace
from ..lanes import LaneStep

_FLOAT, _BOOL = np.dtype(np.float32), np.dtype(np.bool_)


class Answer(NamedTuple):
    """The answer to the parent: a step (or reset) through memory, the rest pickled."""

    step: LaneStep
    rest: Any

    @property
    def num_final(self) -> int:
        """The number of ended lanes whose last observations the step has."""
        return 0 if self.step.final is None else len(self.step.final)


def reset_step(batch: EntityBatch) -> LaneStep:
    """A reset as a step without rewards and ends."""
    lanes = len(batch)
    return LaneStep(batch, np.zeros(lanes, np.float32), np.zeros(lanes, bool), np.zeros(lanes, bool), None)


class AnswerLayout:
    """Layout in memory of the steps of lanes with one observation space, without infos.

    First a block with results and batch, then where lanes have ended one with their last observations.
    """

    def __init__(self, space: EntitySpace) -> None:
        self._packed = PackedLayout(space)
        globals_ = _FLOAT, (len(space.global_features),)
        ragged = list(self._packed.formats.values())
        self._steps = BlockLayout([(_FLOAT, ()), (_BOOL, ()), (_BOOL, ()), globals_], ragged)
        self._finals = BlockLayout([globals_], ragged)

    def write(self, step: LaneStep, memory: NDArray[np.uint8], start: int = 0) -> int:
        """Write `step` into `memory` from byte `start` on, a multiple of eight, if there is room.

        Returns:
            the byte behind it; where that lies outside `memory`, nothing has been written.
        """
        dense = [step.rewards, step.terminated, step.truncated, step.batch.globals]
        ragged = self._packed.ragged_arrays(step.batch)
        end = start + self._steps.size(dense, ragged)
        if step.final is None:
            if end <= len(memory):
                self._steps.write(memory, dense, ragged, start)
            return end
        last = [step.final.globals], self._packed.ragged_arrays(step.final)
        end += self._finals.size(*last)
        if end <= len(memory):
            self._finals.write(memory, *last, self._steps.write(memory, dense, ragged, start))
        return end

    def join(self, addresses: Sequence[int], lanes: Sequence[int], num_final: Sequence[int]) -> LaneStep:
        """The steps written at some memory addresses as one, in new memory.

        Args:
            addresses: where in memory they are.
            lanes: how many lanes each of them has.
            num_final: how many last observations each of them has.
        """
        results, ragged, ends = self._steps.join(addresses, lanes)
        rewards, terminated, truncated, globals_ = results
        batch = self._packed.batch(globals_, ragged)
        step = LaneStep(batch, rewards, terminated, truncated, None)
        if any(num_final):
            (globals_,), ragged, _ = self._finals.join(ends, num_final)
            step.final = self._packed.batch(globals_, ragged)
        return step


# -- infos: the arrays with a number for every lane ---------------------------------------------------------

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
    """Read copies of the arrays that `write_columns` wrote."""
    columns, start = {}, 0
    for name, dtype, shape in formats:
        column: NDArray[Any] = np.ndarray(shape, dtype, memory, start)
        columns[name] = column.copy()
        start += aligned(column.nbytes)
    return columns
