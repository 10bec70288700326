"""What depends on how many environment steps were taken: annealing and when to do what."""

from __future__ import annotations


def annealed(initial: float, steps_done: int, total_steps: int) -> float:
    """`initial`, falling linearly to 0 over `total_steps`; 0 beyond."""
    return initial * max(0.0, 1.0 - steps_done / total_steps)


def is_due(steps_before: int, steps_after: int, interval: int) -> bool:
    """Whether a multiple of `interval` lies in (steps_before, steps_after]."""
    return steps_after // interval > steps_before // interval
