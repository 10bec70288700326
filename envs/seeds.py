"""The seeds of lanes: one for each, as Gymnasium derives them from a single one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

Seeds = int | Sequence[int | None] | None


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
        seeds = [None if value is None else int(value) for value in seed]
    if len(seeds) != num_envs:
        raise ValueError(f"seed: expected {num_envs} seeds for {num_envs} envs, got {len(seeds)} seeds")
    given = [value for value in seeds if value is not None]
    if given and min(given) < 0:
        raise ValueError(f"seed: expected no negative number, got {min(given)}")
    return seeds
