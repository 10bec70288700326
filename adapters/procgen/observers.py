"""Observations of lanes after a step: entities out of their states, or pixels as the engine draws them.

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
from .engine import ProcgenEngine
from .games import LENGTH
from .options import ACTIONS, ViewOptions

#: Height, width and channels of what the engine draws for agents.
FRAME = (64, 64, 3)


@dataclass(frozen=True)
class ObservedLanes:
    """B lanes after a step; where one has ended, its next level has started."""

    batch: EntityBatch
    rewards: NDArray[np.float32]  # (B,)
    done: NDArray[np.bool_]  # (B,)
    level_complete: NDArray[np.bool_]  # (B,)
    level_seeds: NDArray[np.int64]  # (B,)
    times: NDArray[np.float64]  # (B,) steps since the level started
    limits: NDArray[np.float64]  # (B,) steps after which the engine ends it
    states: DecodedStates | None = None  # None: nobody asked for them


class LaneObserver(Protocol):
    """Interface of the observers of an engine's lanes."""

    observation_space: EntitySpace
    action_space: EntityActionSpace

    def observe(self, engine: ProcgenEngine, before: ObservedLanes | None) -> ObservedLanes:
        """Observe the lanes after a step that followed `before`; None: episodes have just started.

        Raises:
            ProcgenStateError: the states can't be read.
        """
        ...

    def camera(self, observed: ObservedLanes, lane: int) -> tuple[float, float, float, float]:
        """Return the camera of each lane; same contract as `ProcgenVectorEnv.camera`."""
        ...


def _observed_lanes(states: DecodedStates) -> ObservedLanes:
    return ObservedLanes(
        states.batch,
        states["reward"].astype(np.float32),
        states["done"] != 0,
        states["level_complete"] != 0,
        states["current_level_seed"].astype(np.int64),
        states["cur_time"],
        states["timeout"],
        states,
    )


def _decode(decoder: StateDecoder, engine: ProcgenEngine) -> DecodedStates:
    engine.fetch()
    dumps = engine.states
    return decoder.decode(dumps.data, dumps.starts, dumps.lengths)


class EntityObserver:
    """Entities out of the states, which are fetched after each step."""

    def __init__(self, game: str, mode: str, options: ViewOptions) -> None:
        self._decoder = StateDecoder(game, mode, options)
        self.observation_space = self._decoder.observation_space
        self.action_space = self._decoder.action_space

    def observe(self, engine: ProcgenEngine, before: ObservedLanes | None) -> ObservedLanes:
        return _observed_lanes(_decode(self._decoder, engine))

    def camera(self, observed: ObservedLanes, lane: int) -> tuple[float, float, float, float]:
        assert observed.states is not None
        view = self._decoder.options
        scale = 1.0 if view.is_reference else LENGTH
        names = ("visibility", "center_x", "center_y")
        size, x, y = (float(observed.states[name][lane]) * scale for name in names)
        if view.visible_only and not view.is_reference:
            x, y = 0.0, 0.0
        return x - size / 2, y - size / 2, size, size


class PixelObserver:
    """The frames that the engine draws; states are fetched when episodes start, for the time limit alone."""

    def __init__(self, game: str, mode: str) -> None:
        self._decoder = StateDecoder(game, mode)
        self.action_space = EntityActionSpace({"act": GlobalCategorical(ACTIONS)}, optional=True)
        self.observation_space = EntitySpace({}, self.action_space, frame=FRAME)

    def observe(self, engine: ProcgenEngine, before: ObservedLanes | None) -> ObservedLanes:
        rewards, frames, first = engine.observe()
        seeds, complete = engine.levels()
        batch = self._batch(frames)
        if before is None:
            start = _observed_lanes(_decode(self._decoder, engine))
            return ObservedLanes(batch, rewards, first, complete, seeds, start.times, start.limits)
        times = np.where(first | complete, 0, before.times + 1)
        return ObservedLanes(batch, rewards, first, complete, seeds, times, before.limits)

    def camera(self, observed: ObservedLanes, lane: int) -> tuple[float, float, float, float]:
        height, width, _ = FRAME
        return 0.0, float(height), float(width), -float(height)

    def _batch(self, frames: NDArray[np.uint8]) -> EntityBatch:
        steps = len(frames)
        offsets = np.arange(steps + 1)
        global_actor = RaggedArray(np.full(steps, -1, np.int64), offsets)
        all_choices = RaggedArray(np.ones((steps, len(ACTIONS)), bool), offsets.copy())
        return EntityBatch(
            {},
            np.zeros((steps, 0), np.float32),
            {"act": ActionMask(global_actor, all_choices)},
            frames=RaggedArray(frames, offsets.copy()),
        )
