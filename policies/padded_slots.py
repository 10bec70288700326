"""Slots of padded observations: flags of presence, and the rows of actors and actees.

Shape alphabet as in `padded`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..envs import PaddedLayout

Flags = dict[str, NDArray[np.bool_]]


class Slots:
    """Reads the flags and slots of a layout out of padded observations."""

    def __init__(self, layout: PaddedLayout, wants_rows: bool) -> None:
        self.layout = layout
        self._spaces = layout.observation_space.without_empty_arrays().spaces
        #: (slots, presence) of each list of actors or actees whose rows are wanted, and its length.
        self.lists = {keys: count for keys, count in _lists(layout).items() if wants_rows and count}
        #: The number of rows of a step: A and E of all lists together.
        self.num_rows = sum(self.lists.values())
        types = list(layout.max_entities)
        flags = [f"{what}/{name}" for what in ("presence", "visible") for name in types]
        flags += [key for _, key in self.lists]
        self._flags = [key for key in flags if key in self._spaces]
        read = [f"entities/{name}" for name in types] + flags + [key for key, _ in self.lists] + ["globals"]
        self._read = read

    def num_steps(self, observations: Mapping[str, Tensor]) -> int:
        """Return the number of steps (B)."""
        return len(next(iter(observations.values())))

    def flags(self, observations: Mapping[str, Tensor]) -> Flags:
        """Return the flags of presence by name of the array; hidden entities count as absent.

        Raises:
            TypeError: an array is no tensor.
            ValueError: an array is missing, of the wrong shape, or is no flag.
        """
        self.check_arrays(observations, self._read)
        maxima, num_steps = self.layout.max_entities, self.num_steps(observations)
        flags = {f"presence/{name}": np.zeros((num_steps, most), bool) for name, most in maxima.items()}
        if not self._flags:
            return flags
        # One array, so that a GPU is waited for once.
        together = torch.cat([observations[key].float() for key in self._flags], 1).cpu().numpy()
        widths = [self._spaces[key].shape[0] for key in self._flags]  # type: ignore[index]
        for key, values in zip(self._flags, np.split(together, np.cumsum(widths)[:-1], 1), strict=True):
            flags[key] = values != 0
            strange = values[flags[key] & (values != 1)]
            if strange.size:
                raise ValueError(
                    f"{key!r}: expected 0 or 1, got {strange[0]:g}: a wrapper has changed the observations."
                    " Use VecNormalize(norm_obs=False): RogueNet normalizes its inputs itself."
                )
        for name in maxima:
            if f"visible/{name}" in flags:
                flags[f"presence/{name}"] &= flags[f"visible/{name}"]
        return flags

    def row_indices(
        self, observations: Mapping[str, Tensor], flags: Flags, offsets: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the row of each actor and actee in the lists (B, num_rows).

        It is the number of rows for an empty slot. The rows of step b start at `offsets[b]`, in the order of
        the slots.

        Raises:
            ValueError: the slot of an actor or actee has no entity, or a hidden one.
        """
        absent = int(offsets[-1])
        if not self.num_rows:
            return np.zeros((len(offsets) - 1, 0), np.int64)
        present = np.concatenate([flags[f"presence/{n}"] for n in self.layout.max_entities], 1)  # (B, M)
        row_of_slot = np.where(present, np.cumsum(present, 1) - 1 + offsets[:-1, None], absent)
        row_of_slot = np.pad(row_of_slot, ((0, 0), (0, 1)), constant_values=absent)  # of slot -1
        together = torch.cat([observations[key] for key, _ in self.lists], 1).long().cpu().numpy()
        there = np.concatenate([flags[key] for _, key in self.lists], 1)
        slots = np.where(there, together, -1)
        if slots.size and (slots.max() >= self.layout.num_slots or (there & (slots < 0)).any()):
            raise ValueError(f"actors and actees: expected slots below {self.layout.num_slots}, got others")
        rows = np.take_along_axis(row_of_slot, slots, 1)
        lost = there & (rows == absent)
        if lost.any():
            step, place = np.argwhere(lost)[0]
            slot = slots[step, place]
            raise ValueError(
                f"{self._list_of(place)!r}: step {step}: expected an entity's slot, got slot {slot}"
            )
        return rows

    def _list_of(self, place: int) -> str:
        """Return the name of the list to which position `place` of all lists together belongs."""
        ends = np.cumsum(list(self.lists.values()))
        return list(self.lists)[int(np.searchsorted(ends, place, "right"))][0]

    def check_arrays(self, observations: Mapping[str, Tensor], keys: Iterable[str]) -> None:
        """Check those of the arrays `keys` that the layout has.

        Raises:
            TypeError: one is no tensor.
            ValueError: one is missing, or of the wrong shape.
        """
        num_steps = self.num_steps(observations) if observations else 0
        for key in keys:
            if key not in self._spaces:
                continue
            if key not in observations:
                raise ValueError(f"observations: expected {key!r}, got {', '.join(observations) or 'none'}")
            if not isinstance(observations[key], Tensor):
                kind = type(observations[key]).__name__
                raise TypeError(f"{key!r}: expected a tensor, got {kind}. Convert it with torch.as_tensor")
            shape, wanted = tuple(observations[key].shape), (num_steps, *(self._spaces[key].shape or ()))
            if len(shape) == len(wanted) - 1:
                raise ValueError(
                    f"{key!r}: expected shape (B, {', '.join(map(str, wanted[1:]))}), got {shape}. Put"
                    " steps in a batch, a single one with [None]"
                )
            if shape != wanted:
                raise ValueError(
                    f"{key!r}: expected shape {wanted}, got {shape}: the network was built for the maxima"
                    f" {self.layout.max_entities}. For other maxima build a network of their space and load"
                    " the weights, which do not depend on maxima."
                )


def _lists(layout: PaddedLayout) -> dict[tuple[str, str], int]:
    """Return the names of slots and presence of all lists of actors and actees, with the lists' lengths."""
    lists = {}
    for name, action in layout.space.actions.items():
        prefix = f"actions/{name}"
        if not action.is_global:
            lists[f"{prefix}/actors", f"{prefix}/presence"] = layout.max_actors[name]
        if action.selects_entities:
            lists[f"{prefix}/actees", f"{prefix}/actee_presence"] = layout.max_actees[name]
    return lists
