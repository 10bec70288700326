"""`GameRunner`: run games with opponents that act for some of the agents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...envs import ObservationError, WorkerError
from .game import FinalObserver, FinalStep, GameStep, PettingZooGame
from .opponents import GameOpponent, Turn
from .parallel_game import ParallelGame

#: Combined with the seed of a reset, so that opponents and games use different random numbers.
_STREAM = 0x0990


class GameRunner:
    """Runs several games of one kind.

    A game is over when none of its learners can act again. After each step of learners, opponents act until
    it is a learner's turn or the game is over.

    Args:
        games: `learners` are among the agents of each.
        learners: the agents that get actions from outside.
        opponents: the controllers of the other agents.
        observe_final: returns a learner's last observation; see `PettingZooGame.step`.
        lanes_per_game: the number of lanes that each game has in a vector environment.

    Raises:
        WorkerError: a game or an opponent raised; all games have been closed.
        ObservationError: a game broke PettingZoo's rules; reset before the next step.
    """

    def __init__(
        self,
        games: Sequence[PettingZooGame],
        learners: Sequence[str],
        opponents: Mapping[str, GameOpponent],
        observe_final: FinalObserver,
        lanes_per_game: int = 1,
    ) -> None:
        self.games = list(games)
        self.learners = tuple(learners)
        self._learning = frozenset(learners)
        self._opponents = dict(opponents)
        self._last_look = observe_final
        self._lanes_per_game = lanes_per_game
        self._rng = np.random.default_rng()
        self._pending = [GameStep() for _ in games]  # results of opponents' actions since the last `play`
        self.closed = False

    def reset(self, seed: int | None, options: dict[str, Any] | None) -> None:
        """Reset all games; game i gets `seed` + i. Without a seed all random numbers continue."""
        if seed is not None:
            self._rng = np.random.default_rng([seed, _STREAM])
        self._start(range(len(self.games)), seed, options)

    def restart(self) -> None:
        """Reset the games that are over."""
        self._start([i for i, game in enumerate(self.games) if self.is_over(game)], None, None)

    def _start(self, which: Sequence[int], seed: int | None, options: dict[str, Any] | None) -> None:
        for i in which:
            with self.guard(self.games[i]):
                self.games[i].reset(None if seed is None else seed + i, options)
            self._pending[i] = GameStep()
        self._play([i for i in which if self._awaits_opponents(self.games[i])], {})

    def play(self, actions: Mapping[int, Mapping[str, Any]]) -> list[GameStep]:
        """Step the learners that must act, then opponents until a learner must act again.

        Args:
            actions: game's position in `games` -> PettingZoo action by learner.

        Returns:
            for each game the rewards and ended agents since the last call or reset.
        """
        self._play([i for i, game in enumerate(self.games) if not self.is_over(game)], actions)
        pending, self._pending = self._pending, [GameStep() for _ in self.games]
        return pending

    def play_arrays(self, actions: NDArray[np.int64]) -> tuple[NDArray[np.float64], dict[int, FinalStep]]:
        """Play games of which all possible agents are learners as `play` does, by `ParallelGame.step_arrays`.

        Args:
            actions: of the agents of the first game, then of the second, and so on (B,).

        Returns:
            rewards (B,), and the last step of agents that ended, by lane.
        """
        rewards, width = np.zeros(len(actions)), len(self.learners)
        ended: dict[int, FinalStep] = {}
        for start, game in zip(range(0, len(actions), width), self.games, strict=True):
            if self.is_over(game):
                continue
            lanes = slice(start, start + width)
            with self.guard(game):
                assert isinstance(game, ParallelGame)
                rewards[lanes], its = game.step_arrays(actions[lanes], self._observe_learner)
            ended |= {start + number: step for number, step in its.items()}
        return rewards, ended

    def _play(self, which: Sequence[int], actions: Mapping[int, Mapping[str, Any]]) -> None:
        while which:
            moves = {i: dict(actions.get(i, {})) for i in which}
            self._add_opponents_actions(moves)
            for i in which:
                game = self.games[i]
                with self.guard(game):
                    self._pending[i].add(game.step(moves[i], self._observe_learner))
            which, actions = [i for i in which if self._awaits_opponents(self.games[i])], {}

    def _add_opponents_actions(self, moves: Mapping[int, dict[str, Any]]) -> None:
        turns: dict[GameOpponent, list[tuple[int, Turn]]] = {}
        for i in moves if self._opponents else ():
            game = self.games[i]
            for agent in game.acting:
                if agent in self._opponents:
                    turns.setdefault(self._opponents[agent], []).append((i, (game, agent)))
        for opponent, its in turns.items():
            first, agent = its[0][1]
            first.doing = f"the action of the opponent {agent!r}"
            with self.guard(first):
                chosen = opponent.choose([turn for _, turn in its], self._rng)
            for (i, (_, agent)), action in zip(its, chosen, strict=True):
                moves[i][agent] = action

    def _observe_learner(self, game: PettingZooGame, agent: str, terminated: bool) -> Any:
        return self._last_look(game, agent, terminated) if agent in self._learning else None

    def is_over(self, game: PettingZooGame) -> bool:
        """Return True if no learner will act again before the game is reset."""
        return not game.agents or game.has_ended(self._learning)

    def _awaits_opponents(self, game: PettingZooGame) -> bool:
        return not self.is_over(game) and self._learning.isdisjoint(game.acting)

    def set_progress(self, fraction: float) -> None:
        """Pass the progress of training on to the games that have a method `set_progress`."""
        for game in self.games:
            with self.guard(game):
                game.set_progress(fraction)

    def render(self) -> list[Any]:
        """Return a frame of each game."""
        return [game.env.render() for game in self.games]

    def close(self) -> None:
        """Close all games, even where one of them raises in doing so. A second call does nothing."""
        games, self.games, self.closed = self.games, [], True
        with ExitStack() as stack:
            for game in games:
                stack.callback(game.env.close)

    @contextmanager
    def guard(self, game: PettingZooGame) -> Iterator[None]:
        """Close all games if `game` raises, and raise a WorkerError that names it."""
        try:
            yield
        except ObservationError:
            raise
        except Exception as error:
            doing = game.doing
            try:
                self.close()
            except Exception as second:
                error.add_note(f"closing the games also raised {second!r}")
            first = game.index * self._lanes_per_game
            lanes = range(first, first + self._lanes_per_game)
            message = f"{game.label} raised {type(error).__name__} in {doing}: {error}"
            raise WorkerError(message, lanes) from error
