"""Idle lanes: what the environments show where some of them have nothing to decide (see `EntityVectorEnv`).

Shape alphabet: E environments.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..envs import EntityBatch, idle_lanes
from ..ragged import RaggedArray


def active_lanes(info: Mapping[str, Any]) -> NDArray[np.bool_] | None:
    """The environments (E,) that are not idle in the batch that came with `info`; None: none of them is."""
    if "idle" not in info:
        return None
    active = ~idle_lanes(info, len(info["idle"]))
    return None if active.all() else active


@dataclass(frozen=True, eq=False)
class Shown:
    """Observations of E lanes, and which lanes are active."""

    batch: EntityBatch
    active: NDArray[np.bool_] | None = None  # (E,); None: all are

    @classmethod
    def of(cls, batch: EntityBatch, info: Mapping[str, Any]) -> Shown:
        """As a vector environment returned it."""
        return cls(batch, active_lanes(info))

    def at_work(self) -> EntityBatch:
        """The steps of the environments that are not idle."""
        return self.batch if self.active is None else self.batch.gather(np.flatnonzero(self.active))

    def for_all(self, actions: Mapping[str, RaggedArray]) -> Mapping[str, RaggedArray]:
        """Actions of the environments that are not idle as actions of all, with none for the idle ones."""
        if self.active is None:
            return actions
        before = np.zeros(len(self.active) + 1, np.int64)  # how many are active before each environment
        np.cumsum(self.active, out=before[1:])
        return {
            name: RaggedArray.unchecked(chosen.values, chosen.offsets[before])
            for name, chosen in actions.items()
        }
