"""Observations of vector environments in which some lanes are inactive (see `EntityVectorEnv`).

Shape alphabet: E environments.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..envs import EntityBatch
from ..envs.vector.infos import inactive_flags
from ..ragged import RaggedArray


def active_lanes(info: Mapping[str, Any]) -> NDArray[np.bool_] | None:
    """The environments (E,) that are active in the batch that came with `info`; None: all are."""
    inactive = inactive_flags(info)
    if inactive is None:
        return None
    active = ~np.asarray(inactive, bool)
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
        """The steps of the environments that are active."""
        return self.batch if self.active is None else self.batch.gather(np.flatnonzero(self.active))

    def for_all(self, actions: Mapping[str, RaggedArray]) -> Mapping[str, RaggedArray]:
        """Actions of the environments that are active as actions of all, with none for the inactive ones."""
        if self.active is None:
            return actions
        before = np.zeros(len(self.active) + 1, np.int64)  # how many are active before each environment
        np.cumsum(self.active, out=before[1:])
        return {
            name: RaggedArray.unchecked(chosen.values, chosen.offsets[before])
            for name, chosen in actions.items()
        }
