"""`AtariVectorEnv`: many lanes of one Atari game, as entities."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import ale_py
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from ...envs import EntityActionSpace, EntityBatch, EntityVectorEnv, GlobalCategorical
from ...envs.errors import check_render_mode, checked_options, whole_number
from ...envs.registration import share_lanes
from ...envs.vector.saved_state import check_arrays
from ...envs.vector.vector_env import StepResult
from ...ragged import RaggedArray, keep_freed_memory
from .chunks import in_chunks
from .engine import NOOP, Console, load_cartridge
from .features import ACTION, LENGTH, AtariObserver
from .game import SCREEN_HEIGHT, SCREEN_WIDTH
from .games import find_game
from .options import AtariOptions

_RAM_BYTES = 128


class AtariVectorEnv(EntityVectorEnv):
    """`num_envs` lanes of one game, each in an emulator of its own.

        venv = AtariVectorEnv("Pong", num_envs=16)
        batch, info = venv.reset(seed=1)
        batch, rewards, terminated, truncated, info = venv.step(venv.action_space.sample(mask=batch))

    Entities are the objects on the screen, read from the console's memory by the table of the game. The only
    action, `act`, is global: the position of the controller, one of the names that the game uses. One that is
    left out is "NOOP".

    `info` holds for every lane, as in Gymnasium's environments, `lives`, `episode_frame_number` and
    `frame_number`, int64.

    Args:
        game: one of `GAMES`.
        num_envs: how many lanes.
        seed: seeds the first `reset` that gives none; None: from the operating system.
        render_mode: None, or "rgb_array".
        options: those of `AtariOptions`.

    Attributes:
        consoles: the emulator of each lane, for tools that read its state.
        ram: uint8 (num_envs, 128), what the last observation was read from.

    Raises:
        ValueError: a game without a table (all that have one are listed), or an option out of its range.
        TypeError: an unknown option.
        ImportError: the package `ale-py` is not installed.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - Gymnasium declares no ClassVar
        "autoreset_mode": AutoresetMode.SAME_STEP,
        "final_obs": True,
        "render_modes": ["rgb_array"],
        "render_fps": 15,  # of 60 frames per second, four per step
    }

    def __init__(
        self,
        game: str = "Pong",
        num_envs: int = 1,
        *,
        seed: int | None = None,
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        self.game = find_game(game)
        self.num_envs = whole_number("num_envs", num_envs)
        check_render_mode("AtariVectorEnv", render_mode, self.metadata["render_modes"])
        self.options = checked_options("Atari", AtariOptions, options, AtariVectorEnv)
        cartridge = load_cartridge(self.game.rom)
        self.options.check_choices(cartridge.modes, cartridge.difficulties)
        if self.options.chunks:
            self.game = in_chunks(self.game)
        keep_freed_memory()
        self.render_mode = render_mode
        skip = self.options.frameskip
        least, most = (skip, skip) if isinstance(skip, int) else (skip[0], skip[1] - 1)
        self.metadata = {**self.metadata, "render_fps": max(1, round(120 / (least + most)))}
        names = cartridge.all_actions if self.options.full_action_space else cartridge.actions
        actions = EntityActionSpace({ACTION: GlobalCategorical(names)}, optional=True)
        self._actions = np.array([ale_py.Action.__members__[name].value for name in names])
        self._noop = names.index(NOOP)
        self._observer = AtariObserver(self.game, names, actions, most)
        self.single_observation_space = self._observer.space
        self.single_action_space = actions
        self._seed_first_reset(seed)
        self.consoles = [Console(cartridge, self.options) for _ in range(self.num_envs)]
        self.ram = np.zeros((self.num_envs, _RAM_BYTES), np.uint8)
        self._slots, self._status = self.game.read_slots(self.ram)
        self._before = self._slots  # of the step before
        self._lives = [index for index, name in enumerate(self.game.status) if name == "lives"]

    def _reset(
        self, seeds: list[int | None], options: dict[str, Any] | None
    ) -> tuple[EntityBatch, dict[str, Any]]:
        """Start a game in every lane; a lane without a seed continues its random numbers."""
        for console, seed in zip(self.consoles, seeds, strict=True):
            console.start(seed)
        self._read_memory()
        self._before = np.zeros_like(self._slots)
        return self._observe(), self._info()

    def _step(self, actions: dict[str, RaggedArray]) -> StepResult:
        """Let every lane's player act."""
        held = self._actions[actions[ACTION].one_each(self._noop)].tolist()
        outcomes = [console.step(action) for console, action in zip(self.consoles, held, strict=True)]
        rewards = np.array([outcome.reward for outcome in outcomes], np.float32)
        terminated = np.array([outcome.terminated for outcome in outcomes], bool)
        truncated = np.array([outcome.truncated for outcome in outcomes], bool)
        self._before = self._slots
        self._read_memory()
        ended = terminated | truncated
        last: dict[str, Any] = {}
        if self.starts_over and ended.any():
            last = {"final_obs": self._observe(ended), "_final_obs": ended}
            for lane in ended.nonzero()[0].tolist():
                self.consoles[lane].start(None)
            self._read_memory()
            self._before[ended] = 0
        return self._observe(), rewards, terminated, truncated, {**self._info(), **last}

    def _read_memory(self) -> None:
        """Read the memory of all lanes."""
        for console, memory in zip(self.consoles, self.ram, strict=True):
            console.ale.getRAM(memory)
        self._slots, self._status = self.game.read_slots(self.ram)
        for index in self._lives:
            self._status[:, index] = [console.lives for console in self.consoles]

    def _observe(self, lanes: NDArray[np.bool_] | slice = slice(None)) -> EntityBatch:
        return self._observer.observe(self._slots[lanes], self._before[lanes], self._status[lanes])

    def _info(self) -> dict[str, Any]:
        emulators = [console.ale for console in self.consoles]
        return {
            "lives": np.array([console.lives for console in self.consoles]),
            "episode_frame_number": np.array([ale.getEpisodeFrameNumber() for ale in emulators]),
            "frame_number": np.array([ale.getFrameNumber() for ale in emulators]),
        }

    def _render(self) -> tuple[NDArray[np.uint8], ...]:
        """Return the screen (210, 160, 3) of each lane."""
        return tuple(console.frame() for console in self.consoles)

    def camera(self, lane: int) -> tuple[float, float, float, float]:
        """The part of the world that `render` shows: left, bottom, width and height in the unit of `x` and
        `y`; the height is negative, because y counts downwards.
        """
        return 0.0, SCREEN_HEIGHT / LENGTH, SCREEN_WIDTH / LENGTH, -SCREEN_HEIGHT / LENGTH

    # -- saving and going back ------------------------------------------------------------------------------

    def get_state(self) -> dict[str, NDArray[Any]]:
        """Copies of all arrays on which the future depends; PPO puts them into its checkpoints."""
        self._check_playing("get_state()")
        states = [console.get_state() for console in self.consoles]
        return {
            "emulators": np.frombuffer(b"".join(saved for saved, *_ in states), np.uint8).copy(),
            "lengths": np.array([len(saved) for saved, *_ in states]),
            "random_state": np.stack([numbers for _, numbers, _ in states]),
            "held": np.array([held for *_, held in states]),
            "before": self._before.copy(),
        }

    def set_state(self, state: Mapping[str, NDArray[Any]]) -> EntityBatch:
        """Go back to what `get_state` returned; returns the observations of that moment.

        Raises:
            ValueError: the state is of another game or of another number of lanes, or damaged.
        """
        self._check_open()
        arrays = {name: np.asarray(array) for name, array in state.items()}
        arrays.setdefault("held", np.zeros(self.num_envs, np.int64))  # of version 0.1, which did not save it
        own: dict[str, NDArray[Any]] = {
            "lengths": np.zeros(self.num_envs, np.int64),
            "random_state": np.zeros((self.num_envs, 6), np.uint64),
            "held": np.zeros(self.num_envs, np.int64),
            "before": self._before,
        }
        check_arrays("AtariVectorEnv", own, arrays)
        stops = np.cumsum(arrays["lengths"])
        saved = arrays.get("emulators", np.zeros(0, np.uint8)).tobytes()
        if (arrays["lengths"] < 0).any() or stops[-1] != len(saved):
            raise ValueError(
                f"AtariVectorEnv: state 'emulators': expected {stops[-1]} bytes, got {len(saved)}"
            )
        held = arrays["held"]
        if (held < 0).any() or (held >= len(ale_py.Action.__members__)).any():
            raise ValueError(f"AtariVectorEnv: state 'held': expected actions, got {held.tolist()}")
        self._is_playing = False  # until all lanes are restored
        for console, length, stop, numbers, action in zip(
            self.consoles, arrays["lengths"], stops, arrays["random_state"], held.tolist(), strict=True
        ):
            console.set_state(saved[stop - length : stop], numbers, action)
        self._read_memory()
        self._before = arrays["before"].copy()
        return self._continue_from(self._observe())


def make_vec(
    game: str = "Pong", num_envs: int = 1, *, num_workers: int = 0, **options: Any
) -> EntityVectorEnv:
    """Make an `AtariVectorEnv`, or one in workers; what `entitize.make_vec("Atari/<game>")` calls.

    An emulator keeps the processor busy, so `num_workers` pays up to the number of processors. The same seed
    gives the same episodes.

    Args:
        options: those of `AtariVectorEnv`; with workers also `worker_timeout`, see `ShardedVectorEnv`.
    """
    return share_lanes(partial(AtariVectorEnv, game), num_envs, num_workers, **options)
