"""First pass over a batch of dumps: is each one whole, where does everything start, how much is there?

Nothing outside a dump is read, whatever it says of its own lengths: each read is checked against its end.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....ragged.compiled import compiled
from .layout import END_OF_DUMP, ENTITY_BYTES, ENTITY_FIELDS, KINDS, VERSION
from .memory import kernel, load_float, load_int
from .plan import DumpPlan, EntityPlan, TilePlan
from .tiles import count_chunks, id_entry

# What may be wrong with a dump; `errors` holds one of these and a byte offset per state.
(
    WHOLE,
    TRUNCATED,
    BAD_VERSION,
    WRONG_GAME,
    BAD_LENGTH,
    BAD_COUNT,
    BAD_GRID,
    BAD_FLAG,
    BAD_FLOAT,
    NO_PLAYER,
    NO_END,
    TRAILING_BYTES,
    OUTSIDE,
) = range(13)

REASONS = {
    TRUNCATED: "the dump ends in the middle of a field",
    BAD_VERSION: f"not a dump of serialize version {VERSION}",
    WRONG_GAME: "a dump of another game",
    BAD_LENGTH: "a string that is longer than the rest of the dump, or of negative length",
    BAD_COUNT: "a list that is longer than the rest of the dump, or of negative length",
    BAD_GRID: "a map whose width, height and number of cells do not agree",
    BAD_FLAG: "a flag that is neither 0 nor 1",
    BAD_FLOAT: "a number that is not finite, or beyond 1e9",
    NO_PLAYER: "the first entity is not the player",
    NO_END: "the game's fields are not followed by the end mark 0xCAFECAFE",
    TRAILING_BYTES: "bytes after the end mark",
    OUTSIDE: "the dump lies outside of the buffer",
}

(
    _INT,
    _FLAG,
    _FLOAT,
    _LOOSE,
    _GENERATOR,
    _MAP,
    _INTS,
    _FLAGS,
    _FLOATS,
    _ENTITIES,
    _RECORDS,
) = range(len(KINDS))
_X, _Y, _RX, _RY = (ENTITY_FIELDS[name] * 4 for name in ("x", "y", "rx", "ry"))
_TYPE, _THEME, _ABSOLUTE = (ENTITY_FIELDS[name] * 4 for name in ("type", "image_theme", "use_abs_coords"))
NUM_FIELDS = len(ENTITY_FIELDS)
_END_MARK = END_OF_DUMP - (1 << 32)  # as an int32
_MAX_FLOAT = np.float32(1e9)


@kernel
def _is_sane(value: Any) -> Any:
    return abs(value) < _MAX_FLOAT  # false for a NaN


@kernel
def _skip_string(buffer: NDArray[np.uint8], at: int, end: int) -> tuple[int, int, int]:
    """Step over a length and its bytes: (where to go on, error, its offset)."""
    if at + 4 > end:
        return at, TRUNCATED, at
    length = load_int(buffer, at)
    if length < 0 or length > end - at - 4:
        return at, BAD_LENGTH, at
    return at + 4 + length, WHOLE, at


@kernel
def _check_entities(
    buffer: NDArray[np.uint8], at: int, end: int, mask: NDArray[np.uint32], limit: NDArray[np.uint32]
) -> tuple[Any, int, int]:
    """Look at a count and that many entity records: (count, error, its offset)."""
    count = np.int64(load_int(buffer, at))
    if count < 0 or count > (end - at - 4) // ENTITY_BYTES:
        return np.int64(0), BAD_COUNT, at
    at += 4
    for _ in range(count):
        wrong = False
        for index in range(NUM_FIELDS):
            wrong |= (np.uint32(load_int(buffer, at + 4 * index)) & mask[index]) >= limit[index]
        if wrong:
            for index in range(NUM_FIELDS):
                if (np.uint32(load_int(buffer, at)) & mask[index]) >= limit[index]:
                    return count, BAD_FLAG if limit[index] == 2 else BAD_FLOAT, at
                at += 4
        at += ENTITY_BYTES
    return count, WHOLE, at


@kernel
def _read_number(buffer: NDArray[np.uint8], at: int, kind: int) -> tuple[Any, int]:
    """One number of a field, or of a vector of it: (value, error)."""
    if kind in (_FLOAT, _FLOATS, _LOOSE):
        value = load_float(buffer, at)
        return np.float64(value), WHOLE if kind == _LOOSE or _is_sane(value) else BAD_FLOAT
    number = load_int(buffer, at)
    wrong = kind in (_FLAG, _FLAGS) and number != 0 and number != 1
    return np.float64(number), BAD_FLAG if wrong else WHOLE


@kernel
def _read_vector(
    buffer: NDArray[np.uint8], at: int, end: int, kind: int, slots: NDArray[np.float64]
) -> tuple[int, int, int]:
    """Read a vector's length and items into `slots` (1 + kept,): (where to go on, error, its offset)."""
    count = np.int64(load_int(buffer, at))
    if count < 0 or count > (end - at - 4) // 4:
        return at, BAD_COUNT, at
    slots[:] = 0.0
    slots[0] = count
    at += 4
    for item in range(count):
        value, error = _read_number(buffer, at, kind)
        if error != WHOLE:
            return at, error, at
        if item + 1 < len(slots):
            slots[item + 1] = value
        at += 4
    return at, WHOLE, at


@kernel
def _check_start(
    buffer: NDArray[np.uint8], at: int, end: int, game: NDArray[np.uint8]
) -> tuple[int, int, int]:
    """Version and game: (where to go on, error, its offset)."""
    if at + 4 > end:
        return at, TRUNCATED, at
    if load_int(buffer, at) != VERSION:
        return at, BAD_VERSION, at
    at += 4
    after, error, where = _skip_string(buffer, at, end)
    if error != WHOLE:
        return at, error, where
    if after - at - 4 != len(game):
        return at, WRONG_GAME, at
    for index in range(len(game)):
        if buffer[at + 4 + index] != game[index]:
            return at, WRONG_GAME, at
    return after, WHOLE, at


@kernel
def _check_map(buffer: NDArray[np.uint8], at: int, end: int, grid_size: float) -> tuple[Any, int, int]:
    """The map at byte `at`, which should have `grid_size` cells: (number of cells, error, its offset)."""
    if at + 12 > end:
        return 0, TRUNCATED, at
    width, height = np.int64(load_int(buffer, at)), np.int64(load_int(buffer, at + 4))
    cells = np.int64(load_int(buffer, at + 8))
    if width < 1 or height < 1 or width * height != cells or grid_size != cells:
        return 0, BAD_GRID, at
    if cells > (end - at - 12) // 4:
        return 0, BAD_COUNT, at + 8
    return cells, WHOLE, at


@kernel
def _read_state(
    buffer: NDArray[np.uint8],
    at: Any,
    end: int,
    dump: DumpPlan,
    numbers: NDArray[np.float64],
    place: NDArray[np.int64],
) -> tuple[int, int]:
    """Walk through a dump; `numbers` (S,) and `place` (4,) as in `scan_states`: (error, its offset)."""
    at, error, where = _check_start(buffer, at, end, dump.game)
    slot = 0
    for index in range(len(dump.fields)):
        if error != WHOLE:
            return error, where
        if at + 4 > end:
            return TRUNCATED, at
        kind, kept = dump.fields[index]
        if kind < _GENERATOR:
            numbers[slot], error = _read_number(buffer, at, kind)
            where = at
            slot += 1
            at += 4
        elif kind == _GENERATOR:  # its state is nobody's business
            at, error, where = _skip_string(buffer, at + 4, end)
        elif kind == _MAP:
            cells, error, where = _check_map(buffer, at, end, numbers[dump.grid_size])
            numbers[slot], numbers[slot + 1] = load_int(buffer, at), cells // max(load_int(buffer, at), 1)
            place[2] = at + 12
            slot += 2
            at += 12 + 4 * cells
        elif kind < _ENTITIES:
            at, error, where = _read_vector(buffer, at, end, kind, numbers[slot : slot + 1 + kept])
            slot += 1 + kept
        else:
            count, error, where = _check_entities(buffer, at, end, dump.entity_mask, dump.entity_limit)
            if kind == _ENTITIES:
                if error == WHOLE and (count == 0 or load_int(buffer, at + 4 + _TYPE) != 0):
                    return NO_PLAYER, at
                place[0], place[1] = at + 4, count
            numbers[slot] = count
            slot += 1
            at += 4 + ENTITY_BYTES * count
    if error != WHOLE:
        return error, where
    if at + 4 > end:
        return TRUNCATED, at
    if load_int(buffer, at) != _END_MARK:
        return NO_END, at
    return (WHOLE, at) if at + 4 == end else (TRAILING_BYTES, at + 4)


@kernel
def crop(
    buffer: NDArray[np.uint8], player: int, numbers: NDArray[np.float64], plan: EntityPlan
) -> tuple[Any, Any, Any, Any]:
    """Return the visible rectangle (left, right, bottom, top); the player's record is at byte `player`."""
    left, right, bottom, top = -np.inf, np.inf, -np.inf, np.inf
    if plan.visible_only:
        half = numbers[plan.visibility] / 2
        left, right = numbers[plan.center_x] - half, numbers[plan.center_x] + half
        bottom, top = numbers[plan.center_y] - half, numbers[plan.center_y] + half
    y = np.float64(load_float(buffer, player + _Y))
    return left, right, max(bottom, y - plan.sight_below), min(top, y + plan.sight_above)


@kernel
def _sort_entities(
    buffer: NDArray[np.uint8],
    first: int,
    view: tuple[float, float, float, float],
    numbers: NDArray[np.float64],
    plan: EntityPlan,
    kinds: NDArray[np.int16],
) -> None:
    """Find the type of each entity of a state, -1 where it is left out; the first is the player."""
    type_of, tracked, gate_slot, gate_size = plan.type_of, plan.tracked, plan.gate_slot, plan.gate_size
    left, right, bottom, top = view
    everything = left == -np.inf and bottom == -np.inf and top == np.inf
    kinds[0] = 0
    for index in range(1, len(kinds)):
        at = first + index * ENTITY_BYTES
        entry = id_entry(load_int(buffer, at + _TYPE))
        kind = type_of[entry]
        if kind == 0:  # there is one player, and it has been seen
            kind = len(tracked) - 1
        gate = gate_slot[entry]
        if gate >= 0:
            theme = load_int(buffer, at + _THEME) if gate_size[entry] > 0 else 0
            if theme < 0 or theme >= max(gate_size[entry], 1) or numbers[gate + theme] == 0:
                kind = -1
        if kind >= 0 and not (everything or tracked[kind] or load_int(buffer, at + _ABSOLUTE) != 0):
            x, y = np.float64(load_float(buffer, at + _X)), np.float64(load_float(buffer, at + _Y))
            rx, ry = np.float64(load_float(buffer, at + _RX)), np.float64(load_float(buffer, at + _RY))
            if x + rx <= left or x - rx >= right or y + ry <= bottom or y - ry >= top:
                kind = -1
        kinds[index] = kind


@kernel
def _measure(
    buffer: NDArray[np.uint8],
    numbers: NDArray[np.float64],
    place: NDArray[np.int64],
    entities: EntityPlan,
    tiles: TilePlan,
    kinds: NDArray[np.int16],
    counts: NDArray[np.int64],
) -> None:
    """Sort the entities of a state into `kinds`; add to `counts` (T,) how much there is of each type."""
    player = place[0]
    view = crop(buffer, player, numbers, entities)
    _sort_entities(buffer, player, view, numbers, entities, kinds)
    for kind in kinds:
        if kind >= 0:
            counts[kind] += 1
    if tiles.columns > 0:
        counts[-1] += count_chunks(
            buffer,
            place[2],
            np.int64(numbers[entities.grid_width]),
            np.int64(numbers[entities.grid_width + 1]),
            load_float(buffer, player + _X),
            load_float(buffer, player + _Y),
            view,
            tiles,
        )


@compiled
def scan_states(
    buffer: NDArray[np.uint8],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    dump: DumpPlan,
    entities: EntityPlan,
    tiles: TilePlan,
    widths: NDArray[np.int64],
    numbers: NDArray[np.float64],
    places: NDArray[np.int64],
    kinds: NDArray[np.int16],
    offsets: NDArray[np.int64],
    bounds: NDArray[np.int64],
    errors: NDArray[np.int64],
) -> int:
    """Check and measure B dumps; dump b is `buffer[starts[b]:starts[b] + lengths[b]]`.

    Args:
        widths: (T,), features per type, `Tiles` last.
        numbers: (B, S), receives the slots of `layout.slot_table`.
        places: (B, 4), receives where the entity records start, how many there are, where the map's cells
            start, and where the state's entities start in `kinds`.
        kinds: receives the type of each entity, -1 where it is left out.
        offsets: (T, B + 1), receives where the rows of each state start within those of a type.
        bounds: (T + 1,), receives where the numbers of each type start, one type after the other.
        errors: (B, 2), receives one of the codes above and the byte of the dump that it is about. The other
            arrays say nothing of a state where that is not WHOLE.

    Returns:
        the first state that is not whole, or -1.
    """
    first_bad = -1
    used = 0
    offsets[:, 0] = 0
    for b in range(len(starts)):
        for kind in range(len(offsets)):  # one by one: for whole arrays Numba compiles error texts
            offsets[kind, b + 1] = offsets[kind, b]
        if min(starts[b], lengths[b], len(buffer) - starts[b]) < 0 or lengths[b] > len(buffer) - starts[b]:
            error, where = OUTSIDE, starts[b]
        else:
            error, where = _read_state(buffer, starts[b], starts[b] + lengths[b], dump, numbers[b], places[b])
            if error == WHOLE and used + places[b, 1] > len(kinds):  # lengths that don't add up
                error, where = OUTSIDE, starts[b]
        errors[b, 0], errors[b, 1] = error, where - starts[b]
        if error != WHOLE:
            first_bad = b if first_bad < 0 else first_bad
            continue
        places[b, 3] = used
        here = kinds[used : used + places[b, 1]]
        used += places[b, 1]
        _measure(buffer, numbers[b], places[b], entities, tiles, here, offsets[:, b + 1])
    bounds[0] = 0
    for kind in range(len(widths)):
        bounds[kind + 1] = bounds[kind] + offsets[kind, -1] * widths[kind]
    return first_bad


def results_for(
    buffer: NDArray[np.uint8], lengths: NDArray[np.int64], num_slots: int, num_types: int
) -> tuple[NDArray[Any], ...]:
    """Arrays for `scan_states` to fill: numbers, places, kinds, offsets, bounds, errors."""
    num_states = len(lengths)
    num_bytes = min(int(lengths.sum()), num_states * len(buffer))
    return (
        np.empty((num_states, num_slots)),
        np.empty((num_states, 4), np.int64),
        np.empty(max(num_bytes, 0) // ENTITY_BYTES, np.int16),
        np.empty((num_types, num_states + 1), np.int64),
        np.empty(num_types + 1, np.int64),
        np.empty((num_states, 2), np.int64),
    )
