"""`ProcgenVectorEnv`: many lanes of one Procgen game, as entities or as pixels."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from ...envs import EntityBatch, EntityVectorEnv
from ...envs.errors import check_render_mode
from ...envs.registration import share_lanes
from ...envs.seeds import Seeds
from ...envs.vector.vector_env import StepResult
from ...ragged import RaggedArray, keep_freed_memory
from .engine import ProcgenEngine, StateBuffer, default_threads, import_engine
from .observers import EntityObserver, LaneObserver, ObservedLanes, PixelObserver
from .options import ACTIONS, find_game, split_options

_NOOP = ACTIONS.index("noop")
_RESTART = -1  # the action that makes the engine abandon an episode

#: The engine's seed is an int32.
_NUM_SEEDS = 1 << 31


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
    level before was completed by this step.

    Args:
        game: one of the 16.
        num_envs: how many lanes.
        seed: seeds the engine at the first `reset` that gives none; None: from the operating system.
        num_threads: threads that fetch the states (1 or 2 are sensible); None: 2 where it pays.
        render_mode: None, or "rgb_array".
        options: those of `ViewOptions` and `EngineOptions`.

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
        if num_envs < 1:
            raise ValueError(f"num_envs: expected at least 1, got {num_envs}")
        if num_threads is not None and num_threads < 1:
            raise ValueError(f"num_threads: expected at least 1, got {num_threads}")
        check_render_mode("ProcgenVectorEnv", render_mode, self.metadata["render_modes"])
        view, self._engine_options = split_options(options)
        self._engine_options.check(self.game)
        import_engine()
        keep_freed_memory()
        mode = self._engine_options.distribution_mode
        self._observer: LaneObserver = (
            PixelObserver(game, mode) if view.is_pixels else EntityObserver(game, mode, view)
        )
        self._pixels = view.is_pixels
        self.num_envs = num_envs
        self.render_mode = render_mode
        self.single_observation_space = self._observer.observation_space
        self.single_action_space = self._observer.action_space
        self._first_seed = seed
        self._buffer = StateBuffer(num_envs, num_threads or default_threads(num_envs))
        self._engine: ProcgenEngine | None = None  # made by the first reset, which knows the seed
        self._observed: ObservedLanes | None = None  # what the lanes show now

    def _seeds(self, seed: Seeds) -> int | None:
        if seed is not None and not isinstance(seed, (int, np.integer)):
            raise ValueError(f"ProcgenVectorEnv: one engine takes one seed for all lanes, got {seed!r}")
        return seed

    def _reset(self, seed: int | None, options: dict[str, Any] | None) -> tuple[EntityBatch, dict[str, Any]]:
        """Start an episode in every lane.

        A seed makes a new engine (milliseconds), whose levels and games are the same for the same seed; it
        counts modulo 2**31. Without one the engine goes on with its levels.
        """
        if seed is not None or self._engine is None:
            self._make_engine(seed)
        assert self._engine is not None
        if self._engine.has_stepped:
            self._engine.step(np.full(self.num_envs, _RESTART, np.int32))
        self._observed = self._observer.observe(self._engine, None)
        return self._observed.batch, self._info(self._observed)

    def _step(self, actions: dict[str, RaggedArray]) -> StepResult:
        """Let every lane's player act; one whose action is left out takes "noop"."""
        before, chosen = self._observed, actions["act"]
        assert self._engine is not None
        assert before is not None
        choices = np.full(self.num_envs, _NOOP, np.int32)
        choices[chosen.lengths > 0] = chosen.values
        self._engine.step(choices)
        self._observed = observed = self._observer.observe(self._engine, before)
        # After an end the next level's time runs, so it is the time before that tells of the limit.
        is_late = before.times + 1 >= before.limits
        truncated = observed.done & is_late & ~observed.level_complete
        return observed.batch, observed.rewards, observed.done & ~truncated, truncated, self._info(observed)

    def _render(self) -> tuple[NDArray[np.uint8], ...]:
        """A picture (512, 512, 3) of each lane."""
        assert self._engine is not None
        return self._engine.frames()

    def camera(self, lane: int) -> tuple[float, float, float, float]:
        """The part of the level that `render` shows of a lane: left, bottom, width and height.

        In the units of the features `x` and `y`, which with `visible_only` count from the middle of the view;
        with pixels in pixels of the frame, from its upper edge down.

        Raises:
            gymnasium.error.ResetNeeded: the environment has not been reset.
        """
        self._check_reset("camera()")
        assert self._observed is not None
        return self._observer.camera(self._observed, lane)

    def close_extras(self, **kwargs: Any) -> None:
        """Release the engine and the threads."""
        self._observed = None
        if self._engine is not None:
            self._engine.close()
            self._engine = None
        self._buffer.close()

    def _make_engine(self, seed: int | None) -> None:
        if seed is None:
            seed = int(np.random.SeedSequence().generate_state(1)[0])
        if self._engine is not None:
            self._engine.close()
        render = self.render_mode is not None
        self._engine = ProcgenEngine(
            self.game,
            self.num_envs,
            seed % _NUM_SEEDS,
            self._engine_options,
            self._buffer,
            render,
            self._pixels,
        )

    @staticmethod
    def _info(observed: ObservedLanes) -> dict[str, Any]:
        return {"level_seed": observed.level_seeds, "level_complete": observed.level_complete}


def make_vec(
    game: str,
    num_envs: int = 1,
    *,
    num_workers: int = 0,
    parent_works: bool | None = None,
    worker_timeout: float | None = 60.0,
    **options: Any,
) -> EntityVectorEnv:
    """`ProcgenVectorEnv(game, num_envs, **options)`; what `entitize.make_vec("Procgen/<game>")` calls.

    With `num_workers` the lanes are shared between that many processes, each with an engine of its own, which
    fetches states in one thread unless `num_threads` says otherwise. The engine draws the seeds of its lanes
    one after the other, so the levels are others than in one process; they repeat for the same `num_workers`.
    """
    if not num_workers:
        return ProcgenVectorEnv(game, num_envs, **options)
    options = {"num_threads": 1, **options}
    seed = options.pop("seed", None)
    make = partial(ProcgenVectorEnv, game)
    return share_lanes(
        make,
        num_envs,
        num_workers,
        parent_works=parent_works,
        first_seed=seed,
        worker_timeout=worker_timeout,
        **options,
    )
