"""`to_entity_gym`: wrap an entity environment as an environment of the `entity_gym` package."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Number
from typing import Any, NoReturn

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ...envs import ActionError, ActionSpace, Categorical, EntitySpace, GlobalCategorical, SelectEntity
from ...envs.errors import one_of, reset_needed
from ...envs.returned import env_name
from ..gymnasium.faces import Illegal
from .package import entity_gym


class EntityGymEnvironment(entity_gym.Environment):  # type: ignore[misc, unused-ignore]
    """An entity environment behind Entity Gym's interface; made by `to_entity_gym`.

    - Every entity has an id, its entity index at that step.
    - `done` is terminated or truncated.
    - The numbers in a step's info are its metrics, nested ones by path ("episode/r").
    - Entity Gym's networks never see which pairs a select-entity mask allows. A masked selection is an
      `ActionError`. With `illegal="replace"` it becomes the actor's first legal one, and the metric
      "forbidden_selections" counts them where there are some.
    - A global action that is absent at a step is absent from the observation; Entity Gym's vector
      environments can't batch such observations.

    Attributes:
        env: the entity environment.
        seed: seeds the next reset, and is None after that; it may be assigned.
    """

    def __init__(
        self, env: gymnasium.Env[Any, Any], seed: int | None = None, illegal: Illegal = "error"
    ) -> None:
        self._name = env_name(env)
        if not isinstance(env.observation_space, EntitySpace):
            raise TypeError(
                f"{self._name}: expected an entity environment, got observations of {env.observation_space}"
            )
        self.env = env
        self._space: EntitySpace = env.observation_space
        self._action_spaces = {
            name: _their_space(self._name, name, action) for name, action in self._space.actions.items()
        }
        one_of(f"{self._name}: illegal", illegal, ("error", "replace"))
        self.seed = seed
        self._illegal = illegal
        self._seen: dict[str, Any] | None = None

    def obs_space(self) -> entity_gym.ObsSpace:
        """The features of each entity type."""
        return entity_gym.ObsSpace(
            global_features=list(self._space.global_features),
            entities={n: entity_gym.Entity(list(features)) for n, features in self._space.entities.items()},
        )

    def action_space(self) -> dict[str, Any]:
        """The actions by name."""
        return dict(self._action_spaces)

    def reset(self) -> entity_gym.Observation:
        """Start an episode; the first one is seeded with the seed that `to_entity_gym` was given."""
        self._seen, _ = self.env.reset(seed=self.seed)
        self.seed = None
        return self._theirs(self._seen, False, 0.0, {})

    def act(self, actions: Mapping[str, Any]) -> entity_gym.Observation:
        """Step with `actions`.

        Raises:
            ActionError: an unknown action or actor, an action or actor that is left out or given twice, or a
                masked choice.
            gymnasium.error.ResetNeeded: before the first reset.
        """
        if self._seen is None:
            raise reset_needed(self._name, "act()")
        orders: dict[str, NDArray[np.int64]] = {}
        forbidden = 0
        for name, action in actions.items():
            if name not in self._action_spaces:
                known = ", ".join(map(repr, self._action_spaces))
                raise ActionError(f"{self._name}: unknown action {name!r}: expected one of {known}")
            orders[name], count = self._order(name, self._space.actions[name], action)
            forbidden += count
        self._seen, reward, terminated, truncated, info = self.env.step(orders)
        metrics = dict(_numbers(info))
        if forbidden:
            metrics["forbidden_selections"] = float(forbidden)
        return self._theirs(self._seen, bool(terminated or truncated), float(reward), metrics)

    def render(self, **options: Any) -> Any:
        """A frame, in the render mode that the environment was made with."""
        return self.env.render()

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def _theirs(
        self, seen: dict[str, Any], done: bool, reward: float, metrics: dict[str, float]
    ) -> entity_gym.Observation:
        entities = seen.get("entities", {})
        ids, first = {}, 0
        for name in self._space.entities:
            ids[name] = list(range(first, first + len(entities[name])))
            first += len(entities[name])
        masks = {
            name: _their_mask(action, seen["actions"][name]) for name, action in self._space.actions.items()
        }
        return entity_gym.Observation(
            features=entities,
            ids=ids,
            global_features=seen.get("globals"),
            visible={name: flags.astype(bool) for name, flags in seen.get("visible", {}).items()},
            actions={name: mask for name, mask in masks.items() if mask is not None},
            done=done,
            reward=reward,
            metrics=metrics,
        )

    def _order(self, name: str, space: ActionSpace, action: Any) -> tuple[NDArray[np.int64], int]:
        """The choice of each actor, and how many selections were forbidden."""
        assert self._seen is not None
        part = self._seen["actions"][name]
        if space.is_global:
            return np.array([action.index], np.int64), 0
        categorical = not space.selects_entities
        choices = np.asarray(action.indices if categorical else action.actees, np.int64).reshape(-1)
        order = choices[self._places(name, part["actors"], list(action.actors), len(choices))]
        if categorical or not len(order) or self._illegal == "error":
            return order, 0
        actees = part["actees"]
        pairs = part["mask"].reshape(len(order), len(actees)).astype(bool)
        matches = order[:, None] == actees
        wrong = matches.any(1) & ~(matches & pairs).any(1)
        return np.where(wrong, actees[pairs.argmax(1)], order), int(wrong.sum())

    def _places(
        self, name: str, expected: NDArray[np.int64], actors: Sequence[Any], num_choices: int
    ) -> NDArray[np.int64]:
        """For each actor of the observation, where its choice stands."""
        if len(actors) != num_choices:
            self._fail(name, f"expected {len(actors)} choices (one per actor), got {num_choices}")
        place = {actor: position for position, actor in enumerate(actors)}
        known = expected.tolist()
        for actor in place:
            if actor not in known:
                self._fail(name, f"actor {actor!r} is no actor of it: expected {known}")
        for actor in known:
            if actor not in place and actors:
                self._fail(name, f"actor {actor} is left out: expected {known}, got {list(actors)}")
        if len(place) < len(actors):
            self._fail(name, f"an actor is given twice: expected {known}, got {list(actors)}")
        return np.array([place[actor] for actor in known if actor in place], np.int64)

    def _fail(self, name: str, sentence: str) -> NoReturn:
        raise ActionError(f"{self._name}: action {name!r}: {sentence}")


_THEIR_SPACES: dict[type, Callable[[Any], Any]] = {
    SelectEntity: lambda action: entity_gym.SelectEntityActionSpace(),
    GlobalCategorical: lambda action: entity_gym.GlobalCategoricalActionSpace(list(action.choices)),
    Categorical: lambda action: entity_gym.CategoricalActionSpace(list(action.choices)),
}


def _their_space(env_name: str, name: str, action: spaces.Space[Any]) -> Any:
    make = _THEIR_SPACES.get(type(action))
    if make is not None:
        return make(action)
    raise TypeError(
        f"{env_name}: action {name!r}: expected a single choice per actor, as entity_gym has, got {action!r}"
    )


def _their_mask(action: ActionSpace, part: Mapping[str, NDArray[Any]]) -> Any:
    """Convert one action's part of an observation to a mask of `entity_gym`; None if the action is absent."""
    flags = part["mask"].astype(np.bool_)
    if action.is_global:
        if not len(flags):
            return None
        return entity_gym.GlobalCategoricalActionMask(None if flags.all() else flags)
    actors = part["actors"].tolist()
    if action.selects_entities:
        actees = part["actees"].tolist()
        pairs = None if flags.all() else flags.reshape(len(actors), len(actees))
        return entity_gym.SelectEntityActionMask(actor_ids=actors, actee_ids=actees, mask=pairs)
    return entity_gym.CategoricalActionMask(actor_ids=actors, mask=flags)


def _numbers(info: Mapping[str, Any], prefix: str = "") -> list[tuple[str, float]]:
    """The numbers in nested infos, by path."""
    found: list[tuple[str, float]] = []
    for key, value in info.items():
        if isinstance(value, Mapping):
            found += _numbers(value, f"{prefix}{key}/")
        elif isinstance(value, (Number, np.number, np.bool_)) and not isinstance(value, complex):
            found.append((f"{prefix}{key}", float(value)))  # type: ignore[arg-type]
        elif isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype.kind in "biuf":
            found.append((f"{prefix}{key}", float(value)))
    return found


def to_entity_gym(
    env: gymnasium.Env[Any, Any], *, seed: int | None = None, illegal: Illegal = "error"
) -> EntityGymEnvironment:
    """Wrap an entity environment as an `entity_gym` environment.

        env = ez.to_entity_gym(gymnasium.make("entitize/MineSweeper-v0"))

    Args:
        env: an environment with an `EntitySpace`.
        seed: for the first episode, because Entity Gym's `reset` takes none.
        illegal: what to do with a masked selection: "error" or "replace"; Entity Gym's own networks need
            "replace" where select-entity actions have masks.

    Raises:
        ImportError: `entity_gym` is not installed; the message says how to install it.
        TypeError: `env` is not an entity environment, or has continuous or multi-discrete actions.
    """
    return EntityGymEnvironment(env, seed, illegal)
