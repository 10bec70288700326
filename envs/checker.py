"""`check_entity_env`: the conformance suite that users run on their own environments."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from ..ragged import RaggedArray
from .actor_check import acting, check_actors, check_visible
from .batch.batch_actions import illegal_actions, sample_actions
from .check_subjects import Seen, SingleSubject, Subject, VectorSubject
from .errors import ActionError
from .gymnasium_checks import check_with_gymnasium
from .overview import Overview
from .vector.vector_env import EntityVectorEnv


def check_entity_env(
    env: gymnasium.Env[Any, Any] | EntityVectorEnv, num_steps: int = 100, seed: int = 0, render: bool = True
) -> Overview:
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

    Returns:
        what the environment showed, to print: the numbers of entities, the ranges of features and rewards.

    Raises:
        ConformanceError: names the broken rule and where it is broken.
        TypeError: `env` is neither kind of environment.
    """
    subject: Subject
    if isinstance(env, EntityVectorEnv):
        subject = VectorSubject(env)
    elif isinstance(env, gymnasium.Env):
        subject = SingleSubject(env)
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
    return subject.overview(played)


def _play(subject: Subject, seed: int, num_steps: int, provoke: bool = False) -> list[Seen]:
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


def _check_refused(subject: Subject, what: str, illegal: dict[str, RaggedArray]) -> None:
    try:
        subject.step(illegal)
    except ActionError:
        return
    except Exception as error:
        subject.fail(f"{what}: expected ActionError, got {error!r}")
    subject.fail(f"{what}: expected ActionError, got no error")


def _check_left_out(subject: Subject, seed: int) -> None:
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


def _check_same(subject: Subject, first: list[Seen], second: list[Seen]) -> None:
    difference = _difference(first, second)
    if difference is not None:
        subject.fail(
            "expected the same results for the same seed and actions, got different results in"
            f" {difference}. Take random numbers from self.np_random and keep nothing between episodes; if it"
            " cannot be helped, register the environment with nondeterministic=True"
        )


def _difference(first: list[Seen], second: list[Seen]) -> str | None:
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
