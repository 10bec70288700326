"""First pass over a batch of dumps: is each one whole, where does everything start, how much is there?

Nothing outside a dump is read, whatever it says of its own lengths: each read is checked against its end.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....ragged.compiled import compiled
from .layout import END_OF_DUMP, ENTITY_BYTES, ENTITY_FIELDS, VERSION
from .memory import RX, RY, X, Y, kernel, load_float, load_int
from .plan import ENTITIES, HEADER, MAP, VECTOR, DecodePlan
from .tiles import cut_chunks, id_entry

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

_TYPE, _THEME, _ABSOLUTE = (ENTITY_FIELDS[name] * 4 for name in ("type", "image_theme", "use_abs_coords"))
NUM_FIELDS = len(ENTITY_FIELDS)
_END_MARK = END_OF_DUMP - (1 << 32)  # as an int32


#: Where the parts of a dump are, what of it is visible, and what is wrong with it.
_PLACE = np.dtype(
    [
        ("error", "i8"),  # one of the codes above; the rest says nothing unless that is `WHOLE`
        ("where", "i8"),  # the byte of the dump that the error is about
        ("player", "i8"),  # where the entities' records start in the buffer,
        ("entities", "i8"),  # how many there are,
        ("first", "i8"),  # and where they start in `kinds`
        ("cells", "i8"),  # where the map's cells start
        ("left", "f8"),  # the visible rectangle, in cells
        ("right", "f8"),
        ("bottom", "f8"),
        ("top", "f8"),
    ]
)


class ScannedStates(NamedTuple):
    """The places that `scan_states` finds in B dumps."""

    numbers: NDArray[np.float64]  # (B, S), the slots of `layout.slot_table`
    places: NDArray[Any]  # (B,) `_PLACE`
    kinds: NDArray[np.int16]  # the type of each entity, -1 where it is left out
    offsets: NDArray[np.int64]  # (T, B + 1), where the rows of each state start within those of a type


def room_for(
    buffer: NDArray[np.uint8], lengths: NDArray[np.int64], num_slots: int, num_types: int
) -> ScannedStates:
    """Arrays for `scan_states` to fill."""
    num_states = len(lengths)
    num_bytes = min(int(lengths.sum()), num_states * len(buffer))
    return ScannedStates(
        np.empty((num_states, num_slots)),
        np.empty(num_states, _PLACE),
        np.empty(max(num_bytes, 0) // ENTITY_BYTES, np.int16),
        np.empty((num_types, num_states + 1), np.int64),
    )


@kernel
def _check_entities(
    buffer: NDArray[np.uint8], at: int, count: int, checks: NDArray[np.uint32]
) -> tuple[int, int]:
    """Look at `count` entity records from byte `at` on: (error, its offset or where to continue)."""
    for _ in range(count):
        wrong = False
        for index in range(NUM_FIELDS):
            wrong |= (np.uint32(load_int(buffer, at + 4 * index)) & checks[0, index]) >= checks[1, index]
        if wrong:
            for index in range(NUM_FIELDS):
                if (np.uint32(load_int(buffer, at)) & checks[0, index]) >= checks[1, index]:
                    return BAD_FLAG if checks[1, index] == 2 else BAD_FLOAT, at
                at += 4
        at += ENTITY_BYTES
    return WHOLE, at


@kernel
def _check_map(buffer: NDArray[np.uint8], at: int, end: int, grid_size: float) -> tuple[int, Any]:
    """The map at byte `at`, which should have `grid_size` cells: (error, its offset or where to continue)."""
    if at + 12 > end:
        return TRUNCATED, at
    width, height = np.int64(load_int(buffer, at)), np.int64(load_int(buffer, at + 4))
    cells = np.int64(load_int(buffer, at + 8))
    if width < 1 or height < 1 or width * height != cells or grid_size != cells:
        return BAD_GRID, at
    if cells > (end - at - 12) // 4:
        return BAD_COUNT, at + 8
    return WHOLE, at + 12 + 4 * cells


@kernel
def _check_string(
    buffer: NDArray[np.uint8], at: int, end: int, is_header: bool, game: NDArray[np.uint8]
) -> tuple[int, Any]:
    """An int and a string, in the header version and game: (error, its offset or where to continue)."""
    if is_header and load_int(buffer, at) != VERSION:
        return BAD_VERSION, at
    at += 4
    if at + 4 > end:
        return TRUNCATED, at
    length = np.int64(load_int(buffer, at))
    if length < 0 or length > end - at - 4:
        return BAD_LENGTH, at
    if is_header:
        if length != len(game):
            return WRONG_GAME, at
        for index in range(length):
            if buffer[at + 4 + index] != game[index]:
                return WRONG_GAME, at
    return WHOLE, at + 4 + length


@compiled(separate=True)
def _read_state(
    buffer: NDArray[np.uint8], at: int, end: int, plan: DecodePlan, numbers: NDArray[np.float64], place: Any
) -> tuple[int, int]:
    """Walk through a dump; fills `numbers` (S,) and the offsets in `place`: (error, its offset)."""
    error, slot = WHOLE, 0
    for index in range(len(plan.fields)):
        if at + 4 > end:
            return TRUNCATED, at
        field = plan.fields[index]
        role, count = field.role, np.int64(1)
        if role == VECTOR or role >= ENTITIES:
            count = np.int64(load_int(buffer, at))
            if count < 0 or count > (end - at - 4) // (4 if role == VECTOR else ENTITY_BYTES):
                return BAD_COUNT, at
            numbers[slot] = count
            slot += 1
            at += 4
        if role <= VECTOR:
            for item in range(field.kept):
                numbers[slot + item] = 0.0
            for item in range(count):
                if (np.uint32(load_int(buffer, at)) & field.mask) >= field.limit:
                    return BAD_FLAG if field.limit == 2 else BAD_FLOAT, at
                if item < field.kept:
                    value = np.float64(load_float(buffer, at))
                    numbers[slot + item] = value if field.is_float else np.float64(load_int(buffer, at))
                at += 4
            slot += field.kept
        elif role >= ENTITIES:
            if role == ENTITIES:
                place.player, place.entities = at, count
            start = at
            error, at = _check_entities(buffer, at, count, plan.entity_checks)
            if error == WHOLE and role == ENTITIES and (count == 0 or load_int(buffer, start + _TYPE) != 0):
                return NO_PLAYER, start - 4
        elif role == MAP:
            start = at
            error, at = _check_map(buffer, at, end, numbers[plan.options[0].grid_size])
            place.cells = start + 12
            if error == WHOLE:
                numbers[slot], numbers[slot + 1] = load_int(buffer, start), load_int(buffer, start + 4)
            slot += 2
        else:
            error, at = _check_string(buffer, at, end, role == HEADER, plan.game)
        if error != WHOLE:
            return error, at
    if at + 4 > end:
        return TRUNCATED, at
    if load_int(buffer, at) != _END_MARK:
        return NO_END, at
    return (WHOLE, at) if at + 4 == end else (TRAILING_BYTES, at + 4)


@kernel
def _look(buffer: NDArray[np.uint8], numbers: NDArray[np.float64], options: Any, place: Any) -> None:
    """Find the visible rectangle of a state whose player `place` says."""
    place.left, place.right, place.bottom, place.top = -np.inf, np.inf, -np.inf, np.inf
    if options.visible_only:
        half = numbers[options.visibility] / 2
        place.left, place.right = numbers[options.center_x] - half, numbers[options.center_x] + half
        place.bottom, place.top = numbers[options.center_y] - half, numbers[options.center_y] + half
    y = np.float64(load_float(buffer, place.player + Y))
    low, high = y - options.sight_below, y + options.sight_above
    if low > place.bottom:
        place.bottom = low
    if high < place.top:
        place.top = high


@compiled(separate=True)
def _sort_entities(
    buffer: NDArray[np.uint8],
    numbers: NDArray[np.float64],
    place: Any,
    plan: DecodePlan,
    kinds: NDArray[np.int16],
) -> None:
    """Find the visible rectangle of a state and the type of each entity, -1 where it is left out."""
    _look(buffer, numbers, plan.options[0], place)
    left, right, bottom, top = place.left, place.right, place.bottom, place.top
    everything = left == -np.inf and bottom == -np.inf and top == np.inf
    kinds[0] = 0
    for index in range(1, len(kinds)):
        at = place.player + index * ENTITY_BYTES
        entry = plan.ids[id_entry(load_int(buffer, at + _TYPE))]
        kind, gate, size = entry.type, entry.gate_slot, entry.gate_size
        if kind == 0:  # there is one player, and it has been seen
            kind = plan.ids[-1].type
        if gate >= 0:
            theme = np.int64(load_int(buffer, at + _THEME)) if size > 0 else 0
            if theme < 0 or (theme > 0 and theme >= size) or numbers[gate + theme] == 0:
                kind = -1
        if kind >= 0 and not (
            everything or plan.types[kind].tracked or load_int(buffer, at + _ABSOLUTE) != 0
        ):
            x, y = np.float64(load_float(buffer, at + X)), np.float64(load_float(buffer, at + Y))
            rx, ry = np.float64(load_float(buffer, at + RX)), np.float64(load_float(buffer, at + RY))
            if x + rx <= left or x - rx >= right or y + ry <= bottom or y - ry >= top:
                kind = -1
        kinds[index] = kind


@compiled
def scan_states(
    buffer: NDArray[np.uint8],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    plan: DecodePlan,
    states: ScannedStates,
    no_rows: NDArray[np.float32],
) -> int:
    """Check and measure B dumps; dump b is `buffer[starts[b]:starts[b] + lengths[b]]`.

    Args:
        states: is filled.
        no_rows: (0,).

    Returns:
        the first state that is not whole, or -1.
    """
    numbers, kinds, offsets = states.numbers, states.kinds, states.offsets
    first_bad = -1
    used = 0
    for kind in range(len(offsets)):
        offsets[kind, 0] = 0
    for b in range(len(starts)):
        for kind in range(len(offsets)):  # one by one: for whole arrays Numba compiles error texts
            offsets[kind, b + 1] = offsets[kind, b]
        place, start, length = states.places[b], starts[b], lengths[b]
        if start < 0 or length < 0 or start > len(buffer) or length > len(buffer) - start:
            error, where = OUTSIDE, start
        else:
            error, where = _read_state(buffer, start, start + length, plan, numbers[b], place)
            if error == WHOLE and used + place.entities > len(kinds):  # lengths that don't add up
                error, where = OUTSIDE, start
        place.error, place.where = error, where - start
        if error != WHOLE:
            first_bad = b if first_bad < 0 else first_bad
            continue
        place.first = used
        here = kinds[used : used + place.entities]
        used += place.entities
        _sort_entities(buffer, numbers[b], place, plan, here)
        for kind in here:
            if kind >= 0:
                offsets[kind, b + 1] += 1
        if plan.options[0].columns > 0:
            offsets[-1, b + 1] += cut_chunks(buffer, numbers[b], place, plan, False, no_rows, 0)
    return first_bad
