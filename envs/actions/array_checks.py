"""Checks of arrays and names, and the small spaces that masks are made of.

The functions `*_problem` return what is wrong as half a sentence, None where nothing is.
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, EnumType
from functools import cached_property
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ...suggestions import listed

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


def unique_names(names: Iterable[str], what: str) -> tuple[str, ...]:
    """Return `names` as a tuple.

    Raises:
        TypeError, ValueError: they are no strings, have no order or values of their own (a set, a dict), or
            repeat; `what` says in the error what they name.
    """
    is_list = isinstance(names, Iterable) and not isinstance(names, str | set | frozenset | Mapping)
    strings = tuple(names) if is_list else ()
    if not is_list or not all(isinstance(name, str) for name in strings):
        raise TypeError(f"{what}: expected a list of strings, got {names!r}")
    names = strings
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if repeated:
        raise ValueError(f"{what} repeat: expected distinct names, got {listed(repeated)} more than once")
    return names


def named_parts(parts: Any, what: str) -> None:
    """Check that `parts` is a dict by name.

    Raises:
        TypeError: it is not; `what` says in the error what it holds.
    """
    if not isinstance(parts, Mapping) or not all(isinstance(name, str) for name in parts):
        raise TypeError(f"{what}: expected a dict with strings as keys, got {parts!r}")


def choice_names(choices: Iterable[str] | int | type[Enum], what: str) -> tuple[str, ...]:
    """Return the names of choices: "0" to "n - 1" for a number n, the members of an Enum, or those given.

    Raises:
        TypeError, ValueError: it is none of these, or there are no choices; `what` names them in the error.
    """
    if isinstance(choices, int | np.integer) and not isinstance(choices, bool | Enum):
        names: tuple[str, ...] = tuple(map(str, range(choices)))
    elif isinstance(choices, EnumType):
        members: Iterable[Enum] = choices
        names = tuple(member.name for member in members)
    elif isinstance(choices, Iterable):
        names = unique_names(choices, what)
    else:
        raise TypeError(f"{what}: expected a number, a list of strings or an Enum, got {choices!r}")
    if not names:
        raise ValueError(f"{what}: expected at least one choice, got {choices!r}")
    return names


def choice_number(names: Sequence[str], label: Any) -> int:
    """Return the number of the choice of that name.

    Raises:
        ValueError: there is none.
    """
    if label not in names:
        raise ValueError(f"expected one of {listed(names, str)}, got {label!r}")
    return names.index(label)


def real_numbers(given: ArrayLike) -> NDArray[Any]:
    """Return `given` as an array of bools, integers or floats; of other numbers as float64, NaN for None.

    NumPy by itself also reads strings, dates and complex numbers as real ones.

    Raises:
        ValueError: something that is no real number, rows of different lengths, a masked array that hides
            some, or a tensor of torch that needs gradients.
    """
    try:
        array = np.asarray(given)
    except ValueError:
        raise ValueError(f"expected real numbers in rows of one length, got {given!r:.200}") from None
    except RuntimeError as error:
        raise ValueError(f"expected real numbers, got a {type(given).__name__}: {error}") from error
    if array is not given:
        check_unmasked(given)
    if array.dtype.kind in "biuf":
        return array
    not_real = str | bytes | complex | np.complexfloating | np.datetime64 | np.timedelta64
    objects = np.asarray(given, object)  # one string makes strings of all numbers
    wrong = [value for value in objects.flat if isinstance(value, not_real)]
    try:
        if not wrong:
            return objects.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        pass
    raise ValueError(f"expected real numbers, got {wrong[0] if wrong else given!r:.200}")


def check_unmasked(given: Any) -> None:
    """Check that `given` is no masked array that hides values: NumPy would read these as if they were not.

    Raises:
        ValueError: it is one.
    """
    if isinstance(given, np.ma.MaskedArray) and np.ma.is_masked(given):
        hidden = np.ma.count_masked(given)
        raise ValueError(f"expected all values, got a masked array that hides {hidden} of {given.size}")


def as_float32(numbers: NDArray[Any]) -> NDArray[np.float32]:
    """Return `numbers` as float32; what lies beyond its range (3.4e38) is infinite, without a warning."""
    with np.errstate(over="ignore"):
        return numbers.astype(np.float32)


def all_finite(array: NDArray[np.float32]) -> bool:
    """Return True if all numbers are finite."""
    # One pass in the usual case; only a sum of squares that overflows or is inf or nan needs a second.
    return math.isfinite(np.vdot(array, array)) or bool(np.isfinite(array).all())


def finite_words(number: Any) -> str:
    """Words for an error about a number that float32 does not hold: NaN, infinity, or one beyond 3.4e38."""
    expected = "a number finite as float32 (below 3.4e38)" if np.isfinite(number) else "a finite number"
    return f"expected {expected}, got {number}"


def real_number(given: Any) -> float:
    """Return a real number, or an array of one, as a float.

    Raises:
        ValueError: it is something else.
    """
    if isinstance(given, float):
        return given
    numbers = real_numbers(given)
    if given is None or numbers.size != 1:
        raise ValueError(f"expected one real number, got {given!r:.200}")
    return float(numbers.item())


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
            return f"key {key!r} is missing: expected {listed(keys)}"
    unknown = [key for key in part if key not in keys]
    known = listed(keys, none="no keys")
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
