"""`from_entity_gym`: wrap an environment of the `entity_gym` package as an entity environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...envs import (
    ActionSpace,
    Categorical,
    CategoricalAction,
    CategoricalMask,
    EntityActionSpace,
    EntityEnv,
    EntitySpace,
    GlobalCategorical,
    GlobalCategoricalAction,
    GlobalCategoricalMask,
    Observation,
    ObservationError,
    SelectEntity,
    SelectEntityAction,
    SelectEntityMask,
)
from ...envs.actions import Action, Mask
from ...envs.env import Transition
from ...envs.errors import check_render_mode
from .package import entity_gym
from .random_streams import RandomStreams


class EntityGymEnv(EntityEnv):
    """An `entity_gym` environment behind our interface; made by `from_entity_gym`.

    - Entity Gym has one flag for an episode's end, `done`; it becomes `terminated`, nothing is truncated.
    - An observation's `metrics` are the step's info.
    - Entity Gym has no no-op: an action that is left out although it has actors is an `ActionError`.
    - It has no seeds: its environments draw from `random` and `np.random`. They get streams of their own,
      which continue from call to call: `reset(seed=s)` starts them as `random.seed(s); np.random.seed(s)`
      would, and other code finds both as if the environment had not drawn. A seeded reset makes the
      environment anew if it was given as a class or function, because some carry things over from episode to
      episode. Generators that an environment makes for itself are not seeded.
    - An actor without an entity to select, and one that is allowed nothing in an episode's last observation,
      is left out. Otherwise a mask that allows nothing is an `ObservationError`.

    Attributes:
        env: the `entity_gym` environment.
    """

    def __init__(
        self,
        env: entity_gym.Environment | Callable[[], entity_gym.Environment],
        hidden: bool | None = None,
        render_mode: str | None = None,
    ) -> None:
        self._make = None if isinstance(env, entity_gym.Environment) else env
        self._streams = RandomStreams(int(np.random.default_rng().integers(2**32)))
        with self._streams.drawn_from():
            self.env = env if isinstance(env, entity_gym.Environment) else env()
            if not isinstance(self.env, entity_gym.Environment):
                raise TypeError(f"expected an entity_gym Environment or a factory of one, got {self.env!r}")
            if hidden is None:
                hidden = bool(self.env.reset().visible)
            self._theirs: dict[str, Any] = self.env.action_space()
            their_space = self.env.obs_space()
        self._name = type(self.env).__name__
        self.action_space = EntityActionSpace(
            {name: _our_action(self._name, name, action) for name, action in self._theirs.items()}
        )
        entities = {name: list(entity.features) for name, entity in their_space.entities.items()}
        self.observation_space = EntitySpace(
            entities, self.action_space, list(their_space.global_features), hidden
        )
        renders = type(self.env).render is not entity_gym.Environment.render
        modes = ["rgb_array"] if renders else []
        check_render_mode(self._name, render_mode, modes)
        self.metadata = {"render_modes": modes}
        self.render_mode = render_mode

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Start an episode; a seed restarts the environment's random numbers."""
        if seed is not None:
            self._seed_streams(seed)
        return super().reset(seed=seed, options=options)

    def render(self) -> Any:
        """A frame, uint8 (H, W, 3); None without a render mode."""
        return None if self.render_mode is None else self.env.render(mode="rgb_array")

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def _reset(self, options: dict[str, Any]) -> Observation:
        with self._streams.drawn_from():
            observation = self.env.reset()
        return self._ours(observation)

    def _step(self, actions: dict[str, Action]) -> Transition:
        theirs = {name: self._their_action(name, action) for name, action in actions.items()}
        with self._streams.drawn_from():
            observation = self.env.act(theirs)
        ours = self._ours(observation)
        return ours, float(observation.reward), bool(observation.done), False, dict(observation.metrics)

    def _seed_streams(self, seed: int) -> None:
        if self._make is not None:
            self.env.close()
            with RandomStreams(seed % 2**32).drawn_from():
                self.env = self._make()
        self._streams = RandomStreams(seed % 2**32)

    def _shown_name(self) -> str:
        return self._name

    def _ours(self, given: Any) -> Observation:
        if not isinstance(given, entity_gym.Observation):
            raise ObservationError(f"{self._name}: must return an Observation, got {type(given).__name__}")
        visible = given.visible
        if visible and not self.observation_space.hidden:
            if not all(np.all(flags) for flags in visible.values()):
                raise ObservationError(
                    f"{self._name}: this observation hides entities, but the first one did not: make it with"
                    " from_entity_gym(…, hidden=True)"
                )
            visible = {}
        actions = {name: _our_mask(mask, given.features) for name, mask in given.actions.items()}
        return Observation(
            entities={name: rows for name, rows in given.features.items() if rows is not None},
            globals=given.global_features,
            actions={
                name: mask
                for name, mask in actions.items()
                if mask is not None and not (given.done and _allows_nothing(mask))
            },
            ids=given.ids,
            visible=visible,
        )

    def _their_action(self, name: str, action: Action) -> Any:
        space = self._theirs[name]
        if isinstance(action, CategoricalAction):
            return entity_gym.CategoricalAction(action.actors, action.choices, space.index_to_label)
        if isinstance(action, GlobalCategoricalAction):
            return entity_gym.GlobalCategoricalAction(action.choice, space.index_to_label[action.choice])
        assert isinstance(action, SelectEntityAction)
        return entity_gym.SelectEntityAction(action.actors, action.actees)


def _our_action(env_name: str, name: str, action: Any) -> ActionSpace:
    if isinstance(action, entity_gym.SelectEntityActionSpace):
        return SelectEntity()
    if isinstance(action, entity_gym.GlobalCategoricalActionSpace):
        return GlobalCategorical(_different(action.index_to_label))
    if isinstance(action, entity_gym.CategoricalActionSpace):
        return Categorical(_different(action.index_to_label))
    raise TypeError(f"{env_name}: action {name!r}: expected an action space of entity_gym, got {action!r}")


def _different(labels: Sequence[Any]) -> list[str]:
    """Return the labels as strings; a repeated label gets its index appended."""
    texts = [str(label) for label in labels]
    return [text if text not in texts[:i] else f"{text} ({i})" for i, text in enumerate(texts)]


def _our_mask(given: Any, features: Mapping[str, Any]) -> Mask | None:
    """Convert a mask of `entity_gym`; return other objects unchanged, so that validation names them.

    Return None if there is no entity to select: no actor can take the action then. `features` are the
    observation's entities by type.
    """
    if isinstance(given, entity_gym.GlobalCategoricalActionMask):
        mask = given.mask
        if mask is not None:
            mask = np.asarray(mask)
            mask = mask[0] if mask.ndim == 2 and len(mask) == 1 else mask  # their networks take (1, C)
        return GlobalCategoricalMask(mask)
    if isinstance(given, entity_gym.CategoricalActionMask):
        return CategoricalMask(given.actor_ids, given.actor_types, given.mask)
    if isinstance(given, entity_gym.SelectEntityActionMask):
        if given.actee_ids is not None:
            num_actees = len(given.actee_ids)
        else:
            types = features if given.actee_types is None else given.actee_types
            num_actees = sum(len(features.get(name, ())) for name in types)
        if num_actees == 0:
            return None
        return SelectEntityMask(
            given.actor_ids, given.actor_types, given.actee_ids, given.actee_types, given.mask
        )
    return given


def _allows_nothing(mask: Mask | None) -> bool:
    """Return True if a row of the mask allows nothing."""
    if mask is None or getattr(mask, "mask", None) is None:
        return False
    flags = np.asarray(mask.mask)  # type: ignore[union-attr]
    return flags.size > 0 and not flags.reshape(-1, flags.shape[-1]).any(1).all()


def from_entity_gym(
    env: entity_gym.Environment | Callable[[], entity_gym.Environment],
    *,
    hidden: bool | None = None,
    render_mode: str | None = None,
) -> EntityGymEnv:
    """Wrap an `entity_gym` environment as an entity environment.

        env = ez.from_entity_gym(entity_gym.examples.MineSweeper)
        venv = ez.vector.ListVectorEnv([partial(ez.from_entity_gym, MineSweeper)] * 64)

    Args:
        env: an `entity_gym.env.Environment`, or a class or function that makes one.
        hidden: whether observations may hide entities from the policy (`visible`). Default: reset the
            environment once to find out.
        render_mode: "rgb_array", if the environment renders.

    Raises:
        ImportError: `entity_gym` is not installed; the message says how to install it.
        TypeError: `env` is not, and does not make, an `entity_gym` environment.
        ValueError: a render mode that the environment does not have.
    """
    return EntityGymEnv(env, hidden, render_mode)
