"""`PaddedSpace`: the space of padded observations, which knows what was padded."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gymnasium import spaces

if TYPE_CHECKING:
    from .padding import PaddedLayout


class PaddedSpace(spaces.Dict):
    """A Dict of fixed arrays, as `PaddedLayout.observation_space` describes them.

    Vector environments and learners see a plain Dict. A network that wants the entities back finds in
    `layout` where they are. Two such spaces are equal when they hold the same things in the same places.
    """

    def __init__(self, layout: PaddedLayout, parts: Mapping[str, spaces.Space[Any]]) -> None:
        super().__init__(dict(parts))
        self.layout = layout

    def without_empty_arrays(self) -> PaddedSpace:
        """The space of the arrays that hold anything: some learners can't do with those of size zero."""
        return PaddedSpace(
            self.layout, {key: part for key, part in self.spaces.items() if math.prod(part.shape or ())}
        )

    def __eq__(self, other: object) -> bool:
        if not super().__eq__(other):
            return False
        # Names are no part of a Dict of arrays, but two features in another order are another observation.
        return not isinstance(other, PaddedSpace) or self.layout.space == other.layout.space

    __hash__ = None  # type: ignore[assignment]
