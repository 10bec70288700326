"""Spaces of fixed size as one row of numbers: the building block of the other views."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ....envs import ObservationError
from .batches import components
from .scope import Scope

#: Discrete values up to this many together become one-hot; more are written as binary digits.
ONE_HOT_LIMIT = 1024


@dataclass(frozen=True)
class FlatValues:
    """A space as a row of numbers: their names, and how a batched observation becomes float32 (B, F)."""

    names: tuple[str, ...]
    encode: Callable[[Any, int], NDArray[np.float32]]


def flat_values(space: spaces.Space[Any], scope: Scope) -> FlatValues | None:
    """Return the writer of samples of `space` as rows; None if the samples differ in size.

    Box and MultiBinary as they are, Discrete and MultiDiscrete one-hot, Dict and Tuple part after part.
    """
    label = scope.path[-1] if scope.path else "x"
    if isinstance(space, spaces.Box | spaces.MultiBinary):
        return _numbers(space.shape, scope, label)
    if isinstance(space, spaces.Discrete):
        return _choices(np.array([space.n]), np.array([space.start]), (), scope, [label])
    if isinstance(space, spaces.MultiDiscrete):
        labels = [f"{label}_{'_'.join(map(str, i))}" for i in np.ndindex(space.shape)]
        return _choices(space.nvec.ravel(), space.start.ravel(), space.shape, scope, labels)
    return _together(space, scope) if isinstance(space, spaces.Dict | spaces.Tuple) else None


def _numbers(shape: tuple[int, ...], scope: Scope, label: str) -> FlatValues:
    count = int(np.prod(shape))
    names = [label] if shape == () else [f"{label}_{'_'.join(map(str, i))}" for i in np.ndindex(shape)]

    def encode(observation: Any, batch_size: int) -> NDArray[np.float32]:
        array = scope.array(observation, (batch_size, *shape))
        # A copy, always: vector environments may hand out buffers that they use again.
        return array.reshape(batch_size, count).astype(np.float32)

    known = scope.feature_names.get(scope.path)
    return FlatValues(known if known is not None and len(known) == count else tuple(names), encode)


def _choices(
    counts: NDArray[Any], starts: NDArray[Any], shape: tuple[int, ...], scope: Scope, labels: list[str]
) -> FlatValues:
    """One-hot (or binary) rows for integers in [start, start + count) each."""
    counts, starts = np.asarray(counts, np.int64), np.asarray(starts, np.int64)  # unsigned ones mix badly

    def indices(observation: Any, batch_size: int) -> NDArray[np.int64]:
        array = scope.array(observation, (batch_size, *shape)).reshape(batch_size, len(counts)) - starts
        outside = (array < 0) | (array >= counts) | (array != np.floor(array))
        if outside.any():
            lane, i = np.argwhere(outside)[0]
            last = starts[i] + counts[i] - 1
            raise ObservationError(
                f"{scope.place}: {labels[i]}: expected an integer from {starts[i]} to {last}, got"
                f" {array[lane, i] + starts[i]}"
            )
        return array.astype(np.int64)

    if counts.sum() > ONE_HOT_LIMIT:
        return _binary(counts, labels, indices)
    offsets = np.cumsum(counts) - counts
    total = int(counts.sum())

    def encode(observation: Any, batch_size: int) -> NDArray[np.float32]:
        rows = np.zeros((batch_size, total), np.float32)
        rows[np.arange(batch_size)[:, None], indices(observation, batch_size) + offsets] = 1
        return rows

    names = [
        f"{label}={start + i}"
        for label, start, n in zip(labels, starts, counts, strict=True)
        for i in range(n)
    ]
    return FlatValues(tuple(names), encode)


def _binary(
    counts: NDArray[Any], labels: list[str], indices: Callable[[Any, int], NDArray[np.int64]]
) -> FlatValues:
    digits = [max(1, int(n - 1).bit_length()) for n in counts]
    column = np.repeat(np.arange(len(counts)), digits)
    shift = np.concatenate([np.arange(d) for d in digits])

    def encode(observation: Any, batch_size: int) -> NDArray[np.float32]:
        return ((indices(observation, batch_size)[:, column] >> shift) & 1).astype(np.float32)

    return FlatValues(tuple(f"{labels[c]}_bit{s}" for c, s in zip(column, shift, strict=True)), encode)


def _together(space: spaces.Dict | spaces.Tuple, scope: Scope) -> FlatValues | None:
    parts: list[tuple[Any, FlatValues]] = []
    for key, name, part in components(space):
        flat = flat_values(part, scope.at(name))
        if flat is None:
            return None
        parts.append((key, flat))
    if not parts:
        return None

    def encode(observation: Any, batch_size: int) -> NDArray[np.float32]:
        return np.concatenate([flat.encode(observation[key], batch_size) for key, flat in parts], 1)

    names = [name for _, flat in parts for name in flat.names]
    if len(set(names)) < len(names):  # the same label at two depths: number them all
        names = [f"{name}#{i}" for i, name in enumerate(names)]
    return FlatValues(tuple(names), encode)
