"""Outcomes of the rounds of a game of several players."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Result:
    """The end of a round for a player."""

    total: float | None = None  # the last score, or the sum of all rewards
    outcome: str | None = None  # "win", "draw" or "loss", where the game says so


#: Totals that differ by no more are equal.
_EVEN = 1e-6


def outcomes_of(results: Iterable[Result | None]) -> list[str | None]:
    """Return each player's outcome: the one that it says, else by the largest total; None where unknown."""
    known = list(results)
    totals = [None if result is None else result.total for result in known]
    outcomes: list[str | None] = []
    for number, result in enumerate(known):
        outcome = None if result is None else result.outcome
        others = totals[:number] + totals[number + 1 :]
        if outcome is None and others and None not in totals:
            lead = totals[number] - max(others)  # type: ignore[operator,type-var]
            outcome = "draw" if abs(lead) <= _EVEN else "win" if lead > 0 else "loss"
        outcomes.append(outcome)
    return outcomes
