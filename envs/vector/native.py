"""`NativeVectorEnv`: games whose lanes are all stepped at once by compiled kernels."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, final

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from ...ragged import RaggedArray
from ..actions.native_checks import checked_actions
from ..batch.entity_batch import ActionMask, EntityBatch
from ..randomness import STATE_WORDS, seed_lane
from ..seeds import Seeds, lane_seeds
from ..spaces.entity_space import EntitySpace
from .vector_env import Actions, EntityVectorEnv, StepResult


class Played(NamedTuple):
    """What one step did, before any episode starts over."""

    rewards: NDArray[np.float32]  # (num_envs,)
    terminated: NDArray[np.bool_]  # (num_envs,)
    truncated: NDArray[np.bool_]  # (num_envs,)
    final: EntityBatch | None  # the last observations of the lanes that ended, if any did


class NativeVectorEnv(EntityVectorEnv):
    """A game whose state is arrays over lanes, and whose rules are kernels over them. Abstract.

    A game keeps arrays whose first axis is the lane, sets the class attributes `state_names` and (where it
    can be drawn) `metadata`, and writes

    - `_start(lanes)`: set up an episode in these lanes, drawing from `self.random_state[lane]`;
    - `_advance(actions)`: move every lane by one step; rewards and whether each lane terminated;
    - `_look(lanes)`: the last observations of these lanes, whose episodes have just ended; with None what all
      lanes show now.

    The base seeds the lanes, checks the actions, counts the steps, truncates at `max_steps`, keeps the last
    observations of ended episodes, starts the next ones and saves and restores the state.

    Random numbers: lane i of `reset(seed=s)` is seeded with s + i (modulo 2**64), and its game depends on
    nothing else; without a seed its stream goes on, and at the first `reset` begins anywhere.

    Args:
        space: what a lane observes; its `actions` are the action space.
        num_envs: how many lanes.
        max_steps: steps until an episode that hasn't ended is truncated; None: never.
        render_mode: None, or one of `metadata["render_modes"]`.

    Attributes:
        random_state: uint64 (num_envs, 4), see `randomness`.
        steps: int64 (num_envs,), how many steps each lane's episode has had. `_advance` sees it before the
            step is counted, `_look` after.
        lane_names: what errors call the lanes; None: "env 0" and so on.
        all_lanes: int64 (num_envs,), 0 to num_envs - 1, for `_look(None)`.

    Raises:
        ValueError: `num_envs` or `max_steps` is less than 1, or there is no such `render_mode`.
        gymnasium.error.ResetNeeded: `step` before the first `reset`.
        gymnasium.error.ClosedEnvironmentError: a call after `close`.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - Gymnasium declares no ClassVar
        "autoreset_mode": AutoresetMode.SAME_STEP,
        "final_obs": True,
        "render_modes": [],
    }
    #: The attributes, all arrays, on which a game's future depends beside `random_state` and `steps`.
    state_names: ClassVar[tuple[str, ...]] = ()

    lane_names: Sequence[str] | None = None

    _last: EntityBatch | None = None  # what actions are checked against; None: a reset is needed

    def __init__(
        self,
        space: EntitySpace,
        num_envs: int,
        *,
        max_steps: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        if num_envs < 1:
            raise ValueError(f"num_envs must be at least 1, got {num_envs}")
        if max_steps is not None and max_steps < 1:
            raise ValueError(f"max_steps must be at least 1, got {max_steps}")
        if render_mode not in (None, *self.metadata["render_modes"]):
            modes = ", ".join(map(repr, (None, *self.metadata["render_modes"])))
            raise ValueError(f"render_mode must be one of {modes}, got {render_mode!r}")
        self.num_envs = num_envs
        self.single_observation_space = space
        self.single_action_space = space.actions
        self.max_steps = max_steps
        self.render_mode = render_mode
        self.random_state = np.zeros((num_envs, STATE_WORDS), np.uint64)
        self.steps = np.zeros(num_envs, np.int64)
        self.all_lanes = np.arange(num_envs)
        self._is_seeded = False

    # -- what a game writes ---------------------------------------------------------------------------------

    @abstractmethod
    def _start(self, lanes: NDArray[np.int64]) -> None:
        """Set up an episode in each of `lanes` (L,), which ascend."""

    @abstractmethod
    def _advance(self, actions: dict[str, RaggedArray]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Move every lane by one step: fresh (rewards, terminated), both (num_envs,).

        `actions` are legal, int64 (float32 where continuous), one for every action of the space; at each lane
        a sequence is as long as there are actors, or empty, which orders nothing. They are the caller's: read
        them only.
        """

    @abstractmethod
    def _look(self, lanes: NDArray[np.int64] | None) -> EntityBatch:
        """What `lanes` (L,) show, which have just ended; with None all lanes. `offsets` may be shared between
        batches, all other arrays are fresh.
        """

    def _take_options(self, options: dict[str, Any]) -> None:
        """Read the options of a `reset` (an empty dict where it was given none), before its `_start`."""

    def _truncations(self, terminated: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which lanes are truncated (num_envs,) after a step that is counted already."""
        if self.max_steps is None:
            return np.zeros(self.num_envs, bool)
        return (self.steps >= self.max_steps) & ~terminated

    def _to_restart(self, ended: NDArray[np.bool_]) -> NDArray[np.int64]:
        """The lanes (L,) whose next episode starts, after a step at which the `ended` ones ended."""
        return np.flatnonzero(ended)

    def _info(self) -> dict[str, Any]:
        """The info that goes with the observations of now: "idle" where lanes can be."""
        return {}

    def _draw(self, lane: int) -> NDArray[np.uint8]:
        """A picture (height, width, 3) of a lane, in a game whose metadata has "rgb_array"."""
        raise NotImplementedError(f"{type(self).__name__} has no pictures")

    # -- what users call ------------------------------------------------------------------------------------

    @final
    def reset(
        self, *, seed: Seeds = None, options: dict[str, Any] | None = None
    ) -> tuple[EntityBatch, dict[str, Any]]:
        """Start an episode in every lane. `seed` may also be one seed (or None) per lane."""
        self._check_open()
        seeds = self._seeds(seed)
        self._take_options({} if options is None else options)
        self._last = None
        for lane, lane_seed in seeds.items():
            seed_lane(self.random_state[lane], np.uint64(lane_seed % 2**64))
        self._is_seeded = True
        self._restart(self.all_lanes)
        self._last = self._look(None)
        return self._last, self._info()

    @final
    def step(self, actions: Actions) -> StepResult:
        rewards, terminated, truncated, final = self._move(actions)
        info: dict[str, Any] = {}
        if final is not None:
            ended = terminated | truncated
            info["final_obs"] = final
            info["_final_obs"] = ended
            self._restart(self._to_restart(ended))
        self._last = self._look(None)
        info.update(self._info())
        return self._last, rewards, terminated, truncated, info

    @final
    def play(self, actions: Actions) -> tuple[EntityBatch, Played]:
        """As `step`, but no episode starts over: where `step` would have started one, a `reset` is needed."""
        played = self._move(actions)
        batch = self._look(None)
        if played.final is None or not len(self._to_restart(played.terminated | played.truncated)):
            self._last = batch
        return batch, played

    def render(self) -> tuple[Any, ...] | None:
        """A picture (height, width, 3) uint8 of each lane.

        Raises:
            ValueError: the environment was made without a render_mode.
            gymnasium.error.ResetNeeded: before the first reset.
        """
        self._check_open()
        if self.render_mode is None:
            return super().render()
        if not self._is_seeded:
            raise gymnasium.error.ResetNeeded(f"{type(self).__name__}: render before reset")
        return tuple(self._draw(lane) for lane in range(self.num_envs))

    # -- saving and going back ------------------------------------------------------------------------------

    @final
    def get_state(self) -> dict[str, NDArray[Any]]:
        """Copies of all arrays on which the future depends; PPO puts them into its checkpoints."""
        self._check_playing()
        return {name: np.array(getattr(self, name)) for name in self._saved_names()}

    @final
    def set_state(self, state: Mapping[str, NDArray[Any]]) -> EntityBatch:
        """Go back to what `get_state` returned; returns the observations of that moment.

        Raises:
            ValueError: the state is of another game, of other options or of another number of lanes; nothing
                has changed.
        """
        self._check_open()
        arrays = {name: np.asarray(state[name]) for name in self._saved_names() if name in state}
        for name in self._saved_names():
            own = getattr(self, name)
            given = arrays.get(name)
            if given is None or given.shape != own.shape or given.dtype != own.dtype:
                got = "nothing" if given is None else f"{given.dtype} {given.shape}"
                expected = f"{own.dtype} {own.shape}"
                raise ValueError(f"{type(self).__name__}: state {name!r} must be {expected}, got {got}")
        for name, array in arrays.items():
            getattr(self, name)[...] = array
        self._is_seeded = True
        self._last = self._look(None)
        return self._last

    def _saved_names(self) -> tuple[str, ...]:
        return ("random_state", "steps", *self.state_names)

    # -- inside ---------------------------------------------------------------------------------------------

    def _move(self, actions: Actions) -> Played:
        """Check the actions and carry them out."""
        last = self._check_playing()
        checked = checked_actions(self.single_observation_space, last, actions, self.lane_names)
        self._last = None  # a step that is interrupted leaves lanes that need a reset
        rewards, terminated = self._advance(checked)
        self.steps += 1
        truncated = self._truncations(terminated)
        ended = np.flatnonzero(terminated | truncated)
        final = self._look(ended) if len(ended) else None
        return Played(rewards, terminated, truncated, final)

    def _restart(self, lanes: NDArray[np.int64]) -> None:
        self.steps[lanes] = 0
        self._start(lanes)

    def _seeds(self, seed: Seeds) -> dict[int, int]:
        """The seeds of the lanes that get a new one."""
        if seed is None and not self._is_seeded:
            seed = int(np.random.SeedSequence().generate_state(1, np.uint64)[0])
        seeds = lane_seeds(seed, self.num_envs)
        given = {lane: value for lane, value in enumerate(seeds) if value is not None}
        if not self._is_seeded and len(given) < self.num_envs:
            fresh = np.random.SeedSequence().generate_state(self.num_envs, np.uint64)
            given = {lane: given.get(lane, int(fresh[lane])) for lane in range(self.num_envs)}
        return given

    def _check_open(self) -> None:
        if self.closed:
            raise gymnasium.error.ClosedEnvironmentError(f"{type(self).__name__} has been closed")

    def _check_playing(self) -> EntityBatch:
        self._check_open()
        if self._last is None:
            raise gymnasium.error.ResetNeeded(f"{type(self).__name__}: call reset() first")
        return self._last


def even_offsets(num_steps: int, length: int) -> NDArray[np.int64]:
    """Offsets (num_steps + 1,) of sequences that all have `length` items."""
    return np.arange(0, (num_steps + 1) * length, length) if length else np.zeros(num_steps + 1, np.int64)


def free_choice(actors: RaggedArray, num_choices: int) -> ActionMask:
    """The mask of a categorical action that bars `actors` (A,) from nothing."""
    allowed = np.ones((len(actors.values), num_choices), bool)
    return ActionMask(actors, RaggedArray.unchecked(allowed, actors.offsets))


def global_choice(mask: NDArray[np.bool_]) -> ActionMask:
    """The mask of a global categorical action that can be taken at every step: `mask` (B, C)."""
    offsets = np.arange(len(mask) + 1)
    return ActionMask(
        RaggedArray.unchecked(np.full(len(mask), -1, np.int64), offsets), RaggedArray.unchecked(mask, offsets)
    )
