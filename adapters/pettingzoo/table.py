"""`Table`: games in play, with opponents who play for some of the agents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from ...envs import ObservationError, WorkerError
from .match import LastLook, Match, Outcome
from .opponents import Opponent, Turn


class Table:
    """Plays several matches of one kind.

    A match is over when none of its learners can come to move again. After each move of learners, opponents
    move until it is a learner's turn or the match is over.

    Args:
        matches: the games; `learners` are among the agents of each.
        learners: the agents that are told what to do.
        opponents: who plays for the others.
        last_look: what a learner sees last; see `Match.step`.
        lanes_per_match: how many lanes of a vector environment a match has.

    Raises:
        WorkerError: a game raised, or an opponent in one; all games have been closed.
        ObservationError: a game broke the rules of PettingZoo; the table needs a reset.
    """

    def __init__(
        self,
        matches: Sequence[Match],
        learners: Sequence[str],
        opponents: Mapping[str, Opponent],
        last_look: LastLook,
        lanes_per_match: int = 1,
    ) -> None:
        self.matches = list(matches)
        self.learners = tuple(learners)
        self._learning = frozenset(learners)
        self._opponents = dict(opponents)
        self._last_look = last_look
        self._lanes_per_match = lanes_per_match
        self._rng = np.random.default_rng()
        self._owed = [Outcome() for _ in matches]  # what came of opponents' moves since the last `play`
        self.closed = False

    def reset(self, seed: int | None, options: dict[str, Any] | None) -> None:
        """Start all matches; match i gets `seed` + i. Without a seed all random numbers go on."""
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self._start(range(len(self.matches)), seed, options)

    def restart(self) -> None:
        """Start those matches over that are over."""
        self._start([i for i, match in enumerate(self.matches) if self.is_over(match)], None, None)

    def _start(self, which: Sequence[int], seed: int | None, options: dict[str, Any] | None) -> None:
        for i in which:
            with self.guard(self.matches[i]):
                self.matches[i].reset(None if seed is None else seed + i, options)
            self._owed[i] = Outcome()
        self._play([i for i in which if self._wait_for_opponents(self.matches[i])], {})

    def play(self, actions: Mapping[int, Mapping[str, Any]]) -> list[Outcome]:
        """Let the learners act that must move, then opponents, as long as only they have to.

        Args:
            actions: for each match (by its place in `matches`) the PettingZoo actions of those learners.

        Returns:
            for each match what its agents got, since the last call or the reset.
        """
        self._play([i for i, match in enumerate(self.matches) if not self.is_over(match)], actions)
        owed, self._owed = self._owed, [Outcome() for _ in self.matches]
        return owed

    def _play(self, which: Sequence[int], actions: Mapping[int, Mapping[str, Any]]) -> None:
        while which:
            moves = {i: dict(actions.get(i, {})) for i in which}
            self._add_opponents_moves(moves)
            for i in which:
                match = self.matches[i]
                with self.guard(match):
                    self._owed[i].add(match.step(moves[i], self._look_of_learner))
            which, actions = [i for i in which if self._wait_for_opponents(self.matches[i])], {}

    def _add_opponents_moves(self, moves: Mapping[int, dict[str, Any]]) -> None:
        turns: dict[Opponent, list[tuple[int, Turn]]] = {}
        for i in moves if self._opponents else ():
            match = self.matches[i]
            for agent in match.movers:
                if agent in self._opponents:
                    turns.setdefault(self._opponents[agent], []).append((i, (match, agent)))
        for opponent, its in turns.items():
            first, agent = its[0][1]
            first.doing = f"asking the opponent who plays {agent!r}"
            with self.guard(first):
                chosen = opponent.choose([turn for _, turn in its], self._rng)
            for (i, (_, agent)), action in zip(its, chosen, strict=True):
                moves[i][agent] = action

    def _look_of_learner(self, match: Match, agent: str, terminated: bool) -> Any:
        return self._last_look(match, agent, terminated) if agent in self._learning else None

    def is_over(self, match: Match) -> bool:
        """Whether no learner will move again before the match is reset."""
        return not match.living or match.has_ended(self._learning)

    def _wait_for_opponents(self, match: Match) -> bool:
        return not self.is_over(match) and self._learning.isdisjoint(match.movers)

    def render(self) -> list[Any]:
        """A frame of each match."""
        return [match.env.render() for match in self.matches]

    def close(self) -> None:
        """Close all games, even where one of them raises in doing so. A second call does nothing."""
        matches, self.matches, self.closed = self.matches, [], True
        with ExitStack() as stack:
            for match in matches:
                stack.callback(match.env.close)

    @contextmanager
    def guard(self, match: Match) -> Iterator[None]:
        """Close everything where `match` raises, and say that it did."""
        try:
            yield
        except ObservationError:
            raise
        except Exception as error:
            doing = match.doing
            try:
                self.close()
            except Exception as second:
                error.add_note(f"closing the games raised {second!r} in turn")
            first = match.index * self._lanes_per_match
            lanes = range(first, first + self._lanes_per_match)
            message = f"{match.place} raised {type(error).__name__} in {doing}: {error}"
            raise WorkerError(message, lanes) from error
