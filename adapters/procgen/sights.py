"""What lanes show after a step, out of their states (entities) or as the engine draws them (pixels).

Shape alphabet: B lanes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ...envs import ActionMask, EntityActionSpace, EntityBatch, EntitySpace, GlobalCategorical
from ...ragged import RaggedArray
from .decoder.decode import DecodedStates, StateDecoder
from .engine import Engine
from .games import LENGTH
from .options import ACTIONS, ViewOptions

#: Height, width and channels of what the engine draws for agents.
FRAME = (64, 64, 3)


@dataclass(frozen=True)
class Seen:
    """B lanes after a step; where one has ended, its next level has started."""

    batch: EntityBatch
    rewards: NDArray[np.float32]  # (B,)
    done: NDArray[np.bool_]  # (B,)
    level_complete: NDArray[np.bool_]  # (B,)
    level_seeds: NDArray[np.int64]  # (B,)
    times: NDArray[np.float64]  # (B,) steps since the level started
    limits: NDArray[np.float64]  # (B,) steps after which the engine ends it
    states: DecodedStates | None = None  # None: nobody asked for them


class Sight(Protocol):
    """How to look at an engine's lanes."""

    observation_space: EntitySpace
    action_space: EntityActionSpace

    def look(self, engine: Engine, before: Seen | None) -> Seen:
        """What there is after a step that followed `before`; None: episodes have just started.

        Raises:
            ProcgenStateError: the states can't be read.
        """
        ...

    def camera(self, seen: Seen, lane: int) -> tuple[float, float, float, float]:
        """See `ProcgenVectorEnv.camera`."""
        ...


def _seen(states: DecodedStates) -> Seen:
    return Seen(
        states.batch,
        states["reward"].astype(np.float32),
        states["done"] != 0,
        states["level_complete"] != 0,
        states["current_level_seed"].astype(np.int64),
        states["cur_time"],
        states["timeout"],
        states,
    )


def _decode(decoder: StateDecoder, engine: Engine) -> DecodedStates:
    engine.fetch()
    dumps = engine.states
    return decoder.decode(dumps.data, dumps.starts, dumps.lengths)


class EntitySight:
    """Entities out of the states, which are fetched after each step."""

    def __init__(self, game: str, mode: str, options: ViewOptions) -> None:
        self._decoder = StateDecoder(game, mode, options)
        self.observation_space = self._decoder.observation_space
        self.action_space = self._decoder.action_space

    def look(self, engine: Engine, before: Seen | None) -> Seen:
        return _seen(_decode(self._decoder, engine))

    def camera(self, seen: Seen, lane: int) -> tuple[float, float, float, float]:
        assert seen.states is not None
        view = self._decoder.options
        scale = 1.0 if view.is_reference else LENGTH
        names = ("visibility", "center_x", "center_y")
        size, x, y = (float(seen.states[name][lane]) * scale for name in names)
        if view.visible_only and not view.is_reference:
            x, y = 0.0, 0.0
        return x - size / 2, y - size / 2, size, size


class PixelSight:
    """The frames that the engine draws; states are fetched when episodes start, for the time limit alone."""

    def __init__(self, game: str, mode: str) -> None:
        self._decoder = StateDecoder(game, mode)
        self.action_space = EntityActionSpace({"act": GlobalCategorical(ACTIONS)})
        self.observation_space = EntitySpace({}, self.action_space, frame=FRAME)

    def look(self, engine: Engine, before: Seen | None) -> Seen:
        rewards, frames, first = engine.observe()
        seeds, complete = engine.levels()
        batch = self._batch(frames)
        if before is None:
            start = _seen(_decode(self._decoder, engine))
            return Seen(batch, rewards, first, complete, seeds, start.times, start.limits)
        times = np.where(first | complete, 0, before.times + 1)
        return Seen(batch, rewards, first, complete, seeds, times, before.limits)

    def camera(self, seen: Seen, lane: int) -> tuple[float, float, float, float]:
        height, width, _ = FRAME
        return 0.0, float(height), float(width), -float(height)

    def _batch(self, frames: NDArray[np.uint8]) -> EntityBatch:
        steps = len(frames)
        offsets = np.arange(steps + 1)
        anybody = RaggedArray(np.full(steps, -1, np.int64), offsets)
        everything = RaggedArray(np.ones((steps, len(ACTIONS)), bool), offsets.copy())
        return EntityBatch(
            {},
            np.zeros((steps, 0), np.float32),
            {"act": ActionMask(anybody, everything)},
            frames=RaggedArray(frames, offsets.copy()),
        )
