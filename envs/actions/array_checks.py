"""Checks of arrays and names, and the small spaces that masks are made of.

The functions `*_problem` return what is wrong as half a sentence, None where nothing is.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space
from numpy.typing import DTypeLike, NDArray

#: Bound of entity indices in spaces; Gymnasium's sampler needs one below 2**63 - 1.
MOST_ENTITIES = 2**31


def ordered(parts: Mapping[str, Any]) -> OrderedDict[str, Any]:
    """Keep the order of `parts`: gymnasium.spaces.Dict sorts the keys of a plain dict."""
    return OrderedDict(parts)


class RaggedSpace(spaces.Sequence):
    """Stacked sequences of any length, the empty one included: arrays (n, *shape) of a Box's dtype.

    Gymnasium's own test of membership goes item by item, warns of numbers, and raises where it gets no array.
    """

    def __init__(self, box: spaces.Box, seed: int | None = None) -> None:
        self.box = box
        super().__init__(box, seed)
        self.stack = True

    @cached_property
    def stacked_feature_space(self) -> spaces.Space[Any]:  # type: ignore[override]
        """One item as a sequence; Gymnasium's own constructor would take most of its time to make this."""
        return batch_space(self.box, 1)

    def contains(self, x: Any) -> bool:
        return array_problem(x, self.box.dtype, (None, *self.box.shape)) is None and bool(
            np.all((x >= self.box.low) & (x <= self.box.high))
        )


def index_space() -> RaggedSpace:
    """A ragged list of entity indices: int64 (n,)."""
    return RaggedSpace(spaces.Box(0, MOST_ENTITIES - 1, (), np.int64))


def flag_space(shape: tuple[int, ...] = ()) -> RaggedSpace:
    """A ragged list of 0/1 rows: int8 (n, *shape)."""
    return RaggedSpace(spaces.Box(0, 1, shape, np.int8))


def unique_names(names: Sequence[str], what: str) -> tuple[str, ...]:
    """Return `names` as a tuple.

    Raises:
        TypeError, ValueError: they are no strings, or repeat; `what` says in the error what they name.
    """
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"{what}: expected a list of strings, got {names!r}")
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if repeated:
        raise ValueError(
            f"{what} repeat: expected distinct names, got {', '.join(map(repr, repeated))} more than once"
        )
    return tuple(names)


def array_problem(value: Any, dtype: DTypeLike, shape: tuple[int | None, ...]) -> str | None:
    """Check that `value` is an array of this dtype and shape; a None in `shape` is any length."""
    is_array = isinstance(value, np.ndarray)
    if (
        is_array
        and value.dtype == dtype
        and value.ndim == len(shape)
        and all(n in (None, m) for n, m in zip(shape, value.shape, strict=True))
    ):
        return None
    sizes = ", ".join("n" if n is None else str(n) for n in shape) + "," * (len(shape) == 1)
    found = f"{value.dtype} {value.shape}" if is_array else type(value).__name__
    return f"expected an array of {np.dtype(dtype)} ({sizes}), got {found}"


def keys_problem(part: Any, keys: Sequence[str]) -> str | None:
    """Check that `part` is a dict with exactly these keys."""
    if not isinstance(part, dict):
        return f"expected a dict, got {type(part).__name__}"
    for key in keys:
        if key not in part:
            return f"key {key!r} is missing: expected {', '.join(map(repr, keys))}"
    unknown = [key for key in part if key not in keys]
    known = ", ".join(map(repr, keys)) or "no keys"
    return f"expected {known}, got the unknown key {unknown[0]!r}" if unknown else None


def indices_problem(value: Any, num_entities: int) -> str | None:
    """Check that `value` is an array of different entity indices below `num_entities`."""
    problem = array_problem(value, np.int64, (None,))
    if problem:
        return problem
    outside = value[(value < 0) | (value >= num_entities)]
    if outside.size:
        return f"expected indices of {num_entities} entities, got entity {outside[0]}"
    if len(np.unique(value)) < len(value):
        return "expected different entities, got one twice"
    return None


def binary_problem(value: Any, shape: tuple[int, ...]) -> str | None:
    """Check that `value` is an array of flags: int8 of this shape, 0 or 1."""
    problem = array_problem(value, np.int8, shape)
    if problem:
        return problem
    other = value[(value != 0) & (value != 1)]
    return f"expected only 0 and 1, got {other[0]}" if other.size else None


def random_subset(count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Some of the first `count` entities, in random order."""
    return rng.permutation(count)[: int(rng.integers(count + 1))].astype(np.int64)


def random_flags(shape: tuple[int, int], rng: np.random.Generator) -> NDArray[np.int8]:
    """Random 0/1 rows (A, C) with at least one 1 in each."""
    flags = rng.random(shape) < 0.7
    if flags.size:
        flags[np.arange(shape[0]), rng.integers(shape[1], size=shape[0])] = True
    return flags.astype(np.int8)
