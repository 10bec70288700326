"""The parent's side of worker processes: starting them, talking to them, and ending them whatever happens."""

from __future__ import annotations

import math
import pickle
import time
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from typing import Any, NoReturn

import cloudpickle  # type: ignore[import-untyped]
import numpy as np
from gymnasium.vector import VectorEnv

from ....ragged import RaggedArray
from ...batch.entity_batch import EntityBatch
from ...errors import WorkerError
from ..lanes import LaneStep
from .answers import AnswerLayout
from .own_share import OwnShare
from .shared_block import GrowingBlock, actions_size, write_actions
from .worker import Terms
from .worker_handle import GRACE, Inbox, WorkerGone, WorkerHandle
from .worker_hosts import Host, Introduction


def shares(sizes: Sequence[int], num_workers: int, what: str = "envs") -> list[range]:
    """Share neighbouring items of these `sizes` between `num_workers`, as evenly as it goes.

    Args:
        sizes: how large each item is (in lanes, or in time); items are not split.
        what: what an error calls the items.

    Returns:
        which items each worker gets, at least one.

    Raises:
        ValueError: `num_workers` is not between 1 and the number of items.
    """
    if isinstance(num_workers, bool) or not isinstance(num_workers, int):
        raise ValueError(f"num_workers: expected a whole number, got {num_workers!r}")
    if not 1 <= num_workers <= len(sizes):
        raise ValueError(
            f"num_workers: expected 1 to {len(sizes)} for {len(sizes)} {what}, got {num_workers}"
        )
    ends = np.cumsum(sizes)
    bounds = [0]
    for worker in range(1, num_workers):
        nearest = int(np.abs(ends - ends[-1] * worker / num_workers).argmin()) + 1
        bounds.append(min(max(nearest, bounds[-1] + 1), len(sizes) - num_workers + worker))
    return [range(first, last) for first, last in pairwise([*bounds, len(sizes)])]


#: Seconds that a worker may take to answer, unless an environment says otherwise.
WORKER_TIMEOUT = 60.0
#: The first command of a kind may take this many times as long: that is when kernels are compiled.
FIRST_TIME = 10


class WorkerPool:
    """Processes that step neighbouring lanes of one vector environment: workers, and perhaps this one.

    Args:
        host_fns: one function per share of the lanes that makes what is stepped; for workers it is pickled
            with cloudpickle.
        num_lanes: how many lanes each share has.
        parent_works: whether this process steps the first share, while workers step theirs.
        timeout: seconds after which a worker that has not answered a command is ended; the first command of a
            kind gets `FIRST_TIME` times as long. None: never.

    Attributes:
        lanes: the indices of each share's lanes.
        introduction: what the first share's lanes are like; the others' have the same space.

    Raises:
        WorkerError: something raised in some lanes (its cause is that error, where it can be pickled), or a
            worker died, here or in any method; the lanes are named. All processes have been ended.
    """

    def __init__(
        self,
        host_fns: Sequence[Callable[[], Host]],
        num_lanes: Sequence[int],
        parent_works: bool = False,
        timeout: float | None = WORKER_TIMEOUT,
    ) -> None:
        if timeout is not None and not timeout > 0:
            raise ValueError(
                f"worker_timeout: expected a positive number of seconds or None, got {timeout!r}"
            )
        self._timeout = timeout
        self._answered: set[str] = set()  # the kinds of commands that have been answered
        self.workers: list[WorkerHandle] = []
        self._actions = GrowingBlock()
        self._resources = ExitStack()
        self._resources.callback(self._actions.close)
        self._resources.callback(_end_workers, self.workers)
        # Also runs when this object is forgotten, or at the interpreter's exit.
        self.close: Callable[[], object] = weakref.finalize(self, self._resources.close)
        ends = np.cumsum([0, *num_lanes]).tolist()
        self.lanes = [range(first, last) for first, last in pairwise(ends)]
        self._warned: list[tuple[str, type[Warning]]] = []
        self._own: OwnShare | None = None
        try:
            self.introduction = self._start(host_fns, parent_works)
        except BaseException:
            self.close()
            raise
        self._layout = AnswerLayout(self.introduction.space)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "worker processes cannot be copied or pickled: expected a vector environment of this process, got"
            " one with workers. Copy one that was made with num_workers=0"
        )

    def _start(self, host_fns: Sequence[Callable[[], Host]], parent_works: bool) -> Introduction:
        """Make all lanes; workers make theirs at the same time."""
        for host_fn, lanes in list(zip(host_fns, self.lanes, strict=True))[parent_works:]:
            terms = Terms(lanes, self.lanes[-1].stop)
            self.workers.append(WorkerHandle(cloudpickle.dumps(host_fn), terms))
        self._inbox = Inbox(self.workers)
        introductions: list[Introduction] = []
        if parent_works:
            self._own = OwnShare(host_fns[0], self.lanes[0])
            self._resources.callback(self._own.close)
            introductions.append(self._own.introduction)
        introductions += [pickle.loads(answer) for answer in self._answers("being made")]
        space = introductions[0].space
        for lanes, (other, *_) in zip(self.lanes, introductions, strict=True):
            if other != space:
                raise WorkerError(
                    f"env {lanes[0]}: observation space: expected {space!r} as of env 0, got {other!r}",
                    (lanes[0],),
                )
        return introductions[0]

    def reset(self, seeds: Sequence[Any], options: dict[str, Any] | None) -> tuple[EntityBatch, list[Any]]:
        """Start an episode in every lane; `seeds` holds what each share gets.

        Returns:
            the observations of all lanes, and what each share says besides.
        """
        for worker, seed in zip(self.workers, seeds[len(seeds) - len(self.workers) :], strict=True):
            self._send(worker, "reset", (seed, options))
        answers = [] if self._own is None else [self._do(self._own.reset, seeds[0], options)]
        step, rests = self._joined(answers + self._answers("reset"))
        return step.batch, rests

    def step(self, actions: Mapping[str, RaggedArray]) -> tuple[LaneStep, list[Any]]:
        """Step every lane with validated actions: what they gave, and what each share says besides."""
        if self._actions.fit(actions_size(actions)):
            for worker in self.workers:
                self._send(worker, "actions", self._actions.block.name)
        write_actions(self._actions.block.bytes, self.introduction.space.actions, actions)
        for worker in self.workers:
            self._send(worker, "step")
        answers = []
        if self._own is not None:
            last = self._own.lanes.stop
            answers.append(self._do(self._own.step, {name: order[:last] for name, order in actions.items()}))
        return self._joined(answers + self._answers("step"))

    def render(self) -> tuple[Any, ...]:
        """One frame per lane."""
        for worker in self.workers:
            self._send(worker, "render")
        parts = [] if self._own is None else [self._do(self._own.render)]
        return tuple(frame for frames in parts + self._answers("render") for frame in frames)

    def set_progress(self, fraction: float) -> None:
        """Pass the progress of training on to all lanes."""
        for worker in self.workers:
            self._send(worker, "progress", fraction)
        if self._own is not None:
            self._do(self._own.set_progress, fraction)
        self._answers("progress")

    def _joined(self, answers: Sequence[tuple[Any, int]]) -> tuple[LaneStep, list[Any]]:
        """Join the steps that all shares have written; return that and the rest of each answer."""
        own = [] if self._own is None else [self._own.address]
        step = self._layout.join(
            own + [worker.address for worker in self.workers],
            [len(lanes) for lanes in self.lanes],
            [num_final for _, num_final in answers],
        )
        rests = [rest for rest, _ in answers]
        mine, theirs = rests[: len(own)], rests[len(own) :]
        return step, mine + [w.complete(rest) for w, rest in zip(self.workers, theirs, strict=True)]

    def warn(self, stacklevel: int) -> None:
        """Repeat the warnings that came from workers since the last call; `stacklevel` is the caller's."""
        warned, self._warned = self._warned, []
        for text, category in warned:
            warnings.warn(text, category, stacklevel=stacklevel + 1)

    # -- talking to the workers -----------------------------------------------------------------------------

    def _do(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Do the own share's part of a command that workers have been given."""
        try:
            return call(*arguments)
        except WorkerError as error:
            self._close_for(error)
            raise

    def _send(self, worker: WorkerHandle, word: str, payload: Any = None) -> None:
        try:
            worker.send(word, payload)
        except WorkerGone as error:
            raise self._death(worker, word) from error

    def _answers(self, doing: str) -> list[Any]:
        """Each worker's answer, in the order of the workers."""
        answers: dict[int, Any] = {}
        limit = self._limit(doing)
        deadline = time.monotonic() + limit
        while len(answers) < len(self.workers):
            ready = self._inbox.wait(None if limit == math.inf else deadline - time.monotonic())
            if not ready:
                raise self._silence([i for i in range(len(self.workers)) if i not in answers], doing, limit)
            for index in ready:
                worker = self.workers[index]
                try:
                    word, payload = worker.receive()
                    if word == "grow":
                        worker.grow_results(payload)
                        continue
                except WorkerGone as error:
                    raise self._death(worker, doing) from error
                if word == "warned":
                    self._warned += pickle.loads(payload)
                elif word == "columns":
                    worker.expect_columns(payload)
                elif word == "failed":
                    raise self._failure(*payload)
                else:
                    answers[index] = payload
        self._answered.add(doing)
        return [answers[index] for index in range(len(self.workers))]

    def _limit(self, doing: str) -> float:
        """Return the seconds that the answers to a command may take."""
        if self._timeout is None:
            return math.inf
        return self._timeout if doing in self._answered else FIRST_TIME * self._timeout

    def _silence(self, indices: Sequence[int], doing: str, limit: float) -> WorkerError:
        """The error for workers that have not answered in time. They are ended at once: they could hang."""
        silent = [self.workers[index] for index in indices]
        names = [
            f"envs {list(worker.lanes)}: worker {index} (process {worker.process.pid})"
            for index, worker in zip(indices, silent, strict=True)
        ]
        for worker in silent:
            worker.process.kill()
        lanes = [lane for worker in silent for lane in worker.lanes]
        return self._close_for(
            WorkerError(
                f"{'; '.join(names)} did not answer within {limit:g} s in {doing}. All environments have been"
                " closed. For slow environments pass a longer worker_timeout, or None",
                lanes,
            )
        )

    def _failure(
        self, indices: Sequence[int], sentence: str, trace: str, pickled: bytes | None
    ) -> WorkerError:
        error = WorkerError(sentence, indices)
        error.add_note(f"In the worker process:\n{trace}")
        error.__cause__ = None if pickled is None else pickle.loads(pickled)
        return self._close_for(error)

    def _death(self, worker: WorkerHandle, doing: str) -> WorkerError:
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
def closing_on_failure(env: VectorEnv[Any, Any, Any]) -> Iterator[None]:
    """Close `env` where talking to its workers is interrupted.

    Answers still to come, after Ctrl-C for one, would be taken for those of the next command.
    """
    try:
        yield
    except BaseException:
        env.close()
        raise


def _end_workers(workers: list[WorkerHandle]) -> None:
    """Have every worker close its environments; end by force those that don't in time."""
    for worker in workers:
        try:
            worker.send("close")
        except WorkerGone:
            continue
    deadline = time.monotonic() + GRACE
    for worker in workers:
        try:
            # Take what the worker still has to say: one that waits for room in the pipe would never end.
            while worker.connection.poll(max(0.0, deadline - time.monotonic())):
                worker.receive()
        except (WorkerGone, OSError):
            pass
        worker.process.join(max(0.1, deadline - time.monotonic()))
        if worker.process.exitcode is None:
            worker.process.kill()
            worker.process.join()
        worker.release()
    workers.clear()
