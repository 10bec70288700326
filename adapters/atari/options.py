"""Options, checked; names and defaults of the emulator's are those of Gymnasium's "ALE/<game>-v5"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...envs.errors import MOST_INT, check_flags, one_of, whole_number, whole_options


@dataclass(frozen=True)
class AtariOptions:
    """Options of `AtariVectorEnv`.

    Raises:
        TypeError, ValueError: an option that is out of its range, by name.
    """

    mode: int | None = None  # of the game; None: the cartridge's first
    difficulty: int | None = None  # None: the easiest
    #: Frames per step; (low, high): drawn for each step, from low to high - 1.
    frameskip: int | tuple[int, int] = 4
    repeat_action_probability: float = 0.25  # of each frame to repeat the action of the frame before
    full_action_space: bool = False  # all 18 actions; False: those that the game uses
    #: Frames after which an episode is truncated; None: never.
    max_num_frames_per_episode: int | None = 108_000
    noop_max: int = 0  # an episode begins with 1 to this number of frames without an action; 0: with none
    terminal_on_life_loss: bool = False  # end the episode with each life; the next one continues the game
    chunks: bool = False  # bricks and pills in chunks, an entity each; False: an entity for each of them

    def __post_init__(self) -> None:
        check_flags(self, "full_action_space", "terminal_on_life_loss", "chunks")
        if isinstance(self.frameskip, tuple | list):
            object.__setattr__(self, "frameskip", self._checked_range(*self.frameskip))
        else:
            whole_options(self, frameskip=(1, MOST_INT))
        whole_options(self, noop_max=(0, MOST_INT), max_num_frames_per_episode=(1, MOST_INT))
        probability = self.repeat_action_probability
        if (
            isinstance(probability, bool)
            or not isinstance(probability, int | float | np.integer | np.floating)
            or not 0 <= probability <= 1
        ):
            raise ValueError(f"repeat_action_probability: expected a number from 0 to 1, got {probability!r}")

    def _checked_range(self, *bounds: Any) -> tuple[int, int]:
        if len(bounds) != 2:
            raise ValueError(f"frameskip: expected a number or (low, high), got {self.frameskip!r}")
        low, high = (whole_number("frameskip", bound, 1, MOST_INT) for bound in bounds)
        if low >= high:
            raise ValueError(f"frameskip: expected low < high, got {self.frameskip!r}")
        return low, high

    def check_choices(self, modes: list[int], difficulties: list[int]) -> None:
        """Raise a ValueError where `mode` or `difficulty` is not one of the game's."""
        for name, value, available in (
            ("mode", self.mode, modes),
            ("difficulty", self.difficulty, difficulties),
        ):
            if value is not None:
                one_of(name, value, available)
