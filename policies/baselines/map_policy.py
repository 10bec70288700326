"""Networks for maps: entities on cells in, conditional multi-discrete actions out. Abstract.

Shape alphabet: B steps, N entities, A actors, C choices of all components of an action, P planes.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from ...envs import ActionMask, EntityBatch, MultiCategorical
from ..inputs.actors import actor_rows
from ..rogue_net.composite import ConditionalChoices
from .baseline import Baseline
from .config import GridConfig
from .entity_map import EntityMap, MapEntities


class MapPolicy(Baseline):
    """A policy for entities on a map, of which some give conditional multi-discrete actions. Abstract.

    The observation space is as `EntityMap` reads it.
    """

    kind = MultiCategorical
    distribution: ConditionalChoices

    def _build(self) -> None:
        self.distribution = ConditionalChoices(self.name, self.action, self.settings.composite)
        self.map = EntityMap(self.observation_space, self.settings.height, self.settings.width)
        if isinstance(self.settings, GridConfig):
            self.map.set_empty_planes(self.settings.empty_planes_of(self.map.plane_names))

    def _see(self, batch: EntityBatch) -> MapEntities:
        return self.map.read(batch)

    def _actors(self, seen: MapEntities, mask: ActionMask) -> NDArray[np.int64]:
        return actor_rows(self.name, False, seen.rows, mask, self.action.num_choices)


class ImagePolicy(MapPolicy):
    """A map policy with an `encoder` of the planes of all cells and a `critic` behind it. Abstract."""

    #: The sides of images are multiples of this.
    multiple: ClassVar[int] = 1
    encoder: Any
    critic: nn.Module

    def _grid(self, seen: MapEntities) -> Tensor:
        """Return the planes of all cells (B, H · W, P)."""
        return self.map.grid(seen, next(self.critic.parameters()))

    def _encode(self, grid: Tensor) -> Tensor:
        return self.encoder(self.map.images(grid, self.multiple))

    def _values(self, seen: MapEntities) -> Tensor:
        return self.critic(self._encode(self._grid(seen))).squeeze(1)
