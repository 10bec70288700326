"""Gymnasium action spaces as named entity actions, and back.

Shape alphabet: B observations in a batch, C choices, K real numbers.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ...envs import ActionSpace, GlobalCategorical, GlobalContinuous, ObservationError
from ...envs.actions.array_checks import as_float32
from ...envs.errors import REPLACED_OBSERVATIONS
from .entity_actions import ActionPart, Choices, entity_actions
from .views.batches import pick
from .views.per_entity import PerEntity
from .views.scope import ViewError


def take_apart(
    space: spaces.Space[Any],
    env: str,
    choices: Sequence[str] | None = None,
    path: tuple[str, ...] = (),
    per_entity: Mapping[str, PerEntity] | None = None,
) -> ActionPart:
    """Named entity actions for an action space.

    Discrete becomes one `GlobalCategorical`; MultiDiscrete and MultiBinary become one for each number; Box
    becomes a `GlobalContinuous`; Dict and Tuple the actions of their parts; OneOf a choice of the alternative
    and the actions of all alternatives. Actions are named by their path, "action" at the root. Those in
    `per_entity` belong to entities.

    Raises:
        ViewError: a space without a fixed set of choices (Text, Sequence, Graph).
    """
    name = "/".join(path) or "action"
    declared = None if per_entity is None else per_entity.get(name)
    if declared is not None:
        return entity_actions(declared, space, take_apart(space, env, choices, path), name, env)
    if isinstance(space, spaces.Discrete):
        return _Discrete(space, name, choices)
    if isinstance(space, spaces.MultiDiscrete):
        return _Several(space, name, space.nvec.ravel(), space.start.ravel())
    if isinstance(space, spaces.MultiBinary):
        count = int(np.prod(space.shape))
        return _Several(space, name, np.full(count, 2), np.zeros(count, np.int64))
    if isinstance(space, spaces.Box):
        return _Box(space, name, env)
    if isinstance(space, spaces.Dict):
        return _Composite(
            {k: take_apart(p, env, None, (*path, k), per_entity) for k, p in space.spaces.items()}, dict, env
        )
    if isinstance(space, spaces.Tuple):
        parts = {i: take_apart(p, env, None, (*path, str(i)), per_entity) for i, p in enumerate(space.spaces)}
        return _Composite(parts, tuple, env)
    if isinstance(space, spaces.OneOf):
        return _OneOf(
            space,
            name,
            {i: take_apart(p, env, None, (*path, str(i))) for i, p in enumerate(space.spaces)},
            env,
        )
    where = "".join(f"[{key!r}]" for key in path)
    if isinstance(space, ActionSpace):
        raise ViewError(
            f"{env}: action_space{where}: expected an action of Gymnasium, got {space!r} of an entity"
            f" environment. {REPLACED_OBSERVATIONS}"
        )
    raise ViewError(
        f"{env}: action_space{where}: expected Discrete, Box or composite actions, got {space}, which has"
        " no fixed set of choices. Add a gymnasium.wrappers.TransformAction"
    )


def _flags(mask: Any, shape: tuple[int, int], name: str, place: str) -> NDArray[np.bool_]:
    # Merged infos hold lists as objects.
    rows = mask.tolist() if isinstance(mask, np.ndarray) and mask.dtype == object else mask
    try:
        array = np.asarray(rows)
    except ValueError as error:
        raise ObservationError(
            f"{place}: mask of action {name!r}: expected length {shape[1:]}, got {[*map(_shape, rows)]}"
        ) from error
    if array.shape != shape:
        raise ObservationError(
            f"{place}: mask of action {name!r}: expected length {shape[1:]}, got {array.shape[1:]}"
        )
    if array.dtype.kind not in "biuf" or not ((array == 0) | (array == 1)).all():
        raise ObservationError(f"{place}: mask of action {name!r}: expected 0 and 1, got {array[0]}")
    return array.astype(bool)


def _stacked(mask: Any) -> Any:
    """Return arrays of lanes that were kept as objects because their dtypes differ as one array of numbers.

    What isn't one array of numbers for each lane is returned as it is.
    """
    if not isinstance(mask, np.ndarray) or mask.dtype != object:
        return mask
    if not all(isinstance(lane, np.ndarray) for lane in mask):
        return mask
    try:
        array = np.array([lane.tolist() for lane in mask])
    except ValueError:  # parts of different lengths
        return mask
    return array if array.dtype.kind in "biuf" else mask


def _shape(mask: Any) -> tuple[int, ...]:
    """Return the shape of a mask; () for one of parts with different lengths."""
    try:
        return np.shape(mask)
    except ValueError:
        return ()


def _refuse_joint(
    given: tuple[int, ...], counts: Sequence[int], shape: tuple[int, ...], name: str, place: str
) -> None:
    """Refuse a mask over the combinations of several numbers.

    Args:
        given: the shape of the mask.
        counts: the choices of each number.
        shape: of the numbers; a mask (*shape, C) has a row for each.
        name, place: what error messages call the action and the environment.

    Raises:
        ObservationError: independent choices can't keep to such a mask.
    """
    if len(counts) < 2 or given != tuple(counts) or given == (*shape, counts[0]):
        return
    raise ObservationError(
        f"{place}: mask of action {name!r}: expected a mask for each of its {len(counts)} numbers, got one of"
        f" shape {given} for their combinations, which independent choices can't keep to. Make one"
        f" Discrete({math.prod(counts)}) of them, with gymnasium.wrappers.TransformAction and"
        " numpy.unravel_index; or leave out the mask: action_mask='none'"
    )


def _flat(
    mask: NDArray[Any], counts: Sequence[int], shape: tuple[int, ...], name: str, place: str
) -> NDArray[Any]:
    """Return a mask (B, sum of C) as it is, or from (B, *shape, C) with a row for each number.

    Raises:
        ObservationError: a mask for combinations.
    """
    if len({*counts}) == 1 and mask.shape[1:] == (*shape, counts[0]):
        return mask.reshape(len(mask), -1)
    _refuse_joint(mask.shape[1:], counts, shape, name, place)
    return mask


def _check_parts(lane: Any, keys: Collection[Any], place: str) -> None:
    """A dict or tuple of masks has none for parts that do not exist, a tuple one for each."""
    if isinstance(lane, Mapping):
        unknown = [key for key in lane if key not in keys and not str(key).startswith("_")]
        if unknown:
            raise ObservationError(
                f"{place}: expected masks of the actions {list(keys)}, got one of the unknown action"
                f" {unknown[0]!r}"
            )
        return
    expected = f"{place}: expected a mask (or None) for each of the parts {list(keys)}"
    if not isinstance(lane, Sequence | np.ndarray) or isinstance(lane, str):
        raise ObservationError(f"{expected}, got {lane!r}")
    if len(lane) != len(keys):
        missing = [*keys][len(lane) :]
        rest = f", none for {missing}. Give None where all is allowed" if missing else ""
        raise ObservationError(f"{expected}, got {len(lane)} masks{rest}")


def masks_of(
    part: ActionPart, mask: Any, there: NDArray[np.bool_], place: str
) -> dict[str, NDArray[np.bool_]]:
    """Return `part.masks` for the lanes (B,) that are `there`; in the others everything is allowed."""
    if not there.any():
        return {}
    some = mask if there.all() else _lanes(mask, there)
    if isinstance(some, list) and all(isinstance(lane, np.ndarray) for lane in some):
        some = np.stack(some) if len({lane.shape for lane in some}) == 1 else some
    flags = part.masks(some, int(there.sum()), place)
    if there.all():
        return flags
    whole = {name: np.ones((len(there), *rows.shape[1:]), bool) for name, rows in flags.items()}
    for name, rows in flags.items():
        whole[name][there] = rows
    return whole


def _lanes(mask: Any, there: NDArray[np.bool_]) -> Any:
    """Return the masks of some lanes, from all lanes' merged masks."""
    if isinstance(mask, Mapping):
        return {key: None if part is None else _lanes(part, there) for key, part in mask.items()}
    if isinstance(mask, np.ndarray):
        return mask[there]
    return [part for part, is_there in zip(mask, there, strict=True) if is_there]


def _part_of(mask: Any, key: Any, batch_size: int) -> tuple[Any, NDArray[np.bool_]]:
    """Return the masks of one part, and the lanes (B,) that have one.

    Merged infos keep a part's lanes under "_" and its name, and None for the others in an array of objects.
    """
    if isinstance(mask, Mapping):
        inner, there = mask.get(key), mask.get(f"_{key}", True)
    else:
        inner, there = [lane.get(key) if isinstance(lane, Mapping) else lane[key] for lane in mask], True
    there = np.broadcast_to(inner is not None and there, batch_size)
    if isinstance(inner, list) or (isinstance(inner, np.ndarray) and inner.dtype == object):
        there = there & [lane is not None for lane in inner]
    return inner, there


class _Discrete(ActionPart):
    def __init__(self, space: spaces.Discrete, name: str, choices: Sequence[str] | None) -> None:
        labels = [str(space.start + i) for i in range(space.n)]
        if choices is not None and len(set(choices)) == space.n == len(choices):
            labels = list(choices)
        self.space, self.name = space, name
        self.names: dict[str, ActionSpace] = {name: GlobalCategorical(labels)}

    def decode(self, choices: Choices) -> NDArray[Any]:
        return (choices[self.name] + self.space.start).astype(self.space.dtype)

    def masks(self, mask: Any, batch_size: int, place: str) -> dict[str, NDArray[np.bool_]]:
        is_table = isinstance(mask, np.ndarray) and mask.dtype != object  # objects: a mask each
        if is_table and math.prod(mask.shape[1:]) == self.space.n:
            mask = mask.reshape(len(mask), -1)  # of combinations, in the order of numpy.unravel_index
        return {self.name: _flags(mask, (batch_size, int(self.space.n)), self.name, place)}


class _Several(ActionPart):
    """MultiDiscrete and MultiBinary: an action for each number."""

    def __init__(
        self,
        space: spaces.MultiDiscrete | spaces.MultiBinary,
        name: str,
        counts: NDArray[Any],
        start: NDArray[Any],
    ) -> None:
        self.space, self.start, self.name = space, start, name
        self.names: dict[str, ActionSpace] = {}
        for i, index in enumerate(np.ndindex(space.shape)):
            labels = [str(start[i] + c) for c in range(counts[i])]
            self.names[f"{name}_{'_'.join(map(str, index))}"] = GlobalCategorical(labels)
        self.counts = [int(count) for count in counts]

    def decode(self, choices: Choices) -> NDArray[Any]:
        chosen = np.stack([choices[name] for name in self.names], 1) + self.start
        return chosen.astype(self.space.dtype).reshape(-1, *self.space.shape)

    def masks(self, mask: Any, batch_size: int, place: str) -> dict[str, NDArray[np.bool_]]:
        """Of one array (B, sum of C), or of one mask for each number.

        These are B tuples, as Gymnasium has it, or rows of one array where all numbers have the same choices.
        """
        shape = self.space.shape
        if not isinstance(mask, np.ndarray) or mask.dtype == object:
            for lane in mask:
                _refuse_joint(_shape(lane), self.counts, shape, self.name, place)
                self._check_lengths(lane, place)
            mask = np.stack([np.concatenate([np.ravel(part) for part in lane]) for lane in mask])
        mask = _flat(mask, self.counts, shape, self.name, place)
        flags = _flags(mask, (batch_size, sum(self.counts)), self.name, place)
        return dict(zip(self.names, np.split(flags, np.cumsum(self.counts)[:-1], 1), strict=True))

    def _check_lengths(self, lane: Any, place: str) -> None:
        """Check that a lane has all choices in a row, or a mask for each number (or row of numbers)."""
        lengths = [np.size(part) for part in lane]
        whole = sum(lengths) == sum(self.counts)
        if not whole or (len(lengths) == len(self.counts) and lengths != self.counts):
            raise ObservationError(
                f"{place}: masks of action {self.name!r}: expected a mask for each of {list(self.names)}, of"
                f" {self.counts} entries ({sum(self.counts)} together), got {lengths} ({sum(lengths)})"
            )


class _Box(ActionPart):
    def __init__(self, space: spaces.Box, name: str, env: str) -> None:
        low, high = as_float32(space.low).ravel(), as_float32(space.high).ravel()
        fixed = np.flatnonzero(~(low < high)).tolist()
        if not low.size or fixed:
            which = f"number {fixed[0]} of " if fixed else ""
            raise ViewError(
                f"{env}: action {name!r}: expected a Box with numbers to choose, low below high as float32,"
                f" got {which}{space}. gymnasium.wrappers.TransformAction fills in what is fixed"
            )
        self.space, self.name = space, name
        self.whole = space.dtype is not None and space.dtype.kind in "biu"
        self.names: dict[str, ActionSpace] = {name: GlobalContinuous(low, high)}

    def decode(self, choices: Choices) -> NDArray[Any]:
        chosen = choices[self.name].astype(np.float64 if self.whole else self.space.dtype)
        chosen = chosen.reshape(-1, *self.space.shape)
        low, high = self.space.low, self.space.high
        if not self.whole:
            return chosen.clip(low, high).astype(self.space.dtype)
        chosen = np.rint(chosen)
        is_low, is_high = chosen <= low.astype(np.float64), chosen >= high.astype(np.float64)
        # float64 rounds the largest limits up, beyond what the dtype holds
        inside = np.where(is_low | is_high, 0, chosen).astype(self.space.dtype)
        return np.where(is_low, low, np.where(is_high, high, inside))

    def masks(self, mask: Any, batch_size: int, place: str) -> dict[str, NDArray[np.bool_]]:
        return {}


class _Composite(ActionPart):
    """Dict and Tuple: the actions of the parts."""

    def __init__(self, parts: Mapping[Any, ActionPart], kind: type, env: str) -> None:
        self.parts, self.kind = parts, kind
        self.names: dict[str, ActionSpace] = {}
        for key, part in parts.items():
            if twice := [name for name in part.names if name in self.names]:
                raise ViewError(
                    f"{env}: action {twice[0]!r}: expected one part of the action space of this name, got"
                    f" another in {key!r}. Rename a key of the space"
                )
            self.names |= part.names
        self.owned = {n: owned for part in parts.values() for n, owned in part.owned.items()}

    def decode(self, choices: Choices) -> Any:
        decoded = {key: part.decode(choices) for key, part in self.parts.items()}
        return decoded if self.kind is dict else tuple(decoded.values())

    def masks(self, mask: Any, batch_size: int, place: str) -> dict[str, NDArray[np.bool_]]:
        flags: dict[str, NDArray[np.bool_]] = {}
        mask = _stacked(mask)
        if isinstance(mask, np.ndarray) and mask.dtype != object:
            return self._split(mask, batch_size, place)
        for lane in [mask] if isinstance(mask, Mapping) else mask:
            _check_parts(lane, self.parts, place)
        for key, part in self.parts.items():
            inner, there = _part_of(mask, key, batch_size)
            flags.update(masks_of(part, inner, there, f"{place}[{key!r}]"))
        return flags

    def _split(self, mask: NDArray[Any], batch_size: int, place: str) -> dict[str, NDArray[np.bool_]]:
        """Of one array (B, sum of C) over all categorical actions, or with a row for each of them."""
        counts = {n: a.mask_columns for n, a in self.names.items() if not a.is_continuous}
        mask = _flat(mask, [*counts.values()], (len(counts),), "/".join(counts), place)
        if mask.shape[1:] != (sum(counts.values()),):
            raise ObservationError(
                f"{place}: expected an array of length {(sum(counts.values()),)}, the masks of all parts"
                f" ({counts}) in a row, got {mask.shape[1:]}. Where only some have one, give a dict of"
                " masks by part, or a tuple with None for the others"
            )
        flags = _flags(mask, (batch_size, sum(counts.values())), "/".join(counts), place)
        return dict(zip(counts, np.split(flags, np.cumsum(list(counts.values()))[:-1], 1), strict=True))


class _OneOf(_Composite):
    """A choice of the alternative, and an action for each alternative; only that of the chosen one counts."""

    def __init__(self, space: spaces.OneOf, name: str, parts: Mapping[int, ActionPart], env: str) -> None:
        super().__init__(parts, tuple, env)
        self.space, self.choice = space, name
        self.names = {name: GlobalCategorical([str(i) for i in parts]), **self.names}

    def decode(self, choices: Choices) -> tuple[tuple[np.int64, Any], ...]:
        decoded = super().decode(choices)
        return tuple(
            (chosen, pick(self.space.spaces[chosen], decoded[chosen], lane))
            for lane, chosen in enumerate(choices[self.choice])
        )
