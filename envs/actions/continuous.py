"""Continuous actions: `Continuous`, real numbers per actor, and `GlobalContinuous`, once per step.

Shape alphabet: A actors, K numbers per actor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from .action_mask import ActionMask
from .action_space import LEGAL, ActionSpace
from .array_checks import as_float32, finite_words, random_subset, real_numbers
from .mask_reader import MaskReader

#: The largest number of float32.
_LARGEST = np.finfo(np.float32).max


@dataclass
class ContinuousMask:
    """The actors of a `Continuous` action: by id, by type, or (with neither) every entity."""

    actor_ids: Sequence[Hashable] | None = None
    actor_types: Sequence[str] | None = None


@dataclass
class GlobalContinuousMask:
    """States that a `GlobalContinuous` action is available; leave it out of `actions` where it isn't."""


@dataclass(frozen=True)
class ContinuousAction:
    """The numbers of the actors of a `Continuous` action, in the order of `actors`."""

    actors: list[Any]  # entity ids; entity indices where an entity has no id
    values: NDArray[np.float32]  # (A, K)


@dataclass(frozen=True)
class GlobalContinuousAction:
    """The numbers chosen for a `GlobalContinuous` action."""

    values: NDArray[np.float32]  # (K,)


class Continuous(ActionSpace):
    """Each actor picks K real numbers between `low` and `high`.

    Action: float32 (A, K), one row per actor in the order of the observation's `actors`.
    Observation part: `actors` int64 (A,) entity indices, `mask` int8 (A, 0): no number is ever masked.

    Args:
        low, high: bounds (K,), or numbers for K = 1; infinite where there is none.

    Raises:
        TypeError: a bound that is no number or vector of numbers.
        ValueError: bounds of different lengths, or none, or low not below high.
    """

    is_continuous = True
    mask_type: ClassVar[type] = ContinuousMask

    def __init__(self, low: ArrayLike, high: ArrayLike, seed: int | None = None) -> None:
        self.low, self.high = _bound("low", low), _bound("high", high)
        if self.low.ndim != 1 or self.low.shape != self.high.shape or len(self.low) == 0:
            shapes = f"{self.low.shape} and {self.high.shape}"
            raise ValueError(f"low and high: expected vectors of the same length, got shapes {shapes}")
        if not np.all(self.low < self.high):
            raise ValueError(
                f"low: expected numbers below high, got {self.low.tolist()} and {self.high.tolist()}"
            )
        #: What numbers may be: without a bound as large as float32 holds, but not infinite.
        self._least, self._most = np.maximum(self.low, -_LARGEST), np.minimum(self.high, _LARGEST)
        self.item_shape = self.low.shape
        super().__init__(None, np.float32, seed)

    @property
    def size(self) -> int:
        """K, the numbers per actor."""
        return len(self.low)

    def sample_mask(self, num_entities: int, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
        actors = random_subset(num_entities, rng)
        return {"actors": actors, "mask": np.zeros((len(actors), 0), np.int8)}

    def _resolved(self, given: ContinuousMask, step: MaskReader) -> ActionMask:
        actors = step.indices("actor", given.actor_ids, given.actor_types)
        return self.one_step(actors, np.zeros((len(actors), 0), bool))

    # -- rules ----------------------------------------------------------------------------------------------

    @property
    def item_words(self) -> str:
        return f"{self.size} real numbers"

    def actor_without_choice(self, part: ActionMask) -> None:
        return None

    def draw(self, part: ActionMask, rng: np.random.Generator) -> NDArray[np.float32]:
        """Distributed as `gymnasium.spaces.Box.sample`: uniform between finite bounds; unbounded numbers are
        normal, half-bounded ones exponential."""
        rows = part.actors.num_items
        has_low, has_high = np.isfinite(self.low), np.isfinite(self.high)
        drawn = rng.normal(size=(rows, self.size))
        both, above, below = has_low & has_high, has_low & ~has_high, ~has_low & has_high
        drawn[:, both] = rng.uniform(self.low[both], self.high[both], (rows, both.sum()))
        drawn[:, above] = self.low[above] + rng.exponential(size=(rows, above.sum()))
        drawn[:, below] = self.high[below] - rng.exponential(size=(rows, below.sum()))
        return drawn.astype(np.float32).clip(self.low, self.high)  # rounding may step over a bound

    def first_illegal(self, items: NDArray[np.float32], part: ActionMask) -> int:
        """NaN and infinity are illegal."""
        legal = (items >= self._least) & (items <= self._most)
        return LEGAL if legal.all() else int(legal.all(1).argmin())

    def explain(self, item: Any, part: ActionMask, row: int, entity: Callable[[int], str]) -> str:
        k = int(np.argmin((item >= self._least) & (item <= self._most)))
        if not np.isfinite(item[k]):
            return f"number {k}: {finite_words(item[k])}"
        return f"number {k}: expected {self.low[k]} to {self.high[k]}, got {item[k]}"

    def replace_illegal(
        self, items: NDArray[np.float32], part: ActionMask
    ) -> tuple[NDArray[np.float32], int]:
        clipped = items.clip(self._least, self._most)
        return clipped, int((clipped != items).any(1).sum())

    def nonexistent(self, num_entities: int) -> NDArray[np.float32]:
        return np.full(self.item_shape, np.nan, np.float32)  # any other number may be within the bounds

    @property
    def bounds(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        return self.low, self.high

    # -- other forms ----------------------------------------------------------------------------------------

    def to_author(
        self, actors: list[Any], items: NDArray[np.float32], names: Sequence[Any]
    ) -> ContinuousAction | GlobalContinuousAction | None:
        return ContinuousAction(actors, items)

    def from_author(self, given: Mapping[str, Any]) -> Sequence[Any]:
        return list(given["values"])

    def masked_items(self, part: ActionMask) -> Iterator[tuple[str, int, Any]]:
        return iter(())

    def gymnasium_space(self, num_actees: int) -> spaces.Box:
        return spaces.Box(self.low, self.high, dtype=np.float32)

    def schema(self) -> dict[str, Any]:
        """Every float32 is a float to the bit; infinity, which JSON doesn't know, becomes "inf" or "-inf"."""
        low, high = (
            [bound if math.isfinite(bound) else str(bound) for bound in bounds.tolist()]
            for bounds in (self.low, self.high)
        )
        return {"low": low, "high": high}

    @classmethod
    def from_schema(cls, options: Mapping[str, Any]) -> Self:
        low, high = ([float(bound) for bound in options[name]] for name in ("low", "high"))
        return cls(low, high)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.low.tolist()}, {self.high.tolist()})"


def _bound(name: str, given: ArrayLike) -> NDArray[np.float32]:
    """A bound as a float32 vector. What lies outside of float32 is infinite: it bounds nothing."""
    try:
        numbers = real_numbers(given)
        if any(number is None for number in np.asarray(given, object).flat):
            raise ValueError
    except ValueError:
        raise TypeError(f"{name}: expected a number or a vector of numbers, got {given!r}") from None
    return np.atleast_1d(as_float32(numbers))


class GlobalContinuous(Continuous):
    """K real numbers per step, chosen by no entity in particular.

    Action: float32 (1, K), or (0, K) at a step where the action is absent; a plain (K,) is accepted too.
    Observation part: `mask` int8 (1, 0), or (0, 0) at a step where the action is absent.
    """

    is_global = True
    mask_type = GlobalContinuousMask

    def sample_mask(self, num_entities: int, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
        return {"mask": np.zeros((int(rng.integers(2)), 0), np.int8)}

    def _resolved(self, given: GlobalContinuousMask, step: MaskReader) -> ActionMask:  # type: ignore[override]
        return self.one_step(np.full(1, -1, np.int64), np.zeros((1, 0), bool))

    def to_author(
        self, actors: list[Any], items: NDArray[np.float32], names: Sequence[Any]
    ) -> GlobalContinuousAction | None:
        return GlobalContinuousAction(items[0]) if len(items) else None

    def from_author(self, given: Mapping[str, Any]) -> Sequence[Any]:
        return [given["values"]]

    def per_actor(self) -> Continuous:
        return Continuous(self.low, self.high)
