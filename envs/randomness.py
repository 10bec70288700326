"""Random numbers in kernels: one small generator per lane, so that a lane's game depends on its seed alone.

The generator is xoshiro256** 1.0, seeded by SplitMix64 as its authors recommend (D. Blackman and S. Vigna,
"Scrambled Linear Pseudorandom Number Generators", ACM Transactions on Mathematical Software 47(4), 2021;
prng.di.unimi.it). A lane's state is a row of four uint64.

All functions are compiled and may be called from kernels and from Python.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ragged.compiled import compiled

#: Words of state per lane.
STATE_WORDS = 4


# Numba makes a float of uint64 and int64 together: every number that meets a word is a uint64 itself.
_GOLDEN_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_5, _7, _9, _11, _17 = (np.uint64(n) for n in (5, 7, 9, 11, 17))
_19, _27, _30, _31, _32 = (np.uint64(n) for n in (19, 27, 30, 31, 32))
_45, _57 = np.uint64(45), np.uint64(57)
_LOW_HALF = np.uint64(0xFFFFFFFF)
_TWO_TO_32 = np.uint64(1 << 32)


@compiled
def seed_lane(state: NDArray[np.uint64], seed: np.uint64) -> None:
    """Set a lane's `state` (4,) from `seed`, a uint64: four numbers of SplitMix64."""
    for i in range(STATE_WORDS):
        seed += _GOLDEN_GAMMA
        mixed = (seed ^ (seed >> _30)) * _MIX_1
        mixed = (mixed ^ (mixed >> _27)) * _MIX_2
        state[i] = mixed ^ (mixed >> _31)


@compiled
def next_word(state: NDArray[np.uint64]) -> np.uint64:
    """The next 64 random bits of a lane's `state` (4,), which moves on."""
    scrambled = state[1] * _5
    result = ((scrambled << _7) | (scrambled >> _57)) * _9
    shifted = state[1] << _17
    state[2] ^= state[0]
    state[3] ^= state[1]
    state[1] ^= state[2]
    state[0] ^= state[3]
    state[2] ^= shifted
    state[3] = (state[3] << _45) | (state[3] >> _19)
    return result


@compiled
def below(state: NDArray[np.uint64], bound: int) -> np.int64:
    """A whole number from 0 to `bound` - 1, each equally likely; 1 <= `bound` < 2**32.

    Lemire's method without a division in the usual case ("Fast Random Integer Generation in an Interval", ACM
    Transactions on Modeling and Computer Simulation 29(1), 2019).
    """
    span = np.uint64(bound)
    product = (next_word(state) >> _32) * span
    if (product & _LOW_HALF) < span:
        uneven = (_TWO_TO_32 - span) % span
        while (product & _LOW_HALF) < uneven:
            product = (next_word(state) >> _32) * span
    return np.int64(product >> _32)


@compiled
def uniform(state: NDArray[np.uint64]) -> np.float64:
    """A float64 in [0, 1), one of the 2**53 multiples of 2**-53, each equally likely."""
    return np.float64(next_word(state) >> _11) * (1.0 / 9007199254740992.0)


@compiled
def draw_first(state: NDArray[np.uint64], items: NDArray[Any], count: int) -> None:
    """Reorder `items` (n,) so that the first `count` are a random sample of them in random order."""
    for i in range(count):
        j = i + below(state, len(items) - i)
        items[i], items[j] = items[j], items[i]
