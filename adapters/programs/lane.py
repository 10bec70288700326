"""`Lane`: where one game asks and a vector environment answers; `Exchange`: the lanes of one environment.

Games call `ask`, `end` and `fail` from threads of their own. The environment calls the rest from one thread.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Condition, RLock
from typing import Any

import gymnasium
from numpy.typing import NDArray

from ...envs.batch.resolve import ResolvedObservation
from ...envs.waiting import waiting_for_games
from .outcomes import Result, outcomes_of

#: The actions of one step, by name (A, …).
Answer = Mapping[str, NDArray[Any]]


class GameStopped(BaseException):
    """Raised inside `agent.act` and `agent.game_over` to end a game whose training ends or starts over.

    A BaseException, so that a game's `except Exception` lets it pass.
    """


@dataclass(slots=True)
class Report:
    """A lane since the step before."""

    question: ResolvedObservation | None = None  # None: the game has not asked
    reward: float = 0.0
    is_over: bool = False
    is_truncated: bool = False
    final: ResolvedObservation | None = None  # the last observation of the episode that is over
    outcome: str | None = None  # "win", "draw" or "loss", of the round that is over


class Exchange:
    """Shared by the lanes of one vector environment: a lock, and counts of those that have asked.

    Attributes:
        lock: guards this object, all games and all lanes.
        changed: notified when a waiting step may continue; with that lock.
        asked: how many lanes have a question.
        pending: how many games have no question since their last answer.
        failed: the lanes whose games have failed.
        ended: what waiting steps raise from now on; None: they may wait.
        has_begun: a game has been in a lane.
        is_left: steps do not wait, because all games have left.
    """

    def __init__(self) -> None:
        self.lock = RLock()
        self.changed = Condition(self.lock)
        self.asked = self.pending = 0
        self.failed: list[Lane] = []
        self.ended: Exception | None = None
        self.has_begun = self.is_left = False
        self._is_late = False  # whether one question is enough for the step to continue

    def wait(self, lanes: Sequence[Lane], max_wait: float | None, timeout: float | None) -> list[Lane]:
        """Wait until every lane with a game has asked; after `max_wait` seconds until one has.

        Ends early where a game has failed.

        Returns:
            the lanes whose games have not asked for `timeout` seconds; empty where the step can continue.

        Raises:
            gymnasium.error.ClosedEnvironmentError: another thread has closed the environment.
            Exception: what `close` got.
        """
        late_at = None if max_wait is None else time.monotonic() + max_wait
        with self.changed:
            self._is_late = False
            while not self._may_continue():
                now = time.monotonic()
                ends = [] if late_at is None or self._is_late else [late_at - now]
                if ends and ends[0] <= 0:
                    self._is_late = True
                    continue
                if timeout is not None:
                    ends += [lane.answered_at + timeout - now for lane in lanes if lane.is_pending]
                    hanging = [
                        lane for lane in lanes if lane.is_pending and now >= lane.answered_at + timeout
                    ]
                    if hanging:
                        return hanging
                with waiting_for_games(lambda: not self.asked and not self.pending):
                    self.changed.wait(min(ends, default=None))
            if self.ended is not None:
                raise self.ended
        return []

    def close(self, error: Exception | None = None) -> None:
        """End a waiting step with `error`, and let none wait from now on."""
        with self.changed:
            self.ended = error or gymnasium.error.ClosedEnvironmentError(
                "closed while a step waited for questions"
            )
            self.changed.notify()

    def leave(self) -> None:
        """Let no step wait until the next game comes."""
        with self.changed:
            self.is_left = self.has_begun
            self.changed.notify()

    def notify(self) -> None:
        """Wake a waiting step if it may continue. The caller holds the lock."""
        if self._may_continue():
            self.changed.notify()

    def _may_continue(self) -> bool:
        if self.ended is not None or self.failed or self.is_left:
            return True
        return self.asked > 0 and (self._is_late or not self.pending)


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


class Lane:
    """The questions of one player of a game and their answers.

    Attributes:
        name: what errors call the game.
        question: waits for its answer; None: there is none.
        is_pending: there is a game, and it has not asked since its last answer.
        is_in_episode: the running episode has had a question.
        round: the number of the game's that it has joined last.
        is_at_start: the question is the first of its episode.
        is_skipping: nobody watches the rest of the running episode.
        is_stopped: the game is to stop.
        answered_at: when it got that answer, or began.
        error: what ended the game before its time.
    """

    def __init__(self, name: str, game: SharedGame) -> None:
        self.name = name
        self.question: ResolvedObservation | None = None
        self.is_pending = False
        self.answered_at = 0.0
        self.error: BaseException | None = None
        self.is_in_episode = self.is_at_start = self.is_skipping = False
        self.round = 0
        self._game, self._exchange = game, game.exchange
        self._report = Report()
        self._answers: SimpleQueue[Answer | GameStopped | None] = SimpleQueue()
        self.is_stopped = False
        self._is_asking = False
        game.lanes.append(self)

    # -- what a game calls ----------------------------------------------------------------------------------

    def begin(self) -> None:
        """Enter the lane with a game: steps wait for its questions."""
        with self._exchange.changed:
            self.answered_at = time.monotonic()
            self._exchange.has_begun, self._exchange.is_left = True, False
            self._set_pending(True)

    def ask(self, question: ResolvedObservation, reward: float) -> Answer | None:
        """Hand in a question with the reward since the last one; wait for its answer.

        Returns:
            the answer; None: any will do, as nobody watches the rest of the episode.

        Raises:
            GameStopped: there will be none.
            RuntimeError: another thread waits for an answer.
        """
        with self._exchange.changed:
            self._check_going()
            if self._is_asking:
                raise RuntimeError(
                    f"{self.name}: expected one question at a time, got one of a second thread"
                )
            is_first = not self.is_in_episode
            if is_first:
                self._game.begin(self)
            self.is_in_episode = True
            if self.is_skipping:
                return None
            self.is_at_start, self._is_asking = is_first, True
            self.question = question
            self._report.reward += reward
            self._exchange.asked += 1
            self._set_pending(False)
            self._exchange.notify()
        answer = self._answers.get()
        self._is_asking = False
        if isinstance(answer, GameStopped):
            raise answer
        return answer

    def end(
        self,
        reward: float,
        is_truncated: bool,
        final: ResolvedObservation | None,
        result: Result | None = None,
    ) -> None:
        """End an episode, or without one a round in which this player had no question.

        Raises:
            GameStopped: the game is to stop.
        """
        with self._exchange.changed:
            self._check_going()
            was_playing, self.is_in_episode = self.is_in_episode, False
            if was_playing and not self.is_skipping:
                report = self._report
                report.reward += reward
                report.is_over, report.is_truncated, report.final = True, is_truncated, final
            self._game.end(self, result or Result())

    def tell(self, outcome: str | None, is_over: bool) -> None:
        """Report the outcome of a round, and its end to a player who had no question. The caller locks."""
        self._report.outcome = outcome
        self._report.is_over |= is_over

    @property
    def is_shared(self) -> bool:
        """True where the game has other players."""
        return len(self._game.lanes) > 1

    def fail(self, error: BaseException) -> None:
        """End the game with an error, which the next step raises."""
        with self._exchange.changed:
            self.error = error
            self._exchange.failed.append(self)
            self._set_pending(False)
            self._exchange.notify()

    def leave(self) -> None:
        """Leave the lane, between questions: steps no longer wait for the game."""
        with self._exchange.changed:
            self._set_pending(False)
            self._exchange.changed.notify()  # also where a step can't continue: there may be no game left

    def _check_going(self) -> None:
        if self.is_stopped:
            raise GameStopped

    def _set_pending(self, is_pending: bool) -> None:
        self.is_pending = is_pending
        self._game.count()

    # -- what the environment calls -------------------------------------------------------------------------

    def take(self) -> Report:
        """Return what happened since the last call. The caller holds the lock."""
        report, self._report = self._report, Report()
        report.question = self.question
        return report

    def expect(self) -> None:
        """Count the question as answered. The caller holds the lock and calls `answer` afterwards."""
        self.question, self.answered_at = None, time.monotonic()
        self._exchange.asked -= 1
        self.is_at_start = False
        self._set_pending(True)

    def answer(self, actions: Answer | None) -> None:
        """Give the game the answer to its question; it continues. None: any will do."""
        self._answers.put(actions)

    def skip(self) -> bool:
        """Leave out the rest of the running episode; steps do not wait for it. The caller holds the lock.

        Returns:
            whether a question waits that `answer` must answer afterwards.
        """
        waits = self.question is not None
        self.question = None
        self._exchange.asked -= waits
        self.is_skipping, self.is_at_start = True, False
        self._set_pending(False)
        return waits

    def stop(self) -> None:
        """Let the game's present or next call raise `GameStopped`."""
        with self._exchange.changed:
            self.is_stopped = True
            self._game.stop_waiting()
        self._answers.put(GameStopped())
