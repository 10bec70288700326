"""`ProcessVectorEnv`: single environments in worker processes, their batches in shared memory."""

from __future__ import annotations

import multiprocessing
import pickle
import signal
import time
import weakref
from collections.abc import Callable, Sequence
from itertools import pairwise
from multiprocessing import connection
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import numpy as np

from ..ragged import RaggedArray
from .batch import EntityBatch, concatenate_batches
from .errors import WorkerError
from .lanes import EnvFn, Infos, LaneReset, LaneStep, LaneVectorEnv
from .shared_block import BatchReader, SharedBlock, action_arrays, packed_size, write_all
from .worker import work

#: Seconds that workers get to finish their step and close their environments before they are ended by force.
_GRACE = 5.0


class _WorkerGone(Exception):
    """A worker's process has ended without being told to."""


class _WorkerHandle:
    """The parent's side of one worker process and its two blocks of shared memory."""

    def __init__(self, env_fns: Sequence[EnvFn], first: int) -> None:
        self.lanes = range(first, first + len(env_fns))
        context = multiprocessing.get_context(
            "spawn"
        )  # a forked child could hang in Numba's or BLAS's threads
        self.connection, theirs = context.Pipe()
        payload = _pickled(env_fns, first)
        self.process = context.Process(target=work, args=(theirs, payload, first, len(env_fns)), daemon=True)
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


class ProcessVectorEnv(LaneVectorEnv):
    """Steps single entity environments in worker processes. See `LaneVectorEnv`.

    Results are those of `ListVectorEnv` at the same seed. Observations and actions travel through shared
    memory, which grows when a batch does not fit; only infos that are not empty are pickled. Workers are
    started afresh ("spawn"), so a script must make this environment under `if __name__ == "__main__":`.

    Args:
        env_fns: one function per lane that makes its environment; pickled with cloudpickle.
        num_workers: how many processes share the lanes, each stepping a run of neighbouring ones.

    Raises:
        ValueError: `num_workers` is not between 1 and the number of lanes.
        TypeError: an `env_fn` can't be pickled.
        WorkerError: an environment raised or a worker died; the lanes are named. All other environments have
            been closed and all processes ended.
    """

    def __init__(self, env_fns: Sequence[EnvFn], num_workers: int) -> None:
        if not 1 <= num_workers <= len(env_fns):
            raise ValueError(f"num_workers must be between 1 and the {len(env_fns)} envs, got {num_workers}")
        self._workers: list[_WorkerHandle] = []
        # Also runs when this object is forgotten, or at the interpreter's exit.
        self._shut_down: Callable[[], object] = weakref.finalize(self, _end_workers, self._workers)
        bounds = np.linspace(0, len(env_fns), num_workers + 1).astype(int)
        try:
            for first, last in pairwise(bounds):
                self._workers.append(_WorkerHandle(env_fns[first:last], int(first)))
        except Exception:
            self._shut_down()
            raise
        introductions = [pickle.loads(answer) for answer in self._answers("being made")]
        space, metadata, render_mode = introductions[0]
        for worker, (other, *_) in zip(self._workers, introductions, strict=True):
            if other != space:
                self.close()
                raise WorkerError(
                    f"env {worker.lanes[0]} has the observation space {other!r}, but env 0 has {space!r}",
                    (worker.lanes[0],),
                )
        self._describe(len(env_fns), space, metadata, render_mode)
        self._reader = BatchReader(space)

    def _reset_lanes(self, seeds: list[int | None], options: dict[str, Any] | None) -> LaneReset:
        for worker in self._workers:
            self._send(worker, "reset", ([seeds[lane] for lane in worker.lanes], options))
        answers = self._answers("reset")
        batch = concatenate_batches([self._reader.batch(_results(w), len(w.lanes)) for w in self._workers])
        return LaneReset(batch, _joined(answers))

    def _step_lanes(self, actions: dict[str, RaggedArray]) -> LaneStep:
        for worker in self._workers:
            first, last = worker.lanes[0], worker.lanes[-1] + 1
            mine = {name: order[first:last] for name, order in actions.items()}
            try:
                worker.write_actions(action_arrays(self.single_action_space, mine))
            except _WorkerGone as error:
                raise self._death(worker, "step") from error
            self._send(worker, "step")
        answers = self._answers("step")
        steps = [self._reader.step(_results(w), len(w.lanes)) for w in self._workers]
        finals: list[EntityBatch] = [step.final for step in steps if step.final is not None]
        return LaneStep(
            concatenate_batches([step.batch for step in steps]),
            np.concatenate([step.rewards for step in steps]),
            np.concatenate([step.terminated for step in steps]),
            np.concatenate([step.truncated for step in steps]),
            concatenate_batches(finals) if finals else None,
            _joined([infos for infos, _ in answers]),
            _joined([final_infos for _, final_infos in answers]),
        )

    def _render_lanes(self) -> tuple[Any, ...]:
        for worker in self._workers:
            self._send(worker, "render")
        return tuple(frame for frames in self._answers("render") for frame in frames)

    def close_extras(self, **kwargs: Any) -> None:
        self._shut_down()

    # -- talking to the workers -----------------------------------------------------------------------------

    def _send(self, worker: _WorkerHandle, word: str, payload: Any = None) -> None:
        try:
            worker.send(word, payload)
        except _WorkerGone as error:
            raise self._death(worker, word) from error

    def _answers(self, doing: str) -> list[Any]:
        """Each worker's answer, in the order of the workers."""
        try:
            return self._collect(doing)
        except KeyboardInterrupt:  # the answers still to come would be taken for those of the next command
            self.close()
            raise

    def _collect(self, doing: str) -> list[Any]:
        answers: dict[int, Any] = {}
        while len(answers) < len(self._workers):
            waiting = {w.connection: i for i, w in enumerate(self._workers) if i not in answers}
            for ready in connection.wait(list(waiting)):
                index = waiting[ready]  # type: ignore[index]
                worker = self._workers[index]
                try:
                    word, payload = worker.receive()
                    if word == "grow":
                        worker.grow_results(payload)
                        continue
                except _WorkerGone as error:
                    raise self._death(worker, doing) from error
                if word == "failed":
                    raise self._failure(*payload)
                answers[index] = payload
        return [answers[index] for index in range(len(self._workers))]

    def _failure(self, indices: Sequence[int], sentence: str, trace: str) -> WorkerError:
        self.close()
        error = WorkerError(sentence, indices)
        error.add_note(f"In the worker process:\n{trace}")
        return error

    def _death(self, worker: _WorkerHandle, doing: str) -> WorkerError:
        sentence = f"envs {list(worker.lanes)}: their worker process {worker.death()} in {doing}"
        if doing == "being made":
            sentence += '; a script must make a ProcessVectorEnv under `if __name__ == "__main__":`'
        self.close()
        return WorkerError(sentence, worker.lanes)


def _pickled(env_fns: Sequence[EnvFn], first: int) -> bytes:
    for index, env_fn in enumerate(env_fns, first):
        try:
            cloudpickle.dumps(env_fn)
        except Exception as error:
            raise TypeError(f"env {index}: its env_fn can't be pickled: {error}") from error
    return cloudpickle.dumps(list(env_fns))


def _results(worker: _WorkerHandle) -> SharedBlock:
    assert worker.results is not None  # it has answered, so it has asked for one
    return worker.results


def _joined(parts: Sequence[Infos]) -> Infos:
    return {lane: info for part in parts for lane, info in part.items()}


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
