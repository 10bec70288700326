"""`EntityVectorEnv`: many environments stepped at once, in ragged batches."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Self

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray

from ...ragged import RaggedArray
from ..actions import EntityActionSpace
from ..batch.batch_actions import ragged_actions, validate_actions
from ..batch.batch_spaces import EntityBatchActionSpace, EntityBatchSpace
from ..batch.entity_batch import EntityBatch
from ..errors import ActionError, WorkerError, no_render_mode, reset_needed
from ..returned import vector_step_values
from ..seeds import Seeds, lane_seeds
from ..spaces import EntitySpace
from .vector_spec import VectorSpec

#: For each action the choices of all its actors, lane by lane.
Actions = Mapping[str, RaggedArray]
#: The same, or for an action an array (A, …) with a row for each actor of the batch, in their order.
GivenActions = Mapping[str, RaggedArray | NDArray[Any]]
#: Chooses the actions of a batch, as a bot of your own may: `f(batch, rng)`.
PlayFunction = Callable[[EntityBatch, np.random.Generator], GivenActions]
#: Observations, rewards (E,), terminated (E,), truncated (E,) and infos.
StepResult = tuple[EntityBatch, NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]


class EntityVectorEnv(VectorEnv[EntityBatch, Actions, NDArray[Any]], ABC):
    """Steps `num_envs` environments at once and returns `EntityBatch`es. Abstract.

    The conventions are those of `gymnasium.vector.VectorEnv`, with batches in place of stacked arrays:

    - `reset(seed=…)` seeds every lane from one seed, or from one seed (or None) per lane;
    - `step(actions)` takes one `RaggedArray` per action, int64 (float32 where it is continuous), with as many
      items at each step as the last batch had actors (see the action spaces for what an item says, and
      `EntityActionSpace` for what may be left out); or an array (A, …) with a row for each of these actors,
      in their order; `action_space.sample(mask=batch)` draws legal ones;
    - autoreset is `metadata["autoreset_mode"]`, SAME_STEP unless an engine can't: the batch after an
      episode's end holds the next episode's first observation. Where the engine can give the last one,
      `info["final_obs"]` is an `EntityBatch` of the ended lanes alone, in the order of the lanes in
      `info["_final_obs"]` (num_envs,) bool; `metadata["final_obs"]` says whether it can.

    A lane can be *inactive*: an agent that is dead while its game continues, or that waits for the others'
    moves. `info["inactive"]` (num_envs,) bool, of `reset` and `step`, then says which lanes of the returned
    batch have nothing to decide; without it all lanes are active (see `inactive_lanes`). An inactive lane has
    no actors. Its steps are no samples: a reward, termination or truncation that comes while a lane is
    inactive belongs to its last active step, and a lane that terminated then needs no `final_obs`. Rewards
    after that end and before the next active step teach nothing; the next episode's return counts them.

    Several lanes can be players of one game: `lane_games` says which. A lane that ends before its game does
    is inactive until the game starts over.

    Batches are fresh: they stay valid after the next step.

    A subclass sets `num_envs`, `single_observation_space` and `single_action_space`, writes `_reset` and
    `_step` (and `_render`, where it takes a `render_mode`), and releases what it holds in `close_extras`,
    which `close` calls once. Where `starts_over` is False, `_step` leaves ended episodes as they are. This
    class does what all share: it validates actions, refuses calls that come before the first reset or after
    `close`, and closes the environment where a `WorkerError` is raised. (A subclass that overrides `reset`
    and `step` themselves works too, and does all of that itself.)

    Raises:
        gymnasium.error.ResetNeeded: `step` or `render` before the first `reset`; `step` after one that raised
            anything but an `ActionError`.
        gymnasium.error.ClosedEnvironmentError: a call after `close`.
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
    #: What errors about actions call the lanes; None: "env 0" and so on.
    lane_names: Sequence[str] | None = None

    #: How many batches `reset` and `step` have returned.
    num_batches: int = 0

    #: How `make_vec` made this environment; None: it did not, or not from plain values.
    vector_spec: VectorSpec | None = None

    #: Whether the next episode starts within the step that ends one. `OneLaneEnv` sets False, so that
    #: environments that can do so leave an ended episode as it is until `reset`.
    starts_over: bool = True

    #: Whether `_step` validates the actions, together with what else it does with them.
    validates_in_step: ClassVar[bool] = False

    _name: str | None = None  # what errors call the environment; None: its class
    _first_seed: Seeds = None  # seeds the first `reset` that gives none
    _last: EntityBatch | None = None  # what actions are checked against; None: a reset is needed
    _is_playing: bool = False  # whether `step` may be called
    _closed_by: str | None = None  # the error that closed it

    @cached_property
    def observation_space(self) -> EntityBatchSpace:  # type: ignore[override]
        """Space of the batches of all lanes: `num_envs` observations of `single_observation_space`."""
        return EntityBatchSpace(self.single_observation_space, self.num_envs)

    @cached_property
    def action_space(self) -> EntityBatchActionSpace:  # type: ignore[override]
        """Space of the actions of all lanes; `sample` draws allowed actions for the last batch."""
        space = EntityBatchActionSpace(self.single_observation_space, self.num_envs)
        space.observe(self._last)
        return space

    # -- what a subclass writes -----------------------------------------------------------------------------

    def _reset(self, seeds: Any, options: dict[str, Any] | None) -> tuple[EntityBatch, dict[str, Any]]:
        """Start an episode in every lane: the batch and the info. `seeds` is what `_seeds` returned."""
        raise NotImplementedError(f"{type(self).__name__} must define _reset(seeds, options)")

    def _step(self, actions: dict[str, RaggedArray]) -> StepResult:
        """Step every lane with validated actions."""
        raise NotImplementedError(f"{type(self).__name__} must define _step(actions)")

    def _render(self) -> tuple[Any, ...] | None:
        """Return one frame per lane, or None where a window shows them."""
        raise NotImplementedError(f"{type(self).__name__} must define _render()")

    def _seeds(self, seed: Seeds) -> Any:
        """Return what `_reset` gets for the `seed` of `reset`: a list with one seed or None per lane.

        Raises:
            ValueError: the seed can't be used; nothing has changed.
        """
        return lane_seeds(seed, self.num_envs)

    def _seed_first_reset(self, seed: Seeds) -> None:
        """Let the first `reset` without a seed have this one. Called last of the constructor.

        Raises:
            ValueError: the seed can't be used.
        """
        self._seeds(seed)
        self._first_seed = seed

    def _take_options(self, options: dict[str, Any]) -> None:
        """Read the options of a `reset` (an empty dict where it was given none), before its `_reset`.

        Raises:
            ValueError: they can't be used; nothing has changed.
        """

    def _checked(self, actions: GivenActions) -> dict[str, RaggedArray]:
        """Return `actions` validated against the last batch, one array for every action of the space.

        Raises:
            ActionError: an action is unknown, of the wrong length or not allowed.
        """
        assert self._last is not None
        return validate_actions(self.single_observation_space, self._last, actions, self.lane_names)

    # -- what users call ------------------------------------------------------------------------------------

    def reset(
        self, *, seed: Seeds = None, options: dict[str, Any] | None = None
    ) -> tuple[EntityBatch, dict[str, Any]]:
        """Start an episode in every lane.

        Args:
            seed: a number from which the lanes' seeds follow, or one (or None) per lane where the environment
                takes such; None: random numbers continue.
            options: the environment's own; every lane gets them. Episodes that start by themselves get none.

        Raises:
            TypeError: `options` is no dict; nothing has changed.
            ValueError: a seed is negative, or their number is not that of the lanes.
        """
        self._check_open()
        if options is not None and not isinstance(options, Mapping):
            raise TypeError(
                f"{self._where}: reset: options: expected a dict, which every lane gets, or None, got a"
                f" {type(options).__name__}"
            )
        seeds = self._seeds(self._first_seed if seed is None else seed)
        self._take_options({} if options is None else options)
        self._last, self._is_playing = None, False
        try:
            batch, info = self._reset(seeds, options)
        except WorkerError as error:
            self._close_for(error)
            raise
        self._remember(batch)
        self._first_seed, self._is_playing = None, True
        return batch, info

    def step(self, actions: GivenActions) -> StepResult:
        """Step every lane.

        Returns:
            (batch, rewards float32 (num_envs,), terminated bool, truncated bool, info).

        Raises:
            ActionError: an action is unknown, of the wrong length or not allowed; no lane has moved.
        """
        self._check_playing()
        if not self.validates_in_step:
            return self._carry_out(self._checked(actions))
        assert self._last is not None
        return self._carry_out(ragged_actions(self.single_action_space, self._last, actions))

    def step_validated(self, actions: dict[str, RaggedArray]) -> StepResult:
        """Step every lane with actions validated against the last batch. Same contract as `step`.

        A subclass that overrides `step` validates them once more.
        """
        if type(self).step is not EntityVectorEnv.step:
            return self.step(actions)
        self._check_playing()
        return self._carry_out(actions)

    def set_progress(self, fraction: float) -> None:
        """Report how far training is, from 0 at its start to 1 at its end; trainers do before each rollout.

        For rewards or opponents that follow a schedule; does nothing here. Wrappers pass it on.
        """

    def render(self) -> tuple[Any, ...] | None:
        """Return one frame per lane, or None where a window shows them.

        Raises:
            ValueError: the environment was made without a render_mode.
        """
        self._check_open()
        if self.render_mode is None:
            raise no_render_mode(self._where)
        self._check_reset("render()")
        try:
            return self._render()
        except WorkerError as error:
            self._close_for(error)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # -- inside ---------------------------------------------------------------------------------------------

    def _carry_out(self, actions: Any) -> StepResult:
        self._is_playing = False  # a step that is interrupted leaves lanes that need a reset
        try:
            result = self._step(actions)
        except ActionError:
            self._is_playing = self.validates_in_step  # then no lane has moved
            raise
        except WorkerError as error:
            self._close_for(error)
            raise
        values = vector_step_values(lambda: f"{self._where}._step", result, self.num_envs)
        self._remember(values[0])
        self._is_playing = True
        return values

    def _remember(self, batch: EntityBatch) -> None:
        """Keep what actions are checked against, and what `action_space.sample()` draws for."""
        self._last = batch
        self.num_batches += 1
        if "action_space" in self.__dict__ and isinstance(self.action_space, EntityBatchActionSpace):
            self.action_space.observe(batch)

    def _continue_from(self, batch: EntityBatch) -> EntityBatch:
        """Let `step` continue from `batch`, at the end of a `set_state` of a subclass; return it."""
        self._remember(batch)
        self._is_playing = True
        return batch

    @property
    def _where(self) -> str:
        """The name of this environment in errors."""
        return self._name or type(self).__name__

    def _check_open(self) -> None:
        if self.closed:
            why = f", because {self._closed_by} ended a call. Make it again" if self._closed_by else ""
            raise gymnasium.error.ClosedEnvironmentError(f"{self._where} has been closed{why}")

    def _close_for(self, error: WorkerError) -> None:
        self._closed_by = self._closed_by or type(error).__name__
        self.close()

    def _check_reset(self, call: str) -> None:
        """Refuse `call` before the first reset."""
        self._check_open()
        if self._last is None:
            raise reset_needed(self._where, call)

    def _check_playing(self, call: str = "step()") -> None:
        """Refuse `call` before the first reset and after an interrupted step."""
        if self.closed or not self._is_playing:
            self._check_open()
            raise reset_needed(self._where, call)
