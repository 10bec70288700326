"""The worker process of a vector environment: steps its lanes and writes the results into shared memory.

The pipe carries pairs (word, payload) both ways, pickled:

    parent                          worker
    "reset" (seed, pickled options) "done" (info, number of last observations), the batch in the result block
    "step" None                     "done" likewise, the step in the result block
    "render" None                   "done" frames
    "progress" fraction             "done" None
    "close" None                    the worker ends
    "actions" name                  attaches to a new block with the actions of all lanes; no answer
                                    "grow" size: the result block is too small
    "results" name                  attaches to a new result block and continues
                                    "warned" [(text, category)], pickled: before "done", if there is any

Where something raises, the worker closes its lanes, answers "failed" (indices, sentence, traceback, the
error), and ends.
"""

from __future__ import annotations

import pickle
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from multiprocessing.connection import Connection
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import numpy as np

from ....process import INTERRUPTS
from ...errors import WorkerError
from ..vector_env import EntityVectorEnv, StepResult
from .shared_memory import GrowingBlock, StepLayout, read_actions

#: Makes the vector environment of one worker.
VectorEnvFn = Callable[[], EntityVectorEnv]


class ProcessGone(Exception):
    """The process at the other end of the pipe has ended."""


#: Of the place of what can't be pickled, which may contain itself.
_MOST_KEYS = 8


def _place_of_unpicklable(payload: Any) -> str:
    """Return the keys that lead to what can't be pickled, as " at ['infos']['x']"."""
    place = ""
    for _ in range(_MOST_KEYS):
        if not isinstance(payload, dict | tuple | list):
            break
        parts = payload.items() if isinstance(payload, dict) else enumerate(payload)
        for key, part in parts:
            try:
                cloudpickle.dumps(part)
            except Exception:
                place, payload = f"{place}[{key!r}]", part
                break
        else:
            break
    return f" at {place}" if place else ""


def send(connection: Connection, word: str, payload: Any = None) -> None:
    """Do what `connection.send` does, in half of its time, and with classes of the user's script too.

    Raises:
        ProcessGone: the process at the other end has ended.
    """
    try:
        message = pickle.dumps((word, payload), pickle.HIGHEST_PROTOCOL)
    except Exception:  # the script's classes are others here: cloudpickle knows which
        try:
            message = cloudpickle.dumps((word, payload))
        except Exception as error:
            raise TypeError(f"{error}{_place_of_unpicklable(payload)}") from error
    try:
        connection.send_bytes(message)
    except OSError as error:
        raise ProcessGone from error


def receive(connection: Connection) -> tuple[str, Any]:
    """Wait for what the other process sends, and return it.

    Raises:
        ProcessGone: it has ended.
    """
    try:
        message = connection.recv_bytes()
    except (EOFError, OSError) as error:
        raise ProcessGone from error
    word, payload = pickle.loads(message)
    return word, payload


def work(connection: Connection, pickled_env_fn: bytes, lanes: range, num_envs: int) -> None:
    """Run a worker until it receives "close" or its parent is gone. The target of the process.

    Args:
        lanes: its own, out of `num_envs`.
    """
    # Both reach all processes of a group, and are the parent's to handle. Programs that an environment starts
    # inherit the first, not the second: its end tells them to stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTS)  # they were blocked at the start
    try:
        _run(connection, pickled_env_fn, lanes, num_envs)
    except ProcessGone:
        return
    except Exception as error:
        indices: tuple[int, ...] = tuple(lanes)
        sentence = f"envs {list(indices)}: their worker raised {type(error).__name__}: {error}"
        if isinstance(error, WorkerError) and error.env_indices:
            indices, sentence = error.env_indices, str(error)
        try:
            send(connection, "failed", (indices, sentence, traceback.format_exc(), _pickled(error)))
        except ProcessGone:
            return


def _run(connection: Connection, pickled_env_fn: bytes, lanes: range, num_envs: int) -> None:
    warned: list[tuple[str, type[Warning]]] = []

    def show(message: Warning | str, category: type[Warning], *place: Any, **other: Any) -> None:
        warned.append((str(message), category))

    # The parent's filters decide which of them are shown, and how often.
    warnings.showwarning = show
    warnings.simplefilter("always", append=True)
    env = pickle.loads(pickled_env_fn)()
    if not isinstance(env, EntityVectorEnv) or env.num_envs != len(lanes):
        raise TypeError(
            f"env_fn of envs {lanes[0]} to {lanes[-1]}: expected an EntityVectorEnv of {len(lanes)} lanes,"
            f" got {env!r} of {getattr(env, 'num_envs', 'no')} lanes"
        )
    env.first_lane = lanes.start
    with ExitStack() as resources:
        worker = _Worker(connection, env, lanes, num_envs, warned)
        resources.callback(worker.actions.close)
        resources.callback(worker.results.close)
        resources.callback(env.close)
        introduction = env.single_observation_space, dict(env.metadata), env.render_mode, env.lane_games
        worker.done(cloudpickle.dumps(introduction))
        while worker.serve():
            pass


class _Worker:
    def __init__(
        self,
        connection: Connection,
        env: EntityVectorEnv,
        lanes: range,
        num_envs: int,
        warned: list[tuple[str, type[Warning]]],
    ) -> None:
        self.connection, self.env, self.lanes, self.num_envs = connection, env, lanes, num_envs
        self.warned = warned
        self.layout = StepLayout(env.single_observation_space)
        self.actions, self.results = GrowingBlock(), GrowingBlock()

    def serve(self) -> bool:
        """Carry out one command; return False if it was the last."""
        word, payload = receive(self.connection)
        if word == "close":
            return False
        if word == "actions":
            self.actions.attach(payload)
        elif word == "reset":
            seed, options = payload
            batch, info = self.env.reset(seed=seed, options=options and pickle.loads(options))
            count = self.env.num_envs
            nothing = np.zeros(count, bool)
            return self.answer((batch, np.zeros(count, np.float32), nothing, nothing, info))
        elif word == "step":
            space = self.env.single_action_space
            actions = read_actions(self.actions.bytes, space, self.num_envs, self.lanes)
            return self.answer(self.env.step_validated(actions))
        elif word == "render":
            self.done(self.env.render() or ())
        else:
            assert word == "progress", word
            self.env.set_progress(payload)
            self.done(None)
        return True

    def answer(self, step: StepResult) -> bool:
        """Write the step into the result block, have it enlarged if need be, and send the info."""
        info = step[-1]
        final = info.pop("final_obs", None)
        size = self.layout.write(step, final, self.results.bytes)
        if size > len(self.results.bytes):
            send(self.connection, "grow", size)
            word, name = receive(self.connection)
            if word != "results":  # "close" came in the meantime
                return False
            self.results.attach(name)
            self.layout.write(step, final, self.results.bytes)
        self.done((info, 0 if final is None else len(final)))
        return True

    def done(self, payload: Any) -> None:
        if self.warned:
            send(self.connection, "warned", cloudpickle.dumps(self.warned))
            self.warned.clear()
        send(self.connection, "done", payload)


def _pickled(error: Exception) -> bytes | None:
    """Return `error` for the parent, or None if it can't be pickled."""
    try:
        pickled: bytes = cloudpickle.dumps(error)
        pickle.loads(pickled)
    except Exception:
        return None
    return pickled
