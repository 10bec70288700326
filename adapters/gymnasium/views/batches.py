"""Batched observations, by the layout that Gymnasium's vector environments use (see `scope`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ....envs import EntityActionSpace
from ....ragged import RaggedArray
from .scope import ARRAY_SPACES


def stack(space: spaces.Space[Any], samples: Sequence[Any]) -> Any:
    """Samples of `space` as one batch, in fresh arrays."""
    if isinstance(space, spaces.Dict):
        return {key: stack(part, [s[key] for s in samples]) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(stack(part, [s[i] for s in samples]) for i, part in enumerate(space.spaces))
    if isinstance(space, ARRAY_SPACES):
        return np.array(samples) if samples else np.zeros((0, *space.shape), space.dtype)  # type: ignore[misc]
    return tuple(samples)


def join(space: spaces.Space[Any], batches: Sequence[Any]) -> Any:
    """Batches of `space`, one after the other, as one."""
    if isinstance(space, spaces.Dict):
        return {key: join(part, [b[key] for b in batches]) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(join(part, [b[i] for b in batches]) for i, part in enumerate(space.spaces))
    if isinstance(space, ARRAY_SPACES):
        empty = np.zeros((0, *space.shape), space.dtype)  # type: ignore[misc]
        return (
            np.concatenate([np.reshape(b, (len(b), *empty.shape[1:])) for b in batches]) if batches else empty
        )
    return tuple(sample for batch in batches for sample in batch)


def pick(space: spaces.Space[Any], batch: Any, index: int) -> Any:
    """Sample `index` of a batch of `space`."""
    if isinstance(space, spaces.Dict):
        return {key: pick(part, batch[key], index) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(pick(part, batch[i], index) for i, part in enumerate(space.spaces))
    return batch[index]


def select(space: spaces.Space[Any], batch: Any, indices: NDArray[np.int64]) -> Any:
    """The samples at `indices` of a batch of `space`, as a batch of its own."""
    if isinstance(space, spaces.Dict):
        return {key: select(part, batch[key], indices) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(select(part, batch[i], indices) for i, part in enumerate(space.spaces))
    if isinstance(space, ARRAY_SPACES):
        return np.asarray(batch)[indices]
    return tuple(batch[i] for i in indices)


def size(space: spaces.Space[Any], batch: Any) -> int:
    """Return the number of samples in a batch of `space`."""
    if isinstance(space, spaces.Dict):
        key, part = next(iter(space.spaces.items()))
        return size(part, batch[key])
    if isinstance(space, spaces.Tuple):
        return size(space.spaces[0], batch[0])
    return len(batch)


def ragged_orders(action: Any, space: EntityActionSpace) -> Any:
    """One step's action as what `validate_actions` takes for a batch of one; no mapping stays what it is."""
    if not isinstance(action, Mapping):
        return action
    orders = {}
    for name, given in action.items():
        item_shape: tuple[int, ...] = space[name].item_shape if name in space.spaces else ()
        order = np.array(given, ndmin=1 + len(item_shape))
        if not order.size:
            order = np.zeros((0, *item_shape), space[name].dtype if name in space.spaces else np.int64)
        elif order.dtype.kind in "iu":
            order = order.astype(np.int64)
        elif order.dtype.kind == "f":
            order = order.astype(np.float32)
        orders[name] = RaggedArray(order, [0, len(order)])
    return orders
