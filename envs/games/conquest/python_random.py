"""Python's random numbers in kernels: what `random.Random` draws, bit for bit.

The generator is MT19937 (M. Matsumoto and T. Nishimura, "Mersenne Twister", ACM Transactions on Modeling and
Computer Simulation 8(1), 1998). A state is uint64 (625,): 624 words of 32 bits, and the place of the next.
"""

from __future__ import annotations

import random

import numpy as np

from ....ragged.compiled import compiled
from ...vector.native_arrays import Words

_SIZE, _SHIFT = 624, 397
_UPPER, _LOWER, _MATRIX = np.uint64(0x80000000), np.uint64(0x7FFFFFFF), np.uint64(0x9908B0DF)
_TEMPER_B, _TEMPER_C = np.uint64(0x9D2C5680), np.uint64(0xEFC60000)
_0, _1, _5, _6, _7, _11, _15, _18 = (np.uint64(n) for n in (0, 1, 5, 6, 7, 11, 15, 18))


def seeded(seed: int | str) -> Words:
    """Return the state (625,) of `random.Random(seed)`."""
    return np.array(random.Random(seed).getstate()[1], np.uint64)


@compiled
def _twist(words: Words) -> None:
    for i in range(_SIZE):
        joined = (words[i] & _UPPER) | (words[(i + 1) % _SIZE] & _LOWER)
        mixed = words[(i + _SHIFT) % _SIZE] ^ (joined >> _1)
        words[i] = mixed ^ _MATRIX if joined & _1 else mixed
    words[_SIZE] = _0


@compiled
def _next_word(words: Words) -> np.uint64:
    """The next 32 random bits."""
    if words[_SIZE] >= np.uint64(_SIZE):
        _twist(words)
    word = words[np.int64(words[_SIZE])]
    words[_SIZE] += _1
    word ^= word >> _11
    word ^= (word << _7) & _TEMPER_B
    word ^= (word << _15) & _TEMPER_C
    return word ^ (word >> _18)


@compiled
def unit(words: Words) -> np.float64:
    """`random.random()`."""
    upper = np.float64(_next_word(words) >> _5)
    lower = np.float64(_next_word(words) >> _6)
    return (upper * 67108864.0 + lower) / 9007199254740992.0


@compiled
def uniform(words: Words, low: float, high: float) -> np.float64:
    """`random.uniform(low, high)`."""
    return low + (high - low) * unit(words)


@compiled
def randint(words: Words, low: int, high: int) -> np.int64:
    """`random.randint(low, high)`; both are possible, and `high - low` is less than 2**31."""
    count = high - low + 1
    num_bits = 0
    while count >> num_bits:
        num_bits += 1
    drawn = np.int64(_next_word(words) >> np.uint64(32 - num_bits))
    while drawn >= count:
        drawn = np.int64(_next_word(words) >> np.uint64(32 - num_bits))
    return low + drawn
