"""One worker process as its parent sees it."""

from __future__ import annotations

import multiprocessing
import pickle
import select
import signal
from collections.abc import Sequence
from multiprocessing import connection
from typing import Any

from .answers import Formats, columns_size, read_columns
from .shared_block import GrowingBlock
from .worker import NOTHING_MORE, STEP, Terms, work

#: Seconds that workers get to finish their step and close their environments before they are ended by force.
GRACE = 5.0


class WorkerGone(Exception):
    """A worker's process has ended unasked."""


class WorkerHandle:
    """A worker's process, the pipe to it, and the memory in which it answers.

    Args:
        pickled_host_fn: makes the lanes, pickled by cloudpickle.
        terms: what else the worker has to know.
    """

    def __init__(self, pickled_host_fn: bytes, terms: Terms) -> None:
        self.lanes = terms.lanes
        # A forked child could hang in Numba's, BLAS's or Java's threads.
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(theirs, pickled_host_fn, terms), daemon=True)
        self.process.start()
        theirs.close()  # so that the worker's end is the only one, and its death ends the pipe
        self.results = GrowingBlock()
        self._columns: Formats = ()
        self._columns_size = 0

    def send(self, word: str, payload: Any = None) -> None:
        """Give a command.

        Raises:
            WorkerGone: the process has ended.
        """
        try:
            if word == "step":
                self.connection.send_bytes(STEP)
            else:
                self.connection.send((word, payload))
        except OSError as error:
            raise WorkerGone from error

    def receive(self) -> tuple[str, Any]:
        """The next answer, which is waited for.

        Raises:
            WorkerGone: the process has ended.
        """
        try:
            message = self.connection.recv_bytes()
        except (EOFError, OSError) as error:
            raise WorkerGone from error
        if message == NOTHING_MORE:
            return "done", ({}, 0)
        word, payload = pickle.loads(message)
        return word, payload

    def expect_columns(self, formats: Formats) -> None:
        """Set the arrays that precede the step in the next answers."""
        self._columns, self._columns_size = formats, columns_size(formats)

    def complete(self, rest: Any) -> Any:
        """The last answer's info, of which `rest` was pickled."""
        return {**read_columns(self.results.block.bytes, self._columns), **rest} if self._columns else rest

    @property
    def address(self) -> int:
        """The address of the step of the last answer."""
        return self.results.block.address + self._columns_size

    def grow_results(self, size: int) -> None:
        """Give the worker a block for results of `size` bytes."""
        self.results.fit(size)
        self.send("results", self.results.block.name)

    def death(self) -> str:
        """Describe how the process ended."""
        self.process.join(GRACE)
        code = self.process.exitcode
        if code is not None and code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        return f"ended with exit code {code}"

    def release(self) -> None:
        """Free everything, once the process has ended."""
        self.results.close()
        self.connection.close()
        self.process.close()


class Inbox:
    """Waits until at least one of some workers has answered, or ended."""

    def __init__(self, workers: Sequence[WorkerHandle]) -> None:
        self._connections = [worker.connection for worker in workers]
        self._indices = {one.fileno(): index for index, one in enumerate(self._connections)}
        # Registered once: `connection.wait` would do so at each call.
        self._poll = select.poll() if hasattr(select, "poll") else None  # Windows has none
        if self._poll is not None:
            for number in self._indices:
                self._poll.register(number, select.POLLIN)

    def wait(self, seconds: float | None) -> list[int]:
        """The indices of the workers that can be read; none if none can within `seconds` (None: no limit)."""
        if self._poll is None:
            return [self._connections.index(one) for one in connection.wait(self._connections, seconds)]  # type: ignore[arg-type]
        events = self._poll.poll(None if seconds is None else max(0.0, 1000 * seconds))
        return [self._indices[number] for number, _ in events]
