"""The worker process of a `ProcessVectorEnv`: steps its lanes and writes what they give into shared memory.

The pipe carries small tuples (word, payload) both ways:

    parent                          worker
    "reset" (seeds, options)        "done" infos, the batch being in the result block
    "step" None                     "done" (infos, final infos), the step being in the result block
    "render" None                   "done" frames
    "close" None                    the worker ends
    "actions" name                  attaches to a new action block; no answer
                                    "grow" size: the result block is too small
    "results" name                  attaches to a new result block, and goes on

Where something raises, the worker closes its lanes, answers "failed" (indices, sentence, traceback), and
ends.
"""

from __future__ import annotations

import pickle
import signal
import traceback
from multiprocessing.connection import Connection
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
from numpy.typing import NDArray

from ..ragged import RaggedArray
from .errors import WorkerError
from .lanes import Lanes
from .shared_block import SharedBlock, packed_size, read_actions, step_arrays, write_all


def work(connection: Connection, pickled_env_fns: bytes, first_index: int, num_lanes: int) -> None:
    """Run a worker until it is told to close or its parent is gone. The target of the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    indices = tuple(range(first_index, first_index + num_lanes))
    try:
        _run(connection, pickled_env_fns, first_index)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # the parent is gone
    except Exception as error:
        named = isinstance(error, WorkerError) and error.env_indices
        sentence = (
            str(error)
            if named
            else f"envs {list(indices)}: their worker raised {type(error).__name__}: {error}"
        )
        try:
            connection.send(("failed", (named or indices, sentence, traceback.format_exc())))
        except OSError:
            return


def _run(connection: Connection, pickled_env_fns: bytes, first_index: int) -> None:
    lanes = Lanes(pickle.loads(pickled_env_fns), first_index)
    worker = _Worker(connection, lanes)
    try:
        worker.introduce()
        while worker.serve():
            pass
    finally:
        lanes.close()
        worker.close()


class _Worker:
    def __init__(self, connection: Connection, lanes: Lanes) -> None:
        self.connection = connection
        self.lanes = lanes
        self.actions: SharedBlock | None = None
        self.results: SharedBlock | None = None

    def introduce(self) -> None:
        """Tell the parent what the lanes are like."""
        first = self.lanes.envs[0]
        described = cloudpickle.dumps((self.lanes.observation_space, dict(first.metadata), first.render_mode))
        self.connection.send(("done", described))

    def serve(self) -> bool:
        """Carry out one command; false once there is nothing more to do."""
        word, payload = self.connection.recv()
        if word == "close":
            return False
        if word == "actions":
            self.actions = _replaced(self.actions, payload)
        elif word == "reset":
            reset = self.lanes.reset(*payload)
            return self.answer(list(reset.batch.arrays().values()), reset.infos)
        elif word == "step":
            assert self.actions is not None
            count = len(self.lanes.envs)
            step = self.lanes.step(read_actions(self.actions, self.lanes.action_space, count))
            return self.answer(step_arrays(step), (step.infos, step.final_infos))
        else:
            assert word == "render", word
            self.connection.send(("done", self.lanes.render()))
        return True

    def answer(self, arrays: list[RaggedArray | NDArray[Any]], rest: Any) -> bool:
        """Write `arrays` into the result block, have it enlarged if need be, and send the rest."""
        size = packed_size(arrays)
        if self.results is None or size > self.results.bytes.size:
            self.connection.send(("grow", size))
            word, name = self.connection.recv()
            if word != "results":  # told to close in the meantime
                return False
            self.results = _replaced(self.results, name)
        write_all(self.results, arrays)
        self.connection.send(("done", rest))
        return True

    def close(self) -> None:
        for block in (self.actions, self.results):
            if block is not None:
                block.close()


def _replaced(block: SharedBlock | None, name: str) -> SharedBlock:
    if block is not None:
        block.close()
    return SharedBlock(name=name)
