"""Views: declared once, bound to a Gymnasium space, run on whole batches of observations.

Shape alphabet: B observations in a batch, N entities in all of them, F features.

A *batched observation* has the layout that Gymnasium's vector environments return: arrays (B, ...) for Box
and the discrete spaces, dicts and tuples of those for Dict and Tuple, and a tuple of B samples for everything
else (Sequence, Graph, OneOf, Text).
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ....envs import ObservationError
from ....envs.actions.array_checks import as_float32, finite_words
from ....ragged import RaggedArray

#: The spaces whose samples are plain arrays (or numbers), so that a batch of them is one array.
ARRAY_SPACES = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)


class ViewError(ValueError):
    """A view that doesn't fit the space it was applied to; raised when an environment is wrapped."""


@dataclass(frozen=True)
class EntityEncoder:
    """A view bound to a space.

    Attributes:
        entities: the entity types that it yields, with their feature names.
        encode: from a batched observation and B to one float32 `RaggedArray` (N, F) of B sequences per type.
        single: each observation yields exactly one entity (which then needs no link to its origin).
        counts: of a type, the number of its entities in every observation, or of the rows that number them
            ("row"); only where that is known.
    """

    entities: dict[str, tuple[str, ...]]
    encode: Callable[[Any, int], dict[str, RaggedArray]]
    single: bool = False
    counts: Mapping[str, int] = field(default_factory=dict)


class Sources:
    """Sources of functions beside the observations of a batch, by name ("env", "info"), one per lane.

    Attributes:
        needed: the names that functions ask for.
        lanes: what belongs to the batch that is being encoded.
    """

    def __init__(self) -> None:
        self.needed: set[str] = set()
        self.lanes: Mapping[str, Sequence[Any]] = {}


@dataclass(frozen=True)
class Scope:
    """The place of a view, for error messages: the env and the part of its observation.

    Attributes:
        env: the environment's name.
        default: returns the view that suits a space in a scope when none is declared (`auto`).
        path: keys and indices from the root of the observation space.
        feature_names: names of a part's columns or numbers that the environment itself knows, by path.
        sources: what functions may read beside the observation; None where a batch is not one of lanes.
    """

    env: str
    default: Callable[[spaces.Space[Any], Scope], View]
    path: tuple[str, ...] = ()
    feature_names: dict[tuple[str, ...], tuple[str, ...]] = field(default_factory=dict)
    sources: Sources | None = None

    def without_sources(self) -> Scope:
        """The same scope, for batches of something else than lanes (items of lists)."""
        return replace(self, sources=None)

    def at(self, *keys: str) -> Scope:
        """The scope of a component."""
        return replace(self, path=self.path + keys)

    @property
    def place(self) -> str:
        """The environment and the path, for errors."""
        return f"{self.env}: observation_space" + "".join(f"[{key!r}]" for key in self.path)

    def type_name(self, given: str | None, default: str) -> str:
        """The name of a view's only type: as given, else the path, else `default`."""
        return given or "/".join(map(_word, self.path)) or default

    def member_name(self, default: str) -> str:
        """Return the name of one of several types without a given name: `default` behind the path."""
        return "/".join((*map(_word, self.path), default))

    def names(self, given: tuple[str, ...] | None, count: int) -> tuple[str, ...]:
        """Feature names: as given, else as the environment knows them, else numbered.

        Raises:
            ViewError: not `count` names.
        """
        known = self.feature_names.get(self.path)
        if given is None and known is not None and len(known) == count:
            return known
        if given is None:
            return tuple(f"{self.path[-1] if self.path else 'x'}_{i}" for i in range(count))
        if len(given) != count:
            raise ViewError(
                f"{self.place}: expected {count} feature names for {count} numbers per entity, got"
                f" {len(given)}: {list(given)}"
            )
        return given

    def refuse(self, view: View, space: spaces.Space[Any], needs: str) -> ViewError:
        """The error for a view that needs another space."""
        try:
            suggestion = f". Use {self.view_of(space)!r}"
        except ViewError:
            suggestion = ""
        return ViewError(
            f"{self.place}: view {type(view).__name__}: expected {needs}, got {space}{suggestion}"
        )

    def view_of(self, space: spaces.Space[Any]) -> View:
        """The view that suits `space`, which none is declared for.

        Raises:
            ViewError: none is known for this kind of space, or more than one suits it.
        """
        return self.default(space, self)

    def unknown(self, space: spaces.Space[Any]) -> ViewError:
        """The error for a space that no view is known for, with the ways to declare one."""
        is_text = isinstance(space, spaces.Text) or space.dtype == np.dtype(str)
        view = "views.Words([…])" if is_text else "views.Function(…)"
        if not self.path:
            ways = f"Declare {view}"
        else:
            path = "/".join(self.path)
            ways = f"Declare views.Items({{{path!r}: {view}}}), or drop it: views.Items({{{path!r}: None}})"
        return ViewError(
            f"{self.place}: no view was found: expected a view, or a space that Gymnasium defines, got"
            f" {space}. {ways}"
        )

    def array(self, observation: Any, shape: tuple[int, ...]) -> NDArray[Any]:
        """`observation` as an array of `shape`.

        Raises:
            ObservationError: it has another shape, or numbers that are not finite as float32.
        """
        array = np.asarray(observation)
        if array.shape != shape:
            raise ObservationError(
                f"{self.place}: expected an array of shape {shape[1:]}, got {array.shape[1:]}"
            )
        if array.dtype.kind == "f":
            finite = np.isfinite(array if array.dtype == np.float32 else as_float32(array))
            if not finite.all():
                where = np.argwhere(~finite)[0]
                of_lane = f" of lane {where[0]}" if len(array) > 1 else ""
                raise ObservationError(
                    f"{self.place}: {finite_words(array[tuple(where)])} at {where[1:].tolist()}{of_lane}"
                )
        return array


class View(ABC):
    """Declaration of the entities in a part of an observation: a frozen dataclass of plain values."""

    @abstractmethod
    def bind(self, space: spaces.Space[Any], scope: Scope) -> EntityEncoder:
        """Fit the view to a space.

        Raises:
            ViewError: the space is not of the kind that this view reads.
        """

    def __repr__(self) -> str:
        """The call that makes this view, without the arguments that are at their defaults."""
        arguments = []
        for option in fields(self):  # type: ignore[arg-type]
            value = getattr(self, option.name)
            default = option.default if option.default_factory is MISSING else option.default_factory()
            if value != default:
                arguments.append(f"{option.name}={value!r}")
        return f"{type(self).__name__}({', '.join(arguments)})"


def _word(key: str) -> str:
    """A key of a path as a part of a type's name; the place in a Tuple alone says too little."""
    return f"part_{key}" if key.isdigit() else key


def imported(function: Callable[..., Any] | str | Any) -> Callable[..., Any]:
    """Return `function` itself, or the one that "module:name" names, which a spec can hold as JSON.

    Raises:
        ViewError: there is no such function.
    """
    if callable(function):
        return function
    if not isinstance(function, str):
        raise ViewError(f"expected a function or 'module:function', got {function!r}")
    module, _, name = function.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ViewError(
            f"function {function!r} cannot be imported: {error}. Name it 'module:function'"
        ) from None
    if not callable(found):
        raise ViewError(f"{function!r}: expected a function, got {found!r}")
    return found


def slot_finder(
    ids: Sequence[float], slots: Sequence[int] | NDArray[np.int64], expected: str, noun: str
) -> Callable[[NDArray[Any]], NDArray[np.int64]]:
    """Return a function from ids (N,), one of `ids` each, to their slots (N,).

    Args:
        ids: distinct numbers.
        slots: of each id.
        expected: the start of the error message for an unknown id.
        noun: what has the ids.
    """
    order = np.argsort(ids)
    known, slot_of = np.asarray(ids, np.float64)[order], np.asarray(slots, np.int64)[order]
    first, last = int(known[0]), len(known) - 1
    dense = bool((known == first + np.arange(len(known))).all())  # then a subtraction finds the place

    def find(numbers: NDArray[Any]) -> NDArray[np.int64]:
        places = numbers.astype(np.int64) - first if dense else np.searchsorted(known, numbers)
        places = places.clip(0, last)
        unknown = known[places] != numbers
        if unknown.any():
            raise ObservationError(f"{expected}, got {noun} id {numbers[unknown][0]}")
        return slot_of[places]

    return find


def slot_of_bits(bits: NDArray[np.bool_], slots: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the slot of the first set bit in each row (N, K), -1 for none; `slots` (K,) of the columns."""
    return np.where(bits.any(1), slots[bits.argmax(1)], -1)


def channel_order(ids: Mapping[str, float], place: str) -> NDArray[np.int64]:
    """Return for each one-hot channel the index of its name in `ids` (K,).

    Raises:
        ViewError: the ids are not 0 to K - 1.
    """
    numbers = np.array(list(ids.values()))
    order = np.argsort(numbers, kind="stable")
    if not np.array_equal(numbers[order], np.arange(len(ids))):
        raise ViewError(f"{place}: one-hot: expected the ids 0 to {len(ids) - 1}, got {dict(ids)}")
    return order


def merge(encoders: list[tuple[Scope, EntityEncoder]]) -> dict[str, tuple[str, ...]]:
    """The types of several encoders together.

    Raises:
        ViewError: two of them use the same type name.
    """
    entities: dict[str, tuple[str, ...]] = {}
    owners: dict[str, Scope] = {}
    for part, encoder in encoders:
        for name, features in encoder.entities.items():
            if name in entities:
                raise ViewError(
                    f"{part.place}: expected an unused entity type name, got entity type {name!r}, which"
                    f" {owners[name].place} has. Give one of them another name"
                )
            entities[name], owners[name] = features, part
    return entities


def one_per_observation(values: NDArray[np.float32]) -> RaggedArray:
    """Rows (B, F), one entity in each observation."""
    return RaggedArray(values, np.arange(len(values) + 1))


def group(
    values: NDArray[np.float32], steps: NDArray[Any], slots: NDArray[Any], num_slots: int, batch_size: int
) -> list[RaggedArray]:
    """Sort entities into their types.

    Args:
        values: contiguous rows (N, F), ordered by observation.
        steps: the observation of each row (N,).
        slots: the type of each row (N,), in [0, num_slots).

    Returns:
        for each type the rows of it, B sequences each, in their old order.
    """
    keys = slots * batch_size + steps
    if num_slots > 1:
        # A stable sort of small integers is a radix sort: linear in N.
        order = np.argsort(slots.astype(np.uint8 if num_slots <= 256 else np.int64), kind="stable")
        values = values[order]
    values = np.ascontiguousarray(values)  # columns picked out of a table come transposed
    counts = np.bincount(keys, minlength=num_slots * batch_size)
    ends = np.zeros(len(counts) + 1, np.int64)  # where the rows of each type and observation end
    np.cumsum(counts, out=ends[1:])
    groups = []
    for slot in range(num_slots):
        offsets = ends[slot * batch_size : (slot + 1) * batch_size + 1]
        # Right by construction; with a dozen types the checks of the constructor would take the most time.
        groups.append(RaggedArray.unchecked(values[offsets[0] : offsets[-1]], offsets - offsets[0]))
    return groups
