"""`StateDecoder`: a batch of `get_state` dumps becomes one `EntityBatch`, in two passes of Numba code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....envs import ActionMask, Categorical, EntityActionSpace, EntityBatch, EntitySpace
from ....ragged import RaggedArray
from ..errors import ProcgenStateError
from ..games import LENGTH, OTHER, EntityType, TileKind
from ..options import ACTIONS, EngineOptions, ViewOptions, find_game
from ..reference import reference_chunk_size, reference_tiles, reference_types
from .features import Feature, compile_features, on_screen, with_distances
from .fill import fill_states
from .layout import slot_table
from .plan import CHUNK_POSITION, TilePlan, dump_plan, entity_plan, space_column, tile_columns, vector_sizes
from .scan import REASONS, results_for, scan_states


@dataclass(frozen=True)
class DecodedStates:
    """B states: what an agent sees of them, and the numbers of the dumps (see `layout.slot_table`)."""

    batch: EntityBatch
    numbers: NDArray[np.float64]  # (B, S)
    slots: dict[str, int]

    def __getitem__(self, name: str) -> NDArray[np.float64]:
        """One number of every state (B,)."""
        return self.numbers[:, self.slots[name]]


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
        screen = options.visible_only and not options.is_reference
        tells_distances = self.game.distances and not options.is_reference
        if options.distances is not None:
            tells_distances = options.distances

        def shown(features: Sequence[Feature]) -> tuple[Feature, ...]:
            return on_screen(features) if screen else tuple(features)

        types, tiles, dropped = self._tables()
        features = [shown(kind.features) for kind in types]
        if tells_distances:
            features[1:] = map(with_distances, features[1:])
        global_features = () if options.is_reference else shown(self.game.globals)
        sizes = vector_sizes(self.game)
        self._program = compile_features(features, self.slots, sizes)
        self._global_program = compile_features([global_features], self.slots, sizes)
        self._dump = dump_plan(self.game)
        self._entities = entity_plan(
            self.game,
            types,
            dropped,
            visible_only=options.visible_only,
            screen=screen,
            mode=mode,
            sight=(np.inf, np.inf) if options.is_reference else self.game.sight,
        )
        self._tiles, self.tile_names = self._tile_plan(tiles)
        self.chunk_size = self._tiles.chunk
        rows = {kind.name: [f.name for f in shown_as] for kind, shown_as in zip(types, features, strict=True)}
        if tiles:
            rows["Tiles"] = self._tile_features()
        self.action_space = EntityActionSpace({"act": Categorical(ACTIONS)}, optional=True)
        self.observation_space = EntitySpace(rows, self.action_space, [f.name for f in global_features])
        self._columns = [(name, len(names)) for name, names in rows.items()]
        self._widths = np.array([width for _, width in self._columns])
        self._masks: dict[int, ActionMask] = {}  # by number of states, to be copied

    def _tables(self) -> tuple[tuple[EntityType, ...], tuple[TileKind, ...], tuple[int, ...]]:
        """Entity types with `Other` last, tiles, and the ids that are left out."""
        if self.options.is_reference:
            return reference_types(self.game.name), reference_tiles(self.game.name), ()
        return (*self.game.types, OTHER), self.game.tiles, self.game.decoration

    def _tile_plan(self, tiles: Sequence[TileKind]) -> tuple[TilePlan, tuple[str, ...]]:
        """Return the plan for cutting maps into chunks, and the names of the one-hot's columns."""
        options, reference = self.options, self.options.is_reference
        names, column_of = tile_columns(tiles, options.visible_only)
        skip_space = not reference if options.skip_space is None else options.skip_space
        chunk = reference_chunk_size(self.game.name) if reference else 5
        plan = TilePlan(
            columns=len(names),
            column_of=column_of,
            space=space_column(column_of, skip_space),
            chunk=chunk if options.chunk_size is None else options.chunk_size,
            window=options.window,
            whole_map=options.whole_map or options.visible_only,  # the view is window enough
            centred=not reference if options.centred is None else options.centred,
            positions=2 if reference else 4,
            scale=1.0 if reference else LENGTH,
        )
        return plan, names

    def _tile_features(self) -> list[str]:
        cells = range(self.chunk_size)
        return [
            *CHUNK_POSITION[: self._tiles.positions],
            *(f"{name}_{x}_{y}" for y in cells for x in cells for name in self.tile_names),
        ]

    def check(
        self, buffer: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the fault of each dump: (B, 2), a code of `scan` (0 = none) and a byte of the dump."""
        return self._scan(buffer, starts, lengths)[-1]

    def _scan(
        self, buffer: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]
    ) -> tuple[Any, ...]:
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
        results = results_for(buffer, lengths, len(self.slots), len(self._widths))
        plans = self._dump, self._entities, self._tiles, self._widths
        return buffer, scan_states(buffer, starts, lengths, *plans, *results), *results

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
        buffer, first_bad, numbers, places, kinds, offsets, bounds, errors = self._scan(
            buffer, starts, lengths
        )
        if first_bad >= 0:
            code, offset = errors[first_bad].tolist()
            raise ProcgenStateError(self.game.name, first_bad, offset, REASONS[code])
        rows = np.empty(bounds[-1], np.float32)
        global_rows = np.empty((len(starts), len(self._global_program.kind)), np.float32)
        fill_states(
            buffer,
            numbers,
            places,
            kinds,
            offsets,
            bounds,
            self._widths,
            self._program,
            self._global_program,
            self._entities,
            self._tiles,
            rows,
            global_rows,
        )
        ends = bounds.tolist()
        # Built without the checks of the public constructor: they cost as much as the decoding.
        entities = {
            name: RaggedArray.unchecked(rows[ends[kind] : ends[kind + 1]].reshape(-1, width), offsets[kind])
            for kind, (name, width) in enumerate(self._columns)
        }
        return DecodedStates(
            EntityBatch(entities, global_rows, {"act": self._actors(len(starts))}), numbers, self.slots
        )

    def decode_dumps(self, dumps: Sequence[bytes]) -> DecodedStates:
        """Decode dumps that are bytes, such as those of `env.get_state()`. Raises as `decode` does."""
        lengths = np.array([len(dump) for dump in dumps], np.int64)
        buffer = np.frombuffer(bytearray().join(dumps), np.uint8)
        return self.decode(buffer, np.cumsum(lengths) - lengths, lengths)

    def _actors(self, num_states: int) -> ActionMask:
        """The player (entity 0 of each state) may do anything."""
        if num_states not in self._masks:
            offsets = np.arange(num_states + 1)
            self._masks[num_states] = ActionMask(
                RaggedArray(np.zeros(num_states, np.int64), offsets),
                RaggedArray(np.ones((num_states, len(ACTIONS)), bool), offsets),
            )
        return self._masks[num_states].map(RaggedArray.copy)
