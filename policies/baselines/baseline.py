"""`Baseline`: the shared part of the published networks, which decide about one action.

Shape alphabet: B steps, A actors, C choices.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ...envs import ActionMask, ActionSpace, EntityActionSpace, EntityBatch, EntitySpace
from ...envs.spaces.changes import action_changes
from ...ragged import RaggedArray
from ..inputs.actors import Drawn, items_of
from ..inputs.prepare import check_batch
from ..policy import ActResult, Evaluation, Explanation, source_of_draws
from ..rogue_net.config import from_options
from ..rogue_net.explanation import check_one_step
from ..rogue_net.heads import Distribution
from ..rogue_net.summary import Cost, Summary, check_counted_names
from .config import BaselineConfig
from .cost import parameters_by_part


class Baseline(nn.Module, ABC):
    """A published network as a `Policy`. Abstract.

    Subclasses make their modules in `_build`; what they read of a batch (`_see`) is passed on to the other
    methods as `seen`.
    """

    #: The dataclass of the options.
    options: ClassVar[type[BaselineConfig]]
    #: The kind of the one action.
    kind: ClassVar[type[ActionSpace]]
    #: Distribution of the action, set by `_build`.
    distribution: Distribution

    def __init__(
        self, observation_space: EntitySpace, action_space: EntityActionSpace, **options: Any
    ) -> None:
        """
        Raises:
            TypeError: other spaces than these, or an unknown option.
            ValueError: spaces that this network does not support, or an option that does not fit.
        """
        super().__init__()
        name = type(self).__name__
        if not isinstance(observation_space, EntitySpace) or not isinstance(action_space, EntityActionSpace):
            raise TypeError(
                f"{name}: expected an EntitySpace and an EntityActionSpace, got"
                f" {type(observation_space).__name__} and {type(action_space).__name__}"
            )
        actions = list(action_space.items())
        if len(actions) != 1 or not isinstance(actions[0][1], self.kind):
            raise ValueError(f"{name}: expected one action, a {self.kind.__name__}, got {action_space}")
        self.observation_space = observation_space
        self.action_space = action_space
        self.settings: Any = from_options(self.options, options)
        #: The options as plain JSON-able values: the same class with `**config` builds the same network.
        self.config: dict[str, Any] = self.settings.to_dict()
        self.name: str = actions[0][0]
        self.action: Any = actions[0][1]
        self._build()

    # -- the policy's interface -----------------------------------------------------------------------------

    def act(self, batch: EntityBatch, rng: np.random.Generator, deterministic: bool = False) -> ActResult:
        """Choose an action for every actor; see `Policy.act`.

        Raises:
            ValueError: the batch does not fit the space, or the mask allows an actor nothing.
        """
        with torch.inference_mode():
            seen, mask, actors = self._read(batch)
            chosen, values = self._draw(seen, mask, actors, source_of_draws(rng, deterministic))
            return ActResult.from_draws({self.name: chosen}, batch.actions, values.float().cpu().numpy())

    def value(self, batch: EntityBatch) -> NDArray[np.float32]:
        """Return the predicted return of each step (B,), without gradients."""
        check_batch(batch)
        with torch.inference_mode():
            return self._values(self._see(batch)).float().cpu().numpy()

    def evaluate(self, batch: EntityBatch, actions: Mapping[str, RaggedArray]) -> Evaluation:
        """Return log-probabilities, entropies and values of `actions` taken at `batch`, with gradients.

        Raises:
            ValueError: the action is missing, has the wrong number of items, or is masked.
        """
        seen, mask, actors = self._read(batch)
        chosen = items_of(self.name, actions, mask.actors)
        log_probs, entropies, values = self._evaluate(seen, mask, actors, chosen)
        return Evaluation({self.name: log_probs}, {self.name: entropies}, values)

    def log_probs(self, batch: EntityBatch) -> dict[str, Tensor]:
        """Return the log-probability of every choice; same contract as `RogueNet.log_probs`.

        A network that lets actors take turns has none before they do.
        """
        if type(self)._logits_values is Baseline._logits_values:
            return {}
        seen, mask, actors = self._read(batch)
        logits, _ = self._logits_values(seen, actors, None)
        return {self.name: self.distribution.log_probs(logits, mask.mask)}

    def explain(self, batch: EntityBatch) -> Explanation:
        """Return the distribution of the action at a single step; there is no attention to show.

        Raises:
            ValueError: the batch does not fit the space, or has another number of steps.
        """
        check_one_step(batch)
        with torch.inference_mode():
            found = self.log_probs(batch)
            return Explanation({name: given.exp().cpu().numpy() for name, given in found.items()})

    def forward(self, batch: EntityBatch, actions: Mapping[str, RaggedArray]) -> Evaluation:
        """Return `evaluate(batch, actions)`."""
        return self.evaluate(batch, actions)

    def update_normalization(self, batch: EntityBatch) -> None:
        """Do nothing: these networks read planes of 0 and 1, or frames divided by 255."""

    def adapt_to(self, space: EntitySpace) -> None:
        """Check that batches of `space` can be read; global features don't matter.

        Raises:
            ValueError: its entity types, features or frames are others, or the actions differ.
        """
        if space.actions != self.action_space:
            raise ValueError(f"{action_changes(space.actions, self.action_space)} of the network")
        for what, own, other in (
            ("entity types", list(self.observation_space.entities.items()), list(space.entities.items())),
            ("frames", self.observation_space.frame, space.frame),
        ):
            if own != other:
                raise ValueError(f"the {what} differ: expected {own!r}, got {other!r}")

    def summary(
        self, entity_counts: Mapping[str, float] | None = None, actors: Mapping[str, float] | None = None
    ) -> Summary:
        """Return the parameters, itemised, and the multiply-adds of one step with `entity_counts` entities.

        `actors`: how many act, 1 unless said. Normalization, activations, maxima and softmax are not counted.

        Raises:
            ValueError: an entity type or action that the network does not have.
        """
        check_counted_names("entity type", entity_counts or {}, self.observation_space.entities)
        check_counted_names("action", actors or {}, self.action_space.spaces)
        cost = None
        if entity_counts is not None:
            items = self._cost(sum(entity_counts.values()), (actors or {}).get(self.name, 1.0))
            cost = Cost(dict(entity_counts), items, None)
        return Summary(parameters_by_part(self), None, 0, cost)

    # -- inside ---------------------------------------------------------------------------------------------

    def _read(self, batch: EntityBatch) -> tuple[Any, ActionMask, NDArray[np.int64]]:
        check_batch(batch)
        seen, mask = self._see(batch), batch.actions[self.name]
        return seen, mask, self._actors(seen, mask)

    def _draw(
        self, seen: Any, mask: ActionMask, actors: NDArray[np.int64], rng: np.random.Generator | None
    ) -> tuple[Drawn, Tensor]:
        """Return an action for each actor, from `rng` or (None) the most probable, and values (B,)."""
        logits, values = self._logits_values(seen, actors, rng)
        return self.distribution.draw(logits, mask.mask, rng), values

    def _evaluate(
        self, seen: Any, mask: ActionMask, actors: NDArray[np.int64], chosen: RaggedArray
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return log-probabilities (A,), entropies (A,) and values (B,)."""
        logits, values = self._logits_values(seen, actors, None)
        return *self.distribution.evaluate(logits, mask.mask, chosen), values

    def _logits_values(
        self, seen: Any, actors: NDArray[np.int64], rng: np.random.Generator | None
    ) -> tuple[Tensor, Tensor]:
        """Return the logits of each actor (A, C) and values (B,); `rng`: for randomness in acting.

        Subclasses implement this, or `_draw` and `_evaluate`.
        """
        raise NotImplementedError(f"{type(self).__name__} must define _logits_values, or _draw and _evaluate")

    @abstractmethod
    def _build(self) -> None:
        """Make the modules and the distribution, of spaces and options that are checked here."""

    @abstractmethod
    def _see(self, batch: EntityBatch) -> Any:
        """Return what the network reads of a batch, checked."""

    @abstractmethod
    def _actors(self, seen: Any, mask: ActionMask) -> NDArray[np.int64]:
        """Return the row of each actor (A,), or its step."""

    @abstractmethod
    def _values(self, seen: Any) -> Tensor:
        """Return values (B,), while acting."""

    @abstractmethod
    def _cost(self, entities: float, actors: float) -> dict[str, float]:
        """Return the multiply-adds of one step, part by part."""
