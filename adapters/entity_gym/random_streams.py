# ruff: noqa: NPY002 - the legacy generator is what this is about
"""Random numbers of its own for code that draws from `random` and `np.random`, the global generators.

NumPy takes 50 to 70 microseconds to read or to write a generator's state, more than most small games take for
a step. So generators are exchanged, not their states; what is kept outside of them, half of a pair of normal
numbers, is asked for only where the generator has moved, since without that no half can have come up.
"""

from __future__ import annotations

import ctypes
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

#: What NumPy keeps of a Mersenne twister: 624 words of 32 bits and a position.
_STATE_BYTES = 625 * 4


class RandomStreams:
    """A state of both global generators that continues from one use to the next.

    The first use draws what would be drawn after `random.seed(seed); np.random.seed(seed)`. Outside of
    `drawn_from` the global generators are as if it did not exist.

    Args:
        seed: 0 to 2**32 - 1.
    """

    def __init__(self, seed: int) -> None:
        self._python = random.Random(seed).getstate()
        self._numpy = np.random.MT19937()
        seeded: Any = np.random.RandomState(seed).get_state(legacy=False)
        self._numpy.state = seeded
        self._half: dict[str, Any] | None = None  # NumPy's state with half a pair of normals, if there is one
        self._others: tuple[Any, bytes] | None = (
            None  # the generator that was found last, known to have no half
        )

    @contextmanager
    def drawn_from(self) -> Iterator[None]:
        """Inside, the global generators are these streams'."""
        python = random.getstate()
        others = np.random.get_bit_generator()
        half = None if self._has_no_half(others) else _half()
        random.setstate(self._python)
        np.random.set_bit_generator(self._numpy)
        if self._half is not None:
            np.random.set_state(self._half)
        before = _words(self._numpy)
        try:
            yield
        finally:
            if self._half is not None or _words(self._numpy) != before:
                self._half = _half()
            self._python = random.getstate()
            np.random.set_bit_generator(others)
            if half is not None:
                np.random.set_state(half)
            random.setstate(python)
            self._others = None if half is not None else (others, _words(others))

    def _has_no_half(self, generator: Any) -> bool:
        """Return True if the generator is unchanged since it was found without half a pair of normals."""
        return (
            self._others is not None
            and self._others[0] is generator
            and isinstance(generator, np.random.MT19937)
            and _words(generator) == self._others[1]
        )


def _words(generator: Any) -> bytes:
    if not isinstance(generator, np.random.MT19937):
        return b""
    return ctypes.string_at(generator.ctypes.state_address, _STATE_BYTES)


def _half() -> dict[str, Any] | None:
    """The global state, if it holds half a pair of normal numbers."""
    state: dict[str, Any] = np.random.get_state(legacy=False)
    return state if state["has_gauss"] else None
