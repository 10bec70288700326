"""`MaskReader`: entity indices and flags from the mask of one action, as its author wrote it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...suggestions import did_you_mean, expected_one_of, listed
from ..errors import ObservationError
from .array_checks import check_unmasked


class MaskReader:
    """Reads the mask of one action of one step.

    Args:
        env_name, action: for errors.
        type_indices: per entity type its place in the space.
        names: per entity index its id, or the index itself where it has none.
        starts: per type the index of its first entity, then the number of entities.
        index_of: the indices of the entities that have an id.
    """

    def __init__(
        self,
        env_name: str,
        action: str,
        type_indices: Mapping[str, int],
        names: Sequence[Any],
        starts: Sequence[int],
        index_of: Mapping[Hashable, int],
    ) -> None:
        self._env_name, self._action = env_name, action
        self._type_indices, self._names, self._starts, self._index_of = type_indices, names, starts, index_of

    def indices(
        self, side: str, ids: Sequence[Hashable] | None, types: Sequence[str] | None, advice: str = ""
    ) -> NDArray[np.int64]:
        """Return the entities given by id, by type (in the given order) or, with neither, all of them.

        Args:
            side: "actor" or "actee".
            advice: follows in the error that both `ids` and `types` are given.
        """
        if ids is not None and types is not None:
            got = f"{side}_ids and {side}_types"
            self.fail(f"{side}s: expected ids or types, got both {got}{advice}")
        try:
            if isinstance(ids, str) or isinstance(types, str):
                raise TypeError  # a string is a sequence of letters, too
            return self._given(side, ids, types)
        except TypeError:
            what, given = ("types", types) if ids is None else ("ids", ids)
            self.fail(f"{side}_{what}: expected a list, got {given!r:.200}")

    def _given(
        self, side: str, ids: Sequence[Hashable] | None, types: Sequence[str] | None
    ) -> NDArray[np.int64]:
        if ids is not None:
            indices = [self._index(side, identity) for identity in ids]
            self._check_once(side, ids)
            return np.array(indices, np.int64)
        if types is None:
            return np.arange(self._starts[-1])
        self._check_once(side, types)
        runs = [self._run(side, name) for name in types]
        return runs[0] if len(runs) == 1 else np.concatenate([np.zeros(0, np.int64), *runs])

    def _check_once(self, side: str, named: Sequence[Hashable]) -> None:
        if len(set(named)) < len(named):
            twice = next(name for position, name in enumerate(named) if name in named[:position])
            self.fail(f"expected different {side}s, got {side} {twice!r} twice")

    def _index(self, side: str, identity: Hashable) -> int:
        try:
            return self._index_of[identity]
        except (KeyError, TypeError):
            self.fail(f"unknown {side} id {identity!r}: {self._expected_id(identity)}")

    def _expected_id(self, identity: Hashable) -> str:
        """Return the rest of the error about an id that is none of this step."""
        starts, known = self._starts, self._index_of
        with_id = set(known.values())
        nameless = [
            name
            for name, t in self._type_indices.items()
            if starts[t] < starts[t + 1] and starts[t] not in with_id
        ]
        ids = f"one of {listed(known)}" if known or not nameless else "got an observation without ids"
        names = [other for other in known if isinstance(other, str)]
        hint = did_you_mean(identity, names) if isinstance(identity, str) else ""
        if any(repr(identity) == repr(other) for other in known):
            hint = ". It looks the same but is not equal (==)"
        elif nameless and (isinstance(identity, int) or not known):
            hint = f". Observation(ids={{{listed(nameless, '{!r}: [...]'.format)}}}) gives entities ids"
        return f"expected an id of this step, {ids}{hint}"

    def _run(self, side: str, name: str) -> NDArray[np.int64]:
        """The indices of the entities of one type."""
        types, starts = self._type_indices, self._starts
        if name not in types:
            self.fail(f"unknown {side} type {name!r}: {expected_one_of(name, types)}")
        return np.arange(starts[types[name]], starts[types[name] + 1])

    def flags(self, given: ArrayLike, shape: tuple[int, ...]) -> NDArray[np.bool_]:
        """Return the author's mask as booleans of exactly `shape`; without actors any empty mask will do."""
        try:
            mask = np.array(given)
            check_unmasked(given)
        except (ValueError, RuntimeError) as error:
            self.fail(f"mask: expected an array of shape {shape}: {error}")
        if mask.size == 0 and 0 in shape:
            return np.zeros(shape, bool)
        if mask.shape != shape:
            self.fail(f"mask: expected shape {shape}, got {mask.shape}")
        if mask.dtype.kind not in "biu":
            self.fail(f"mask: expected booleans, got {mask.dtype}")
        if mask.dtype.kind != "b" and mask.size and not 0 <= mask.min() <= mask.max() <= 1:
            self.fail(f"mask: expected booleans, or 0 and 1, got {mask.min()} to {mask.max()}")
        return mask.astype(bool, copy=False)

    def name(self, index: int) -> str:
        """Return the name of the entity of this index in errors."""
        return repr(self._names[index])

    def fail(self, problem: str) -> NoReturn:
        """Raise an `ObservationError` that names the environment and the action."""
        raise ObservationError(f"{self._env_name}: action {self._action!r}: {problem}") from None
