"""`ProcgenVectorEnv`: many lanes of one Procgen game, as entities or as pixels."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from ...envs import (
    EntityActionSpace,
    EntityBatch,
    EntitySpace,
    EntityVectorEnv,
    GlobalCategorical,
)
from ...envs.errors import check_render_mode, whole_number
from ...envs.registration import share_lanes
from ...envs.seeds import Seeds
from ...envs.vector.native_arrays import all_true, even, global_choice
from ...envs.vector.vector_env import StepResult
from ...ragged import RaggedArray, keep_freed_memory
from .decoder.decode import DecodedStates, StateDecoder
from .engine import ProcgenEngine, StateBuffer, default_threads, import_engine
from .games import LENGTH
from .options import ACTIONS, find_game, split_options

_NOOP = ACTIONS.index("noop")
_RESTART = -1  # the action that makes the engine abandon an episode

#: The engine's seed is an int32.
_NUM_SEEDS = 1 << 31

#: Height, width and channels of what the engine draws for agents.
_FRAME = (64, 64, 3)


class ProcgenVectorEnv(EntityVectorEnv):
    """`num_envs` lanes of one Procgen game, in one engine.

        venv = ProcgenVectorEnv("coinrun", num_envs=64, distribution_mode="easy", num_levels=200)
        batch, info = venv.reset(seed=1)
        batch, rewards, terminated, truncated, info = venv.step({"act": …})

    The only actor is the player, entity 0 of every lane; its action `act` is one of `options.ACTIONS`. With
    `features="pixels"` there are no entities: a step shows the frame (64, 64, 3) that the engine draws, and
    `act` is a global action.

    The engine starts the next level within the step that ends an episode, so the last observation of an
    episode is never observed (`metadata["final_obs"]` is false). An episode that the game's time limit ended
    counts as truncated; bootstrap from the value of the last observation before the end.

    `info` holds for every lane `level_seed` int64, the level it is in, and `level_complete` bool, whether the
    level before was completed by this step. Where an episode ended, `info["final_info"]` has its last level.

    Args:
        game: one of the 16.
        num_envs: how many lanes.
        seed: seeds the engine at the first `reset` that gives none; None: from the operating system.
        num_threads: threads that fetch the states (1 or 2 are sensible); None: 2 where it pays.
        render_mode: None, or "rgb_array".
        options: those of `ViewOptions` and `EngineOptions`.

    Attributes:
        engine: the engine, for tools that read its state; None before the first reset.
        states: the numbers of the engine's last decoded states, by name; None before the first reset.

    Raises:
        ValueError: an unknown game (the nearest name is given), or an option out of its range.
        TypeError: an unknown option.
        ImportError: the package `procgen` is not installed.
        ProcgenStateError: the engine's states can't be read, in `reset` or `step`.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - Gymnasium declares no ClassVar
        "autoreset_mode": AutoresetMode.SAME_STEP,
        "final_obs": False,
        "render_modes": ["rgb_array"],
        "render_fps": 15,
    }

    def __init__(
        self,
        game: str,
        num_envs: int = 1,
        *,
        seed: int | None = None,
        num_threads: int | None = None,
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        self.game = find_game(game)
        self.num_envs = whole_number("num_envs", num_envs)
        if num_threads is not None:
            whole_number("num_threads", num_threads)
        check_render_mode("ProcgenVectorEnv", render_mode, self.metadata["render_modes"])
        view, self._engine_options = split_options(options)
        self._engine_options.check(self.game)
        import_engine()
        keep_freed_memory()
        self._pixels = view.is_pixels  # then states are decoded when episodes start, for their time limit
        self._decoder = StateDecoder(
            game, self._engine_options.distribution_mode, None if view.is_pixels else view
        )
        self.render_mode = render_mode
        self.single_observation_space = self._decoder.observation_space
        self.single_action_space = self._decoder.action_space
        if view.is_pixels:
            self.single_action_space = EntityActionSpace({"act": GlobalCategorical(ACTIONS)}, optional=True)
            self.single_observation_space = EntitySpace({}, self.single_action_space, frame=_FRAME)
        self._seed_first_reset(seed)
        self._buffer = StateBuffer(num_envs, num_threads or default_threads(num_envs))
        self.engine: ProcgenEngine | None = None  # made by the first reset, which knows the seed
        self.states: DecodedStates | None = None  # the last ones that were decoded
        self._times = self._limits = np.zeros(num_envs)  # steps since the level started, and until it ends

    def _seeds(self, seed: Seeds) -> int | None:
        if seed is not None and not isinstance(seed, (int, np.integer)):
            raise ValueError(f"ProcgenVectorEnv: one engine takes one seed for all lanes, got {seed!r}")
        if seed is not None and seed < 0:
            raise ValueError(f"seed: expected no negative number, got {seed}")
        return seed

    def _reset(self, seed: int | None, options: dict[str, Any] | None) -> tuple[EntityBatch, dict[str, Any]]:
        """Start an episode in every lane.

        A seed makes a new engine (milliseconds), whose levels and games are the same for the same seed; it
        counts modulo 2**31. Without one the engine continues with its levels.
        """
        if seed is not None or self.engine is None:
            self._make_engine(seed)
        assert self.engine is not None
        if self.engine.has_stepped:
            self.engine.step(np.full(self.num_envs, _RESTART, np.int32))
        batch, _, _, info = self._observe(starts=True)
        return batch, info

    def _step(self, actions: dict[str, RaggedArray]) -> StepResult:
        """Let every lane's player act; one whose action is left out takes "noop"."""
        assert self.engine is not None
        self.engine.step(actions["act"].one_each(_NOOP).astype(np.int32))
        # After an end the next level's time runs, so the limit is compared with the time before.
        is_late = self._times + 1 >= self._limits
        batch, rewards, done, info = self._observe()
        truncated = done & is_late & ~info["level_complete"]
        return batch, rewards, done & ~truncated, truncated, info

    def _observe(
        self, starts: bool = False
    ) -> tuple[EntityBatch, NDArray[np.float32], NDArray[np.bool_], dict[str, Any]]:
        """Observe the lanes; where one has ended, its next level has started.

        Args:
            starts: whether episodes have just started in all lanes.

        Returns:
            the batch, rewards (num_envs,), which lanes have ended, and the info.

        Raises:
            ProcgenStateError: the states can't be read.
        """
        engine, dumps = self.engine, self._buffer
        assert engine is not None
        if starts or not self._pixels:
            engine.fetch()
            self.states = states = self._decoder.decode(dumps.data, dumps.starts, dumps.lengths)
            self._times, self._limits = states["cur_time"], states["timeout"]
        if not self._pixels:
            seeds, complete = states["current_level_seed"].astype(np.int64), states["level_complete"] != 0
            before = states["prev_level_seed"].astype(np.int64)
            done = states["done"] != 0
            info = _info(seeds, complete, before, None if starts else done)
            return states.batch, states["reward"].astype(np.float32), done, info
        rewards, frames, first = engine.observe()
        seeds, complete, before = engine.levels()
        if not starts:
            self._times = np.where(first | complete, 0, self._times + 1)
        return _frame_batch(frames), rewards, first, _info(seeds, complete, before, None if starts else first)

    def _render(self) -> tuple[NDArray[np.uint8], ...]:
        """A picture (512, 512, 3) of each lane."""
        assert self.engine is not None
        return self.engine.frames()

    def camera(self, lane: int) -> tuple[float, float, float, float]:
        """The part of the level that `render` shows of a lane: left, bottom, width and height.

        In the units of the features `x` and `y`, which with `visible_only` count from the middle of the view;
        with pixels in pixels of the frame, from its upper edge down.

        Raises:
            gymnasium.error.ResetNeeded: the environment has not been reset.
        """
        self._check_reset("camera()")
        if self._pixels:
            height, width, _ = _FRAME
            return 0.0, float(height), float(width), -float(height)
        assert self.states is not None
        view = self._decoder.options
        scale = 1.0 if view.is_reference else LENGTH
        size, x, y = (
            float(self.states[name][lane]) * scale for name in ("visibility", "center_x", "center_y")
        )
        if view.visible_only and not view.is_reference:
            x, y = 0.0, 0.0
        return x - size / 2, y - size / 2, size, size

    def close_extras(self, **kwargs: Any) -> None:
        """Release the engine and the threads."""
        self.states = None
        if self.engine is not None:
            self.engine.close()
            self.engine = None
        self._buffer.close()

    def _make_engine(self, seed: int | None) -> None:
        if seed is None:
            seed = int(np.random.SeedSequence().generate_state(1)[0])
        if self.engine is not None:
            self.engine.close()
        render = self.render_mode is not None
        self.engine = ProcgenEngine(
            self.game,
            self.num_envs,
            seed % _NUM_SEEDS,
            self._engine_options,
            self._buffer,
            render,
            self._pixels,
        )


def _info(
    seeds: NDArray[np.int64],
    complete: NDArray[np.bool_],
    before: NDArray[np.int64],
    ended: NDArray[np.bool_] | None,
) -> dict[str, Any]:
    """Return the info of lanes, all (num_envs,): `before` are their last levels where an episode `ended`."""
    info: dict[str, Any] = {"level_seed": seeds, "level_complete": complete}
    if ended is not None and ended.any():
        info["final_info"] = {"level_seed": before, "level_complete": complete}
        info["_final_info"] = ended.copy()
    return info


def _frame_batch(frames: NDArray[np.uint8]) -> EntityBatch:
    """Frames (num_envs, 64, 64, 3) without entities; all choices of the global action are allowed."""
    all_choices = all_true((len(frames), len(ACTIONS)))
    return EntityBatch(
        {}, np.zeros((len(frames), 0), np.float32), {"act": global_choice(all_choices)}, frames=even(frames)
    )


def make_vec(game: str, num_envs: int = 1, *, num_workers: int = 0, **options: Any) -> EntityVectorEnv:
    """`ProcgenVectorEnv(game, num_envs, **options)`; what `entitize.make_vec("Procgen/<game>")` calls.

    With `num_workers` the lanes are shared between that many processes, each with an engine of its own, which
    fetches states in one thread unless `num_threads` says otherwise. The engine draws the seeds of its lanes
    one after the other, so the levels are others than in one process; they repeat for the same `num_workers`.
    `worker_timeout`: see `ShardedVectorEnv`.
    """
    if num_workers:
        options = {"num_threads": 1, **options}
    return share_lanes(partial(ProcgenVectorEnv, game), num_envs, num_workers, **options)
