"""Observations and actions of one agent of a `MultiAgentEnv`, in a layout of `to_gymnasium`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ....envs import ActionError, EntityActionSpace, EntitySpace, batch_observations, validate_actions
from ...gymnasium import FlatFace, GymnasiumFace, to_gymnasium
from ...gymnasium.views.batches import ragged_orders

Orders = Mapping[str, Any]


class AgentInterface(ABC):
    """Converter between one agent and its game. Abstract: see `RaggedInterface`, `LayoutInterface`."""

    observation_space: spaces.Space[Any]
    action_space: spaces.Space[Any]

    @abstractmethod
    def start(self, seen: dict[str, Any], seed: int | None) -> tuple[Any, dict[str, Any]]:
        """Return the first observation of an episode, converted, and infos about it."""

    @abstractmethod
    def show(self, seen: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Return a later observation, converted, and infos about it."""

    @abstractmethod
    def orders(self, action: Any) -> tuple[Orders, dict[str, Any]]:
        """Return the agent's action as entity actions, and infos about them.

        Raises:
            ActionError: the action is not in the action space.
        """

    @abstractmethod
    def check(self, action: Any) -> None:
        """Raise an `ActionError` for an action that the last observation masks."""

    @abstractmethod
    def check_left_out(self) -> None:
        """Raise an `ActionError` that names an action if the agent must act; see `EntityActionSpace`."""


class RaggedInterface(AgentInterface):
    """The ragged layout: entity observations and actions are passed on as they are.

    `action_space.sample()` without a mask draws legal actions for the last observation of the agent.
    """

    def __init__(self, observation_space: EntitySpace, action_space: EntityActionSpace) -> None:
        self.observation_space: EntitySpace = observation_space
        self._seen: dict[str, Any] = {}
        self.action_space: EntityActionSpace = deepcopy(action_space)  # each agent observes its own

    def start(self, seen: dict[str, Any], seed: int | None) -> tuple[Any, dict[str, Any]]:
        return self.show(seen)

    def show(self, seen: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        self._seen = seen
        self.action_space.observe(seen)
        return seen, {}

    def orders(self, action: Any) -> tuple[Orders, dict[str, Any]]:
        if not isinstance(action, Mapping):
            raise ActionError(f"expected a dict from action name to array, got {type(action).__name__}")
        return action, {}

    def check(self, action: Any) -> None:
        self.orders(action)
        check_actions(self.observation_space, self._seen, action)

    def check_left_out(self) -> None:
        check_actions(self.observation_space, self._seen, {})


def check_actions(space: EntitySpace, seen: dict[str, Any], action: Mapping[str, Any]) -> None:
    """Raise an `ActionError` that names the action if the observation `seen` doesn't allow `action`."""
    batch = batch_observations(space, [seen])
    try:
        validate_actions(space, batch, ragged_orders(action, space.actions))
    except ActionError as error:
        raise ActionError(str(error).removeprefix("env 0: ")) from None


class AgentPlaceholderEnv(gymnasium.Env[dict[str, Any], Mapping[str, Any]]):
    """Environment that hands one agent's observations to a wrapper of `to_gymnasium`; it is never stepped."""

    seen: dict[str, Any]

    def __init__(self, observation_space: EntitySpace, action_space: EntityActionSpace) -> None:
        self.observation_space = observation_space
        self.action_space = action_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        return self.seen, {}


class LayoutInterface(AgentInterface):
    """The padded and the flat layout, made by `to_gymnasium`.

    If a flat action is one Discrete or MultiDiscrete, infos get `"action_mask"`, which `api_test` of
    PettingZoo and Shimmy read: `action_space.sample(info["action_mask"])` draws legal choices.
    """

    def __init__(self, space: EntitySpace, action_space: EntityActionSpace, options: dict[str, Any]) -> None:
        self._entity_space = space
        self._seat = AgentPlaceholderEnv(space, action_space)
        self._face: GymnasiumFace = to_gymnasium(self._seat, **options)
        self.observation_space = self._face.observation_space
        self.action_space = self._face.action_space
        self._seen: dict[str, Any] = {}
        self._masked = isinstance(self._face, FlatFace) and not isinstance(self.action_space, spaces.Box)

    def start(self, seen: dict[str, Any], seed: int | None) -> tuple[Any, dict[str, Any]]:
        self._seat.seen = self._seen = seen
        observation, info = self._face.reset(seed=seed)
        return observation, {**info, **self._mask()}

    def show(self, seen: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        self._seen = seen
        observation, info = self._face.show(seen)
        return observation, {**info, **self._mask()}

    def orders(self, action: Any) -> tuple[Orders, dict[str, Any]]:
        orders, illegal = self._face.orders(action)
        return orders, {"illegal_choices": illegal}

    def check(self, action: Any) -> None:
        self.orders(action)

    def check_left_out(self) -> None:
        check_actions(self._entity_space, self._seen, {})

    def _mask(self) -> dict[str, Any]:
        if not self._masked:
            return {}
        assert isinstance(self._face, FlatFace)
        flags: NDArray[np.int8] = self._face.action_masks().astype(np.int8)
        if isinstance(self.action_space, spaces.Discrete):
            return {"action_mask": flags}
        assert isinstance(self.action_space, spaces.MultiDiscrete)
        return {"action_mask": tuple(np.split(flags, np.cumsum(self.action_space.nvec)[:-1]))}
