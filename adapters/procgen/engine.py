"""The engine behind a vector environment: one `ProcgenGym3Env`, and the states of its lanes in one buffer."""

from __future__ import annotations

import contextlib
import importlib
import io
import mmap
import os
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...process import is_on
from ...ragged import available_cores
from .drawing import draw_from_now_on, stop_drawing, undrawn
from .games import ProcgenGame
from .options import EngineOptions
from .terse import terse_dumps, without_generators

#: Bytes set aside for each lane. The engine aborts the process where a state does not fit; the largest ones
#: are under 128 KiB, and this is the room that the engine's own wrapper gives them. Memory that is never
#: written to is never claimed. The odd rest keeps the lanes from all falling on the same lines of the cache.
LANE_BYTES = (1 << 20) + 41 * 1024

#: From how many lanes on a second thread is worth its while.
_LANES_FOR_TWO_THREADS = 8


def import_engine() -> Any:
    """The class `procgen.ProcgenGym3Env`.

    Raises:
        ImportError: the package is not installed; the message names the extra.
    """
    try:
        # Importing procgen leaves a file open, and gym, which it imports, prints advice that does not apply.
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            return importlib.import_module("procgen.env").ProcgenGym3Env
    except ModuleNotFoundError as error:
        raise ImportError("Procgen is not installed: pip install 'entitize[procgen]'") from error


def default_threads(num_envs: int) -> int:
    """Return the number of threads that fetch states: two with at least two processors and enough lanes."""
    return 2 if available_cores() > 1 and num_envs >= _LANES_FOR_TWO_THREADS else 1


class StateBuffer:
    """Room for the dumps of `num_envs` lanes, filled by up to `num_threads` threads."""

    def __init__(self, num_envs: int, num_threads: int) -> None:
        # Mapped, because NumPy would ask for huge pages, which claim all of it.
        self.data: NDArray[np.uint8] = np.frombuffer(mmap.mmap(-1, num_envs * LANE_BYTES), np.uint8)
        self.starts = np.arange(num_envs, dtype=np.int64) * LANE_BYTES
        self.lengths = np.zeros(num_envs, np.int64)
        ffi = importlib.import_module("cffi").FFI()  # comes with the engine, so not imported before it
        self._pointers = [ffi.cast("char *", self.data.ctypes.data + int(start)) for start in self.starts]
        self._num_helpers = num_threads - 1
        self._make_pool()

    def _make_pool(self) -> None:
        self._pool = ThreadPoolExecutor(self._num_helpers) if self._num_helpers else None
        self._process = os.getpid()

    def fill(self, engine: Any) -> None:
        """Fetch the state of every lane."""
        if self._process != os.getpid():  # a forked process lacks the threads
            self._make_pool()
        lanes = iter(range(len(self.lengths)))  # shared: each thread takes the next lane
        helpers = (
            [self._pool.submit(self._fill, engine, lanes) for _ in range(self._num_helpers)]
            if self._pool
            else []
        )
        self._fill(engine, lanes)
        for helper in helpers:
            helper.result()

    def _fill(self, engine: Any, lanes: Iterator[int]) -> None:
        call, pointers, lengths = engine.call_c_func, self._pointers, self.lengths
        for lane in lanes:
            lengths[lane] = call("get_state", lane, pointers[lane], LANE_BYTES)  # releases the GIL

    def dump(self, engine: Any, lane: int) -> bytes:
        """The state of one lane."""
        self._fill(engine, iter([lane]))
        start = self.starts[lane]
        return self.data[start : start + self.lengths[lane]].tobytes()

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies have memory and threads of their own, and hold no states until the next `fill`."""
        return StateBuffer, (len(self.lengths), self._num_helpers + 1)

    def close(self) -> None:
        """End the threads."""
        if self._pool:
            self._pool.shutdown()


class ProcgenEngine:
    """One real engine of `num_envs` lanes.

    Rewards and ends are in the states as well as in what the engine itself observes: who has fetched the one
    need not ask for the other.

    Attributes:
        env: the package's own environment, a `ProcgenGym3Env`.
        states: the dumps of the lanes' states, as `fetch` left them.
        is_terse: whether `fetch` leaves out the text of the random generators.
    """

    def __init__(
        self,
        game: ProcgenGame,
        num_envs: int,
        seed: int,
        options: EngineOptions,
        states: StateBuffer,
        render: bool,
        pixels: bool = False,
    ) -> None:
        self.num_envs = num_envs
        self.seed = seed
        self.has_stepped = False
        self.states = states
        self._arguments: dict[str, Any] = {
            "num": num_envs,
            "env_name": game.name,
            "rand_seed": seed,
            "render_mode": "rgb_array" if render else None,
            **options.arguments(render or pixels),
        }
        self._is_drawn = render or pixels
        self._start()
        self.is_terse = self._can_be_terse()

    def _start(self) -> None:
        if self._is_drawn:
            draw_from_now_on(self)
        self.env = import_engine()(**self._arguments)

    def __getstate__(self) -> dict[str, Any]:
        """Copies run an engine of their own, which continues from this one's state."""
        return {**vars(self), "env": self.env.get_state()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._start()
        self.env.set_state(state["env"])

    def step(self, actions: NDArray[np.int32]) -> None:
        """Let every lane act (num_envs,); -1 abandons the episode for the next one."""
        self.has_stepped = True
        with contextlib.nullcontext(False) if self._is_drawn else undrawn() as is_undrawn:
            self.env.act(actions)
            if is_undrawn and self._arguments["num_threads"]:
                self.env.observe()  # waits for the engine's threads

    def fetch(self) -> None:
        """Fetch the states as they are; the text of their random generators may be left out."""
        with terse_dumps if self.is_terse else contextlib.nullcontext():
            self.states.fill(self.env)

    def observe(self) -> tuple[NDArray[np.float32], NDArray[np.uint8], NDArray[np.bool_]]:
        """Rewards (num_envs,), frames (num_envs, 64, 64, 3), and which lanes have just started an episode.

        Frames are up to date if the engine was made with `render` or `pixels`.
        """
        rewards, seen, first = self.env.observe()
        return rewards, seen["rgb"], first

    def levels(self) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.int64]]:
        """The level of each lane, whether its last step completed the level before, and the level before.

        All (num_envs,).
        """
        infos = self.env.get_info()
        seeds, before = (
            np.array([info[name] for info in infos], np.int64) for name in ("level_seed", "prev_level_seed")
        )
        return seeds, np.array([info["prev_level_complete"] != 0 for info in infos]), before

    def frames(self) -> tuple[NDArray[np.uint8], ...]:
        """A picture of each lane (512, 512, 3)."""
        return tuple(info["rgb"] for info in self.env.get_info())

    def close(self) -> None:
        """Release the engine."""
        self.env.close()
        stop_drawing(self)

    def _can_be_terse(self) -> bool:
        """Return true if terse dumps are switched on and differ from full ones in the generators only."""
        if not is_on("terse_dumps"):
            return False
        whole = self.states.dump(self.env, 0)
        with terse_dumps as is_terse:
            return is_terse and self.states.dump(self.env, 0) == without_generators(whole)
