"""`StateDecoder`: a batch of `get_state` dumps becomes one `EntityBatch`, in two passes of Numba code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ....envs import Categorical, EntityActionSpace, EntityBatch, EntitySpace
from ....envs.vector.native_arrays import even, free_choice, typed_rows
from ..options import ACTIONS, EngineOptions, ViewOptions, find_game
from .fill import fill_states
from .layout import slot_table
from .plan import plan_states
from .scan import REASONS, ScannedStates, room_for, scan_states


class ProcgenStateError(ValueError):
    """A state dump that is truncated, damaged or of another game.

    Attributes:
        game: the game that the dump was to be of.
        state: which dump of the batch (an index).
        offset: the byte of that dump at which reading stopped.
        reason: what is wrong there.
    """

    def __init__(self, game: str, state: int, offset: int, reason: str) -> None:
        super().__init__(f"{game}: state {state} at byte {offset}: {reason}")
        self.game, self.state, self.offset, self.reason = game, state, offset, reason

    def __reduce__(self) -> tuple[type[ProcgenStateError], tuple[str, int, int, str]]:
        return type(self), (self.game, self.state, self.offset, self.reason)


@dataclass(frozen=True)
class DecodedStates:
    """B states: what an agent sees of them, and the numbers of the dumps (see `layout.slot_table`)."""

    batch: EntityBatch
    numbers: NDArray[np.float64]  # (B, S)
    slots: dict[str, int]

    def __getitem__(self, name: str) -> NDArray[np.float64]:
        """One number of every state (B,)."""
        return self.numbers[:, self.slots[name]]


_NO_ROWS = np.empty(0, np.float32)


class StateDecoder:
    """Decodes the dumps of one game.

    The entity types, features and globals are those of `games` (or `reference`); the type `Tiles`, last, is
    there in games with a map. `Player` is the first type; its one entity is the only actor.

    Attributes:
        observation_space, action_space: what a batch looks like.
        tile_names: the columns of the one-hot at each cell of a chunk, in order.
        chunk_size: cells per side of a chunk.

    Raises:
        ValueError: an unknown game or mode, or options that show pixels.
    """

    def __init__(self, game: str, mode: str = "easy", options: ViewOptions | None = None) -> None:
        self.game = find_game(game)
        EngineOptions(mode).check(self.game)
        self.mode = mode
        self.options = options = options or ViewOptions()
        if options.is_pixels:
            raise ValueError("features='pixels': frames are not decoded from states")
        self.slots = slot_table(game)
        self._plan, rows, global_features, self.tile_names = plan_states(self.game, mode, options)
        self.chunk_size = int(self._plan.options["chunk"][0])
        self._widths = {name: len(features) for name, features in rows.items()}
        self._num_globals = len(global_features)
        self.action_space = EntityActionSpace({"act": Categorical(ACTIONS)}, optional=True)
        self.observation_space = EntitySpace(rows, self.action_space, global_features)

    def check(
        self, buffer: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the fault of each dump: (B, 2), a code of `scan` (0 = none) and a byte of the dump."""
        places = self._scan(buffer, starts, lengths)[-1].places
        return np.stack([places["error"], places["where"]], 1)

    def _scan(
        self, buffer: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint8], int, ScannedStates]:
        """The buffer, the first state that is not whole or -1, and what `scan_states` fills."""
        if buffer.dtype != np.uint8 or buffer.ndim != 1 or not buffer.flags.c_contiguous:
            raise ValueError(
                f"buffer: expected a contiguous array of bytes, got {buffer.dtype} {buffer.shape}"
            )
        if starts.shape != lengths.shape or starts.dtype != np.int64 or lengths.dtype != np.int64:
            raise ValueError(
                f"starts and lengths: expected int64 arrays of one length, got {starts.dtype} {starts.shape}"
                f" and {lengths.dtype} {lengths.shape}"
            )
        if not buffer.flags.writeable:
            buffer = buffer.copy()  # the kernels are compiled for writable memory
        states = room_for(buffer, lengths, len(self.slots), len(self._widths))
        return buffer, scan_states(buffer, starts, lengths, self._plan, states, _NO_ROWS), states

    def decode(
        self, buffer: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]
    ) -> DecodedStates:
        """Decode B dumps out of one buffer.

        Args:
            buffer: uint8 (n,), contiguous.
            starts, lengths: int64 (B,), where each dump lies in the buffer, in bytes.

        Returns:
            the states in fresh arrays.

        Raises:
            ProcgenStateError: a dump that is truncated, damaged or of another game.
        """
        buffer, first_bad, states = self._scan(buffer, starts, lengths)
        if first_bad >= 0:
            place = states.places[first_bad]
            raise ProcgenStateError(self.game.name, first_bad, int(place["where"]), REASONS[place["error"]])
        widths = self._plan.types["width"]
        bounds = np.append(0, np.cumsum(states.offsets[:, -1] * widths))
        rows = np.empty(bounds[-1], np.float32)
        global_rows = np.empty((len(starts), self._num_globals), np.float32)
        given, next_row = np.empty(len(self._plan.features)), np.empty(len(widths), np.int64)
        fill_states(buffer, self._plan, states, bounds, given, next_row, rows, global_rows)
        player = even(np.zeros(len(starts), np.int64))  # entity 0 of each state, which may do anything
        batch = EntityBatch(
            typed_rows(rows, bounds, states.offsets, self._widths),
            global_rows,
            {"act": free_choice(player, len(ACTIONS))},
        )
        return DecodedStates(batch, states.numbers, self.slots)

    def decode_dumps(self, dumps: Sequence[bytes]) -> DecodedStates:
        """Decode dumps that are bytes, such as those of `env.get_state()`. Raises as `decode` does."""
        lengths = np.array([len(dump) for dump in dumps], np.int64)
        buffer = np.frombuffer(bytearray().join(dumps), np.uint8)
        return self.decode(buffer, np.cumsum(lengths) - lengths, lengths)
