"""`Overview`: what an environment showed in some steps, in a few lines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .batch.entity_batch import EntityBatch
from .spaces import EntitySpace
from .vector.episode_counts import count_step


class Overview:
    """The ranges of what an environment showed in some steps: entities, features, actors, rewards, episodes.

    `str()` gives a line for each type and action: a type that never came, a feature that never changed and a
    reward that was always 0 are seen there at once.

        Mine: 0 to 3 at a time; x -3 to 2, y -3 to 2
        Laser: never
        action Move: 1 to 2 actors at a time
        rewards: -1 to 1, and 0 in 96 % of the steps
        episodes: 14 ended, after 3 to 20 steps, with returns of -1 to 3

    Inactive lanes show nothing.

    Args:
        space: of the observations.
        num_envs: the number of lanes.

    Attributes:
        num_steps: how many steps the lanes were active at, together.
        num_ended: how many episodes have ended.
    """

    def __init__(self, space: EntitySpace, num_envs: int = 1) -> None:
        self._entities = {name: _Rows(features) for name, features in space.entities.items()}
        self._globals = _Rows(space.global_features)
        self._space, self._actors = space, {name: _Range() for name in space.actions}
        self._rewards, self._lengths, self._returns = _Range(), _Range(), _Range()
        self.num_steps = self._num_unrewarded = self._num_truncated = self.num_ended = 0
        self._length = np.zeros(num_envs, np.int64)  # of each lane's episode, so far
        self._return = np.zeros(num_envs)

    def observe(self, batch: EntityBatch, inactive: NDArray[np.bool_] | None = None) -> None:
        """Take in the observations of all lanes; `inactive` bool (num_envs,), None: none is."""
        if inactive is not None:
            batch = batch.gather(np.flatnonzero(~inactive))
        for name, rows in batch.entities.items():
            self._entities[name].add(rows.values, rows.lengths)
        self._globals.add(batch.globals, np.ones(len(batch), np.int64))
        for name, part in batch.actions.items():
            self._actors[name].add(part.actors.lengths)

    def end_step(
        self,
        rewards: NDArray[np.float32],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        active: NDArray[np.bool_],
    ) -> None:
        """Take in the results of a step, and which lanes were active at it, each (num_envs,)."""
        self._return += rewards
        self.num_steps += int(active.sum())
        self._num_unrewarded += int((active & (rewards == 0)).sum())
        self._rewards.add(rewards[active | (rewards != 0)])
        ended = terminated | truncated
        lanes, lengths = count_step(self._length, ended, active)
        self.num_ended += len(lanes)
        self._num_truncated += int((truncated & ~terminated)[lanes].sum())
        self._lengths.add(lengths)
        self._returns.add(self._return[lanes])
        self._return[ended] = 0

    def __repr__(self) -> str:
        return f"Overview({self.num_steps} steps, {self.num_ended} episodes ended)"

    @property
    def acting(self) -> set[str]:
        """The names of the actions that had an actor, or were available."""
        return {name for name, actors in self._actors.items() if actors.most > 0}

    def __str__(self) -> str:
        lines = [f"{name}: {rows}" for name, rows in self._entities.items()]
        if self._globals.features:
            lines.append(f"globals: {self._globals.in_words()}")
        lines += [f"action {name}: {self._actors_in_words(name)}" for name in self._actors]
        return "\n".join([*lines, f"rewards: {self._rewards_in_words()}", f"episodes: {self._episodes()}"])

    def _actors_in_words(self, action: str) -> str:
        actors = self._actors[action]
        if not self._space.actions[action].is_global:
            return _at_a_time(actors, " actor" if actors.most == 1 else " actors")
        return "never" if actors.most <= 0 else "at every step" if actors.least else "at some steps"

    def _rewards_in_words(self) -> str:
        if not self.num_steps:
            return "no step"
        if not self._rewards.most and not self._rewards.least:
            return "always 0"
        share = 100 * self._num_unrewarded / self.num_steps
        return f"{self._rewards}, and 0 in {share:.3g} % of the steps" if share else str(self._rewards)

    def _episodes(self) -> str:
        if not self.num_ended:
            return f"none ended in {self.num_steps} steps"
        cut = f" ({self._num_truncated} truncated)" if self._num_truncated else ""
        steps = "1 step" if self._lengths.most == 1 else f"{self._lengths} steps"
        return f"{self.num_ended} ended{cut}, after {steps}, with returns of {self._returns}"


class _Range:
    """The least and the most of some numbers."""

    least, most = np.inf, -np.inf

    def add(self, values: NDArray[np.generic]) -> None:
        if values.size:
            self.least = min(self.least, float(values.min()))
            self.most = max(self.most, float(values.max()))

    def __str__(self) -> str:
        return f"{self.least:.5g}" if self.least == self.most else f"{self.least:.5g} to {self.most:.5g}"


class _Rows:
    """The entities of a type: how many at a time, and the range of each feature."""

    def __init__(self, features: Sequence[str]) -> None:
        self.features = list(features)
        self._numbers = _Range()
        self._ranges = [_Range() for _ in features]

    def add(self, values: NDArray[np.float32], lengths: NDArray[np.int64]) -> None:
        """Add rows (N, F), and how many there were at each step."""
        self._numbers.add(lengths)
        for column, known in zip(values.T, self._ranges, strict=True):
            known.add(column)

    def in_words(self) -> str:
        """The features alone."""
        return ", ".join(
            f"{name} {'always ' if known.least == known.most else ''}{known}"
            for name, known in zip(self.features, self._ranges, strict=True)
        )

    def __str__(self) -> str:
        many = _at_a_time(self._numbers)
        return f"{many}; {self.in_words()}" if self.features and self._numbers.most > 0 else many


def _at_a_time(numbers: _Range, what: str = "") -> str:
    return f"{numbers}{what} at a time" if numbers.most > 0 else "never"
