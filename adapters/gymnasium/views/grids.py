"""`Channels` and `Cells`: grids whose cells hold objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ....envs import ObservationError
from ....ragged import RaggedArray
from .scope import EntityEncoder, Scope, View, ViewError, channel_order, group, slot_finder, slot_of_bits

Vocabulary = int | Sequence[str] | None

#: The order of a grid's axes: h is y, w is x, c the channels.
LAYOUTS = ("hwc", "chw", "whc", "cwh", "hw", "wh")


def grid_reader(
    view: View, space: spaces.Space[Any], scope: Scope, layout: str | None
) -> tuple[tuple[int, int, int], Callable[[Any, int], NDArray[Any]]]:
    """Return (h, w, c) and a function from batched observations of a grid space to arrays (B, h, w, c).

    With four and more axes the leading ones (stacked frames) become channels. Without a declared layout y
    comes before x; see `_layout_of` for the channels.
    """
    if not isinstance(space, spaces.Box | spaces.MultiBinary | spaces.MultiDiscrete) or len(space.shape) < 2:
        raise scope.refuse(view, space, "a grid of two axes or more")
    shape, flat = space.shape, len(space.shape) == 2
    if not flat and 0 in shape:
        raise scope.refuse(view, space, "a grid with cells and channels")
    if layout is None:
        layout = "hw" if flat else _layout_of(shape[-3:])
    if layout not in LAYOUTS or (len(layout) == 2) != flat:
        fitting = [known for known in LAYOUTS if (len(known) == 2) == flat]
        raise ViewError(f"{scope.place}: layout: expected one of {fitting} for shape {shape}, got {layout!r}")
    inner = (*shape[-2:], 1) if flat else shape[-3:]
    layout = f"{layout}c" if flat else layout
    height, width, channels = (inner[layout.index(axis)] for axis in "hwc")
    frames = int(np.prod(shape[:-3])) if not flat else 1
    y, x, c = (2 + layout.index(axis) for axis in "hwc")

    def read(observation: Any, batch_size: int) -> NDArray[Any]:
        array = scope.array(observation, (batch_size, *shape)).reshape(batch_size, frames, *inner)
        return array.transpose(0, y, x, 1, c).reshape(batch_size, height, width, frames * channels)

    return (height, width, frames * channels), read


def _layout_of(shape: tuple[int, ...]) -> str:
    """Return the layout of a grid of three axes, two of which may be the sides of a square.

    Otherwise the channels are the shorter of the first and the last axis.
    """
    first, middle, last = shape
    if (first == middle) != (middle == last) and middle > 1:
        return "hwc" if first == middle else "chw"
    return "chw" if first < last else "hwc"


@dataclass(frozen=True, repr=False)
class Channels(View):
    """Each channel of a grid is a kind of object: every non-zero cell is an entity at x, y.

    Args:
        names: the type of each channel; "Channel0", … when left out. None as a name drops a channel.
        layout: the order of the axes, one of "hwc", "chw", "whc", "cwh", "hw", "wh"; by default y before x,
            and two neighbouring axes of equal length are the sides of a square board; without such a pair the
            channels are the shorter of the first and the last axis.
        values: adds the cell's number as a feature; by default where it may be something else than 0 and 1.
        features: for a type, the channels (by name) that are features of its entities, read at their cells,
            as in `{"Vehicle": ["vx", "vy"]}`. Such a channel makes no entities itself.
    """

    names: Sequence[str | None] | None = None
    layout: str | None = None
    values: bool | None = None
    features: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def bind(self, space: spaces.Space[Any], scope: Scope) -> EntityEncoder:
        (height, width, channels), read = grid_reader(self, space, scope, self.layout)
        names = self._channel_names(channels, scope)
        named = [name for name in names if name is not None]
        with_values = not is_binary(space) if self.values is None else self.values
        base = ("x", "y", "value") if with_values else ("x", "y")
        used = {channel for some in self.features.values() for channel in some}
        unknown = {*self.features, *used} - set(named)
        if unknown:
            raise ViewError(
                f"{scope.place}: features: expected channels of {named}, got {sorted(unknown)[0]!r}"
            )
        types = [name for name in named if name not in used]
        entities = {name: (*base, *self.features.get(name, ())) for name in types}
        if used:
            columns = {
                name: [
                    names.index(c) for c in (*([name] if with_values else []), *self.features.get(name, ()))
                ]
                for name in types
            }
            return EntityEncoder(entities, _with_features(read, names, columns))

        # Where each number of one observation stands, so that only the non-zero ones need any arithmetic.
        slot_of = np.tile([types.index(name) if name in types else -1 for name in names], height * width)
        place = np.arange(height * width * channels) // channels
        position_of = np.stack([place % width, place // width], 1).astype(np.float32)

        def encode(observation: Any, batch_size: int) -> dict[str, RaggedArray]:
            grid = read(observation, batch_size).reshape(-1)
            found = np.flatnonzero(grid)
            steps, places = np.divmod(found, len(slot_of))
            slots, rows = slot_of[places], position_of[places]
            if with_values:
                rows = np.column_stack([rows, grid[found].astype(np.float32)])
            if len(types) < channels:
                kept = slots >= 0
                rows, steps, slots = rows[kept], steps[kept], slots[kept]
            return dict(zip(types, group(rows, steps, slots, len(types), batch_size), strict=True))

        return EntityEncoder(entities, encode)

    def _channel_names(self, channels: int, scope: Scope) -> Sequence[str | None]:
        """Return the entity type of each channel; None: its numbers are left out.

        Raises:
            ViewError: another number of names is given, or one twice.
        """
        names: Sequence[str | None]
        if self.names is not None:
            names = tuple(self.names)
        else:
            known = scope.feature_names.get(scope.path, ())
            if len(known) != channels:
                known = tuple(f"Channel{i}" for i in range(channels))
            names = tuple(scope.member_name(name) for name in known)
        if len(names) != channels:
            raise ViewError(
                f"{scope.place}: expected {channels} names for {channels} channels, got {len(names)}:"
                f" {list(names)}"
            )
        named = [name for name in names if name is not None]
        if len(set(named)) < len(named):
            raise ViewError(f"{scope.place}: expected distinct channel names, got {named}")
        return names


def _with_features(
    read: Callable[[Any, int], NDArray[Any]], names: Sequence[str | None], columns: Mapping[str, list[int]]
) -> Callable[[Any, int], dict[str, RaggedArray]]:
    """Return an encoder whose entities carry the numbers of the channels `columns` at their cells."""

    def encode(observation: Any, batch_size: int) -> dict[str, RaggedArray]:
        grid = read(observation, batch_size)
        rows = {}
        for name, channels in columns.items():
            steps, y, x = np.nonzero(grid[..., names.index(name)])
            values = np.column_stack([x, y, grid[steps, y, x][:, channels]]).astype(np.float32)
            rows[name] = RaggedArray.from_lengths(values, np.bincount(steps, minlength=batch_size))
        return rows

    return encode


def is_binary(space: spaces.Space[Any]) -> bool:
    """Return true if all numbers of `space` are 0 or 1."""
    if isinstance(space, spaces.MultiBinary):
        return True
    if isinstance(space, spaces.MultiDiscrete):
        return bool(np.all(space.start == 0) and np.all(space.nvec <= 2))
    whole = isinstance(space, spaces.Box) and space.dtype is not None and space.dtype.kind in "biu"
    return whole and bool(np.all(space.low >= 0) and np.all(space.high <= 1))  # type: ignore[attr-defined]


@dataclass(frozen=True, repr=False)
class Cells(View):
    """Each cell of a grid holds one object: its id (or one-hot) first, then channels with its properties.

    Args:
        objects: names of the ids 0, 1, …, or a mapping from name to id.
        ignore: objects that are no entities, such as empty cells and walls.
        properties: names of the further channels, in order, each with its vocabulary: None for a number as it
            is, a count or a list of names for ids that become one-hot. Left out: numbers as they are.
        one_hot: the object is given by as many channels as there are objects, in the order of their ids,
            which are 0, 1, …; a cell without a bit is empty.
        name: all objects are of this one type, which distinguishes them by one-hot features; True names it by
            its path, "Cell" at the root. By default each object is a type of its own.
        layout: the order of the axes, one of "hwc", "chw", "whc", "cwh", "hw", "wh"; by default y before x,
            and two neighbouring axes of equal length are the sides of a square board; without such a pair the
            channels are the shorter of the first and the last axis.
    """

    objects: Sequence[str] | Mapping[str, int]
    ignore: Sequence[str] = ()
    properties: Mapping[str, Vocabulary] | None = None
    one_hot: bool = False
    name: str | Literal[True] | None = None
    layout: str | None = None

    def bind(self, space: spaces.Space[Any], scope: Scope) -> EntityEncoder:
        one_type = scope.type_name(None, "Cell") if self.name is True else self.name
        (_, width, channels), read = grid_reader(self, space, scope, self.layout)
        ids, kept = self._ids(scope)
        num_object_channels = len(ids) if self.one_hot else 1
        columns = self._properties(channels - num_object_channels, scope)
        kept_slots = np.array([kept.index(name) if name in kept else -1 for name in ids], np.int64)
        if self.one_hot:
            kept_slots = kept_slots[channel_order(ids, f"{scope.place}: objects")]
        find = slot_finder(
            list(ids.values()), kept_slots, f"{scope.place}: expected an object of {ids}", "object"
        )
        identity = tuple(f"is_{name}" for name in kept) if one_type else ()
        features = ("x", "y", *identity, *(f for names, _ in columns for f in names))

        def encode(observation: Any, batch_size: int) -> dict[str, RaggedArray]:
            grid = read(observation, batch_size)
            flat = grid.reshape(-1, channels)
            slots = slot_of_bits(flat[:, : len(ids)] != 0, kept_slots) if self.one_hot else find(flat[:, 0])
            places = np.flatnonzero(slots >= 0)
            slots = slots[places]
            steps, cell = np.divmod(places, grid.shape[1] * width)
            y, x = np.divmod(cell, width)
            parts = [x[:, None], y[:, None]]
            if one_type:
                parts.append(slots[:, None] == np.arange(len(kept)))
            properties = flat[places, num_object_channels:]
            parts += [write(properties[:, i]) for i, (_, write) in enumerate(columns)]
            rows = np.concatenate(parts, 1, dtype=np.float32, casting="unsafe")
            if one_type:
                return {one_type: RaggedArray.from_lengths(rows, np.bincount(steps, minlength=batch_size))}
            return dict(zip(kept, group(rows, steps, slots, len(kept), batch_size), strict=True))

        return EntityEncoder(dict.fromkeys([one_type] if one_type else kept, features), encode)

    def _ids(self, scope: Scope) -> tuple[dict[str, int], list[str]]:
        """Return the id of each object, and the names of those that become entities.

        Raises:
            ViewError: two have one id, `ignore` names others, or no object is left.
        """
        ids = (
            dict(self.objects)
            if isinstance(self.objects, Mapping)
            else {n: i for i, n in enumerate(self.objects)}
        )
        if len(set(ids.values())) < len(self.objects):
            raise ViewError(
                f"{scope.place}: expected a different id for each object name, got {self.objects}"
            )
        unknown = [name for name in self.ignore if name not in ids]
        if unknown or not ids:
            raise ViewError(f"{scope.place}: ignore: expected objects of {list(ids)}, got {unknown}")
        kept = [name for name in ids if name not in self.ignore]
        if not kept:
            raise ViewError(
                f"{scope.place}: every object is ignored: expected one object or more in the view, got"
                f" ignore={list(ids)}"
            )
        return ids, kept

    def _properties(
        self, count: int, scope: Scope
    ) -> list[tuple[tuple[str, ...], Callable[[NDArray[Any]], NDArray[Any]]]]:
        """For each further channel the names of its features and how they are written from numbers (N,)."""
        if count < 0:
            raise ViewError(
                f"{scope.place}: expected at least {len(self.objects)} channels for {len(self.objects)}"
                f" one-hot objects, got {len(self.objects) + count}"
            )
        properties = (
            {f"property_{i}": None for i in range(count)} if self.properties is None else self.properties
        )
        if len(properties) != count:
            raise ViewError(
                f"{scope.place}: properties: expected {count} for the {count} channels besides the object's,"
                f" got {len(properties)}: {list(properties)}"
            )
        return [_property(name, vocabulary, scope) for name, vocabulary in properties.items()]


def in_range(ids: NDArray[Any], count: int) -> NDArray[np.bool_]:
    """Return the mask of `ids` (possibly floats) that are whole numbers in [0, count)."""
    inside = (ids >= 0) & (ids < count)
    return inside & (ids == np.floor(ids)) if ids.dtype.kind == "f" else inside


def _property(
    name: str, vocabulary: Vocabulary, scope: Scope
) -> tuple[tuple[str, ...], Callable[[NDArray[Any]], NDArray[Any]]]:
    if vocabulary is None:
        return (name,), lambda numbers: numbers[:, None]
    words = tuple(map(str, range(vocabulary))) if isinstance(vocabulary, int) else tuple(vocabulary)

    def one_hot(numbers: NDArray[Any]) -> NDArray[np.bool_]:
        outside = ~in_range(numbers, len(words))
        if outside.any():
            raise ObservationError(
                f"{scope.place}: property {name!r}: expected an id from 0 to {len(words) - 1}"
                f" ({', '.join(words)}), got {numbers[outside][0]}"
            )
        return numbers[:, None] == np.arange(len(words))

    return tuple(f"{name}={word}" for word in words), one_hot
