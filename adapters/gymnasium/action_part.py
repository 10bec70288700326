"""`ActionPart`: an action space, or a part of one, as named entity actions and back.

Shape alphabet: B observations in a batch, C choices, K real numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...envs import ActionMask, ActionSpace, EntityBatch
from ...ragged import RaggedArray
from .views.scope import EntityEncoder

#: Per named action what was chosen in each lane: int64 (B,), or float32 (B, K) where it is continuous.
Choices = Mapping[str, NDArray[Any]]


class OwnedAction(ABC):
    """An action of entities that stands for one of Gymnasium's."""

    @abstractmethod
    def bind(self, encoder: EntityEncoder) -> EntityEncoder:
        """Fit the action to the entities of a view, and return them with those that the action adds.

        Raises:
            ViewError: an unknown type or feature.
        """

    @abstractmethod
    def mask(
        self, entities: Mapping[str, RaggedArray], flags: NDArray[np.bool_] | None, batch_size: int
    ) -> ActionMask:
        """Return who may choose what, from flags (B, …) as `ActionPart.masks` returns them; None: all."""

    def check_mask(  # noqa: B027
        self,
        mask: ActionMask,
        flags: NDArray[np.bool_],
        entities: Mapping[str, RaggedArray],
        going_on: NDArray[np.bool_],
    ) -> None:
        """Check what `mask` returned for `flags` in the lanes (B,) that are `going_on`.

        Raises:
            ObservationError: the flags allow a choice, but no entity can be selected.
        """

    @abstractmethod
    def choices(self, given: RaggedArray, batch: EntityBatch) -> NDArray[Any]:
        """Return what was chosen in each lane, as a global action would have it (see `Choices`)."""


class ActionPart(ABC):
    """A Gymnasium action space, taken apart into named actions: global ones, or (`owned`) of entities."""

    names: dict[str, ActionSpace]
    #: Those of the actions that belong to entities.
    owned: Mapping[str, OwnedAction] = {}

    @abstractmethod
    def decode(self, choices: Choices) -> Any:
        """The batched Gymnasium action."""

    @abstractmethod
    def masks(self, mask: Any, batch_size: int, place: str) -> dict[str, NDArray[np.bool_]]:
        """For each categorical action bool (B, C), from a batched mask as `space.sample(mask=…)` takes it.

        Raises:
            ObservationError: a mask of the wrong length.
        """
