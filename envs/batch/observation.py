"""`Observation`: one step as an environment's author writes it.

Entities may be given ids (any hashable values); actors and actees are then named by id or by type, and
actions come back with the same ids. The plain dict that Gymnasium gets has entity indices instead.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from numpy.typing import ArrayLike

from ..actions.kinds import Mask


@dataclass
class Observation:
    """One step, as an environment's author writes it.

    A type that is left out has no entities; an action that is left out is not available at this step.
    """

    entities: Mapping[str, ArrayLike] = field(default_factory=dict)  # per type (n, F)
    globals: ArrayLike = ()  # (G,)
    actions: Mapping[str, Mask] = field(default_factory=dict)
    ids: Mapping[str, Sequence[Hashable]] = field(default_factory=dict)  # per type, n ids; optional
    visible: Mapping[str, ArrayLike] = field(default_factory=dict)  # per type (n,) bool; left out: visible
