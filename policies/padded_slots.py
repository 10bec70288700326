"""Who is where in padded observations: flags, and the rows of actors and actees.

Shape alphabet as in `padded`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..envs import PaddedLayout, SelectEntity

Flags = dict[str, NDArray[np.bool_]]


class Slots:
    """Reads the flags and slots of a layout out of padded observations."""

    def __init__(self, layout: PaddedLayout, wants_rows: bool) -> None:
        self.layout = layout
        types = list(layout.max_entities)
        #: (slots, who is there) of each list of actors or actees whose rows are wanted, and its length.
        self.lists: dict[tuple[str, str], int] = {}
        for name, action in layout.space.actions.items():
            if not wants_rows or action.is_global or not layout.num_slots:
                continue
            prefix = f"actions/{name}"
            self.lists[f"{prefix}/actors", f"{prefix}/presence"] = layout.max_actors[name]
            if isinstance(action, SelectEntity):
                self.lists[f"{prefix}/actees", f"{prefix}/actee_presence"] = layout.max_actees[name]
        #: How many rows a step gives, A and E of all lists together.
        self.num_rows = sum(self.lists.values())
        self._spaces = layout.observation_space.spaces
        self._flags = [f"presence/{name}" for name in types]
        self._flags += [f"visible/{name}" for name in types if layout.space.hidden]
        self._flags += [flags for _, flags in self.lists]
        slots = [slots for slots, _ in self.lists]
        features = [f"entities/{name}" for name in types]
        self._read = [*features, *self._flags, *slots, *(["globals"] if layout.space.global_features else [])]

    def num_steps(self, observations: Mapping[str, Tensor]) -> int:
        return len(next(iter(observations.values())))

    def flags(self, observations: Mapping[str, Tensor]) -> Flags:
        """Who is there, by name of the array. Entities that are hidden are not.

        Raises:
            ValueError: an array is missing, of the wrong shape, or is no flag.
        """
        self._check_shapes(observations)
        if not self._flags:
            return {}
        # One array, so that an accelerator is waited for once.
        together = torch.cat([observations[key].float() for key in self._flags], 1).cpu().numpy()
        widths = [self._spaces[key].shape[0] for key in self._flags]  # type: ignore[index]
        parts = np.split(together, np.cumsum(widths)[:-1], 1)
        flags = {}
        for key, values in zip(self._flags, parts, strict=True):
            flags[key] = values != 0
            strange = values[flags[key] & (values != 1)]
            if strange.size:
                raise ValueError(
                    f"{key!r} holds {strange[0]:g} where 0 and 1 say who is there; wrappers have to leave"
                    " observations as they are: use VecNormalize(norm_obs=False), RogueNet normalises its"
                    " inputs itself"
                )
        if self.layout.space.hidden:
            for name in self.layout.max_entities:
                flags[f"presence/{name}"] &= flags[f"visible/{name}"]
        return flags

    def row_indices(
        self, observations: Mapping[str, Tensor], flags: Flags, offsets: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """The row (B, num_rows) of everybody in the lists, when the rows of step b start at `offsets[b]` and
        are in the order of the slots; where nobody is, the number of rows.

        Raises:
            ValueError: an actor or actee is in a slot where no entity is, or none that may be seen.
        """
        nobody = int(offsets[-1])
        if not self.num_rows:
            return np.zeros((len(offsets) - 1, 0), np.int64)
        present = np.concatenate([flags[f"presence/{n}"] for n in self.layout.max_entities], 1)  # (B, M)
        row_of_slot = np.where(present, np.cumsum(present, 1) - 1 + offsets[:-1, None], nobody)
        row_of_slot = np.pad(row_of_slot, ((0, 0), (0, 1)), constant_values=nobody)  # what slot -1 is
        together = torch.cat([observations[key] for key, _ in self.lists], 1).long().cpu().numpy()
        there = np.concatenate([flags[key] for _, key in self.lists], 1)
        slots = np.where(there, together, -1)
        if slots.size and (slots.max() >= self.layout.num_slots or (there & (slots < 0)).any()):
            raise ValueError(f"actors and actees name slots beyond the {self.layout.num_slots} there are")
        rows = np.take_along_axis(row_of_slot, slots, 1)
        lost = there & (rows == nobody)
        if lost.any():
            step, place = np.argwhere(lost)[0]
            slot = slots[step, place]
            raise ValueError(f"{self._list_of(place)!r}: there is no entity in slot {slot} at step {step}")
        return rows

    def _list_of(self, place: int) -> str:
        """The name of the list that position `place` of all lists together belongs to."""
        ends = np.cumsum(list(self.lists.values()))
        return list(self.lists)[int(np.searchsorted(ends, place, "right"))][0]

    def _check_shapes(self, observations: Mapping[str, Tensor]) -> None:
        num_steps = self.num_steps(observations) if observations else 0
        for key in self._read:
            if key not in observations:
                raise ValueError(f"the observations have no {key!r}; there are {', '.join(observations)}")
            shape, wanted = tuple(observations[key].shape), (num_steps, *(self._spaces[key].shape or ()))
            if shape != wanted:
                raise ValueError(
                    f"{key!r} has shape {shape}, expected {wanted}: the network was built for the maxima"
                    f" {self.layout.max_entities}; for others build one of their space and load the weights,"
                    " which don't depend on maxima"
                )
