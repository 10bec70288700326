"""`Console`: one emulator, which plays one lane."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import ale_py
import numpy as np
from ale_py import roms
from gymnasium.utils import seeding
from numpy.typing import NDArray

from .options import AtariOptions

#: The controller at rest.
NOOP = "NOOP"
#: An action is given until the chance that the emulator has taken none of them is below this.
_MISSED = 1e-12


class ConsoleStep(NamedTuple):
    """The result of one step of a lane."""

    reward: float
    terminated: bool
    truncated: bool


class Cartridge(NamedTuple):
    """A game as the emulator describes it."""

    path: str
    actions: tuple[str, ...]  # that the game uses
    all_actions: tuple[str, ...]  # that the emulator takes
    modes: list[int]
    difficulties: list[int]


@functools.cache
def load_cartridge(rom: str) -> Cartridge:
    """Return the emulator's description of a game."""
    path = str(roms.get_rom_path(rom))
    ale = _emulator()
    ale.loadROM(path)
    minimal, legal = (
        tuple(action.name for action in actions)
        for actions in (ale.getMinimalActionSet(), ale.getLegalActionSet())
    )
    return Cartridge(path, minimal, legal, ale.getAvailableModes(), ale.getAvailableDifficulties())


class Console:
    """An emulator with a game in it.

    Seeded alike and with the same actions it plays the same game as Gymnasium's "ALE/<game>-v5", whose ways
    of drawing random numbers it follows.

    Args:
        cartridge, options: what it plays.

    Attributes:
        lives: lives left after the last step.
    """

    def __init__(self, cartridge: Cartridge, options: AtariOptions) -> None:
        self._path, self._options = cartridge.path, options
        self.lives = 0
        self._random = np.random.default_rng()  # of frame skips and of frames without an action
        self._is_loaded = False
        self._has_next_life = False  # an episode has ended, but not its game
        self._is_restored = False  # no frame has been drawn since
        self._held = 0  # the last action
        self.ale = _emulator()
        self.ale.setFloat("repeat_action_probability", options.repeat_action_probability)
        if options.max_num_frames_per_episode is not None:
            self.ale.setInt("max_num_frames_per_episode", options.max_num_frames_per_episode)

    def start(self, seed: int | None) -> None:
        """Start an episode: a new game, or without a seed after a lost life the rest of the same one.

        Args:
            seed: restarts the random numbers; None: they continue, and at the first start begin anywhere.
        """
        if seed is not None or not self._is_loaded:
            self._load(seed)
            self._has_next_life = False
        if not self._has_next_life:
            self.ale.reset_game()
            self._held = 0
        self._has_next_life = self._is_restored = False
        if self._options.noop_max:
            self._held = 0
            for _ in range(int(self._random.integers(1, self._options.noop_max + 1))):
                self.ale.act(0)
                if self.ale.game_over():
                    self.ale.reset_game()
        self.lives = self.ale.lives()

    def _load(self, seed: int | None) -> None:
        """Insert the cartridge, which is when the emulator takes a seed (a tenth of a second)."""
        own, emulators = np.random.SeedSequence(seed).generate_state(2)
        self._random, _ = seeding.np_random(int(own))
        self.ale.setInt("random_seed", int(emulators.astype(np.int32)))
        self.ale.loadROM(self._path)
        if self._options.mode is not None:
            self.ale.setMode(self._options.mode)
        if self._options.difficulty is not None:
            self.ale.setDifficulty(self._options.difficulty)
        self._is_loaded = True

    def step(self, action: int) -> ConsoleStep:
        """Hold the controller for the frames of a step."""
        ale, frames = self.ale, self._options.frameskip
        count = frames if isinstance(frames, int) else int(self._random.integers(*frames))
        reward = 0
        for _ in range(count):
            reward += ale.act(action)
        self._is_restored, self._held = False, action
        terminated = ale.game_over(with_truncation=False)
        lives = ale.lives()
        truncated = ale.game_truncated() and not terminated
        if self._options.terminal_on_life_loss and lives < self.lives and not (terminated or truncated):
            terminated = self._has_next_life = True
        self.lives = lives
        return ConsoleStep(reward, terminated, truncated)

    def frame(self) -> NDArray[np.uint8]:
        """Return what the screen shows (210, 160, 3); after `set_state`, what it shows a frame later."""
        ale = self.ale
        if not self._is_restored:
            frame: NDArray[np.uint8] = ale.getScreenRGB()
            return frame
        state = ale.cloneState(include_rng=True)
        ale.act(0)
        frame = ale.getScreenRGB()
        self._go_back(state)
        return frame

    def _go_back(self, state: ale_py.ALEState) -> None:
        """Restore a state, and the action that the emulator holds, which is no part of it.

        With `repeat_action_probability` a frame may repeat it. The one before the last step's, which is still
        held where that step repeated it in all its frames, is not known.
        """
        probability = self._options.repeat_action_probability
        if 0 < probability < 1:
            self.ale.reset_game()
            for _ in range(math.ceil(math.log(_MISSED, probability))):
                self.ale.act(self._held)
        self.ale.restoreState(state)

    def get_state(self) -> tuple[bytes, NDArray[np.uint64], int]:
        """Return the emulator's state with its random numbers, that of the console's own (6,), and the last
        action.
        """
        state: Any = self._random.bit_generator.state
        words = []
        for number in state["state"].values():
            words += [number >> 64, number & (2**64 - 1)]
        numbers = np.array([*words, state["has_uint32"], state["uinteger"]], np.uint64)
        return self.ale.cloneState(include_rng=True).serialize(), numbers, self._held

    def set_state(self, saved: bytes, numbers: NDArray[np.uint64], held: int) -> None:
        """Go back to what `get_state` returned.

        Raises:
            ValueError: the state is damaged or of another game.
        """
        if not self._is_loaded:
            self._load(None)
        try:
            state = ale_py.ALEState(saved)
            self.ale.restoreState(state)
        except Exception as error:  # of many classes, one of which is SystemError
            raise ValueError(f"state 'emulators': {error}") from error
        self._held = held
        self._go_back(state)
        words = [int(word) for word in numbers]
        self._random.bit_generator.state = {
            "bit_generator": "PCG64",
            "state": {"state": words[0] << 64 | words[1], "inc": words[2] << 64 | words[3]},
            "has_uint32": words[4],
            "uinteger": words[5],
        }
        self.lives = self.ale.lives()
        self._has_next_life, self._is_restored = False, True


def _emulator() -> Any:
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    return ale_py.ALEInterface()
