"""What one agent of a `MultiAgentEnv` sees and says, in one of the layouts of `to_gymnasium`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
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
    """Between one agent and its game. Abstract: `RaggedInterface` or `LayoutInterface`."""

    observation_space: spaces.Space[Any]
    action_space: spaces.Space[Any]

    @abstractmethod
    def start(self, seen: dict[str, Any], seed: int | None) -> tuple[Any, dict[str, Any]]:
        """The first observation of an episode and infos about it, as the agent gets them."""

    @abstractmethod
    def show(self, seen: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """A later observation and infos about it."""

    @abstractmethod
    def orders(self, action: Any) -> tuple[Orders, dict[str, Any]]:
        """What the game gets for the agent's action, and infos about that.

        Raises:
            ActionError: the action is not one of the action space.
        """

    @abstractmethod
    def check(self, action: Any) -> None:
        """Raises `ActionError` for an action that the last observation does not allow."""


class RaggedInterface(AgentInterface):
    """The ragged layout: entity observations and actions as they are."""

    def __init__(self, observation_space: EntitySpace, action_space: EntityActionSpace) -> None:
        self.observation_space: EntitySpace = observation_space
        self.action_space: EntityActionSpace = action_space
        self._seen: dict[str, Any] = {}

    def start(self, seen: dict[str, Any], seed: int | None) -> tuple[Any, dict[str, Any]]:
        return self.show(seen)

    def show(self, seen: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        self._seen = seen
        return seen, {}

    def orders(self, action: Any) -> tuple[Orders, dict[str, Any]]:
        if not isinstance(action, Mapping):
            raise ActionError(f"an action is a dict from name to array, got {type(action).__name__}")
        return action, {}

    def check(self, action: Any) -> None:
        self.orders(action)
        batch = batch_observations(self.observation_space, [self._seen])
        try:
            validate_actions(self.observation_space, batch, ragged_orders(action, self.action_space))
        except ActionError as error:
            raise ActionError(str(error).removeprefix("env 0: ")) from None


class AgentPlaceholderEnv(gymnasium.Env[dict[str, Any], Mapping[str, Any]]):
    """An agent's place in the game, as the environment that a face stands before; it is never stepped."""

    seen: dict[str, Any]

    def __init__(self, observation_space: EntitySpace, action_space: EntityActionSpace) -> None:
        self.observation_space = observation_space
        self.action_space = action_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        return self.seen, {}


class LayoutInterface(AgentInterface):
    """The padded and the flat layout: what `to_gymnasium` makes of them.

    Where a flat action is one Discrete or MultiDiscrete, infos get `"action_mask"`, as PettingZoo's tests
    and Shimmy have it: `action_space.sample(info["action_mask"])` draws legal choices.
    """

    def __init__(self, space: EntitySpace, action_space: EntityActionSpace, options: dict[str, Any]) -> None:
        self._seat = AgentPlaceholderEnv(space, action_space)
        self._face: GymnasiumFace = to_gymnasium(self._seat, **options)
        self.observation_space = self._face.observation_space
        self.action_space = self._face.action_space
        self._masked = isinstance(self._face, FlatFace) and not isinstance(self.action_space, spaces.Box)

    def start(self, seen: dict[str, Any], seed: int | None) -> tuple[Any, dict[str, Any]]:
        self._seat.seen = seen
        observation, info = self._face.reset(seed=seed)
        return observation, {**info, **self._mask()}

    def show(self, seen: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        observation, info = self._face.show(seen)
        return observation, {**info, **self._mask()}

    def orders(self, action: Any) -> tuple[Orders, dict[str, Any]]:
        orders, illegal = self._face.orders(action)
        return orders, {"illegal_choices": illegal}

    def check(self, action: Any) -> None:
        self.orders(action)

    def _mask(self) -> dict[str, Any]:
        if not self._masked:
            return {}
        assert isinstance(self._face, FlatFace)
        flags: NDArray[np.int8] = self._face.action_masks().astype(np.int8)
        if isinstance(self.action_space, spaces.Discrete):
            return {"action_mask": flags}
        assert isinstance(self.action_space, spaces.MultiDiscrete)
        return {"action_mask": tuple(np.split(flags, np.cumsum(self.action_space.nvec)[:-1]))}
