"""`EntityVectorEnv`: many environments stepped at once, in ragged batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from ..ragged import RaggedArray
from .batch import EntityBatch
from .spaces import Categorical, EntityActionSpace, EntitySpace

Actions = Mapping[str, RaggedArray]
StepResult = tuple[EntityBatch, NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]


class EntityVectorEnv(ABC):
    """Steps `num_envs` environments at once and returns `EntityBatch`es.

    The conventions are those of `gymnasium.vector.VectorEnv`, with batches in place of stacked arrays:

    - `reset(seed=…)` seeds every lane from one seed;
    - `step(actions)` takes one int64 `RaggedArray` per action, with as many items at each step as the last
      batch had actors (see the action spaces for what an item says);
    - autoreset is `metadata["autoreset_mode"]`, SAME_STEP unless an engine can't: the batch after an
      episode's end holds the next episode's first observation. Where the engine can give the last one,
      `info["final_obs"]` is an `EntityBatch` of the ended lanes alone, in the order of the lanes in
      `info["_final_obs"]` (num_envs,) bool; `metadata["final_obs"]` says whether it can.

    Batches are fresh: they stay valid after the next step.
    """

    metadata: dict[str, Any] = {
        "autoreset_mode": AutoresetMode.SAME_STEP,
        "final_obs": True,
        "render_modes": [],
    }
    num_envs: int
    single_observation_space: EntitySpace
    single_action_space: EntityActionSpace
    render_mode: str | None = None

    @abstractmethod
    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[EntityBatch, dict[str, Any]]:
        """Start an episode in every lane."""

    @abstractmethod
    def step(self, actions: Actions) -> StepResult:
        """Returns (batch, rewards float32 (num_envs,), terminated bool, truncated bool, info).

        Raises:
            ActionError: an action is missing, of the wrong length or not allowed; no lane has moved.
        """

    def render(self) -> tuple[Any, ...] | None:
        """One frame per lane, where `render_mode` is set."""
        raise ValueError(f"{type(self).__name__} was made without a render_mode")

    def close(self) -> None:  # noqa: B027 - nothing to release unless a subclass says so
        """Release what the environments hold; may be called twice."""

    def __enter__(self) -> EntityVectorEnv:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def sample_actions(
    space: EntityActionSpace, batch: EntityBatch, rng: np.random.Generator
) -> dict[str, RaggedArray]:
    """Legal actions for every step of `batch`, uniform over what the masks allow."""
    actions = {}
    for name, action in space.spaces.items():
        part = batch.actions[name]
        if isinstance(action, Categorical):
            scores = np.where(part.mask.values, rng.random(part.mask.values.shape), -1.0)
            chosen = scores.argmax(1) if len(scores) else np.zeros(0, np.int64)
        else:
            assert part.actees is not None
            chosen = np.empty(part.actors.num_items, np.int64)
            for step in range(len(batch)):
                actees = part.actees[step]
                first, last = part.actors.offsets[step : step + 2]
                allowed = part.mask[step].reshape(last - first, len(actees))
                if last > first:
                    scores = np.where(allowed, rng.random(allowed.shape), -1.0)
                    chosen[first:last] = actees[scores.argmax(1)]
        actions[name] = part.actors.with_values(chosen.astype(np.int64))
    return actions
