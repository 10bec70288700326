"""Rollout storage: observations, actions and estimates of each step, without padding.

Steps lie time-major: step t of environment e is row t · num_envs + e. Steps at which an environment
was inactive (see `EntityVectorEnv`) have no row; those behind them move up.
Shape alphabet: T steps, E environments, B rows (T · E if all were active), A actors of one action at all
rows, K numbers of a continuous action, M components of a conditional multi-discrete action.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..envs import EntityBatch, EntityBatchBuffer, EntitySpace
from ..envs.batch import concatenate_batches
from ..policies import ActResult
from ..ragged import RaggedArray, RaggedBuffer, concatenate, gather_all
from .advantages import generalized_advantages


@dataclass(frozen=True, eq=False)
class Samples:
    """The samples of an update: B steps in any order."""

    observations: EntityBatch
    actions: dict[str, RaggedArray]  # per action (A,), (A, M) or (A, K), as in `ActResult.raw`
    log_probs: dict[str, RaggedArray]  # per action (A,) float32, when the action was taken
    values: NDArray[np.float32]  # (B,), when the action was taken
    advantages: NDArray[np.float32]  # (B,)
    returns: NDArray[np.float32]  # (B,)

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        return f"Samples({len(self)} steps)"

    @property
    def num_actors(self) -> int:
        """Actors of all actions at all steps."""
        return sum(chosen.num_items for chosen in self.actions.values())

    @property
    def num_acting_steps(self) -> int:
        """Number of steps with an actor."""
        counts = sum((chosen.lengths for chosen in self.actions.values()), np.zeros(len(self), np.int64))
        return int(np.count_nonzero(counts))

    def gather(self, indices: ArrayLike) -> Samples:
        """The steps at `indices` (K,), as copies."""
        indices = np.asarray(indices, np.int64)
        parts = gather_all([*self.actions.values(), *self.log_probs.values()], indices)
        return Samples(
            self.observations.gather(indices),
            dict(zip(self.actions, parts, strict=False)),
            dict(zip(self.log_probs, parts[len(self.actions) :], strict=True)),
            self.values[indices],
            self.advantages[indices],
            self.returns[indices],
        )

    def gather_each(self, parts: Iterable[ArrayLike], num_threads: int = 1) -> Iterator[Samples]:
        """Yield the `gather` of each of `parts`, made by `num_threads` threads before it is asked for.

        With one thread each is made when it is asked for.
        """
        if num_threads == 1:
            yield from map(self.gather, parts)
            return
        with ThreadPoolExecutor(num_threads, "entitize-gather") as pool:
            waiting: deque[Future[Samples]] = deque()
            for indices in parts:
                waiting.append(pool.submit(self.gather, indices))
                if len(waiting) > num_threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    @classmethod
    def concatenate(cls, parts: Sequence[Samples]) -> Samples:
        """The steps of all `parts`, at least one, in order, as copies.

        Raises:
            ValueError: there are no parts, or they have different spaces or actions.
        """
        if not parts:
            raise ValueError("Samples.concatenate: expected at least one part, got none")
        names = list(parts[0].actions)
        for index, part in enumerate(parts):
            if list(part.actions) != names:
                raise ValueError(
                    f"Samples.concatenate: part {index}: expected actions {names}, got {list(part.actions)}"
                )
        return cls(
            concatenate_batches([part.observations for part in parts]),
            {name: concatenate([part.actions[name] for part in parts]) for name in names},
            {name: concatenate([part.log_probs[name] for part in parts]) for name in names},
            np.concatenate([part.values for part in parts]),
            np.concatenate([part.advantages for part in parts]),
            np.concatenate([part.returns for part in parts]),
        )

    def split(self, size: int | None) -> Iterator[Samples]:
        """Consecutive parts of at most `size` steps, as views; None: one part. None of no steps."""
        if not len(self):
            return
        if size is None or size >= len(self):
            yield self
            return
        for start in range(0, len(self), size):
            part = slice(start, min(start + size, len(self)))
            yield Samples(
                self.observations[part],
                {name: chosen[part] for name, chosen in self.actions.items()},
                {name: log_probs[part] for name, log_probs in self.log_probs.items()},
                self.values[part],
                self.advantages[part],
                self.returns[part],
            )


@dataclass(frozen=True, eq=False)
class Rollout:
    """T steps of E environments as they were played, before rewards are normalized and advantages estimated.

    The parts by row have one row for each step at which an environment was active, time-major.
    """

    observations: EntityBatch
    actions: dict[str, RaggedArray]  # per action, as in `ActResult.raw`; empty if there are no rows
    log_probs: dict[str, RaggedArray]  # likewise (A,) float32
    values: NDArray[np.float32]  # (T, E), when the action was taken
    rewards: NDArray[np.float32]  # (T, E)
    final_values: NDArray[np.float32]  # (T, E), see `generalized_advantages`
    terminated: NDArray[np.bool_]  # (T, E)
    truncated: NDArray[np.bool_]  # (T, E)
    active: NDArray[np.bool_]  # (T, E), false where an environment was inactive
    successes: NDArray[np.float32]  # (T, E), see `ended_successes`
    next_values: NDArray[np.float32]  # (E,), the values of the observations after the last step
    #: (E,), true where an environment was made anew, and its running episode lost; None: nowhere
    renewed: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.observations)

    @property
    def ended(self) -> NDArray[np.bool_]:
        """Flags of the steps that ended an episode (T, E)."""
        return self.terminated | self.truncated

    @property
    def lanes(self) -> NDArray[np.int64] | None:
        """The environment of each row (B,); None: of row b it is b modulo E."""
        return None if len(self) == self.active.size else np.nonzero(self.active)[1]

    def samples(
        self,
        gamma: float,
        gae_lambda: float,
        rewards: NDArray[np.float32] | None = None,
        ratios: NDArray[np.float64] | None = None,
    ) -> Samples:
        """Return all rows with their advantages, as views.

        Args:
            gamma, gae_lambda, ratios: see `generalized_advantages`.
            rewards: (T, E), in place of those that were collected.
        """
        active = None if len(self) == self.active.size else self.active
        advantages, returns = generalized_advantages(
            self.rewards if rewards is None else rewards,
            self.values,
            self.next_values,
            self.final_values,
            self.terminated,
            self.truncated,
            gamma,
            gae_lambda,
            active,
            ratios,
        )

        def by_row(numbers: NDArray[np.float32]) -> NDArray[np.float32]:
            return numbers.ravel() if active is None else numbers[active]

        parts = self.observations, self.actions, self.log_probs
        return Samples(*parts, by_row(self.values), by_row(advantages), by_row(returns))

    @classmethod
    def of_neighbours(cls, parts: Sequence[Rollout]) -> Rollout:
        """Join rollouts of as many steps: the environments of each part follow those of the part before.

        All arrays are new.
        """

        def beside(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
            return np.concatenate(arrays, -1)

        steps = np.concatenate([np.nonzero(part.active)[0] for part in parts])
        order = np.argsort(steps, kind="stable")  # within a step, rows are in the order of the parts already
        played = [part for part in parts if len(part)] or parts[:1]
        observations = concatenate_batches([part.observations for part in played]).gather(order)
        names = list(played[0].actions)
        ragged = [
            concatenate([getattr(part, kind)[name] for part in played])
            for kind in ("actions", "log_probs")
            for name in names
        ]
        ordered = gather_all(ragged, order)
        renewed = [np.zeros(len(p.next_values), bool) if p.renewed is None else p.renewed for p in parts]
        return cls(
            observations,
            dict(zip(names, ordered, strict=False)),
            dict(zip(names, ordered[len(names) :], strict=True)),
            values=beside([part.values for part in parts]),
            rewards=beside([part.rewards for part in parts]),
            final_values=beside([part.final_values for part in parts]),
            terminated=beside([part.terminated for part in parts]),
            truncated=beside([part.truncated for part in parts]),
            active=beside([part.active for part in parts]),
            successes=beside([part.successes for part in parts]),
            next_values=beside([part.next_values for part in parts]),
            renewed=beside(renewed) if any(part.renewed is not None for part in parts) else None,
        )


class RolloutBuffer:
    """Collects one rollout at a time and keeps its memory for the next."""

    def __init__(self, space: EntitySpace, num_steps: int, num_envs: int) -> None:
        shape = (num_steps, num_envs)
        self.shape = shape  # (T, E)
        self._observations = EntityBatchBuffer(space)
        self._actions: dict[str, RaggedBuffer] = {}
        self._log_probs: dict[str, RaggedBuffer] = {}
        self.values = np.zeros(shape, np.float32)
        self.rewards = np.zeros(shape, np.float32)
        self.final_values = np.zeros(shape, np.float32)
        self.terminated = np.zeros(shape, bool)
        self.truncated = np.zeros(shape, bool)
        self.active = np.ones(shape, bool)  # false where an environment was inactive
        self.successes = np.full(shape, np.nan, np.float32)
        self.last_values = np.zeros(num_envs, np.float32)  # (E,), each at its last active step; 0 before one
        self._acted = self._ended = 0

    def clear(self) -> None:
        """Forget the content and keep the memory."""
        self._observations.clear()
        for buffer in (*self._actions.values(), *self._log_probs.values()):
            buffer.clear()
        self._acted = self._ended = 0
        self.active[:] = True
        self.successes[:] = np.nan
        self.last_values = np.zeros_like(self.last_values)

    def append(self, batch: EntityBatch, acted: ActResult, active: NDArray[np.bool_] | None = None) -> None:
        """Store observations and the policy's actions.

        `batch` and `acted` are of the environments that are `active` (E,), alone; None: of all.
        """
        t = self._acted
        self._acted += 1
        if active is None:
            self.values[t] = self.last_values = acted.values
        else:
            self.active[t] = active
            self.values[t, active] = acted.values
            self.last_values = np.where(active, self.values[t], self.last_values)
        if not len(batch):
            return
        self._observations.append(batch)
        for buffers, arrays in ((self._actions, acted.raw), (self._log_probs, acted.log_probs)):
            for name, array in arrays.items():
                if name not in buffers:  # the first step says what one actor's choice looks like
                    buffers[name] = RaggedBuffer(array.inner_shape, array.dtype)
                buffers[name].append(array)

    def record(
        self,
        rewards: NDArray[np.float32],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        final_values: NDArray[np.float32],
        successes: NDArray[np.float32] | None = None,
    ) -> None:
        """Store the results of the step, each (E,).

        See `generalized_advantages` for `final_values`, and `ended_successes`.
        """
        t = self._ended
        self.rewards[t], self.final_values[t] = rewards, final_values
        self.terminated[t], self.truncated[t] = terminated, truncated
        if successes is not None:
            self.successes[t] = successes
        self._ended += 1

    def rollout(self, next_values: NDArray[np.float32]) -> Rollout:
        """Return all that was stored, as views that are valid until `clear`."""
        return Rollout(
            self._observations.batch(),
            {name: buffer.array() for name, buffer in self._actions.items()},
            {name: buffer.array() for name, buffer in self._log_probs.items()},
            self.values,
            self.rewards,
            self.final_values,
            self.terminated,
            self.truncated,
            self.active,
            self.successes,
            next_values,
        )
