"""`Subject`: an environment under examination by `check_entity_env`, single or vector, as a batch."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NoReturn

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from ..ragged import RaggedArray
from .actions import EntityActionSpace
from .actions.array_checks import array_problem
from .batch.batch_actions import sample_actions
from .batch.entity_batch import EntityBatch, batch_observations
from .errors import REPLACED_OBSERVATIONS, ConformanceError, ObservationError
from .overview import Overview
from .returned import env_name, tuple_words
from .spaces import EntitySpace
from .vector.infos import inactive_flags
from .vector.vector_env import EntityVectorEnv

_MEMORY = 4  # how many observations back a new one may not share its arrays with


@dataclass
class Seen:
    """The result of one reset or step."""

    batch: EntityBatch
    rewards: NDArray[np.float32]  # (B,); zeros for a reset
    terminated: NDArray[np.bool_]  # (B,)
    truncated: NDArray[np.bool_]  # (B,)
    final: EntityBatch | None = None
    inactive: NDArray[np.bool_] | None = None  # (B,); None: no lane is


class Subject(ABC):
    """An environment under examination, as a batch of one or of many."""

    name: str
    space: EntitySpace
    nondeterministic: bool

    def __init__(self, env: Any, name: str, observation_space: Any, action_space: Any) -> None:
        self.env = env
        self.name = name
        self.space = observation_space
        self.action_space = action_space
        self.nondeterministic = env.spec is not None and env.spec.nondeterministic
        self._kept: list[list[NDArray[Any]]] = []

    def fail(self, sentence: str) -> NoReturn:
        raise ConformanceError(f"{self.name}: {sentence}")

    def check_spaces(self) -> None:
        """The spaces must be entity spaces that belong together."""
        if not isinstance(self.space, EntitySpace):
            replaced = isinstance(self.action_space, EntityActionSpace)
            hint = f". {REPLACED_OBSERVATIONS}" if replaced else ""
            self.fail(f"observation space: expected an EntitySpace, got {self.space!r}{hint}")
        if not isinstance(self.action_space, EntityActionSpace):
            self.fail(f"action space: expected an EntityActionSpace, got {self.action_space!r}")
        if self.space.actions != self.action_space:
            self.fail(
                f"observation space: expected one made for the action space {self.action_space!r},"
                f" got one made for {self.space.actions!r}"
            )

    @abstractmethod
    def reset(self, seed: int | None) -> Seen:
        """Reset and check what comes back."""

    @abstractmethod
    def step(self, actions: dict[str, RaggedArray]) -> Seen:
        """Step and check what comes back; ActionErrors pass."""

    def proceed(self, seen: Seen) -> Seen:
        """Return the next observation to act on: `seen`, or that of a reset if the episode has ended."""
        return seen

    def overview(self, played: list[Seen]) -> Overview:
        """Return what was seen in the steps `played`, the first of which is a reset."""
        shown = Overview(self.space, len(played[0].rewards))
        shown.observe(played[0].batch, played[0].inactive)
        resets_by_a_step = self.env.metadata.get("autoreset_mode") is AutoresetMode.NEXT_STEP
        for before, seen in pairwise(played):
            active = np.ones(len(seen.rewards), bool) if before.inactive is None else ~before.inactive
            if resets_by_a_step:
                active &= ~(before.terminated | before.truncated)
            shown.observe(seen.batch, seen.inactive)
            shown.end_step(seen.rewards, seen.terminated, seen.truncated, active)
        return shown

    def check_fresh(self, arrays: list[NDArray[Any]], where: str) -> None:
        """Check that `arrays` are new: users keep what they were given."""
        for earlier in self._kept:
            for old in earlier:
                if any(np.may_share_memory(old, new) for new in arrays if new.size):
                    self.fail(
                        f"{where}: expected new arrays at every call, got arrays that were returned before"
                    )
        self._kept = [*self._kept[-_MEMORY + 1 :], arrays]


class SingleSubject(Subject):
    """A `gymnasium.Env`."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        spaces = (getattr(env, name, None) for name in ("observation_space", "action_space"))
        super().__init__(env, env_name(env), *spaces)

    def reset(self, seed: int | None) -> Seen:
        return self._seen("reset", *self._returned("reset", 2, lambda: self.env.reset(seed=seed)))

    def step(self, actions: dict[str, RaggedArray]) -> Seen:
        action = {name: order[0].copy() for name, order in actions.items()}
        observation, reward, terminated, truncated, info = self._returned(
            "step", 5, lambda: self.env.step(action)
        )
        for flag, what in ((terminated, "terminated"), (truncated, "truncated")):
            if not isinstance(flag, (bool, np.bool_)):
                self.fail(f"step: {what}: expected a bool, got {flag!r}")
        try:
            finite = math.isfinite(reward)
        except TypeError:
            finite = False
        if not finite:
            self.fail(f"step: reward: expected a finite number, got {reward!r}")
        return self._seen("step", observation, info, float(reward), bool(terminated), bool(truncated))

    def _returned(self, where: str, count: int, call: Any) -> tuple[Any, ...]:
        try:
            result = call()
        except ObservationError as error:
            raise ConformanceError(str(error)) from error
        if not isinstance(result, tuple) or len(result) != count:
            self.fail(f"{where}: expected a tuple of {count}, got {tuple_words(result)}")
        return result

    def _seen(
        self,
        where: str,
        observation: Any,
        info: Any,
        reward: float = 0.0,
        terminated: bool = False,
        truncated: bool = False,
    ) -> Seen:
        problem = self.space.problem(observation)
        if problem:
            self.fail(f"{where}: {problem}")
        if not isinstance(info, dict):
            self.fail(f"{where}: info: expected a dict, got {type(info).__name__}")
        self.check_fresh(list(arrays_of(observation)), where)
        batch = batch_observations(self.space, [deepcopy(observation)])
        return Seen(batch, np.array([reward], np.float32), np.array([terminated]), np.array([truncated]))

    def proceed(self, seen: Seen) -> Seen:
        if not (seen.terminated[0] or seen.truncated[0]):
            return seen
        if self.env.unwrapped is self.env:
            sampled = sample_actions(self.space.actions, seen.batch, np.random.default_rng(0))
            try:
                self.env.step({name: choices[0] for name, choices in sampled.items()})
            except gymnasium.error.ResetNeeded:
                return self.reset(None)
            self.fail("step after the end of an episode: expected gymnasium.error.ResetNeeded, got no error")
        return self.reset(None)


class VectorSubject(Subject):
    """An `EntityVectorEnv`."""

    def __init__(self, env: EntityVectorEnv) -> None:
        super().__init__(env, env._where, env.single_observation_space, env.single_action_space)

    def check_spaces(self) -> None:
        super().check_spaces()
        mode = self.env.metadata.get("autoreset_mode")
        if not isinstance(mode, AutoresetMode):
            self.fail(f"metadata['autoreset_mode']: expected an AutoresetMode, got {mode!r}")

    def reset(self, seed: int | None) -> Seen:
        batch, info = self.env.reset(seed=seed)
        self._check_batch("reset", batch)
        self._check_inactive("reset", batch, info)
        count = self.env.num_envs
        nothing = np.zeros(count, bool)
        return Seen(batch, np.zeros(count, np.float32), nothing, nothing, inactive=inactive_flags(info))

    def step(self, actions: dict[str, RaggedArray]) -> Seen:
        batch, rewards, terminated, truncated, info = self.env.step(actions)
        self._check_batch("step", batch)
        self._check_inactive("step", batch, info)
        self._check_column("step: rewards", rewards, np.float32)
        self._check_column("step: terminated", terminated, bool)
        self._check_column("step: truncated", truncated, bool)
        if not np.isfinite(rewards).all():
            lane = np.isfinite(rewards).argmin()
            self.fail(f"step: env {lane}: reward: expected a finite number, got {rewards[lane]}")
        ended = terminated | truncated
        # Where lanes can be inactive, those that terminated need no final observation.
        needed = truncated & ~terminated if inactive_flags(info) is not None else ended
        gives = self.env.metadata.get("final_obs") and (needed.any() or "final_obs" in info)
        final = self._final(ended, needed, info) if gives else None
        flags = (terminated.copy(), truncated.copy())
        return Seen(batch, rewards.copy(), *flags, final, inactive_flags(info))

    def _final(
        self, ended: NDArray[np.bool_], needed: NDArray[np.bool_], info: dict[str, Any]
    ) -> EntityBatch:
        """Return the last observations of ended lanes, all `needed` ones among them, checked."""
        if self.env.metadata["autoreset_mode"] is not AutoresetMode.SAME_STEP:
            self.fail(
                "metadata['final_obs']: expected the autoreset mode SAME_STEP, got"
                f" {self.env.metadata['autoreset_mode'].name}"
            )
        given = np.asarray(info.get("_final_obs", ()), bool)
        if given.shape != ended.shape or (needed & ~given | given & ~ended).any():
            self.fail(
                f"info['_final_obs']: expected the envs {np.flatnonzero(ended)}, whose episodes ended,"
                f" got {np.flatnonzero(given)}"
            )
        final = info.get("final_obs")
        if not isinstance(final, EntityBatch) or len(final) != given.sum():
            self.fail(
                f"info['final_obs']: expected an EntityBatch of the {given.sum()} ended envs, got {final!r}"
            )
        lanes = np.flatnonzero(given).tolist()
        problem = type(self.env.observation_space)(self.space, len(final)).problem(final, lanes)
        if problem:
            self.fail(f"info['final_obs']: {problem}")
        return final

    def _check_batch(self, where: str, batch: Any) -> None:
        problem = self.env.observation_space.problem(batch)
        if problem:
            self.fail(f"{where}: {problem}")
        arrays = [a.values if isinstance(a, RaggedArray) else a for a in batch.arrays().values()]
        self.check_fresh([a for a in arrays if a.size], where)

    def _check_column(self, where: str, column: Any, dtype: Any) -> None:
        problem = array_problem(column, dtype, (self.env.num_envs,))
        if problem:
            self.fail(f"{where}: {problem}")

    def _check_inactive(self, where: str, batch: EntityBatch, info: dict[str, Any]) -> None:
        inactive = inactive_flags(info)
        if inactive is None:
            return
        self._check_column(f"{where}: info['inactive']", inactive, bool)
        for name, part in batch.actions.items():
            acting = np.flatnonzero(inactive & (part.actors.lengths > 0))
            if acting.size:
                self.fail(
                    f"{where}: env {acting[0]} is inactive: expected no actors of action {name!r},"
                    f" got {part.actors.lengths[acting[0]]}"
                )


def arrays_of(observation: Any) -> Iterator[NDArray[Any]]:
    """Yield the arrays in an observation: nested dicts."""
    if isinstance(observation, dict):
        for part in observation.values():
            yield from arrays_of(part)
    else:
        yield observation
