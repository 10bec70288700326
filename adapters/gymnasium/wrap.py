"""`wrap`: a Gymnasium environment as an entity environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
from gymnasium.utils import RecordConstructorArgs

from ...envs import EntityBatch, ObservationError, unbatch_observation
from ...envs.errors import reset_needed
from ...envs.returned import (
    check_has_spaces,
    env_name,
    old_gym_hint,
    other_package_hint,
    reset_values,
    step_values,
)
from .lane_errors import contains, misfit
from .results import check_rewards, scalar_reward
from .translation import MASK, MaskSource, SpaceTranslation, checked_actions, lift
from .views.batches import stack
from .views.per_entity import PerEntity
from .views.scope import View
from .views.view_config import from_config, to_config


class EntityWrapper(gymnasium.Wrapper[dict[str, Any], Mapping[str, Any], Any, Any], RecordConstructorArgs):
    """A Gymnasium environment as an entity environment; made by `wrap`, and again by its spec.

    Observations and actions are those of `EntitySpace` and `EntityActionSpace`. Rewards, ends, infos and
    rendering are the wrapped environment's.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        view: View | Mapping[str, Any] | None = None,
        action_mask: MaskSource = "auto",
        actions: PerEntity | Mapping[str, Any] | None = None,
    ) -> None:
        RecordConstructorArgs.__init__(
            self, view=to_config(view), action_mask=action_mask, actions=to_config(actions)
        )
        gymnasium.Wrapper.__init__(self, env)
        check_rewards(env)
        declared = from_config(view)
        check_has_spaces(env_name(env), env)
        self._translation = SpaceTranslation(
            env_name(env),
            env.observation_space,
            env.action_space,
            env,
            declared,
            action_mask,
            per_entity=from_config(actions),
        )
        self._raw_space = env.observation_space
        self.observation_space = self._space = self._translation.observation_space
        self.action_space = self._space.actions
        self._last: EntityBatch | None = None

    @property
    def view(self) -> View:
        """The view in use: the declared one, or the one that was found."""
        return self._translation.view

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Start an episode.

        Raises:
            ObservationError: the wrapped environment returned what its space doesn't allow.
        """
        self._last = None
        base = self.env.unwrapped
        generator = getattr(base, "_np_random", None)
        result = self.env.reset(seed=seed, options=options)
        observation, info = reset_values(f"{self._translation.env_name}.reset", result)
        if seed is not None and isinstance(base, gymnasium.Env) and base._np_random is generator:
            # An environment that keeps random numbers elsewhere (MinAtar) and never seeds Gymnasium's.
            gymnasium.Env.reset(base, seed=seed)
        return self._observe(observation, info), info

    def step(self, action: Mapping[str, Any]) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Step the environment.

        Raises:
            ActionError: an unknown action, one that is left out or has a wrong length, or an illegal choice;
                the environment has not moved.
            ObservationError: the wrapped environment returned what its space doesn't allow.
            gymnasium.error.ResetNeeded: before the first reset, and after the wrapped environment raised.
        """
        name = self._translation.env_name
        if self._last is None:
            raise reset_needed(name, "step()")
        actions = checked_actions(name, self._space, self._last, action)
        raw = self._translation.decode_one(actions, self._last)
        self._last = None  # an environment that raises needs a reset
        try:
            result = self.env.step(raw)
        except Exception as error:
            error.add_note(f"raised by {name} in step({raw!r}), wrapped by entitize")
            raise
        observation, reward, terminated, truncated, info = step_values(f"{name}.step", result, scalar_reward)
        ended = terminated or truncated
        return self._observe(observation, info, ended), reward, terminated, truncated, info

    def _observe(self, observation: Any, info: dict[str, Any], ended: bool = False) -> dict[str, Any]:
        mask = None
        if self._translation.mask_method:
            mask = lift(self.env.get_wrapper_attr("action_masks")(), self._translation.env_name)
        elif self._translation.mask_in_info and MASK in info:
            mask = lift(info[MASK], self._translation.env_name)
        try:
            batched = stack(self._raw_space, [observation])
            sources: dict[str, list[Any]] = {"env": [self.env], "info": [info]}
            self._last = self._translation.batch(batched, 1, mask, sources=sources, ended=ended)
        except ObservationError:
            raise
        except Exception as error:
            if contains(self._raw_space, observation):
                raise
            reason = misfit(self._raw_space, observation, "observation_space")
            reason = reason or f"expected an observation of {self._raw_space}, got {observation!r:.300}"
            raise ObservationError(f"{self._translation.env_name}: {reason}") from error
        plain = unbatch_observation(self._space, self._last, 0)
        self._space.actions.observe(plain)
        return plain


def wrap(
    env: gymnasium.Env[Any, Any],
    view: View | None = None,
    *,
    action_mask: MaskSource = "auto",
    actions: PerEntity | Mapping[str, PerEntity] | None = None,
) -> EntityWrapper:
    """Make an entity environment of a Gymnasium environment.

        env = ez.wrap(gymnasium.make("CartPole-v1"))
        env = ez.wrap(gymnasium.make("highway-v0"), ez.views.Rows(presence="presence", name="Vehicle"))

    Args:
        env: any environment with Gymnasium's interface.
        view: how observations become entities, one of `ez.views`; by default the one that suits the
            environment, or its observation space (`ez.views.auto`).
        action_mask: where legal actions are found: in `info["action_mask"]`, in
            `observation["action_mask"]`, or from a method `action_masks()`; "auto" takes what is there.
        actions: `ez.views.PerEntity`, if the numbers of the action belong to entities; for several actions
            one for each of them, by name.

    Returns:
        an environment with an `EntitySpace` and an `EntityActionSpace`; its `spec` makes it again.

    Raises:
        ViewError: the view doesn't fit the observation space; the message names a view that would.
        TypeError: `env` is no environment, is an entity environment already, or declares rewards of several
            numbers.
    """
    if isinstance(env, gymnasium.vector.VectorEnv):
        raise TypeError(
            f"wrap: expected a single environment, got the vector environment {env}. Use wrap_vec"
        )
    if not isinstance(env, gymnasium.Env):
        raise TypeError(
            f"wrap: expected a gymnasium.Env, got {env!r}."
            + (other_package_hint(env) or old_gym_hint(env) or " For ids and functions use entitize.make")
        )
    return EntityWrapper(env, view, action_mask, actions)
