"""What the lanes of one worker say at a step, in memory, and the answers of all workers as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....ragged import BlockLayout
from ...batch.entity_batch import EntityBatch
from ...batch.packed import PackedLayout
from ...spaces import EntitySpace
from ..lanes import LaneStep

_FLOAT, _BOOL = np.dtype(np.float32), np.dtype(np.bool_)


class Answer(NamedTuple):
    """What goes back to the parent: a step (or reset) through memory, the rest pickled."""

    step: LaneStep
    rest: Any

    @property
    def num_final(self) -> int:
        """Of how many ended lanes the step has the last observations."""
        return 0 if self.step.final is None else len(self.step.final)


def reset_step(batch: EntityBatch) -> LaneStep:
    """A reset as a step that gave nothing."""
    lanes = len(batch)
    return LaneStep(batch, np.zeros(lanes, np.float32), np.zeros(lanes, bool), np.zeros(lanes, bool), None)


class AnswerLayout:
    """How steps of lanes with one observation space are written into memory, without infos, and joined.

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
