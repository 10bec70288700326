"""The parent's side of worker processes: starting them, talking to them, and ending them whatever happens."""

from __future__ import annotations

import multiprocessing
import pickle
import signal
import time
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from multiprocessing import connection
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import numpy as np
from gymnasium.vector import VectorEnv

from ..ragged import RaggedArray
from .batch import EntityBatch, concatenate_batches
from .errors import WorkerError
from .lanes import LaneStep
from .shared_block import BatchReader, SharedBlock, action_arrays, packed_size, write_all
from .worker import work
from .worker_hosts import Host, Introduction

#: Seconds that workers get to finish their step and close their environments before they are ended by force.
_GRACE = 5.0


def shares(sizes: Sequence[int], num_workers: int, what: str = "envs") -> list[range]:
    """Share neighbouring items of these `sizes` between `num_workers`, as evenly as it goes.

    Args:
        sizes: how many lanes each item has; items are not split.
        what: what an error calls the items.

    Returns:
        which items each worker gets, at least one.

    Raises:
        ValueError: `num_workers` is not between 1 and the number of items.
    """
    if isinstance(num_workers, bool) or not isinstance(num_workers, int):
        raise ValueError(f"num_workers must be a whole number, got {num_workers!r}")
    if not 1 <= num_workers <= len(sizes):
        raise ValueError(f"num_workers must be between 1 and the {len(sizes)} {what}, got {num_workers}")
    ends = np.cumsum(sizes)
    bounds = [0]
    for worker in range(1, num_workers):
        nearest = int(np.abs(ends - ends[-1] * worker / num_workers).argmin()) + 1
        bounds.append(min(max(nearest, bounds[-1] + 1), len(sizes) - num_workers + worker))
    return [range(first, last) for first, last in pairwise([*bounds, len(sizes)])]


class _WorkerGone(Exception):
    """A worker's process has ended without being told to."""


class _WorkerHandle:
    """One worker process and its two blocks of shared memory."""

    def __init__(self, pickled_host_fn: bytes, lanes: range) -> None:
        self.lanes = lanes
        context = multiprocessing.get_context(
            "spawn"
        )  # a forked child could hang in Numba's, BLAS's or Java's threads
        self.connection, theirs = context.Pipe()
        arguments = (theirs, pickled_host_fn, lanes.start, len(lanes))
        self.process = context.Process(target=work, args=arguments, daemon=True)
        self.process.start()
        theirs.close()  # so that the worker's end is the only one, and its death ends the pipe
        self.actions: SharedBlock | None = None
        self.results: SharedBlock | None = None

    def send(self, word: str, payload: Any = None) -> None:
        try:
            self.connection.send((word, payload))
        except OSError as error:
            raise _WorkerGone from error

    def receive(self) -> tuple[str, Any]:
        try:
            return self.connection.recv()
        except (EOFError, OSError) as error:
            raise _WorkerGone from error

    def write_actions(self, arrays: list[Any]) -> None:
        """Put the lanes' actions where the worker reads them."""
        size = packed_size(arrays)
        if self.actions is None or size > self.actions.bytes.size:
            self.actions = _replaced(self.actions, size)
            self.send("actions", self.actions.name)
        write_all(self.actions, arrays)

    def grow_results(self, size: int) -> None:
        """Give the worker a block for results of `size` bytes, and some more for the next ones."""
        self.results = _replaced(self.results, size)
        self.send("results", self.results.name)

    def death(self) -> str:
        """How the process ended."""
        self.process.join(_GRACE)
        code = self.process.exitcode
        if code is not None and code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        return f"ended with exit code {code}"

    def release(self) -> None:
        """Free everything, once the process has ended."""
        for block in (self.actions, self.results):
            if block is not None:
                block.close()
        self.actions = self.results = None
        self.connection.close()
        self.process.close()


class WorkerPool:
    """Worker processes that step neighbouring lanes of one vector environment.

    Args:
        host_fns: one function per worker that makes what it steps; pickled with cloudpickle.
        num_lanes: how many lanes each worker has.

    Attributes:
        lanes: the indices of each worker's lanes.
        introduction: what the first worker's lanes are like; the others' have the same space.

    Raises:
        WorkerError: something raised in a worker (its cause is that error, where it can be pickled), or a
            worker died, here or in any method; the lanes are named. All processes have been ended.
    """

    def __init__(self, host_fns: Sequence[Callable[[], Host]], num_lanes: Sequence[int]) -> None:
        self.workers: list[_WorkerHandle] = []
        # Also runs when this object is forgotten, or at the interpreter's exit.
        self.close: Callable[[], object] = weakref.finalize(self, _end_workers, self.workers)
        ends = np.cumsum([0, *num_lanes]).tolist()
        self.lanes = [range(first, last) for first, last in pairwise(ends)]
        self._warned: list[tuple[str, type[Warning]]] = []
        try:
            for host_fn, lanes in zip(host_fns, self.lanes, strict=True):
                self.workers.append(_WorkerHandle(cloudpickle.dumps(host_fn), lanes))
            introductions: list[Introduction] = [
                pickle.loads(answer) for answer in self._answers("being made")
            ]
            self.introduction = introductions[0]
            space = self.introduction.space
            for lanes, (other, *_) in zip(self.lanes, introductions, strict=True):
                if other != space:
                    raise WorkerError(
                        f"env {lanes[0]} has the observation space {other!r}, but env 0 has {space!r}",
                        (lanes[0],),
                    )
        except BaseException:
            self.close()
            raise
        self._reader = BatchReader(space)

    def reset(self, seeds: Sequence[Any], options: dict[str, Any] | None) -> tuple[EntityBatch, list[Any]]:
        """Start an episode in every lane; `seeds` holds what each worker gets.

        Returns:
            the observations of all lanes, and what each worker says besides.
        """
        for worker, seed in zip(self.workers, seeds, strict=True):
            self._send(worker, "reset", (seed, options))
        rests = [rest for rest, _ in self._answers("reset")]
        batches = [self._reader.batch(_results(w), len(w.lanes)) for w in self.workers]
        return concatenate_batches(batches), rests

    def step(self, actions: Mapping[str, RaggedArray]) -> tuple[LaneStep, list[Any]]:
        """Step every lane with validated actions: what they gave, and what each worker says besides."""
        space = self.introduction.space.actions
        for worker in self.workers:
            first, last = worker.lanes.start, worker.lanes.stop
            mine = {name: order[first:last] for name, order in actions.items()}
            try:
                worker.write_actions(action_arrays(space, mine))
            except _WorkerGone as error:
                raise self._death(worker, "step") from error
            self._send(worker, "step")
        answers = self._answers("step")
        steps = [
            self._reader.step(_results(worker), len(worker.lanes), num_final)
            for worker, (_, num_final) in zip(self.workers, answers, strict=True)
        ]
        finals = [step.final for step in steps if step.final is not None]
        step = LaneStep(
            concatenate_batches([step.batch for step in steps]),
            np.concatenate([step.rewards for step in steps]),
            np.concatenate([step.terminated for step in steps]),
            np.concatenate([step.truncated for step in steps]),
            concatenate_batches(finals) if finals else None,
        )
        return step, [rest for rest, _ in answers]

    def render(self) -> tuple[Any, ...]:
        """One frame per lane."""
        return tuple(frame for frames in self._ask("render") for frame in frames)

    def set_progress(self, fraction: float) -> None:
        """Tell all workers."""
        self._ask("progress", fraction)

    def warn(self, stacklevel: int) -> None:
        """Repeat the warnings that came from workers since the last call; `stacklevel` is the caller's."""
        warned, self._warned = self._warned, []
        for text, category in warned:
            warnings.warn(text, category, stacklevel=stacklevel + 1)

    # -- talking to the workers -----------------------------------------------------------------------------

    def _ask(self, word: str, payload: Any = None) -> list[Any]:
        for worker in self.workers:
            self._send(worker, word, payload)
        return self._answers(word)

    def _send(self, worker: _WorkerHandle, word: str, payload: Any = None) -> None:
        try:
            worker.send(word, payload)
        except _WorkerGone as error:
            raise self._death(worker, word) from error

    def _answers(self, doing: str) -> list[Any]:
        """Each worker's answer, in the order of the workers."""
        answers: dict[int, Any] = {}
        while len(answers) < len(self.workers):
            waiting = {w.connection: i for i, w in enumerate(self.workers) if i not in answers}
            for ready in connection.wait(list(waiting)):
                index = waiting[ready]  # type: ignore[index]
                worker = self.workers[index]
                try:
                    word, payload = worker.receive()
                    if word == "grow":
                        worker.grow_results(payload)
                        continue
                except _WorkerGone as error:
                    raise self._death(worker, doing) from error
                if word == "warned":
                    self._warned += pickle.loads(payload)
                elif word == "failed":
                    raise self._failure(*payload)
                else:
                    answers[index] = payload
        return [answers[index] for index in range(len(self.workers))]

    def _failure(
        self, indices: Sequence[int], sentence: str, trace: str, pickled: bytes | None
    ) -> WorkerError:
        self.close()
        error = WorkerError(sentence, indices)
        error.add_note(f"In the worker process:\n{trace}")
        error.__cause__ = None if pickled is None else pickle.loads(pickled)
        return error

    def _death(self, worker: _WorkerHandle, doing: str) -> WorkerError:
        sentence = f"envs {list(worker.lanes)}: their worker process {worker.death()} in {doing}"
        if doing == "being made":
            sentence += (
                '; a script must make environments in worker processes under `if __name__ == "__main__":`'
            )
        self.close()
        return WorkerError(sentence, worker.lanes)


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


def _results(worker: _WorkerHandle) -> SharedBlock:
    assert worker.results is not None  # it has answered, so it has asked for one
    return worker.results


def _replaced(block: SharedBlock | None, size: int) -> SharedBlock:
    if block is not None:
        block.close()
    return SharedBlock(2 * size)


def _end_workers(workers: list[_WorkerHandle]) -> None:
    """Have every worker close its environments; end by force those that don't in time."""
    for worker in workers:
        try:
            worker.send("close")
        except _WorkerGone:
            continue
    deadline = time.monotonic() + _GRACE
    for worker in workers:
        try:
            # Take what the worker still has to say: one that waits for room in the pipe would never end.
            while worker.connection.poll(max(0.0, deadline - time.monotonic())):
                worker.receive()
        except (_WorkerGone, OSError):
            pass
        worker.process.join(max(0.1, deadline - time.monotonic()))
        if worker.process.exitcode is None:
            worker.process.kill()
            worker.process.join()
        worker.release()
    workers.clear()
