"""`check_entity_env`: the conformance suite that users run on their own environments."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, NoReturn

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from ..ragged import RaggedArray
from .actions import EntityActionSpace
from .actions.array_checks import array_problem
from .actor_check import acting, check_actors, check_visible
from .batch.batch_actions import illegal_actions, sample_actions
from .batch.entity_batch import EntityBatch, batch_observations
from .errors import REPLACED_OBSERVATIONS, ActionError, ConformanceError, ObservationError
from .gymnasium_checks import check_with_gymnasium
from .returned import env_name, tuple_words
from .spaces import EntitySpace
from .vector.infos import inactive_flags
from .vector.vector_env import EntityVectorEnv

_MEMORY = 4  # how many observations back a new one may not share its arrays with


def check_entity_env(
    env: gymnasium.Env[Any, Any] | EntityVectorEnv, num_steps: int = 100, seed: int = 0, render: bool = True
) -> None:
    """Check that an environment keeps the rules of entity environments.

    Plays `num_steps` random legal steps three times from the same seed; the third time it offers illegal
    actions before each step. The rules are:

    - observations are of the space (shapes, dtypes, finite features, names, indices, masks) and in fresh
      arrays, rewards are finite numbers, flags are bools;
    - the same seed gives the same episodes;
    - an illegal action raises `ActionError` and moves nothing; so does an action that is left out although
      it has actors, unless the action space is `optional` (see `EntityActionSpace`);
    - a single environment, unwrapped, raises `gymnasium.error.ResetNeeded` at a step after the end, and
      passes Gymnasium's own `check_env` without a warning, and renders in all of its modes (for an
      environment under a wrapper, what it declares about rendering is a warning here, and so is a
      `check_env` that cannot run because `unwrapped` is no `gymnasium.Env`);
    - some action has an actor at some step; of a single action that never has one there is a warning;
    - actors and actees are visible to the policy;
    - a vector environment declares its autoreset mode, and gives `final_obs` where it says so; its
      inactive lanes have no actors.

    The environment is left open, in need of a reset.

    Args:
        env: a `gymnasium.Env` with an `EntitySpace`, or an `EntityVectorEnv`.
        num_steps: how many steps to play; enough for an episode to end in.
        seed: the seed of the environment and of the actions.
        render: check rendering too, which may need a display.

    Raises:
        ConformanceError: names the broken rule and where it is broken.
        TypeError: `env` is neither kind of environment.
    """
    subject: _Subject
    if isinstance(env, EntityVectorEnv):
        subject = _Vector(env)
    elif isinstance(env, gymnasium.Env):
        subject = _Single(env)
    else:
        raise TypeError(
            f"check_entity_env: expected a gymnasium.Env or an EntityVectorEnv, got {type(env).__name__}"
        )
    subject.check_spaces()
    played, again = _play(subject, seed, num_steps), _play(subject, seed, num_steps)
    provoked = _play(subject, seed, num_steps, provoke=True)
    if not subject.nondeterministic:
        _check_same(subject, played, again)
        difference = _difference(played, provoked)
        if difference is not None:
            # Blame illegal actions only if the results differ every time.
            _check_same(subject, played, _play(subject, seed, num_steps))
            _check_same(subject, provoked, _play(subject, seed, num_steps, provoke=True))
            subject.fail(
                "expected an unchanged environment after an illegal action (ActionError), got different"
                f" results in {difference}"
            )
    check_visible(subject.name, (seen.batch for seen in played))
    _check_left_out(subject, seed)
    found = acting(seen.batch for seen in played)
    if not found and subject.space.actions:  # they may be rare
        num_steps *= 10
        found = acting(seen.batch for seen in _play(subject, seed, num_steps))
    check_actors(subject.name, subject.space.actions, found, num_steps)
    if isinstance(env, gymnasium.Env):
        check_with_gymnasium(env, subject.name, render)


@dataclass
class _Seen:
    """The result of one reset or step."""

    batch: EntityBatch
    rewards: NDArray[np.float32]  # (B,); zeros for a reset
    terminated: NDArray[np.bool_]  # (B,)
    truncated: NDArray[np.bool_]  # (B,)
    final: EntityBatch | None = None


class _Subject(ABC):
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
    def reset(self, seed: int | None) -> _Seen:
        """Reset and check what comes back."""

    @abstractmethod
    def step(self, actions: dict[str, RaggedArray]) -> _Seen:
        """Step and check what comes back; ActionErrors pass."""

    def proceed(self, seen: _Seen) -> _Seen:
        """Return the next observation to act on: `seen`, or that of a reset if the episode has ended."""
        return seen

    def check_fresh(self, arrays: list[NDArray[Any]], where: str) -> None:
        """Check that `arrays` are new: users keep what they were given."""
        for earlier in self._kept:
            for old in earlier:
                if any(np.may_share_memory(old, new) for new in arrays if new.size):
                    self.fail(
                        f"{where}: expected new arrays at every call, got arrays that were returned before"
                    )
        self._kept = [*self._kept[-_MEMORY + 1 :], arrays]


class _Single(_Subject):
    """A `gymnasium.Env`."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        spaces = (getattr(env, name, None) for name in ("observation_space", "action_space"))
        super().__init__(env, env_name(env), *spaces)

    def reset(self, seed: int | None) -> _Seen:
        return self._seen("reset", *self._returned("reset", 2, lambda: self.env.reset(seed=seed)))

    def step(self, actions: dict[str, RaggedArray]) -> _Seen:
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
    ) -> _Seen:
        problem = self.space.problem(observation)
        if problem:
            self.fail(f"{where}: {problem}")
        if not isinstance(info, dict):
            self.fail(f"{where}: info: expected a dict, got {type(info).__name__}")
        self.check_fresh(list(arrays_of(observation)), where)
        batch = batch_observations(self.space, [deepcopy(observation)])
        return _Seen(batch, np.array([reward], np.float32), np.array([terminated]), np.array([truncated]))

    def proceed(self, seen: _Seen) -> _Seen:
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


class _Vector(_Subject):
    """An `EntityVectorEnv`."""

    def __init__(self, env: EntityVectorEnv) -> None:
        super().__init__(env, env._where, env.single_observation_space, env.single_action_space)

    def check_spaces(self) -> None:
        super().check_spaces()
        mode = self.env.metadata.get("autoreset_mode")
        if not isinstance(mode, AutoresetMode):
            self.fail(f"metadata['autoreset_mode']: expected an AutoresetMode, got {mode!r}")

    def reset(self, seed: int | None) -> _Seen:
        batch, info = self.env.reset(seed=seed)
        self._check_batch("reset", batch)
        self._check_inactive("reset", batch, info)
        count = self.env.num_envs
        return _Seen(batch, np.zeros(count, np.float32), np.zeros(count, bool), np.zeros(count, bool))

    def step(self, actions: dict[str, RaggedArray]) -> _Seen:
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
        return _Seen(batch, rewards.copy(), terminated.copy(), truncated.copy(), final)

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
        problem = type(self.env.observation_space)(self.space, len(final)).problem(final)
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


def _play(subject: _Subject, seed: int, num_steps: int, provoke: bool = False) -> list[_Seen]:
    """Random legal steps, reproducible by `seed`; with `provoke`, illegal actions are tried before each."""
    rng = np.random.default_rng(seed)
    seen = subject.reset(seed)
    played = [seen]
    for _ in range(num_steps):
        actions = sample_actions(subject.space.actions, seen.batch, rng)
        if provoke:
            for what, illegal in illegal_actions(subject.space, seen.batch, actions):
                _check_refused(subject, what, illegal)
        try:
            seen = subject.step(actions)
        except ActionError as error:
            subject.fail(f"step with a legal action: expected no error, got ActionError: {error}")
        played.append(seen)
        seen = subject.proceed(seen)
    return played


def _check_refused(subject: _Subject, what: str, illegal: dict[str, RaggedArray]) -> None:
    try:
        subject.step(illegal)
    except ActionError:
        return
    except Exception as error:
        subject.fail(f"{what}: expected ActionError, got {error!r}")
    subject.fail(f"{what}: expected ActionError, got no error")


def _check_left_out(subject: _Subject, seed: int) -> None:
    """Actions that have actors may be left out where the space says `optional`, and nowhere else."""
    seen = subject.reset(seed)
    acting = [name for name, part in seen.batch.actions.items() if part.actors.num_items]
    may_leave_out = subject.space.actions.optional or not acting
    try:
        subject.env.step({})
    except ActionError as error:
        if may_leave_out:
            subject.fail(f"step({{}}): no action is required: expected no error, got ActionError: {error}")
        if repr(acting[0]) not in str(error):
            subject.fail(
                f"step({{}}): expected an ActionError that names {acting[0]!r}, got ActionError: {error}"
            )
        return
    if not may_leave_out:
        subject.fail(f"step({{}}) without action {acting[0]!r}: expected ActionError, got no error")


def _check_same(subject: _Subject, first: list[_Seen], second: list[_Seen]) -> None:
    difference = _difference(first, second)
    if difference is not None:
        subject.fail(
            "expected the same results for the same seed and actions, got different results in"
            f" {difference}. Take random numbers from self.np_random and keep nothing between episodes; if it"
            " cannot be helped, register the environment with nondeterministic=True"
        )


def _difference(first: list[_Seen], second: list[_Seen]) -> str | None:
    """Return the first step with different results, and which they are; None if all are the same."""
    for step, (one, other) in enumerate(zip(first, second, strict=True)):
        where = f"step {step}" if step else "reset"
        different = one.batch.differences(other.batch)
        if different:
            return f"{where}: {', '.join(different)}"
        for what in ("rewards", "terminated", "truncated"):
            if not np.array_equal(getattr(one, what), getattr(other, what)):
                return f"{where}: {what}"
        if one.final is not None and (other.final is None or not one.final.equals(other.final)):
            return f"{where}: final_obs"
    return None


def arrays_of(observation: Any) -> Iterator[NDArray[Any]]:
    """Yield the arrays in an observation: nested dicts."""
    if isinstance(observation, dict):
        for part in observation.values():
            yield from arrays_of(part)
    else:
        yield observation
