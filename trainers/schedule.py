"""Schedules: annealing, and events every so many steps."""

from __future__ import annotations


def annealed(initial: float, fraction_done: float) -> float:
    """`initial`, falling linearly to 0 as `fraction_done` rises to 1; 0 beyond."""
    return initial * max(0.0, 1.0 - fraction_done)


def is_due(steps_before: int, steps_after: int, interval: int) -> bool:
    """Return True if a multiple of `interval` lies in (steps_before, steps_after]."""
    return steps_after // interval > steps_before // interval
