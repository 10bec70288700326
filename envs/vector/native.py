"""`NativeVectorEnv`: games whose lanes are all stepped at once by compiled kernels."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from ...ragged import RaggedArray
from ..batch.entity_batch import EntityBatch
from ..errors import check_render_mode, whole_number
from ..randomness import STATE_WORDS, seed_lane
from ..spaces import EntitySpace
from .saved_state import Bounds, State, check_arrays
from .vector_env import EntityVectorEnv, StepResult


class NativeVectorEnv(EntityVectorEnv):
    """A game whose state is arrays over lanes, and whose rules are kernels over them. Abstract.

    A game keeps arrays whose first axis is the lane, sets the class attributes `state_names` and (where it
    can be drawn) `metadata`, and writes

    - `_start(lanes)`: set up an episode in these lanes, drawing from `self.random_state[lane]`;
    - `_advance(actions)`: move every lane by one step; rewards and whether each lane terminated;
    - `_look(lanes)`: the last observations of these lanes, whose episodes have just ended; with None the
      present observations of all lanes.

    The base seeds the lanes, checks the actions, counts the steps, truncates at `max_steps`, keeps the last
    observations of ended episodes, starts the next ones and saves and restores the state. A game declares in
    `_bounds` and `_check_state` which saved states are valid. Kernels take their arrays one by one, however
    many they are: handing over a named tuple of them made a step of MineSweeper a fifth slower.

    Random numbers: lane i of `reset(seed=s)` is seeded with s + i (modulo 2**64), and its game depends on
    nothing else; without a seed its stream continues, and at the first `reset` starts at random.

    Args:
        space: what a lane observes; its `actions` are the action space.
        num_envs: how many lanes.
        max_steps: steps until an episode that hasn't ended is truncated; None: never.
        render_mode: None, or one of `metadata["render_modes"]`.

    Attributes:
        random_state: uint64 (num_envs, 4), see `randomness`.
        steps: int64 (num_envs,), how many steps each lane's episode has had. `_advance` sees it before the
            step is counted, `_look` after.
        all_lanes: int64 (num_envs,), 0 to num_envs - 1, for `_look(None)`.

    Raises:
        TypeError: `num_envs` or `max_steps` is no whole number.
        ValueError: one of them is less than 1, or there is no such `render_mode`.
    """

    #: The attributes, all arrays, on which a game's future depends beside `random_state` and `steps`.
    state_names: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        space: EntitySpace,
        num_envs: int,
        *,
        max_steps: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        self.num_envs = whole_number("num_envs", num_envs)
        check_render_mode(type(self).__name__, render_mode, self.metadata["render_modes"])
        self.single_observation_space = space
        self.single_action_space = space.actions
        self.max_steps = None if max_steps is None else whole_number("max_steps", max_steps)
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
        a sequence is as long as there are actors, or empty where the space is `optional`. They are the
        caller's: read them only.
        """

    @abstractmethod
    def _look(self, lanes: NDArray[np.int64] | None) -> EntityBatch:
        """Return the observations of `lanes` (L,), which have just ended; with None those of all
        lanes. `offsets` may be shared between batches, all other arrays are fresh.
        """

    def _truncations(self, terminated: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which lanes are truncated (num_envs,) after a step that is counted already."""
        if self.max_steps is None:
            return np.zeros(self.num_envs, bool)
        return (self.steps >= self.max_steps) & ~terminated

    def _to_restart(self, ended: NDArray[np.bool_]) -> NDArray[np.int64]:
        """The lanes (L,) whose next episode starts, after a step at which the `ended` ones ended."""
        return ended.nonzero()[0]

    def _info(self) -> dict[str, Any]:
        """Return the info of the present observations, a new dict: "inactive" where lanes can be inactive."""
        return {}

    def _draw(self, lane: int) -> NDArray[np.uint8]:
        """A picture (height, width, 3) of a lane, in a game whose metadata has "rgb_array"."""
        raise NotImplementedError(f"{type(self).__name__} must define _draw(lane) to render frames")

    # -- stepping -------------------------------------------------------------------------------------------

    @final
    def _reset(
        self, seeds: list[int | None], options: dict[str, Any] | None
    ) -> tuple[EntityBatch, dict[str, Any]]:
        self._seed_lanes(seeds)
        self._restart(self.all_lanes)
        return self._look(None), self._info()

    @final
    def _step(self, actions: dict[str, RaggedArray]) -> StepResult:
        rewards, terminated = self._advance(actions)
        self.steps += 1
        truncated = self._truncations(terminated)
        ended = terminated | truncated
        final = self._look(ended.nonzero()[0]) if ended.any() else None
        if final is not None and self.starts_over:
            self._restart(self._to_restart(ended))
        info = self._info()
        if final is not None:
            info["final_obs"], info["_final_obs"] = final, ended
        return self._look(None), rewards, terminated, truncated, info

    def _render(self) -> tuple[NDArray[np.uint8], ...]:
        return tuple(self._draw(lane) for lane in range(self.num_envs))

    # -- saving and going back ------------------------------------------------------------------------------

    @final
    def get_state(self) -> dict[str, NDArray[Any]]:
        """Copies of all arrays on which the future depends; PPO puts them into its checkpoints."""
        self._check_playing("get_state()")
        return {name: np.array(getattr(self, name)) for name in self._saved_names()}

    @final
    def set_state(self, state: State) -> EntityBatch:
        """Go back to what `get_state` returned; returns the observations of that moment.

        Raises:
            ValueError: the state is of another game, of other options or of another number of lanes; nothing
                has changed.
        """
        self._check_open()
        own = {name: getattr(self, name) for name in self._saved_names()}
        arrays = {name: np.asarray(state[name]) for name in own if name in state}
        check_arrays(type(self).__name__, own, arrays)
        self._check_numbers(arrays)
        self._check_state(arrays)
        for name, array in arrays.items():
            own[name][...] = array
        self._is_seeded = True
        return self._continue_from(self._look(None))

    def _bounds(self) -> Bounds:
        """Return the bounds of each integer array in `state_names`.

        Saved states may be damaged or hostile, and kernels check no index.
        """
        return {}

    def _check_state(self, state: State) -> None:
        """Check with `_expect` what must hold between the arrays of a state whose numbers are in `_bounds`.

        Raises:
            ValueError: it does not hold; nothing has changed.
        """

    def _expect(self, holds: NDArray[np.bool_], name: str, expected: str, got: NDArray[Any]) -> None:
        """Raise a ValueError about the state `name` where `holds` (N, …), for N lanes or games, is False.

        `got` has one entry for each in `holds`.
        """
        if not holds.all():
            place = tuple(np.argwhere(~holds)[0])
            lane = place[0] * self.num_envs // len(holds)
            where = f"{type(self).__name__}: state {name!r} of lane {lane}"
            raise ValueError(f"{where}: expected {expected}, got {got[place]}")

    def _check_numbers(self, state: State) -> None:
        words = state["random_state"]  # xoshiro never leaves a state of zeros, and then a draw may not end
        self._expect(words.any(1), "random_state", "a word that is not 0", words[:, 0])
        for name, (low, high) in {"steps": (0, math.inf), **self._bounds()}.items():
            array = state[name]
            fits = np.less_equal(low, array) & np.less_equal(array, high)
            self._expect(fits, name, f"{low} to {high}", array)
        for name, array in state.items():
            if array.dtype.kind == "f":
                fits = np.abs(array) <= np.finfo(np.float32).max  # neither nan nor inf, as a feature either
                self._expect(fits, name, "finite numbers", array)

    def _saved_names(self) -> tuple[str, ...]:
        return ("random_state", "steps", *self.state_names)

    # -- inside ---------------------------------------------------------------------------------------------

    def _restart(self, lanes: NDArray[np.int64]) -> None:
        self.steps[lanes] = 0
        self._start(lanes)

    def _seed_lanes(self, seeds: list[int | None]) -> None:
        """Seed the lanes that have a new seed, at the first reset all of them."""
        if not self._is_seeded:
            fresh = np.random.SeedSequence().generate_state(self.num_envs, np.uint64).tolist()
            seeds = [new if seed is None else seed for seed, new in zip(seeds, fresh, strict=True)]
        for lane, seed in enumerate(seeds):
            if seed is not None:
                seed_lane(self.random_state[lane], np.uint64(seed % 2**64))
        self._is_seeded = True
