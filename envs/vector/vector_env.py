"""`EntityVectorEnv`: many environments stepped at once, in ragged batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Self

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray

from ...ragged import RaggedArray
from ..batch.entity_batch import EntityBatch
from ..spaces.batch_spaces import EntityBatchActionSpace, EntityBatchSpace
from ..spaces.entity_space import EntityActionSpace, EntitySpace

Actions = Mapping[str, RaggedArray]
StepResult = tuple[EntityBatch, NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]


class EntityVectorEnv(VectorEnv[EntityBatch, Actions, NDArray[Any]], ABC):
    """Steps `num_envs` environments at once and returns `EntityBatch`es.

    The conventions are those of `gymnasium.vector.VectorEnv`, with batches in place of stacked arrays:

    - `reset(seed=…)` seeds every lane from one seed;
    - `step(actions)` takes one `RaggedArray` per action, int64 (float32 where it is continuous), with as many
      items at each step as the last batch had actors (see the action spaces for what an item says), or none
      to order nothing there; `action_space.sample(mask=batch)` draws legal ones;
    - autoreset is `metadata["autoreset_mode"]`, SAME_STEP unless an engine can't: the batch after an
      episode's end holds the next episode's first observation. Where the engine can give the last one,
      `info["final_obs"]` is an `EntityBatch` of the ended lanes alone, in the order of the lanes in
      `info["_final_obs"]` (num_envs,) bool; `metadata["final_obs"]` says whether it can.

    A lane can be *idle*: an agent that is dead while its game goes on, or that waits for the others' moves.
    `info["idle"]` (num_envs,) bool, of `reset` and `step`, then says for which lanes of the returned batch
    there is nothing to decide; without it all lanes are at work (see `idle_lanes`). An idle lane has no
    actors. Its steps are no samples: a reward, termination or truncation that comes while a lane is idle
    belongs to the last step at which it was not, and no `final_obs` is owed to a lane that terminated.
    Behind that end, until the lane is at work again, rewards belong to no step.

    Several lanes can be players of one game: `lane_games` tells which. A lane whose end comes before the
    game's is idle until the game starts over.

    Batches are fresh: they stay valid after the next step. A subclass sets `num_envs`,
    `single_observation_space` and `single_action_space`, and releases what it holds in `close_extras`, which
    `close` calls once.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - Gymnasium declares no ClassVar
        "autoreset_mode": AutoresetMode.SAME_STEP,
        "final_obs": True,
        "render_modes": [],
    }
    num_envs: int
    single_observation_space: EntitySpace
    single_action_space: EntityActionSpace
    render_mode: str | None = None
    #: The game that each lane plays in (num_envs,), for lanes that meet in one; None: each lane is by itself.
    lane_games: NDArray[np.int64] | None = None
    #: What messages call lane 0: another number where this is a part of a larger vector environment.
    first_lane: int = 0

    @cached_property
    def observation_space(self) -> EntityBatchSpace:  # type: ignore[override]
        return EntityBatchSpace(self.single_observation_space, self.num_envs)

    @cached_property
    def action_space(self) -> EntityBatchActionSpace:  # type: ignore[override]
        return EntityBatchActionSpace(self.single_observation_space, self.num_envs)

    @abstractmethod
    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[EntityBatch, dict[str, Any]]:
        """Start an episode in every lane."""

    @abstractmethod
    def step(self, actions: Actions) -> StepResult:
        """Returns (batch, rewards float32 (num_envs,), terminated bool, truncated bool, info).

        Raises:
            ActionError: an action is unknown, of the wrong length or not allowed; no lane has moved.
        """

    def set_progress(self, fraction: float) -> None:
        """Told by a trainer before each rollout how far training is: 0 at its start, 1 at its end.

        For rewards or opponents that follow a schedule; does nothing here. Wrappers pass it on.
        """

    def render(self) -> tuple[Any, ...] | None:
        """One frame per lane, where `render_mode` is set."""
        raise ValueError(f"{type(self).__name__} was made without a render_mode")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
