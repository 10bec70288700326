"""The parent's side of worker processes: start them, exchange messages, and end them in every case."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import time
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from multiprocessing import connection
from typing import Any, NoReturn

import cloudpickle  # type: ignore[import-untyped]
import numpy as np
from numpy.typing import NDArray

from ....process import interrupts_blocked
from ....ragged import RaggedArray
from ...batch.entity_batch import EntityBatch
from ...errors import WorkerError, seconds_or_none, whole_number
from ...spaces import EntitySpace
from ..vector_env import EntityVectorEnv, StepResult
from .shared_memory import GrowingBlock, StepLayout, actions_size, write_actions
from .worker import ProcessGone, VectorEnvFn, receive, send, work

#: Seconds that a worker may take to answer, unless an environment says otherwise.
WORKER_TIMEOUT = 60.0
#: The first command of a kind may take this many times as long: that is when kernels are compiled.
FIRST_TIME = 10
#: Seconds that workers get to finish their step and close their environments before they are ended by force.
GRACE = 5.0


def shares(sizes: Sequence[int], num_workers: int, what: str = "envs") -> list[range]:
    """Share neighbouring items of these `sizes` between `num_workers`, as evenly as it goes.

    Args:
        sizes: how large each item is (in lanes, or in time); items are not split.
        what: what an error calls the items.

    Returns:
        which items each worker gets, at least one.

    Raises:
        TypeError: `num_workers` is no whole number.
        ValueError: it is not between 1 and the number of items.
    """
    num_workers = whole_number(f"num_workers for {len(sizes)} {what}", num_workers, 1, len(sizes))
    ends = np.cumsum(sizes)
    bounds = [0]
    for worker in range(1, num_workers):
        nearest = int(np.abs(ends - ends[-1] * worker / num_workers).argmin()) + 1
        bounds.append(min(max(nearest, bounds[-1] + 1), len(sizes) - num_workers + worker))
    return [range(first, last) for first, last in pairwise([*bounds, len(sizes)])]


def _joined_games(parts: Sequence[NDArray[np.int64] | None]) -> NDArray[np.int64] | None:
    """Return the games of all workers' lanes, numbered on from worker to worker."""
    joined, first = [], 0
    for games in parts:
        if games is None:
            return None
        joined.append(games + first)
        first = int(joined[-1].max()) + 1
    return np.concatenate(joined)


def _close_where_started(process: int, resources: ExitStack) -> None:
    """End the workers, but not from a forked child, which has only a copy of their owner."""
    if os.getpid() == process:
        resources.close()


class Worker:
    """A worker's process, the pipe to it, and the memory in which it answers.

    Args:
        env_fn: makes the vector environment of its `lanes`, which are some of `num_envs`.
    """

    def __init__(self, env_fn: VectorEnvFn, lanes: range, num_envs: int) -> None:
        self.lanes = lanes
        # A forked child could hang in Numba's, BLAS's or Java's threads.
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        arguments = (theirs, cloudpickle.dumps(env_fn), lanes, num_envs)
        self.process = context.Process(target=work, args=arguments, daemon=True)
        with interrupts_blocked():  # until `work` ignores them
            self.process.start()
        theirs.close()  # so that the worker's end is the only one, and its death ends the pipe
        self.results = GrowingBlock()

    @property
    def pid(self) -> int:
        """The id of the process."""
        assert self.process.pid is not None  # it has been started
        return self.process.pid

    def send(self, word: str, payload: Any = None) -> None:
        """Give a command.

        Raises:
            ProcessGone: the process has ended.
        """
        send(self.connection, word, payload)

    def receive(self) -> tuple[str, Any]:
        """Wait for the next answer and return it.

        Raises:
            ProcessGone: the process has ended.
        """
        return receive(self.connection)

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


class WorkerPool:
    """Worker processes that step neighbouring lanes of one vector environment.

    Args:
        env_fns: one function per worker that makes its vector environment; pickled with cloudpickle.
        num_lanes: how many lanes each has.
        timeout: seconds after which a worker that has not answered a command is ended; the first command of a
            kind gets `FIRST_TIME` times as long. None: never.

    Attributes:
        lanes: the indices of each worker's lanes.
        space, metadata, render_mode: those of the first worker's environment; the others have the same space.
        lane_games: see `EntityVectorEnv`; None unless all workers' environments have it.

    Raises:
        WorkerError: something raised in some lanes (its cause is that error, where it can be pickled), or a
            worker died, here or in any method; the lanes are named. All processes have been ended.
    """

    def __init__(
        self,
        env_fns: Sequence[VectorEnvFn],
        num_lanes: Sequence[int],
        timeout: float | None = WORKER_TIMEOUT,
    ) -> None:
        self.timeout = timeout
        self._answered: set[str] = set()  # the kinds of commands that have been answered
        self.workers: list[Worker] = []
        self._actions = GrowingBlock()
        resources = ExitStack()
        resources.callback(self._actions.close)
        resources.callback(_end_workers, self.workers)
        # Also runs when this object is forgotten, or at the interpreter's exit.
        self.close: Callable[[], object] = weakref.finalize(
            self, _close_where_started, os.getpid(), resources
        )
        ends = np.cumsum([0, *num_lanes]).tolist()
        self.lanes = [range(first, last) for first, last in pairwise(ends)]
        self._warned: list[tuple[str, type[Warning]]] = []
        self.metadata: dict[str, Any]
        self.render_mode: str | None
        try:
            for env_fn, lanes in zip(env_fns, self.lanes, strict=True):
                self.workers.append(Worker(env_fn, lanes, ends[-1]))
            introductions = [pickle.loads(answer) for answer in self._answers("being made")]
            self.space: EntitySpace
            self.space, self.metadata, self.render_mode, _ = introductions[0]
            for lanes, (other, *_) in zip(self.lanes, introductions, strict=True):
                if other != self.space:
                    raise WorkerError(
                        f"env {lanes[0]}: observation space: expected {self.space!r} as of env 0,"
                        f" got {other!r}",
                        (lanes[0],),
                    )
        except BaseException:
            self.close()
            raise
        self.lane_games = _joined_games([games for *_, games in introductions])
        self._layout = StepLayout(self.space)

    @property
    def timeout(self) -> float | None:
        """Seconds that a worker may take to answer; None: any number.

        Raises:
            ValueError: it is set to what is not positive.
        """
        return self._timeout

    @timeout.setter
    def timeout(self, seconds: float | None) -> None:
        self._timeout = seconds_or_none("worker_timeout", seconds)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "worker processes cannot be copied or pickled: expected a vector environment of this process, got"
            " one with workers. Copy one that was made with num_workers=0"
        )

    def reset(
        self, seeds: Sequence[Any], options: dict[str, Any] | None
    ) -> tuple[EntityBatch, list[dict[str, Any]]]:
        """Start an episode in every lane: the observations of all, and each worker's info.

        Args:
            seeds: what each worker gets.
        """
        # By cloudpickle: a class of the user's script is the one that the environments know.
        pickled = None if options is None else cloudpickle.dumps(options)
        answers = self._ask("reset", [(seed, pickled) for seed in seeds])
        (batch, *_), _ = self._joined(answers)
        return batch, [info for info, _ in answers]

    def step(
        self, actions: Mapping[str, RaggedArray]
    ) -> tuple[StepResult, EntityBatch | None, list[dict[str, Any]]]:
        """Step every lane with validated actions: the step, the ended lanes' last observations, the infos."""
        if self._actions.fit(actions_size(actions)):
            for worker in self.workers:
                self._send(worker, "actions", self._actions.block.name)
        write_actions(self._actions.bytes, self.space.actions, actions)
        answers = self._ask("step")
        step, final = self._joined(answers)
        return step, final, [info for info, _ in answers]

    def render(self) -> tuple[Any, ...]:
        """One frame per lane."""
        return tuple(frame for frames in self._ask("render") for frame in frames)

    def set_progress(self, fraction: float) -> None:
        """Pass the progress of training on to all lanes."""
        self._ask("progress", [fraction] * len(self.workers))

    def warn(self) -> None:
        """Repeat the warnings that came from workers since the last call, as the caller's of this package."""
        warned, self._warned = self._warned, []
        if not warned:
            return
        package, level, frame = __name__.partition(".")[0], 1, sys._getframe()
        while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(f"{package}."):
            frame, level = frame.f_back, level + 1
        for text, category in warned:
            warnings.warn(text, category, stacklevel=level)

    # -- talking to the workers -----------------------------------------------------------------------------

    def _ask(self, word: str, payloads: Sequence[Any] | None = None) -> list[Any]:
        """Give all workers a command; each one's answer, in the order of the workers."""
        for worker, payload in zip(self.workers, payloads or [None] * len(self.workers), strict=True):
            self._send(worker, word, payload)
        return self._answers(word)

    def _joined(self, answers: Sequence[tuple[Any, int]]) -> tuple[StepResult, EntityBatch | None]:
        """Join the steps that all workers have written."""
        addresses = [worker.results.block.address for worker in self.workers]
        lengths = [len(lanes) for lanes in self.lanes]
        return self._layout.join(addresses, lengths, [num_final for _, num_final in answers])

    def _send(self, worker: Worker, word: str, payload: Any) -> None:
        try:
            worker.send(word, payload)
        except ProcessGone as error:
            raise self._death(worker, word) from error

    def _answers(self, doing: str) -> list[Any]:
        """Each worker's answer, in the order of the workers."""
        answers: dict[Worker, Any] = {}
        limit, deadline = self._limit(doing), None
        if limit is not None:
            deadline = time.monotonic() + limit
        while len(answers) < len(self.workers):
            silent = {worker.connection: worker for worker in self.workers if worker not in answers}
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            ready = connection.wait(silent, left)
            if not ready:
                raise self._silence(list(silent.values()), doing)
            for worker in [silent[one] for one in ready]:  # type: ignore[index]
                try:
                    word, payload = worker.receive()
                    if word == "grow":
                        worker.results.fit(payload)
                        worker.send("results", worker.results.block.name)
                        continue
                except ProcessGone as error:
                    raise self._death(worker, doing) from error
                if word == "warned":
                    self._warned += pickle.loads(payload)
                elif word == "failed":
                    raise self._failure(*payload)
                else:
                    answers[worker] = payload
        self._answered.add(doing)
        return [answers[worker] for worker in self.workers]

    def _limit(self, doing: str) -> float | None:
        """Return the seconds that the answers to a command may take."""
        if self.timeout is None or doing in self._answered:
            return self.timeout
        return FIRST_TIME * self.timeout

    def _silence(self, silent: Sequence[Worker], doing: str) -> WorkerError:
        """The error for workers that have not answered in time. They are ended at once: they could hang."""
        names = [
            f"envs {list(worker.lanes)}: worker {self.workers.index(worker)} (process {worker.process.pid})"
            for worker in silent
        ]
        for worker in silent:
            worker.process.kill()
        return self._close_for(
            WorkerError(
                f"{'; '.join(names)} did not answer within {self._limit(doing):g} s in {doing}. All"
                " environments have been closed. For slow environments pass a longer worker_timeout, or None",
                [lane for worker in silent for lane in worker.lanes],
            )
        )

    def _failure(
        self, indices: Sequence[int], sentence: str, trace: str, pickled: bytes | None
    ) -> WorkerError:
        error = WorkerError(sentence, indices)
        error.add_note(f"In the worker process:\n{trace}")
        error.__cause__ = None if pickled is None else pickle.loads(pickled)
        return self._close_for(error)

    def _death(self, worker: Worker, doing: str) -> WorkerError:
        sentence = f"envs {list(worker.lanes)}: their worker process {worker.death()} in {doing}"
        if doing == "being made":
            sentence += (
                '. In a script, make environments with worker processes under `if __name__ == "__main__":`'
            )
        return self._close_for(WorkerError(sentence, worker.lanes))

    def _close_for(self, error: WorkerError) -> WorkerError:
        """Close everything because of `error`, whatever else goes wrong then."""
        try:
            self.close()
        except Exception as second:
            error.add_note(f"closing the other environments also raised {second!r}")
        return error


@contextmanager
def closing_on_failure(env: EntityVectorEnv) -> Iterator[None]:
    """Close `env` where talking to its workers is interrupted.

    Answers still to come, after Ctrl-C for one, would be taken for those of the next command.
    """
    try:
        yield
    except BaseException as error:
        env._closed_by = type(error).__name__
        env.close()
        raise


def _end_workers(workers: list[Worker]) -> None:
    """Have every worker close its environments; end by force those that don't in time."""
    for worker in workers:
        try:
            worker.send("close")
        except ProcessGone:
            continue
    deadline = time.monotonic() + GRACE
    for worker in workers:
        try:
            # Take what the worker still has to say: one that waits for room in the pipe would never end.
            while worker.connection.poll(max(0.0, deadline - time.monotonic())):
                worker.receive()
        except (ProcessGone, OSError):
            pass
        worker.process.join(max(0.1, deadline - time.monotonic()))
        if worker.process.exitcode is None:
            worker.process.kill()
            worker.process.join()
        worker.release()
    workers.clear()
