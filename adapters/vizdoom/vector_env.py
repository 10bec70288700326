"""`ViZDoomVectorEnv`: many lanes of one scenario of ViZDoom, as entities."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from typing import Any, TypeVar

import numpy as np
import vizdoom
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from ...envs import EntityBatch, EntityVectorEnv
from ...envs.errors import WorkerError, check_render_mode, checked_options, whole_number
from ...envs.registration import share_lanes
from ...envs.seeds import lane_generators
from ...envs.vector.vector_env import StepResult
from ...ragged import RaggedArray, keep_freed_memory
from .buttons import Buttons
from .engine import Doom, Outcome
from .features import DoomObserver
from .options import DoomOptions
from .reading import Reading
from .scenarios import find_scenario

_T = TypeVar("_T")

#: The engine's seeds are uint32.
_NUM_SEEDS = 1 << 32


class ViZDoomVectorEnv(EntityVectorEnv):
    """`num_envs` lanes of one scenario, each in an engine process of its own, without a window.

        venv = ViZDoomVectorEnv("basic", num_envs=8)
        batch, info = venv.reset(seed=1)
        batch, rewards, terminated, truncated, info = venv.step(venv.action_space.sample(mask=batch))

    The only actor is the player, entity 0 of every lane; its actions are `buttons` and `deltas`, see
    `Buttons`. The other entities are the objects on the screen, or with `visible_only=False` all of the
    level; see `features` for their features.

    The engine shows nothing of the state in which an episode ends, so the last observation is never observed
    (`metadata["final_obs"]` is false); the batch holds the first one of the next episode. An episode that the
    scenario's time limit ended is truncated.

    `info` holds for every lane `episode_seed` int64, the engine's seed of its episode.

    Args:
        scenario: the name of a scenario of the package, or a path that ends in ".cfg".
        num_envs: how many lanes.
        seed: seeds the first `reset` that gives none; None: from the operating system.
        num_threads: threads that wait for the engines; None: two per processor.
        render_mode: None, or "rgb_array".
        options: those of `DoomOptions`.

    Attributes:
        engines: the engine of each lane, for tools that read its state; none before the first reset.

    Raises:
        ValueError: an unknown scenario (the nearest name is given), or an option out of its range.
        TypeError: an unknown option.
        ImportError: the package `vizdoom` is not installed.
        WorkerError: an engine has died, in `reset` or `step`; all are closed.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - Gymnasium declares no ClassVar
        "autoreset_mode": AutoresetMode.SAME_STEP,
        "final_obs": False,
        "render_modes": ["rgb_array"],
        "render_fps": 9,  # of 35 tics per second, four per step
    }

    def __init__(
        self,
        scenario: str = "basic",
        num_envs: int = 1,
        *,
        seed: int | None = None,
        num_threads: int | None = None,
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        self.scenario = find_scenario(scenario)
        self.num_envs = whole_number("num_envs", num_envs)
        check_render_mode("ViZDoomVectorEnv", render_mode, self.metadata["render_modes"])
        self.options = checked_options("ViZDoom", DoomOptions, options, ViZDoomVectorEnv)
        keep_freed_memory()
        self.render_mode = render_mode
        self.metadata = {**self.metadata, "render_fps": max(1, round(35 / self.options.frame_skip))}
        self._buttons = Buttons(self.scenario, self.options)
        self._observer = DoomObserver(self.scenario, self.options, self._buttons)
        self.single_observation_space = self._observer.space
        self.single_action_space = self._buttons.action_space
        self._seed_first_reset(seed)
        self._generators: list[np.random.Generator] = []
        self._episode_seeds = np.zeros(num_envs, np.int64)
        if num_threads is None:
            num_threads = 2 * (os.cpu_count() or 1)
        self._num_threads = min(whole_number("num_threads", num_threads), num_envs)
        self._threads = ThreadPoolExecutor(self._num_threads, "vizdoom")
        self.engines: list[Doom] = []
        self._readings: list[Reading] = []

    def _reset(
        self, seeds: list[int | None], options: dict[str, Any] | None
    ) -> tuple[EntityBatch, dict[str, Any]]:
        """Start an episode in every lane; a lane without a seed continues its random numbers."""
        self._generators = lane_generators(seeds, self._generators)
        if not self.engines:
            self.engines = self._each("being made", self._make_engine)
        self._readings = self._each("reset", self._start)
        return self._observe()

    def _step(self, actions: dict[str, RaggedArray]) -> StepResult:
        """Let every lane's player act; one whose action is left out presses no button."""
        pressed = self._buttons.press(actions, self.num_envs).tolist()
        outcomes = self._each("step", partial(self._play, pressed))
        for lane, outcome in enumerate(outcomes):
            if outcome.reading is not None:
                self._readings[lane] = outcome.reading
        batch, info = self._observe()
        rewards = np.array([outcome.reward for outcome in outcomes], np.float32)
        terminated = np.array([outcome.terminated for outcome in outcomes], bool)
        truncated = np.array([outcome.truncated for outcome in outcomes], bool)
        return batch, rewards, terminated, truncated, info

    def _play(self, pressed: list[list[float]], lane: int) -> Outcome:
        """Step one lane, and where its episode ends, start the next one."""
        outcome = self.engines[lane].step(pressed[lane])
        if outcome.reading is None and self.starts_over:
            return outcome._replace(reading=self._start(lane))
        return outcome

    def _start(self, lane: int) -> Reading:
        seed = int(self._generators[lane].integers(_NUM_SEEDS))
        self._episode_seeds[lane] = seed
        return self.engines[lane].start(seed)

    def _make_engine(self, lane: int) -> Doom:
        return Doom(
            self.scenario,
            self.options,
            self._buttons.available,
            self._observer.variables,
            self.render_mode is not None,
        )

    def _observe(self) -> tuple[EntityBatch, dict[str, Any]]:
        game = self.engines[0].game
        batch = self._observer.observe(self._readings, game.get_screen_width(), game.get_screen_height())
        return batch, {"episode_seed": self._episode_seeds.copy()}

    def _each(self, doing: str, function: Callable[[int], _T]) -> list[_T]:
        """Call `function` for all lanes: the engines work at once, while threads wait for them.

        Raises:
            WorkerError: an engine has died; it names the lane.
        """
        results: list[Any] = [None] * self.num_envs
        failures: dict[int, Exception] = {}
        lanes = iter(range(self.num_envs))  # shared: each thread takes the next lane

        def work() -> None:
            for lane in lanes:
                try:
                    results[lane] = function(lane)
                except Exception as error:
                    failures[lane] = error

        helpers = [self._threads.submit(work) for _ in range(self._num_threads - 1)]
        try:
            work()
        finally:  # none may run on while an error or an interruption is handled
            wait(helpers)
        if not failures:
            return results
        lane, error = min(failures.items())
        if not isinstance(error, _ENGINE_ERRORS):
            raise error
        lane += self.first_lane
        where = f"env {lane} (ViZDoom {self.scenario.name})"
        raise WorkerError(f"{where}: {doing}: the engine's process has ended: {error}", [lane]) from error

    def _render(self) -> tuple[NDArray[np.uint8], ...]:
        """Return the last frame (height, width, 3) of each lane."""
        frames = [engine.frame for engine in self.engines]
        return tuple(frame.copy() for frame in frames if frame is not None)

    def close_extras(self, **kwargs: Any) -> None:
        """End the engines and the threads."""
        self._threads.shutdown(cancel_futures=True)
        engines, self.engines = self.engines, []
        for engine in engines:
            engine.close()


#: What the binding raises where the engine's process has ended.
_ENGINE_ERRORS = (
    vizdoom.ViZDoomErrorException,
    vizdoom.ViZDoomIsNotRunningException,
    vizdoom.ViZDoomUnexpectedExitException,
    vizdoom.SharedMemoryException,
    vizdoom.MessageQueueException,
)


def make_vec(
    scenario: str = "basic", num_envs: int = 1, *, num_workers: int = 0, **options: Any
) -> EntityVectorEnv:
    """Make a `ViZDoomVectorEnv`, or one in workers; what `entitize.make_vec("ViZDoom/<scenario>")` calls.

    Engines are processes of their own, so `num_workers` pays only where reading their states keeps one
    processor busy. The same seed gives the same episodes.

    Args:
        options: those of `ViZDoomVectorEnv`; with workers also `worker_timeout`, see `ShardedVectorEnv`.
    """
    return share_lanes(partial(ViZDoomVectorEnv, scenario), num_envs, num_workers, **options)
