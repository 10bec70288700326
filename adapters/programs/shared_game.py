"""`SharedGame`: the players of one game, and its rounds, an episode of each player who is asked in it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from threading import Condition
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .lane import Exchange, Lane


@dataclass(frozen=True, slots=True)
class Result:
    """How a round ended for a player."""

    total: float | None = None  # the last score, or the sum of all rewards
    outcome: str | None = None  # "win", "draw" or "loss", where the game says so


#: Totals that differ by no more are equal.
_EVEN = 1e-6


class SharedGame:
    """The lanes of the players of one game, most often one: a step waits for a question in any of them.

    All methods are called with the lock of the exchange.
    """

    #: Seconds for messages that were sent before a player's next question, and for the players who think.
    STRAGGLING, THINKING = 0.05, 1.0

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.lanes: list[Lane] = []
        self._is_pending = False
        self._round = 0  # how many the game has begun: an episode of each player who joins
        self._is_reported = True  # the end of the round, to all players
        self._results: dict[Lane, Result] = {}  # of those for whom the round is over
        self._over = Condition(exchange.lock)  # notified when it is over for one

    def begin(self, lane: Lane) -> None:
        """Let the lane begin the game's next round, or join the one that others play.

        Messages of several connections can overtake each other: the next round begins when the last one is
        over for all. A player who comes back while the others take long to ask begins it, too.
        """
        while lane.round == self._round and self._is_playing() and not lane.is_stopped:
            has_ended = self._over.wait(self.THINKING)
            if not has_ended and all(other.question is None for other in self.lanes):
                break
        if not self._is_playing() and not self._is_reported:
            self._over.wait_for(lambda: self._is_reported, self.STRAGGLING)
        if lane.round == self._round or not self._is_playing():
            self._report()
            self._round += 1
            self._is_reported, self._results = False, {}
        lane.round = self._round
        lane.is_skipping = any(other.is_skipping and other.is_in_episode for other in self.lanes)

    def end(self, lane: Lane, result: Result) -> None:
        """Note that the round is over for a player, who need not have had a question in it."""
        if not self._is_reported:
            self._results[lane] = result
            if len(self._results) == len(self.lanes):
                self._report()
        self._over.notify_all()

    def stop_waiting(self) -> None:
        """Wake players who wait for the next round."""
        self._over.notify_all()

    def _is_playing(self) -> bool:
        return any(lane.is_in_episode for lane in self.lanes)

    def _report(self) -> None:
        """Tell all players how the round ended, also those who had no question in it."""
        if self._is_reported:
            return
        self._is_reported = True
        if any(lane.is_skipping and lane.round == self._round for lane in self.lanes):
            return
        for lane, outcome in zip(self.lanes, outcomes_of(map(self._results.get, self.lanes)), strict=True):
            lane.tell(outcome, lane.round < self._round)

    def count(self) -> None:
        """Count the game among those without a question, or no longer."""
        is_pending = any(lane.is_pending for lane in self.lanes)
        is_pending &= all(lane.question is None for lane in self.lanes)
        self.exchange.pending += is_pending - self._is_pending
        self._is_pending = is_pending

    def skip(self) -> list[Lane]:
        """Leave out the rest of the running round, if any, for all players.

        A round of which no question was answered is not left out.

        Returns:
            the lanes whose questions `answer` must answer afterwards.
        """
        for lane in self.lanes:
            lane.take()
        if not self._is_playing():
            self._is_reported = True
        if not any(lane.is_in_episode and not lane.is_at_start for lane in self.lanes):
            return []
        return [lane for lane in self.lanes if lane.is_in_episode and lane.skip()]


def outcomes_of(results: Iterable[Result | None]) -> list[str | None]:
    """Return who has won: what the players say, else who has the most; None where that is not known."""
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
