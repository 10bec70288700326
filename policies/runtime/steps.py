"""One observation dict as a batch of one step, without the cost of checks that name what is wrong.

Types, shapes and finite features are checked here. Only if a check fails, `EntitySpace.problem`, which takes
20 times as long, finds the problem.
Shape alphabet: A actors, E actees, C choices, F features, G global features.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...envs import (
    ActionMask,
    ActionSpace,
    EntityBatch,
    EntitySpace,
    ObservationError,
)
from ...envs.actions.array_checks import all_finite
from ...ragged import RaggedArray

_FLOAT, _INT, _FLAG, _BOOL, _BYTE = map(np.dtype, (np.float32, np.int64, np.int8, np.bool_, np.uint8))


class _Odd(Exception):
    """A check has failed."""


@lru_cache(maxsize=1024)
def _up_to(count: int) -> NDArray[np.int64]:
    """Return the offsets of one sequence of `count` items, shared by all callers: not to be changed."""
    return np.array([0, count])


def _ragged(values: NDArray[Any]) -> RaggedArray:
    """One sequence."""
    return RaggedArray.unchecked(values, _up_to(len(values)))


def _plain(array: Any, dtype: np.dtype[Any], dimensions: int) -> NDArray[Any]:
    """`array` in C order, if it is one of this dtype and of so many dimensions."""
    if type(array) is not np.ndarray or array.dtype != dtype or array.ndim != dimensions:
        raise _Odd
    return array if array.flags.carray else np.array(array, order="C")


def _features(array: Any, width: int) -> NDArray[np.float32]:
    """Rows (n, F) of finite numbers."""
    rows = _plain(array, _FLOAT, 2)
    if rows.shape[1] != width or not all_finite(rows):
        raise _Odd
    return rows


class StepReader:
    """Reads observation dicts of one space."""

    def __init__(self, space: EntitySpace) -> None:
        self.space = space
        self._widths = [(name, len(features)) for name, features in space.entities.items()]
        self._actions = [
            (name, action, action.mask_columns, len(action.mask_keys))
            for name, action in space.actions.items()
        ]
        self._counts = len(space.spaces), len(self._widths), len(self._actions)
        self._num_globals = len(space.global_features)
        self._no_globals = np.zeros((1, 0), np.float32)

    def read(self, observation: Mapping[str, Any]) -> EntityBatch:
        """A batch of one step, which shares memory with `observation`.

        Raises:
            ObservationError: it is not of the space; names the entity type, feature or action.
        """
        try:
            return self._read(observation)
        except (_Odd, KeyError, TypeError, IndexError):
            problem = self.space.problem(observation)
            raise ObservationError(problem or "the observation is not made of plain arrays") from None

    def _read(self, observation: Mapping[str, Any]) -> EntityBatch:
        given = observation["entities"] if self._widths else {}
        parts, hidden, globals_ = observation["actions"], {}, self._no_globals
        counts = len(observation), len(given), len(parts)
        if counts != self._counts:
            raise _Odd
        entities = {name: _ragged(_features(given[name], width)) for name, width in self._widths}
        if self._num_globals:
            globals_ = _features(_plain(observation["globals"], _FLOAT, 1).reshape(1, -1), self._num_globals)
        if self.space.hidden:
            visible = observation["visible"]
            if len(visible) != len(entities):
                raise _Odd
            for name, rows in entities.items():
                flags = _plain(visible[name], _FLAG, 1)
                if len(flags) != len(rows.values):
                    raise _Odd
                hidden[name] = RaggedArray.unchecked(_plain_flags(flags), rows.offsets)
        actions = {
            name: _mask(parts[name], action, columns, keys) for name, action, columns, keys in self._actions
        }
        frames = None if self.space.frame is None else _frame(observation["frame"], self.space.frame)
        return EntityBatch(entities, globals_, actions, hidden, frames)


def _frame(frame: Any, shape: tuple[int, int, int]) -> RaggedArray:
    """One picture (H, W, channels)."""
    pixels = _plain(frame, _BYTE, 3)
    if pixels.shape != shape:
        raise _Odd
    return RaggedArray.unchecked(pixels[None], _up_to(1))


def _plain_flags(flags: NDArray[Any]) -> NDArray[np.bool_]:
    """Flags of 0 and 1 as booleans."""
    if flags.view(_BYTE).max(initial=0) > 1:
        raise _Odd
    return flags.astype(_BOOL)


def _check_distinct(indices: NDArray[np.int64]) -> None:
    if len(indices) > 1 and len(set(indices.tolist())) < len(indices):
        raise _Odd


def _mask(part: Mapping[str, Any], action: ActionSpace, columns: int, num_keys: int) -> ActionMask:
    """One action's part of an observation; `EntitySpace` says how it looks."""
    if len(part) != num_keys:
        raise _Odd
    if action.selects_entities:
        flags = _plain(part["mask"], _FLAG, 1)
        actors, actees = _plain(part["actors"], _INT, 1), _plain(part["actees"], _INT, 1)
        if len(flags) != len(actors) * len(actees):
            raise _Odd
        _check_distinct(actors)
        _check_distinct(actees)
        return ActionMask(_ragged(actors), _ragged(_plain_flags(flags)), _ragged(actees))
    flags = _plain(part["mask"], _FLAG, 2)
    count = len(flags)
    if flags.shape[1] != columns:
        raise _Odd
    offsets = _up_to(count)
    mask = RaggedArray.unchecked(_plain_flags(flags), offsets)
    if action.is_global:
        if count > 1:
            raise _Odd
        return ActionMask(RaggedArray.unchecked(np.full(count, -1), offsets), mask)
    actors = _plain(part["actors"], _INT, 1)
    if len(actors) != count:
        raise _Odd
    _check_distinct(actors)
    return ActionMask(RaggedArray.unchecked(actors, offsets), mask)
