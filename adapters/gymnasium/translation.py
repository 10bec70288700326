"""Shared parts of `wrap` and `wrap_vec`: batched observations to an `EntityBatch`, entity actions to actions.

Shape alphabet: B observations in a batch, C choices, K real numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from numpy.typing import NDArray

from ...envs import (
    ActionMask,
    ActionSpace,
    EntityActionSpace,
    EntityBatch,
    EntitySpace,
    ObservationError,
    validate_actions,
)
from ...envs.batch.batch_actions import ragged_orders
from ...envs.errors import one_of
from ...ragged import RaggedArray
from .actions import masks_of, take_apart
from .lane_errors import contains
from .views.auto import auto
from .views.batches import pick
from .views.known import known
from .views.per_entity import PerEntity
from .views.scope import Scope, Sources, View, ViewError
from .views.view_config import check_copyable

#: Where an environment says which actions are legal.
MaskSource = Literal["auto", "info", "observation", "method", "none"]
MASK_SOURCES = ("auto", "info", "observation", "method", "none")
MASK = "action_mask"


class SpaceTranslation:
    """One environment's spaces in terms of entities.

    Args:
        env_name: what error messages call it.
        observation_space, action_space: Gymnasium's, of a single environment.
        env: the environment, or one like it, to ask for names; None where there is none.
        view: how observations become entities; None for what suits the environment.
        mask_source: where legal actions are found; "auto" takes what is there, the method first.
        spec: what to go by where there is no `env`.
        per_entity: actions of which each number belongs to an entity: the only action, or by name.

    Raises:
        ViewError: the view doesn't fit, or an action space has no fixed set of choices.
    """

    def __init__(
        self,
        env_name: str,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        env: gymnasium.Env[Any, Any] | None,
        view: View | None,
        mask_source: MaskSource,
        spec: EnvSpec | None = None,
        per_entity: PerEntity | Mapping[str, PerEntity] | None = None,
    ) -> None:
        self._arguments = (
            env_name,
            observation_space,
            action_space,
            env,
            view,
            mask_source,
            spec,
            per_entity,
        )
        _check_arguments(env_name, observation_space, view, mask_source)
        self._raw_space = observation_space
        facts = known(env, spec)
        self.env_name = env_name
        self._find_mask(observation_space, env, mask_source)
        self._visible_key: str | None = None
        self._sources = Sources()
        scope = Scope(env_name, auto, feature_names=facts.feature_names, sources=self._sources)
        if self.mask_in_observation:
            assert isinstance(observation_space, spaces.Dict)
            observation_space, self._visible_key = without_mask(observation_space)
            if self._visible_key is not None:
                scope = scope.at(self._visible_key)
        self.view = view or facts.view or scope.view_of(observation_space)
        self._encoder = self.view.bind(observation_space, scope)
        owners = _owners(env_name, per_entity)
        self._part = take_apart(action_space, env_name, facts.choices, per_entity=owners)
        unknown = [name for name in owners if name not in self._part.owned]
        if unknown:
            raise ViewError(
                f"{env_name}: actions: expected names of {list(self._part.names)}, got {unknown[0]!r}"
            )
        for owned in self._part.owned.values():
            self._encoder = owned.bind(self._encoder)
        self.action_space = EntityActionSpace(self._part.names)
        self.observation_space = EntitySpace(self._encoder.entities, self.action_space)
        self._raw_action_space = action_space

    def _find_mask(
        self, observation_space: spaces.Space[Any], env: gymnasium.Env[Any, Any] | None, source: MaskSource
    ) -> None:
        """Set where legal actions are read.

        Raises:
            ViewError, ValueError: the environment does not have the mask that `source` names.
        """
        env_name = self.env_name
        has_mask = isinstance(observation_space, spaces.Dict) and MASK in observation_space.spaces
        if source == "observation" and not has_mask:
            raise ViewError(
                f"{env_name}: observation_space: expected a Dict with {MASK!r}, got {observation_space}"
            )
        has_method = env is not None and env.has_wrapper_attr("action_masks")
        if source == "method" and not has_method:
            raise ValueError(
                f"{env_name}: action_mask='method': expected an environment with a method action_masks(), got"
                " one without"
            )
        self.mask_in_observation = has_mask and source in ("auto", "observation")
        self.mask_in_info = source in ("auto", "info")
        self.mask_method = has_method and source in ("auto", "method")

    def __reduce__(self) -> tuple[type[SpaceTranslation], tuple[Any, ...]]:
        """Copies and pickles bind the view again: encoders are closures.

        Raises:
            ViewError: a function of the view reads the environment otherwise than by its arguments.
        """
        check_copyable(self.view, self.env_name)
        return type(self), self._arguments

    # -- observations ---------------------------------------------------------------------------------------

    @property
    def sources(self) -> Collection[str]:
        """Names of the sources that functions of the view read beside the observation: "env", "info"."""
        return self._sources.needed

    def batch(
        self,
        observation: Any,
        batch_size: int,
        mask: Any = None,
        present: NDArray[np.bool_] | None = None,
        sources: Mapping[str, Sequence[Any]] | None = None,
        ended: NDArray[np.bool_] | bool = False,
    ) -> EntityBatch:
        """A batched observation, with a batched mask for the lanes that are `present` (all, if None).

        Args:
            sources: for each of `self.sources` what belongs to each lane.
            ended: the lanes (B,) whose episode is over, or all of them: no action follows.

        Raises:
            ObservationError: shapes, ids or masks that the spaces don't allow.
        """
        self._sources.lanes = {} if sources is None else sources
        if self.mask_in_observation:
            mask = observation[MASK]
        seen = observation if self._visible_key is None else observation[self._visible_key]
        try:
            entities = self._encoder.encode(seen, batch_size)
        except ObservationError:
            raise
        except Exception as error:
            self._explain(observation, batch_size, error)
            raise
        flags = {} if mask is None else self._flags(mask, batch_size, present)
        owned = self._part.owned
        masks = {
            name: owned[name].mask(entities, flags.get(name), batch_size)
            if name in owned
            else _action_mask(action, flags.get(name), batch_size)
            for name, action in self.action_space.items()
        }
        for name in owned.keys() & flags.keys():
            continuing = ~np.broadcast_to(ended, batch_size) & (True if present is None else present)
            owned[name].check_mask(masks[name], flags[name], entities, continuing)
        return EntityBatch(entities, np.zeros((batch_size, 0), np.float32), masks)

    def _explain(self, observation: Any, batch_size: int, error: Exception) -> None:
        """Raise an ObservationError if an observation that is not of its space is the cause of an error."""
        for lane in range(batch_size):
            sample = pick(self._raw_space, observation, lane)
            if not contains(self._raw_space, sample):
                where = f"{self.env_name}: " if batch_size == 1 else f"{self.env_name}: env {lane}: "
                raise ObservationError(
                    f"{where}expected an observation of {self._raw_space}, got {sample!r:.300}"
                ) from error

    def _flags(
        self, mask: Any, batch_size: int, present: NDArray[np.bool_] | None
    ) -> dict[str, NDArray[np.bool_]]:
        place = f"{self.env_name}: {MASK}"
        there = np.ones(batch_size, bool) if present is None else present
        return masks_of(self._part, mask, there, place)

    # -- actions --------------------------------------------------------------------------------------------

    def decode(self, actions: Mapping[str, RaggedArray], batch: EntityBatch) -> Any:
        """Return the batched Gymnasium action for actions valid in `batch`; 0 where one is absent."""
        owned = self._part.owned
        chosen = {
            name: owned[name].choices(actions[name], batch) if name in owned else actions[name].one_each()
            for name, action in self.action_space.items()
        }
        return self._part.decode(chosen)

    def decode_one(self, actions: Mapping[str, RaggedArray], batch: EntityBatch) -> Any:
        """Return the Gymnasium action for a batch of one."""
        return pick(self._raw_action_space, self.decode(actions, batch), 0)


def _check_arguments(env_name: str, observation_space: Any, view: Any, mask_source: Any) -> None:
    if isinstance(observation_space, EntitySpace):
        raise TypeError(
            f"{env_name}: expected an environment without entities, got an entity environment. Use"
            " it without wrapping"
        )
    one_of(f"{env_name}: {MASK}", mask_source, MASK_SOURCES)
    if view is not None and not isinstance(view, View):
        hint = f". Make one: {view.__name__}(…)" if isinstance(view, type) else ""
        if view is auto:
            hint = ". Leave it out, or give auto(env.observation_space)"
        if isinstance(view, Mapping):
            hint = '. Name the view: {"view": "Rows", …}'
        raise TypeError(f"{env_name}: view: expected one of entitize.views, got {view!r}{hint}")


def _owners(env_name: str, per_entity: Any) -> Mapping[str, PerEntity]:
    """Return the views of actions for entities by the names of the actions."""
    owners = {"action": per_entity} if isinstance(per_entity, PerEntity) else (per_entity or {})
    if not isinstance(owners, Mapping) or not all(isinstance(o, PerEntity) for o in owners.values()):
        raise ViewError(
            f"{env_name}: actions: expected an ez.views.PerEntity, or a dict of them by action, got"
            f" {per_entity!r}"
        )
    return owners


def checked_actions(
    env_name: str, space: EntitySpace, batch: EntityBatch, action: Any
) -> dict[str, RaggedArray]:
    """Return the plain actions of one environment, whose last observation is `batch`, as a batch of one.

    Raises:
        ActionError: an unknown action, one that is left out or has a wrong length, or an illegal choice.
    """
    return validate_actions(space, batch, ragged_orders(space.actions, [env_name], [action]), [env_name])


def without_mask(space: spaces.Dict) -> tuple[spaces.Space[Any], str | None]:
    """The rest of an observation that has a mask, and its key where it is a single part, as in PettingZoo's
    form {"observation": …, "action_mask": …}."""
    rest = {key: part for key, part in space.spaces.items() if key != MASK}
    if len(rest) == 1:
        ((key, part),) = rest.items()
        return part, key
    return spaces.Dict(rest), None


def _action_mask(action: ActionSpace, flags: NDArray[np.bool_] | None, batch_size: int) -> ActionMask:
    """Return the mask of each lane's actions; a lane without a legal choice has no actor."""
    everywhere = np.arange(batch_size + 1)
    actors = np.full(batch_size, -1)
    possible = np.ones(batch_size, bool) if flags is None else flags.any(1)
    if flags is None:
        flags = np.ones((batch_size, action.mask_columns), bool)
    if possible.all():
        return ActionMask(RaggedArray(actors, everywhere), RaggedArray(flags, everywhere))
    acting = RaggedArray.from_lengths(actors[possible], possible.astype(np.int64))
    return ActionMask(acting, acting.with_values(flags[possible]))


def lift(mask: Any, env_name: str) -> Any:
    """One environment's mask as a batch of one.

    Raises:
        ObservationError: it is None.
    """
    if mask is None:
        raise ObservationError(
            f"{env_name}: {MASK}: expected a mask, got None. Leave it out where all is allowed"
        )
    return _lifted(mask)


def _lifted(mask: Any) -> Any:
    if isinstance(mask, Mapping):
        return {key: None if part is None else _lifted(part) for key, part in mask.items()}
    if isinstance(mask, list | tuple) and any(
        isinstance(part, list | tuple | np.ndarray | Mapping) for part in mask
    ):
        return [mask]
    return np.asarray(mask)[None]
