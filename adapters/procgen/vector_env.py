"""`ProcgenVectorEnv`: many lanes of one Procgen game, decoded into entities."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from ...envs import EntityBatch, EntityVectorEnv, validate_actions
from ...envs.registration import share_lanes
from ...envs.vector import Actions, StepResult
from ...ragged import keep_freed_memory
from .decode import DecodedStates, StateDecoder
from .engine import Engine, StateBuffer, default_threads, import_engine
from .games import LENGTH
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

    The only actor is the player, entity 0 of every lane; its action `act` is one of `options.ACTIONS`.

    The engine starts the next level within the step that ends an episode, so the last observation of an
    episode is never seen (`metadata["final_obs"]` is false). An episode that the game's time limit ended
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
            raise ValueError(f"num_envs must be at least 1, not {num_envs}")
        if num_threads is not None and num_threads < 1:
            raise ValueError(f"num_threads must be at least 1, not {num_threads}")
        if render_mode not in (None, "rgb_array"):
            raise ValueError(f"render_mode must be None or 'rgb_array', not {render_mode!r}")
        view, self._engine_options = split_options(options)
        self._engine_options.check(self.game)
        import_engine()
        keep_freed_memory()
        self._decoder = StateDecoder(game, self._engine_options.distribution_mode, view)
        self.num_envs = num_envs
        self.render_mode = render_mode
        self.single_observation_space = self._decoder.observation_space
        self.single_action_space = self._decoder.action_space
        self._first_seed = seed
        self._buffer = StateBuffer(num_envs, num_threads or default_threads(num_envs))
        self._engine: Engine | None = None  # made by the first reset, which knows the seed
        self._states: DecodedStates | None = None
        self._is_closed = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[EntityBatch, dict[str, Any]]:
        """Start an episode in every lane.

        A seed makes a new engine (milliseconds), whose levels and games are the same for the same seed; it
        counts modulo 2**31. Without one the engine goes on with its levels.
        """
        if self._is_closed:
            raise ValueError("reset of a closed ProcgenVectorEnv")
        self._states = None
        if seed is not None or self._engine is None:
            self._make_engine(self._first_seed if seed is None else seed)
        assert self._engine is not None
        if self._engine.has_stepped:
            self._engine.step(np.full(self.num_envs, _RESTART, np.int32))
        else:
            self._engine.fetch()
        self._states = self._decode()
        return self._states.batch, self._info(self._states)

    def step(self, actions: Actions) -> StepResult:
        """Let every lane's player act; a lane whose sequence is empty or left out does nothing.

        Raises:
            ActionError: an unknown action, one of the wrong length, or a choice that does not exist; no lane
                has moved.
            gymnasium.error.ResetNeeded: before the first reset, and after a ProcgenStateError.
            ProcgenStateError: the engine's states can't be read.
        """
        before = self._states
        if self._engine is None or before is None:
            raise gymnasium.error.ResetNeeded("ProcgenVectorEnv: step before reset")
        order = validate_actions(self.single_observation_space, before.batch, actions)["act"]
        choices = np.full(self.num_envs, _NOOP, np.int32)
        choices[order.lengths > 0] = order.values
        self._states = None  # where what follows fails, the lanes have moved unseen and need a reset
        self._engine.step(choices)
        self._states = states = self._decode()
        done = states["done"] != 0
        # The state after an end is the next level's, so it is the time before that tells of the limit.
        is_late = before["cur_time"] + 1 >= before["timeout"]
        truncated = done & is_late & (states["level_complete"] == 0)
        return (
            states.batch,
            states["reward"].astype(np.float32),
            done & ~truncated,
            truncated,
            self._info(states),
        )

    def render(self) -> tuple[NDArray[np.uint8], ...]:
        """A picture (512, 512, 3) of each lane.

        Raises:
            ValueError: the environment was made without a render_mode.
            gymnasium.error.ResetNeeded: before the first reset.
        """
        if self.render_mode is None:
            raise ValueError("ProcgenVectorEnv was made without a render_mode")
        if self._engine is None:
            raise gymnasium.error.ResetNeeded("ProcgenVectorEnv: render before reset")
        return self._engine.frames()

    def camera(self, lane: int) -> tuple[float, float, float, float]:
        """The part of the level that `render` shows of a lane: left, bottom, width and height.

        In the units of the features `x` and `y`, which with `visible_only` count from the middle of the view.

        Raises:
            gymnasium.error.ResetNeeded: the environment has not been reset.
        """
        if self._states is None:
            raise gymnasium.error.ResetNeeded("ProcgenVectorEnv: camera before reset")
        view = self._decoder.options
        scale = 1.0 if view.is_reference else LENGTH
        names = ("visibility", "center_x", "center_y")
        size, x, y = (float(self._states[name][lane]) * scale for name in names)
        if view.visible_only and not view.is_reference:
            x, y = 0.0, 0.0
        return x - size / 2, y - size / 2, size, size

    def close_extras(self, **kwargs: Any) -> None:
        """Release the engine and the threads."""
        self._is_closed = True
        self._states = None
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
        self._engine = Engine(
            self.game, self.num_envs, seed % _NUM_SEEDS, self._engine_options, self._buffer, render
        )

    def _decode(self) -> DecodedStates:
        return self._decoder.decode(self._buffer.data, self._buffer.starts, self._buffer.lengths)

    @staticmethod
    def _info(states: DecodedStates) -> dict[str, Any]:
        return {
            "level_seed": states["current_level_seed"].astype(np.int64),
            "level_complete": states["level_complete"] != 0,
        }


def make_vec(game: str, num_envs: int = 1, *, num_workers: int = 0, **options: Any) -> EntityVectorEnv:
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
    return share_lanes(make, num_envs, num_workers, first_seed=seed, **options)
