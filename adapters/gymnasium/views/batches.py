"""Batched observations, by the layout that Gymnasium's vector environments use (see `scope`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from .scope import ARRAY_SPACES


def components(space: spaces.Dict | spaces.Tuple | spaces.OneOf) -> list[tuple[Any, str, spaces.Space[Any]]]:
    """Return the components of a composite space: key or index, name, space."""
    if isinstance(space, spaces.Dict):
        return [(key, key, part) for key, part in space.spaces.items()]
    return [(i, str(i), part) for i, part in enumerate(space.spaces)]


def as_dicts(space: spaces.Space[Any], observation: Any) -> Any:
    """Return an observation, or a batch of them, with a dict wherever `space` has a Dict.

    Dataclasses and namedtuples are read by their fields; an observation that has dicts stays as it is.

    Raises:
        TypeError: an object without these fields.
    """
    if isinstance(space, spaces.Dict):
        named = by_name(space, observation)
        inner = {key: as_dicts(part, named[key]) for key, part in space.spaces.items() if _is_nested(part)}
        changed = any(part is not named[key] for key, part in inner.items())
        return {**named, **inner} if changed else named
    if isinstance(space, spaces.Tuple) and any(map(_is_nested, space.spaces)):
        return tuple(as_dicts(part, item) for part, item in zip(space.spaces, observation, strict=True))
    return observation


def _is_nested(space: spaces.Space[Any]) -> bool:
    return isinstance(space, spaces.Dict | spaces.Tuple)


def by_name(space: spaces.Dict, sample: Any) -> Mapping[str, Any]:
    """Return a sample of a Dict if it is a dict, else a dict of its fields."""
    if isinstance(sample, Mapping):
        return sample
    has = [f.name for f in fields(sample)] if is_dataclass(sample) else getattr(sample, "_fields", ())
    if set(space.spaces) <= set(has):
        return {key: getattr(sample, key) for key in space.spaces}
    try:
        return {key: sample[key] for key in space.spaces}
    except (TypeError, LookupError, ValueError):
        fields_of = f" with the fields {list(has)}" if has else ""
        raise TypeError(
            "observation: expected a dict, dataclass or namedtuple with the components"
            f" {list(space.spaces)}, got {type(sample).__name__}{fields_of}"
        ) from None


def stack(space: spaces.Space[Any], samples: Sequence[Any]) -> Any:
    """Samples of `space` as one batch, in fresh arrays.

    Raises:
        TypeError: a sample of a Dict that has no components by name.
    """
    return _mapped(space, _stacked, samples)


def _stacked(space: spaces.Space[Any], samples: Sequence[Any]) -> Any:
    if isinstance(space, ARRAY_SPACES):
        return np.array(samples) if samples else np.zeros((0, *space.shape), space.dtype)  # type: ignore[misc]
    return tuple(samples)


def _mapped(
    space: spaces.Space[Any], leaf: Callable[[spaces.Space[Any], Sequence[Any]], Any], values: Sequence[Any]
) -> Any:
    """Apply `leaf` to each component that is not composite, with that component of all `values`."""
    if isinstance(space, spaces.Dict):
        named = [by_name(space, value) for value in values]
        return {key: _mapped(part, leaf, [v[key] for v in named]) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_mapped(part, leaf, [v[i] for v in values]) for i, part in enumerate(space.spaces))
    return leaf(space, values)


def join(space: spaces.Space[Any], batches: Sequence[Any]) -> Any:
    """Batches of `space`, one after the other, as one."""
    return _mapped(space, _joined, batches)


def _joined(space: spaces.Space[Any], batches: Sequence[Any]) -> Any:
    if isinstance(space, ARRAY_SPACES):
        empty = np.zeros((0, *space.shape), space.dtype)  # type: ignore[misc]
        return (
            np.concatenate([np.reshape(b, (len(b), *empty.shape[1:])) for b in batches]) if batches else empty
        )
    return tuple(sample for batch in batches for sample in batch)


def pick(space: spaces.Space[Any], batch: Any, index: int) -> Any:
    """Sample `index` of a batch of `space`."""
    return _mapped(space, lambda _, parts: parts[0][index], [batch])


def select(space: spaces.Space[Any], batch: Any, indices: NDArray[np.int64]) -> Any:
    """The samples at `indices` of a batch of `space`, as a batch of its own."""

    def selected(part: spaces.Space[Any], parts: Sequence[Any]) -> Any:
        if isinstance(part, ARRAY_SPACES):
            return np.asarray(parts[0])[indices]
        return tuple(parts[0][i] for i in indices)

    return _mapped(space, selected, [batch])


def size(space: spaces.Space[Any], batch: Any) -> int:
    """Return the number of samples in a batch of `space`."""
    if isinstance(space, spaces.Dict):
        key, part = next(iter(space.spaces.items()))
        return size(part, batch[key])
    if isinstance(space, spaces.Tuple):
        return size(space.spaces[0], batch[0])
    return len(batch)
