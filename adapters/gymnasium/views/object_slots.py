"""`ObjectSlots`: places in a vector that are reserved for objects of known types, as OCAtari has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from ....ragged import RaggedArray
from .scope import EntityEncoder, Scope, View


@dataclass(frozen=True, repr=False)
class ObjectSlots(View):
    """Each slot of a vector is an entity, absent where all numbers of the newest frame are 0.

    Reads a Box (frames, width), whose last frame is the newest. An entity has the numbers of all frames.

    Args:
        slots: the type of each slot and the names of its numbers, in order.
    """

    slots: Sequence[tuple[str, Sequence[str]]]

    def bind(self, space: spaces.Space[Any], scope: Scope) -> EntityEncoder:
        width = sum(len(names) for _, names in self.slots)
        if not isinstance(space, spaces.Box) or space.shape[1:] != (width,):
            raise scope.refuse(self, space, f"a Box (frames, {width})")
        frames = space.shape[0]
        entities: dict[str, tuple[str, ...]] = {}
        starts: dict[str, list[int]] = {}
        start = 0
        for name, numbers in self.slots:
            ages = [("" if age == 0 else f"_{age}_ago") for age in reversed(range(frames))]
            entities[name] = tuple(f"{number}{age}" for age in ages for number in numbers)
            starts.setdefault(name, []).append(start)
            start += len(numbers)

        def encode(observation: Any, batch_size: int) -> dict[str, RaggedArray]:
            array = scope.array(observation, (batch_size, frames, width))
            rows = {}
            for name, features in entities.items():
                columns = np.add.outer(starts[name], np.arange(len(features) // frames))
                slots = array[:, :, columns].transpose(0, 2, 1, 3).reshape(batch_size, len(columns), -1)
                present = array[:, -1, columns].any(2)
                rows[name] = RaggedArray.from_lengths(slots[present].astype(np.float32), present.sum(1))
            return rows

        return EntityEncoder(entities, encode)
