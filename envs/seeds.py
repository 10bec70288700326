"""Seeds of lanes, one for each, as Gymnasium derives them from a single one; and their generators."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

Seeds = int | Sequence[int | None] | None

#: Of evaluations: far from the seeds of trainings and recordings, whose episodes they would play again.
EVALUATION_SEED = 1_000_003


def lane_seeds(seed: Seeds, num_envs: int) -> list[int | None]:
    """The seed of each of `num_envs` lanes: lane i gets `seed + i`, or the i-th of a sequence.

    Raises:
        ValueError: a sequence of another length, a negative seed, or something else.
    """
    if seed is None:
        return [None] * num_envs
    if isinstance(seed, (int, np.integer)):
        seeds: list[int | None] = [int(seed) + lane for lane in range(num_envs)]
    elif isinstance(seed, str) or not isinstance(seed, Iterable):
        raise ValueError(f"seed: expected a whole number, or one for each env, got {seed!r}")
    else:
        seeds = [None if value is None else _whole(value) for value in seed]
    if len(seeds) != num_envs:
        raise ValueError(f"seed: expected {num_envs} seeds for {num_envs} envs, got {len(seeds)} seeds")
    given = [value for value in seeds if value is not None]
    if given and min(given) < 0:
        raise ValueError(f"seed: expected no negative number, got {min(given)}")
    return seeds


def _whole(value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise ValueError(f"seed: expected whole numbers, got {value!r}") from None


def lane_generators(
    seeds: Sequence[int | Sequence[int] | None], before: Sequence[np.random.Generator] = ()
) -> list[np.random.Generator]:
    """Return a generator per lane or game: a new one for a seed, else the one of `before`.

    Where `before` is empty, those without a seed are seeded by the operating system.
    """
    return [
        before[i] if seed is None and before else np.random.default_rng(seed) for i, seed in enumerate(seeds)
    ]
