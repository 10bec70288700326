"""`ProgramVectorEnv`: games with loops of their own, each in a thread, as one vector environment."""

from __future__ import annotations

import traceback
import warnings
import weakref
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from ...envs.batch.entity_batch import EntityBatch, batch_observations
from ...envs.batch.resolve import Observation, ResolvedObservation, Resolver
from ...envs.errors import WorkerError, positive_number, whole_number
from ...envs.registration import share_lanes
from ...envs.seeds import lane_generators
from ...envs.spaces import EntitySpace
from ...envs.vector.vector_env import EntityVectorEnv, StepResult
from ...ragged import RaggedArray
from .game import Program
from .game_thread import GameThread, stop_games
from .lane import Exchange, Lane, Report, SharedGame

#: The folders of our own code between a game and its error.
_NOT_THE_GAMES = tuple(Path(__file__).resolve().parents[2] / part for part in ("adapters", "envs"))
#: Seconds that a worker may take, after a game has hung for `timeout`, to end its games and to report it.
_MARGIN = 10.0


def make_vec(
    program: Program,
    num_envs: int = 1,
    num_workers: int = 0,
    timeout: float | None = 60.0,
    **options: Any,
) -> EntityVectorEnv:
    """Run `num_envs` games of `program`, each in a thread.

    Args:
        num_workers: how many processes share the threads; 0: they are in this one.
        timeout: of `ProgramVectorEnv`. `worker_timeout` is longer, so that the error names the game.
        options: of `ProgramVectorEnv`; with workers also those of `share_lanes`.

    Raises:
        TypeError, ValueError: an option is unknown or out of its range.
    """
    options.setdefault("worker_timeout", None if timeout is None else timeout + _MARGIN)
    make = partial(ProgramVectorEnv, program)
    return share_lanes(make, num_envs, num_workers, timeout=timeout, **options)


class QuestionVectorEnv(EntityVectorEnv):
    """A vector environment whose lanes are games that ask. Abstract.

    A step answers the questions at hand and waits for the next ones: for those of all games, or, `max_wait`
    seconds after the answers, for at least one. A lane whose game has not asked by then is inactive. Only
    games know the last observation of an episode, so that `final_obs` holds those that games give.

    Args:
        space: what the games ask.
        num_envs: the number of lanes.
        max_wait: see above, in seconds; None: always wait for all games.
        timeout: seconds without a question after which a game counts as hanging; None: never.

    Raises:
        TypeError, ValueError: a number is out of its range.
    """

    def __init__(
        self,
        space: EntitySpace,
        num_envs: int,
        max_wait: float | None = None,
        timeout: float | None = 60.0,
    ) -> None:
        where = type(self).__name__
        self.num_envs = whole_number(f"{where}: num_envs", num_envs)
        self.max_wait = None if max_wait is None else positive_number(f"{where}: max_wait", max_wait)
        self.timeout = None if timeout is None else positive_number(f"{where}: timeout", timeout)
        self.single_observation_space, self.single_action_space = space, space.actions
        self.metadata = {
            "autoreset_mode": AutoresetMode.SAME_STEP,
            "final_obs": False,
            "render_modes": [],
        }
        self._exchange = Exchange()
        self._lanes: list[Lane] = []
        self._asked: list[bool] = []
        nothing = Observation(globals=np.zeros(len(space.global_features), np.float32))
        self._absent = Resolver(space, where).resolve(nothing)

    def _step(self, actions: dict[str, RaggedArray]) -> StepResult:
        parts = [(name, given.values, given.offsets.tolist()) for name, given in actions.items()]
        active = [(number, lane) for number, lane in enumerate(self._lanes) if self._asked[number]]
        with self._exchange.changed:
            for _, lane in active:
                lane.expect()
        for number, lane in active:
            lane.answer({name: values[cuts[number] : cuts[number + 1]] for name, values, cuts in parts})
        reports = self._reports()
        info = self._info(reports)
        finals = {n: report.final for n, report in enumerate(reports) if report.final is not None}
        if finals:
            info["final_obs"] = self._batch(list(finals.values()))
            info["_final_obs"] = np.isin(np.arange(self.num_envs), list(finals))
        if any(report.outcome for report in reports):
            info["outcome"] = np.array([report.outcome for report in reports], np.object_)
            info["_outcome"] = np.array([report.outcome is not None for report in reports])
        return (
            self._batch([report.question for report in reports]),
            np.array([report.reward for report in reports], np.float32),
            np.array([report.is_over and not report.is_truncated for report in reports]),
            np.array([report.is_over and report.is_truncated for report in reports]),
            info,
        )

    def _reports(self) -> list[Report]:
        """Wait for questions and return what happened in each lane.

        Raises:
            WorkerError: a game failed or hangs; it is named.
        """
        hanging = self._exchange.wait(self._lanes, self.max_wait, self.timeout)
        if hanging:
            raise WorkerError(
                f"{self._where}: {', '.join(lane.name for lane in hanging)}: expected a question or the end"
                f" of the program within {self.timeout:g} seconds, got none. Ask more often, or give a longer"
                " timeout",
                [self.first_lane + self._lanes.index(lane) for lane in hanging],
            )
        with self._exchange.changed:
            for lane in self._exchange.failed:
                raise self._failure(lane)
            reports = [lane.take() for lane in self._lanes]
        self._asked = [report.question is not None for report in reports]
        return reports

    def _failure(self, lane: Lane) -> WorkerError:
        error = lane.error
        assert error is not None
        number = self._lanes.index(lane)
        failure = WorkerError(
            f"{lane.name} raised {type(error).__name__}{_place(error)}: {error}", (self.first_lane + number,)
        )
        failure.__cause__ = error
        return failure

    def _info(self, reports: Sequence[Report]) -> dict[str, Any]:
        return {} if all(self._asked) else {"inactive": ~np.array(self._asked)}

    def _batch(self, observations: Sequence[ResolvedObservation | None]) -> EntityBatch:
        space = self.single_observation_space
        return batch_observations(space, [(o or self._absent).plain(space) for o in observations])


class ProgramVectorEnv(QuestionVectorEnv):
    """Runs games with loops of their own, each in a thread, as one vector environment.

    The games of all lanes run at the same time, as far as Python lets threads do so. See `QuestionVectorEnv`
    for what a step waits for. `reset` ends all games and starts them anew: `agent.rng` of lane i is seeded
    with `seed + i`.

    Args:
        program: the game; see `ez.program`.
        num_envs, max_wait, timeout: as for `QuestionVectorEnv`.

    Raises:
        TypeError: `program` is no `Program`.
        TypeError, ValueError: a number is out of its range.
        WorkerError: by `reset` and `step`: a game raised, returned in the middle of an episode, or hangs. It
            is named, and all games have been ended.
    """

    def __init__(
        self,
        program: Program,
        num_envs: int = 1,
        max_wait: float | None = None,
        timeout: float | None = 60.0,
    ) -> None:
        if not isinstance(program, Program):
            raise TypeError(f"ProgramVectorEnv: program: expected a Program, got {program!r}. Use ez.program")
        super().__init__(program.observation_space, num_envs, max_wait, timeout)
        self.program = program
        self._name = f"ProgramVectorEnv({program.name})"
        self._games: list[GameThread] = []
        self._rngs: list[np.random.Generator] = []
        # Also runs when this object is forgotten, or at the interpreter's exit.
        self._stop_games = weakref.finalize(self, _stop_and_warn, self._games)

    def _reset(
        self, seeds: list[int | None], options: dict[str, Any] | None
    ) -> tuple[EntityBatch, dict[str, Any]]:
        hanging = stop_games(self._games)
        self._games.clear()
        if hanging:
            raise WorkerError(f"{self._where}: {', '.join(hanging)}: expected an end at reset, got none")
        self._rngs = lane_generators(seeds, self._rngs)
        self._exchange = Exchange()
        names = [f"game {self.first_lane + number} ({self.program.name})" for number in range(self.num_envs)]
        self._lanes = [Lane(name, SharedGame(self._exchange)) for name in names]
        for lane, rng in zip(self._lanes, self._rngs, strict=True):
            self._games.append(GameThread(self.program, lane, rng))
        reports = self._reports()
        return self._batch([report.question for report in reports]), self._info(reports)

    def close_extras(self, **kwargs: Any) -> None:
        self._exchange.close()
        self._stop_games()


def _stop_and_warn(games: list[GameThread]) -> None:
    hanging = stop_games(games)
    games.clear()
    if hanging:
        warnings.warn(
            f"{', '.join(hanging)}: expected an end of the game when training stopped, got none: its thread"
            " is left running",
            RuntimeWarning,
            stacklevel=2,
        )


def _place(error: BaseException) -> str:
    """Return where in the game's own code `error` was raised: " at game.py:12 in main"."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if not any(map(Path(f.filename).resolve().is_relative_to, _NOT_THE_GAMES))]
    return f" at {Path(own[-1].filename).name}:{own[-1].lineno} in {own[-1].name}" if own else ""
