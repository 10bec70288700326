"""`GameThread`: one game in a thread of its own, from its start to its end."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from threading import Thread

import numpy as np

from .game import Program
from .lane import GameStopped, Lane
from .training_agent import TrainingAgent

#: Seconds that games get to end: first after their call of `act` raised, then after an exception anywhere.
_GRACE = 2.0


class ProgramError(RuntimeError):
    """A game returned where training could not continue."""


class GameThread(Thread):
    """Plays a program again and again until it is stopped; errors go to its lane.

    A daemon thread: a game that can't be ended does not keep the process alive.
    """

    def __init__(self, program: Program, lane: Lane, rng: np.random.Generator) -> None:
        super().__init__(name=lane.name, daemon=True)
        self.lane = lane
        self._program = program
        self._agent = TrainingAgent(program.observation_space, lane, program.name, rng)
        lane.begin()
        self.start()

    def run(self) -> None:
        try:
            while True:
                self._play()
        except GameStopped:
            pass
        except BaseException as error:
            self.lane.fail(error)

    def _play(self) -> None:
        agent = self._agent
        asked = agent.questions
        self._program.main(agent)
        if agent.is_playing:
            raise ProgramError("it returned in the middle of an episode. Call agent.game_over() before")
        if agent.questions == asked:
            raise ProgramError("it returned without a question: expected a call of agent.act")


def stop_games(games: Sequence[GameThread]) -> list[str]:
    """End all games: their calls of the agent raise `GameStopped`.

    In a game that does not call the agent, the exception is raised between two of its own instructions.

    Returns:
        the names of those that have not ended: they wait in a call of the system, or catch everything.
    """
    for game in games:
        game.lane.stop()
    _join(games)
    for game in games:
        if game.is_alive() and game.ident is not None:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(game.ident), ctypes.py_object(GameStopped)
            )
    _join(games)
    return [game.lane.name for game in games if game.is_alive()]


def _join(games: Sequence[GameThread]) -> None:
    end = time.monotonic() + _GRACE
    for game in games:
        game.join(max(0.0, end - time.monotonic()))
