"""Shared part of the published networks: maps of entities in, conditional multi-discrete actions out.

Shape alphabet: B steps, N entities, A actors, C choices of all components of an order, M components.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ...envs import ActionMask, EntityActionSpace, EntityBatch, EntitySpace, MultiCategorical
from ...ragged import RaggedArray
from ..inputs.actors import Drawn, actor_rows, items_of
from ..policy import ActResult, Evaluation
from ..rogue_net.composite import CompositeOrders
from ..rogue_net.config import from_options
from ..rogue_net.summary import Cost, Summary, impala_cost
from .config import GridConfig, MapConfig
from .cost import parameters_by_part
from .entity_map import EntityMap, MapEntities


class MapPolicy(nn.Module, ABC):
    """A `Policy` for entities on a map, of which some give composite orders. Abstract.

    The action space has one action, a `MultiCategorical`; the observation space is as `EntityMap` reads it.
    """

    def __init__(
        self,
        observation_space: EntitySpace,
        action_space: EntityActionSpace,
        settings: type[MapConfig],
        options: Mapping[str, Any],
    ) -> None:
        """
        Raises:
            TypeError: other spaces than these, or an unknown option.
            ValueError: spaces that these networks can't work with, or an option that does not fit.
        """
        super().__init__()
        kind = type(self).__name__
        if not isinstance(observation_space, EntitySpace) or not isinstance(action_space, EntityActionSpace):
            raise TypeError(
                f"{kind}: expected an EntitySpace and an EntityActionSpace, got"
                f" {type(observation_space).__name__} and {type(action_space).__name__}"
            )
        actions = list(action_space.items())
        if len(actions) != 1 or not isinstance(actions[0][1], MultiCategorical):
            raise ValueError(f"expected one action, a MultiCategorical, got {action_space}")
        self.observation_space = observation_space
        self.action_space = action_space
        self.settings: Any = from_options(settings, options)
        #: The options as plain JSON-able values: the same class with `**config` builds the same network.
        self.config: dict[str, Any] = self.settings.to_dict()
        self.name, self.action = actions[0][0], actions[0][1]
        self.orders = CompositeOrders(self.name, self.action, self.settings.composite)
        self.map = EntityMap(observation_space, self.settings.height, self.settings.width)
        if isinstance(self.settings, GridConfig):
            self.map.set_empty_planes(self.settings.empty_planes_of(self.map.plane_names))

    # -- the policy's interface -----------------------------------------------------------------------------

    def act(self, batch: EntityBatch, rng: np.random.Generator, deterministic: bool = False) -> ActResult:
        """Choose an order for every actor; see `Policy.act`.

        Raises:
            ValueError: the batch does not fit the space or the map, or an actor may do nothing.
        """
        with torch.inference_mode():
            seen, mask, actors = self._read(batch)
            chosen, values = self._draw(seen, mask, actors, None if deterministic else rng)
            drawn = {} if chosen.drawn is None else {self.name: mask.actors.with_values(chosen.drawn)}
            return ActResult(
                {self.name: mask.actors.with_values(chosen.actions)},
                {self.name: mask.actors.with_values(chosen.log_probs)},
                values.float().cpu().numpy(),
                drawn,
            )

    def value(self, batch: EntityBatch) -> NDArray[np.float32]:
        """Predicted return of each step (B,), without gradients."""
        with torch.inference_mode():
            return self._values(self.map.read(batch)).float().cpu().numpy()

    def evaluate(self, batch: EntityBatch, actions: Mapping[str, RaggedArray]) -> Evaluation:
        """Log-probabilities, entropies and values of `actions` taken at `batch`, with gradients.

        Raises:
            ValueError: the action is missing, has the wrong number of items, or was not allowed.
        """
        seen, mask, actors = self._read(batch)
        chosen = items_of(self.name, actions, mask.actors)
        log_probs, entropies, values = self._evaluate(seen, mask, actors, chosen)
        return Evaluation({self.name: log_probs}, {self.name: entropies}, values)

    def forward(self, batch: EntityBatch, actions: Mapping[str, RaggedArray]) -> Evaluation:
        """Return `evaluate(batch, actions)`."""
        return self.evaluate(batch, actions)

    def update_normalization(self, batch: EntityBatch) -> None:
        """Nothing: these networks read planes of 0 and 1 as they are."""

    def adapt_to(self, space: EntitySpace) -> None:
        """Check that batches of `space` can be read; global features don't matter.

        Raises:
            ValueError: its entity types or features are others, or the actions differ.
        """
        if space.actions != self.action_space:
            raise ValueError(f"the actions differ: expected {self.action_space!r}, got {space.actions!r}")
        if list(space.entities.items()) != list(self.observation_space.entities.items()):
            raise ValueError(
                f"the entity types differ: expected {self.observation_space.entities}, got {space.entities}"
            )

    def summary(
        self, entity_counts: Mapping[str, float] | None = None, actors: Mapping[str, float] | None = None
    ) -> Summary:
        """Parameters, itemised, and multiply-adds of one step with `entity_counts` entities per type.

        `actors`: how many act, 1 unless said. Normalisation, activations and softmax are not counted.

        Raises:
            ValueError: an entity type or action that the network does not have.
        """
        for what, names, known in (
            ("entity type", entity_counts or {}, self.observation_space.entities),
            ("action", actors or {}, self.action_space.spaces),
        ):
            for name in names:
                if name not in known:
                    raise ValueError(f"there is no {what} {name!r}; there are {', '.join(known)}")
        cost = None
        if entity_counts is not None:
            items = self._cost(sum(entity_counts.values()), (actors or {}).get(self.name, 1.0))
            cost = Cost(dict(entity_counts), items, None)
        return Summary(parameters_by_part(self), None, 0, cost, impala_cost())

    # -- inside ---------------------------------------------------------------------------------------------

    def _read(self, batch: EntityBatch) -> tuple[MapEntities, ActionMask, NDArray[np.int64]]:
        """The batch, its one action's mask, and the row of each actor (A,)."""
        seen, mask = self.map.read(batch), batch.actions[self.name]
        return seen, mask, actor_rows(self.name, False, seen.rows, mask, self.action.num_choices)

    @abstractmethod
    def _draw(
        self,
        seen: MapEntities,
        mask: ActionMask,
        actors: NDArray[np.int64],
        rng: np.random.Generator | None,
    ) -> tuple[Drawn, Tensor]:
        """An order for each actor, from `rng` or (None) the most probable, and values (B,)."""

    @abstractmethod
    def _evaluate(
        self, seen: MapEntities, mask: ActionMask, actors: NDArray[np.int64], chosen: RaggedArray
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Log-probabilities (A,), entropies (A,) and values (B,)."""

    @abstractmethod
    def _values(self, seen: MapEntities) -> Tensor:
        """Values (B,), while acting."""

    @abstractmethod
    def _cost(self, entities: float, actors: float) -> dict[str, float]:
        """Multiply-adds of one step, part by part."""


class PerUnitPolicy(MapPolicy):
    """A map policy whose units decide independently of each other, each by logits of its own. Abstract."""

    def _draw(
        self,
        seen: MapEntities,
        mask: ActionMask,
        actors: NDArray[np.int64],
        rng: np.random.Generator | None,
    ) -> tuple[Drawn, Tensor]:
        logits, values = self._logits_values(seen, actors, rng)
        return self.orders.draw(logits, mask.mask, rng), values

    def _evaluate(
        self, seen: MapEntities, mask: ActionMask, actors: NDArray[np.int64], chosen: RaggedArray
    ) -> tuple[Tensor, Tensor, Tensor]:
        logits, values = self._logits_values(seen, actors, None)
        return *self.orders.evaluate(logits, mask.mask, chosen), values

    @abstractmethod
    def _logits_values(
        self, seen: MapEntities, actors: NDArray[np.int64], rng: np.random.Generator | None
    ) -> tuple[Tensor, Tensor]:
        """Logits of each actor (A, C) and values (B,); `rng`: what acting may use, if anything."""
