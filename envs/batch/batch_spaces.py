"""Spaces of whole batches: a vector environment's `observation_space` and `action_space`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from ...ragged import RaggedArray
from ..errors import check_left_out
from ..spaces.entity_space import EntitySpace
from .batch_actions import no_actions, sample_actions
from .entity_batch import EntityBatch, batch_observations, unbatch_observation
from .packed import PackedLayout


class EntityBatchSpace(spaces.Space[EntityBatch]):
    """Batches of `num_envs` observations of `single`."""

    def __init__(self, single: EntitySpace, num_envs: int, seed: int | None = None) -> None:
        self.single = single
        self.num_envs = num_envs
        super().__init__(None, None, seed)

    def problem(self, batch: Any, envs: Sequence[int] | None = None) -> str | None:
        """Return why `batch` is not in the space, as a sentence that names the env; None if it is.

        `envs`: of which env each step is; None: step b is of env b.
        """
        if not isinstance(batch, EntityBatch):
            return f"batch: expected an EntityBatch, got {type(batch).__name__}"
        if len(batch) != self.num_envs:
            return f"batch: expected {self.num_envs} steps, got {len(batch)} steps"
        layout = PackedLayout(self.single)
        arrays = layout.named_arrays(batch)
        if list(arrays) != list(layout.formats):
            return f"batch: expected the arrays {', '.join(layout.formats)}, got {', '.join(arrays)}"
        for name, array in arrays.items():
            problem = layout.problem(name, array, self.num_envs)
            if problem:
                return problem
        globals_, shape = batch.globals, (self.num_envs, len(self.single.global_features))
        if globals_.dtype != np.float32 or globals_.shape != shape:
            return f"globals: expected float32 {shape}, got {globals_.dtype} {globals_.shape}"
        for step in range(self.num_envs):
            problem = self.single.problem(unbatch_observation(self.single, batch, step))
            if problem:
                return f"env {step if envs is None else envs[step]}: {problem}"
        return None

    def contains(self, x: Any) -> bool:
        return self.problem(x) is None

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> EntityBatch:
        """A random batch; see `EntitySpace.sample`."""
        check_left_out("EntityBatchSpace", mask=mask, probability=probability)
        return batch_observations(self.single, [self.single.sample() for _ in range(self.num_envs)])

    def seed(self, seed: int | None = None) -> Any:
        return self.single.seed(seed)

    @property
    def is_np_flattenable(self) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, EntityBatchSpace)
            and self.num_envs == other.num_envs
            and self.single == other.single
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"EntityBatchSpace({self.single!r}, {self.num_envs})"


class EntityBatchActionSpace(spaces.Space[dict[str, RaggedArray]]):
    """Ragged actions for `num_envs` environments that observe `single`.

    `sample(mask=batch)` draws legal actions for a batch of observations, and `sample()` for the last one of
    the vector environment; before the first reset its arrays are empty (see `EntityActionSpace`).
    """

    _observed: EntityBatch | None = None

    def __init__(self, single: EntitySpace, num_envs: int, seed: int | None = None) -> None:
        self.single = single
        self.num_envs = num_envs
        super().__init__(None, None, seed)

    def sample(
        self, mask: EntityBatch | None = None, probability: Any | None = None
    ) -> dict[str, RaggedArray]:
        check_left_out("EntityBatchActionSpace", probability=probability)
        mask = self._observed if mask is None else mask
        if mask is None:
            return no_actions(self.single.actions, self.num_envs)
        return sample_actions(self.single.actions, mask, self.np_random)

    def observe(self, batch: EntityBatch | None) -> None:
        """Let `sample` without a mask draw for `batch`; vector environments call this at every step."""
        self._observed = batch

    def contains(self, x: Any) -> bool:
        """Return True if `x` has the right form; `validate_actions` checks it against an observation."""
        names = self.single.actions
        return (
            isinstance(x, dict)
            and x.keys() <= names.spaces.keys()
            and all(
                isinstance(order, RaggedArray)
                and len(order) == self.num_envs
                and names[name].contains_choices(order.values)
                for name, order in x.items()
            )
        )

    @property
    def is_np_flattenable(self) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, EntityBatchActionSpace)
            and self.num_envs == other.num_envs
            and self.single.actions == other.single.actions
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"EntityBatchActionSpace({self.single.actions!r}, {self.num_envs})"
