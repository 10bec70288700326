"""Conversion of spaces and masks between `entity_gym` and this package."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ...envs import (
    ActionSpace,
    Categorical,
    CategoricalMask,
    EntityActionSpace,
    EntitySpace,
    GlobalCategorical,
    GlobalCategoricalMask,
    SelectEntity,
    SelectEntityMask,
)
from ...envs.actions import Mask
from .package import entity_gym


def entity_space(
    env_name: str, obs_space: entity_gym.ObsSpace, action_space: Mapping[str, Any], hidden: bool
) -> EntitySpace:
    """Return the `EntitySpace` of an `entity_gym` environment.

    Raises:
        TypeError: an action space of a kind that `entity_gym` does not have.
    """
    actions = EntityActionSpace(
        {name: _our_action(env_name, name, action) for name, action in action_space.items()}
    )
    entities = {name: list(entity.features) for name, entity in obs_space.entities.items()}
    return EntitySpace(entities, actions, list(obs_space.global_features), hidden)


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


def obs_space(space: EntitySpace) -> entity_gym.ObsSpace:
    """Return `entity_gym`'s observation space of an `EntitySpace`."""
    return entity_gym.ObsSpace(
        global_features=list(space.global_features),
        entities={name: entity_gym.Entity(list(features)) for name, features in space.entities.items()},
    )


def action_spaces(env_name: str, space: EntityActionSpace) -> dict[str, Any]:
    """Return `entity_gym`'s action spaces of an `EntityActionSpace`.

    Raises:
        TypeError: an action that `entity_gym` has no space for; the message names it.
    """
    return {name: _their_action(env_name, name, action) for name, action in space.items()}


_THEIR_SPACES: dict[type, Callable[[Any], Any]] = {
    SelectEntity: lambda action: entity_gym.SelectEntityActionSpace(),
    GlobalCategorical: lambda action: entity_gym.GlobalCategoricalActionSpace(list(action.choices)),
    Categorical: lambda action: entity_gym.CategoricalActionSpace(list(action.choices)),
}


def _their_action(env_name: str, name: str, action: spaces.Space[Any]) -> Any:
    make = _THEIR_SPACES.get(type(action))
    if make is not None:
        return make(action)
    raise TypeError(
        f"{env_name}: action {name!r}: expected a single choice per actor, as entity_gym has, got {action!r}"
    )


def our_mask(given: Any, features: Mapping[str, Any]) -> Mask | None:
    """Convert a mask of `entity_gym`; return other objects unchanged, so that validation names them.

    Return None if there is no entity to select: nobody can take the action then. `features` are the
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


def allows_nothing(mask: Mask | None) -> bool:
    """Return True if a row of the mask allows nothing."""
    if mask is None or getattr(mask, "mask", None) is None:
        return False
    flags = np.asarray(mask.mask)  # type: ignore[union-attr]
    return flags.size > 0 and not flags.reshape(-1, flags.shape[-1]).any(1).all()


def their_mask(action: ActionSpace, part: Mapping[str, NDArray[Any]]) -> Any:
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
