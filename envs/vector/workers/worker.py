"""The worker process of a vector environment: steps its lanes and writes what they give into shared memory.

The pipe carries small tuples (word, payload) both ways, pickled:

    parent                          worker
    "reset" (seed, options)         "done" (what is pickled of the answer, 0), the batch in the result block
    "step" None                     "done" (likewise, number of last observations), the step in the block
                                    "columns" formats: before "done", where other columns of infos than last
                                    time stand at the beginning of the block
    "render" None                   "done" frames
    "progress" fraction             "done" None
    "close" None                    the worker ends
    "actions" name                  attaches to a new block with the actions of all lanes; no answer
                                    "grow" size: the result block is too small
    "results" name                  attaches to a new result block, and goes on
                                    "warned" [(text, category)], pickled: before "done", if there is any

Where something raises, the worker closes its lanes, answers "failed" (indices, sentence, traceback, the
error), and ends.

The parent says STEP for a step, and the worker NOTHING_MORE if nothing is to be pickled, which is the case
at most steps of vector environments.
"""

from __future__ import annotations

import pickle
import signal
import traceback
import warnings
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import cloudpickle  # type: ignore[import-untyped]
import numpy as np

from ...errors import WorkerError
from .answers import Answer, AnswerLayout, Formats, columns_size, formats_of, split_info, write_columns
from .shared_block import SharedBlock, read_actions
from .worker_hosts import Host

#: Short forms of ("step", None) and of ("done", ({}, 0)).
STEP, NOTHING_MORE = b"step", b"done"

_NO_MEMORY = np.empty(0, np.uint8)


class Terms(NamedTuple):
    """The arguments of a worker beside its lanes."""

    lanes: range  # its own
    num_envs: int  # the number of all lanes


def work(connection: Connection, pickled_host_fn: bytes, terms: Terms) -> None:
    """Run a worker until it is told to close or its parent is gone. The target of the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    indices = tuple(terms.lanes)
    try:
        _run(connection, pickled_host_fn, terms)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # the parent is gone
    except Exception as error:
        named = isinstance(error, WorkerError) and error.env_indices
        sentence = (
            str(error)
            if named
            else f"envs {list(indices)}: their worker raised {type(error).__name__}: {error}"
        )
        failure = (named or indices, sentence, traceback.format_exc(), _pickled(error))
        try:
            connection.send(("failed", failure))
        except OSError:
            return


def _run(connection: Connection, pickled_host_fn: bytes, terms: Terms) -> None:
    warned: list[tuple[str, type[Warning]]] = []

    def show(message: Warning | str, category: type[Warning], *place: Any, **other: Any) -> None:
        warned.append((str(message), category))

    # The parent's filters say which of them are seen, and how often.
    warnings.showwarning = show
    warnings.simplefilter("always", append=True)
    host = pickle.loads(pickled_host_fn)()
    worker = _Worker(connection, host, terms, warned)
    try:
        worker.done(cloudpickle.dumps(host.introduction))
        while worker.serve():
            pass
    finally:
        host.close()
        worker.close()


class _Worker:
    def __init__(
        self, connection: Connection, host: Host, terms: Terms, warned: list[tuple[str, type[Warning]]]
    ) -> None:
        self.connection = connection
        self.host = host
        self.terms = terms
        self.warned = warned
        self.layout = AnswerLayout(host.introduction.space)
        self.columns: Formats = ()
        self.actions: SharedBlock | None = None
        self.results: SharedBlock | None = None

    def serve(self) -> bool:
        """Carry out one command; false once there is nothing more to do."""
        message = self.connection.recv_bytes()
        command: tuple[str, Any] = ("step", None) if message == STEP else pickle.loads(message)
        word, payload = command
        if word == "close":
            return False
        if word == "actions":
            self.actions = _replaced(self.actions, payload)
        elif word == "reset":
            return self.answer(self.host.reset(*payload))
        elif word == "step":
            assert self.actions is not None
            space = self.host.introduction.space.actions
            actions = read_actions(self.actions.bytes, space, self.terms.num_envs, self.terms.lanes)
            return self.answer(self.host.step(actions))
        elif word == "render":
            self.done(self.host.render())
        else:
            assert word == "progress", word
            self.done(self.host.set_progress(payload))
        return True

    def answer(self, answer: Answer) -> bool:
        """Write the step into the result block, have it enlarged if need be, and send the rest."""
        columns, rest = split_info(answer.rest, self.host.num_lanes)
        formats = formats_of(columns)
        if formats != self.columns:
            self.columns = formats
            self.send("columns", formats)
        start = columns_size(formats)
        memory = _NO_MEMORY if self.results is None else self.results.bytes
        end = self.layout.write(answer.step, memory, start)
        if end > len(memory):
            del memory  # a block with an array over it can't be closed
            self.send("grow", end)
            word, name = self.connection.recv()
            if word != "results":  # told to close in the meantime
                return False
            self.results = _replaced(self.results, name)
            memory = self.results.bytes
            self.layout.write(answer.step, memory, start)
        write_columns(memory, columns)
        self.warn()
        if type(rest) is dict and not rest and not answer.num_final:
            self.connection.send_bytes(NOTHING_MORE)
        else:
            self.send("done", (rest, answer.num_final))
        return True

    def done(self, payload: Any) -> None:
        self.warn()
        self.send("done", payload)

    def warn(self) -> None:
        if self.warned:
            self.send("warned", cloudpickle.dumps(self.warned))
            self.warned.clear()

    def send(self, word: str, payload: Any) -> None:
        # What the connection's own `send` does, in half of its time.
        self.connection.send_bytes(pickle.dumps((word, payload), pickle.HIGHEST_PROTOCOL))

    def close(self) -> None:
        for block in (self.actions, self.results):
            if block is not None:
                block.close()


def _replaced(block: SharedBlock | None, name: str) -> SharedBlock:
    if block is not None:
        block.close()
    return SharedBlock(name=name)


def _pickled(error: Exception) -> bytes | None:
    """`error` for the parent; None where it does not survive the way."""
    try:
        pickled: bytes = cloudpickle.dumps(error)
        pickle.loads(pickled)
    except Exception:
        return None
    return pickled
