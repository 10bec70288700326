"""Actions of real numbers: `Continuous`, per actor, and `GlobalContinuous`, once per step.

Shape alphabet: A actors, K numbers per actor.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from .action_spaces import (
    ActionSpace,
    array_problem,
    flag_space,
    index_space,
    indices_problem,
    keys_problem,
    subset,
)


class Continuous(ActionSpace):
    """Each actor picks K real numbers between `low` and `high`.

    Action: float32 (A, K), one row per actor in the order of the observation's `actors`; none orders nothing.
    Observation part: `actors` int64 (A,) entity indices, `mask` int8 (A, 0): who acts, nothing to forbid.

    Args:
        low, high: bounds (K,), or numbers for K = 1; infinite where there is none.

    Raises:
        ValueError: bounds of different lengths, or none, or low not below high.
    """

    def __init__(self, low: ArrayLike, high: ArrayLike, seed: int | None = None) -> None:
        self.low, self.high = (np.atleast_1d(np.array(bound, np.float32)) for bound in (low, high))
        if self.low.ndim != 1 or self.low.shape != self.high.shape or len(self.low) == 0:
            shapes = f"{self.low.shape} and {self.high.shape}"
            raise ValueError(f"low and high must be vectors of one length, got shapes {shapes}")
        if not np.all(self.low < self.high):
            raise ValueError(f"low must be below high, got {self.low.tolist()} and {self.high.tolist()}")
        self.item_shape = self.low.shape
        super().__init__(None, np.float32, seed)

    @property
    def size(self) -> int:
        """K, the numbers per actor."""
        return len(self.low)

    def mask_space(self) -> spaces.Dict:
        return spaces.Dict({"actors": index_space(), "mask": flag_space((0,))})

    def mask_problem(self, part: Any, num_entities: int) -> str | None:
        problem = keys_problem(part, ("actors", "mask"))
        if problem:
            return problem
        problem = indices_problem(part["actors"], num_entities)
        if problem:
            return f"'actors' {problem}"
        problem = array_problem(part["mask"], np.int8, (len(part["actors"]), 0))
        return f"'mask' {problem}" if problem else None

    def sample_mask(self, num_entities: int, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
        actors = subset(num_entities, rng)
        return {"actors": actors, "mask": np.zeros((len(actors), 0), np.int8)}

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> NDArray[np.float32]:
        """Uniform between finite bounds; unbounded numbers are normal, half-bounded ones exponential."""
        return self.draw(0 if mask is None else len(mask["mask"]), self.np_random)

    def draw(self, rows: int, rng: np.random.Generator) -> NDArray[np.float32]:
        """Random numbers (rows, K), distributed as those of `gymnasium.spaces.Box.sample`."""
        has_low, has_high = np.isfinite(self.low), np.isfinite(self.high)
        drawn = rng.normal(size=(rows, self.size))
        both, above, below = has_low & has_high, has_low & ~has_high, ~has_low & has_high
        drawn[:, both] = rng.uniform(self.low[both], self.high[both], (rows, both.sum()))
        drawn[:, above] = self.low[above] + rng.exponential(size=(rows, above.sum()))
        drawn[:, below] = self.high[below] - rng.exponential(size=(rows, below.sum()))
        return drawn.astype(np.float32).clip(self.low, self.high)  # rounding may step over a bound

    def contains_choices(self, choices: Any) -> bool:
        """Whether `choices` (n, K) are real numbers within the bounds, for any number of actors."""
        return (
            isinstance(choices, np.ndarray)
            and choices.ndim == 2
            and choices.shape[1] == self.size
            and np.issubdtype(choices.dtype, np.floating)
            and bool(np.all((choices >= self.low) & (choices <= self.high)))
        )

    def __eq__(self, other: object) -> bool:
        return (
            type(self) is type(other)
            and np.array_equal(self.low, other.low)
            and np.array_equal(self.high, other.high)
        )

    def __hash__(self) -> int:
        return hash((type(self), self.low.tobytes(), self.high.tobytes()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.low.tolist()}, {self.high.tolist()})"


class GlobalContinuous(Continuous):
    """K real numbers per step, chosen by no entity in particular.

    Action: float32 (1, K), or (0, K) to order nothing and at a step where the action is absent; a plain (K,)
    is accepted too.
    Observation part: `mask` int8 (1, 0), or (0, 0) at a step where the action is absent.
    """

    is_global = True

    def mask_space(self) -> spaces.Dict:
        return spaces.Dict({"mask": flag_space((0,))})

    def mask_problem(self, part: Any, num_entities: int) -> str | None:
        problem = keys_problem(part, ("mask",)) or array_problem(part["mask"], np.int8, (None, 0))
        if problem:
            return f"'mask' {problem}"
        rows = len(part["mask"])
        return (
            f"'mask' has {rows} rows, expected one, or none where the action is absent" if rows > 1 else None
        )

    def sample_mask(self, num_entities: int, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
        return {"mask": np.zeros((int(rng.integers(2)), 0), np.int8)}

    def contains(self, x: Any) -> bool:
        rows = np.atleast_2d(np.asarray(x))
        return len(rows) <= 1 and self.contains_choices(rows)
