"""Feeds damaged dumps to the decoder, each one ending right before memory that may not be touched.

Run by test_procgen_fuzz.py in a process of its own: one byte read too far would end it. Prints how many dumps
were found whole and how many damaged.

    python fuzz_procgen.py FILE_OF_DUMPS GAME NUMBER_OF_DUMPS SEED
"""

import ctypes
import mmap
import pickle
import sys

import entitize as ez
import numpy as np

SLOTS = 50
PAGE = mmap.PAGESIZE


def guarded_buffer(size):
    """Memory of SLOTS times `size` bytes, with a page after each that may be neither read nor written."""
    libc = ctypes.CDLL(None, use_errno=True)
    memory = mmap.mmap(-1, SLOTS * (size + PAGE))
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for slot in range(SLOTS):
        guard = ctypes.c_void_p(address + slot * (size + PAGE) + size)
        assert libc.mprotect(guard, ctypes.c_size_t(PAGE), 0) == 0
    return np.frombuffer(memory, np.uint8)


def damage(dump, hot, rng):
    """One of the ways to spoil a dump; `hot` are bytes where lengths, counts and other ints are likely."""
    spoilt = np.array(dump)
    way = rng.integers(6)
    if way == 0:  # bits anywhere
        at = rng.integers(len(spoilt), size=rng.integers(1, 9))
        spoilt[at] ^= (1 << rng.integers(8, size=len(at))).astype(np.uint8)
    elif way == 1:  # bits outside of the long texts
        at = rng.choice(hot, rng.integers(1, 5))
        spoilt[at] ^= (1 << rng.integers(8, size=len(at))).astype(np.uint8)
    elif way == 2:  # cut off
        spoilt = spoilt[: rng.integers(len(spoilt))]
    elif way == 3:  # a telling int in some place
        at = min(rng.choice(hot), len(spoilt) - 4)
        value = rng.choice(
            [-1, 0, 1, 2, 255, 1 << 16, 1 << 24, 2**31 - 1, -(2**31), len(dump), len(dump) // 124]
        )
        spoilt[at : at + 4] = np.frombuffer(np.int32(value).tobytes(), np.uint8)
    elif way == 4:  # a piece cut out, or doubled
        first, last = np.sort(rng.integers(len(spoilt), size=2))
        last = min(last, first + 2000)
        middle = spoilt[first:last] if rng.random() < 0.5 else spoilt[:0]
        spoilt = np.concatenate([spoilt[:first], middle, middle, spoilt[last:]])
    else:  # noise after a good beginning
        first = rng.integers(len(spoilt))
        spoilt[first : first + 400] = rng.integers(0, 256, len(spoilt[first : first + 400]))
    return spoilt


def main(path, game, count, seed):
    with open(path, "rb") as file:
        dumps = {
            name: [np.frombuffer(dump, np.uint8) for dump in some] for name, some in pickle.load(file).items()
        }
    mine, foreign = dumps[game], [dump for name, some in dumps.items() if name != game for dump in some]
    # Outside of the decimal text of the random generators.
    hot = [np.flatnonzero((dump < 48) | (dump > 57)) for dump in mine]
    hot = [places[dump[places] != 32] for places, dump in zip(hot, mine, strict=True)]
    rng = np.random.default_rng(seed)
    size = (max(len(dump) for some in dumps.values() for dump in some) // PAGE + 2) * PAGE
    buffer = guarded_buffer(size)
    decoders = [
        ez.procgen.StateDecoder(game),
        ez.procgen.StateDecoder(game, options=ez.procgen.ViewOptions("reference", whole_map=True)),
        ez.procgen.StateDecoder(game, options=ez.procgen.ViewOptions(visible_only=True, chunk_size=3)),
    ]
    whole = damaged = 0
    lengths = np.zeros(SLOTS, np.int64)
    for batch in range(count // SLOTS):
        for slot in range(SLOTS):
            if rng.random() < 0.02:
                dump = foreign[rng.integers(len(foreign))]
            else:
                which = rng.integers(len(mine))
                dump = damage(mine[which], hot[which], rng)[:size]
            end = slot * (size + PAGE) + size
            buffer[end - len(dump) : end] = dump
            lengths[slot] = len(dump)
        starts = np.arange(SLOTS) * (size + PAGE) + size - lengths
        decoder = decoders[batch % len(decoders)]
        errors = decoder.check(buffer, starts, lengths)
        bad = errors[:, 0] != 0
        assert ((errors[bad, 1] >= 0) & (errors[bad, 1] <= lengths[bad])).all()
        states = decoder.decode(buffer, starts[~bad], lengths[~bad])
        for rows in states.batch.entities.values():
            assert np.isfinite(rows.values).all()
        if bad.any():
            try:
                decoder.decode(buffer, starts, lengths)
            except ez.procgen.ProcgenStateError as error:
                assert (error.state, error.offset) == (bad.argmax(), errors[bad.argmax(), 1])
            else:
                raise AssertionError("a damaged dump was decoded")
        whole += (~bad).sum()
        damaged += bad.sum()
    print(whole, damaged)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
