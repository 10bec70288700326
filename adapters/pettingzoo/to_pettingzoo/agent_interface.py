"""Observations and actions of one agent of a `MultiAgentEnv`, in a layout of `to_gymnasium`."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from ....envs import ActionError, EntityActionSpace, EntitySpace, ObservationError, batch_observations
from ...gymnasium import FlatFace, GymnasiumFace, to_gymnasium
from ...gymnasium.translation import checked_actions


class AgentPlaceholderEnv(gymnasium.Env[dict[str, Any], Mapping[str, Any]]):
    """The spaces of one agent, for the wrappers of `to_gymnasium`; it is never reset or stepped."""

    def __init__(self, observation_space: EntitySpace, action_space: EntityActionSpace) -> None:
        self.observation_space = observation_space
        self.action_space = action_space


class AgentInterface:
    """Converter between one agent and its game.

    In the ragged layout entity observations and actions are passed on as they are, and
    `action_space.sample()` without a mask draws legal actions for the agent's last observation. The other
    layouts are made by `to_gymnasium`. If a flat action is one Discrete or MultiDiscrete, infos get
    `"action_mask"`, which `api_test` of PettingZoo and Shimmy read:
    `action_space.sample(info["action_mask"])` draws legal choices.

    Args:
        space, action_space: the agent's spaces in the game.
        options: of `to_gymnasium`; None for the ragged layout.
    """

    observation_space: spaces.Space[Any]
    action_space: spaces.Space[Any]

    def __init__(
        self, space: EntitySpace, action_space: EntityActionSpace, options: dict[str, Any] | None
    ) -> None:
        self._entity_space = space
        self._seen: dict[str, Any] = {}  # the last observation of the game
        self._face: GymnasiumFace | None = None
        if options is None:
            self.observation_space = space
            self.action_space = deepcopy(action_space)  # each agent's keeps its own last observation
        else:
            self._face = to_gymnasium(AgentPlaceholderEnv(space, action_space), **options)
            self.observation_space = self._face.observation_space
            self.action_space = self._face.action_space

    def start(self, seen: dict[str, Any], seed: int | None) -> tuple[Any, dict[str, Any]]:
        """Return the first observation of an episode, converted, and infos about it."""
        if self._face is not None:
            self._face.start_episode(seed)
        return self.convert(seen)

    def convert(self, seen: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Return an observation, converted, and infos about it.

        Raises:
            ObservationError: it cannot be converted, because it is not in the space.
        """
        try:
            return self._converted(seen)
        except ObservationError:
            raise
        except Exception as error:
            problem = self._entity_space.problem(seen)
            if problem:
                raise ObservationError(problem) from error
            raise

    def _converted(self, seen: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        self._seen = seen
        if self._face is None:
            assert isinstance(self.action_space, EntityActionSpace)
            self.action_space.observe(seen)
            return seen, {}
        observation, info = self._face.convert(seen)
        if isinstance(self._face, FlatFace) and not isinstance(self.action_space, spaces.Box):
            info["action_mask"] = flags = self._face.action_masks().astype(np.int8)
            if isinstance(self.action_space, spaces.MultiDiscrete):
                info["action_mask"] = tuple(np.split(flags, np.cumsum(self.action_space.nvec)[:-1]))
        return observation, info

    def entity_actions(self, action: Any) -> tuple[Mapping[str, Any], dict[str, Any]]:
        """Return the agent's action as entity actions, and infos about them.

        Raises:
            ActionError: the action is not in the action space.
        """
        if self._face is not None:
            actions, illegal = self._face.entity_actions(action)
            return actions, {"illegal_choices": illegal}
        if not isinstance(action, Mapping):
            raise ActionError(f"expected a dict from action name to array, got {type(action).__name__}")
        return action, {}

    def check(self, action: Any) -> None:
        """Raise an `ActionError` for an action that the last observation masks.

        None leaves out all actions: an error that names one if the agent must act (see `EntityActionSpace`).
        """
        actions = {} if action is None else self.entity_actions(action)[0]
        if self._face is not None and action is not None:
            return
        batch = batch_observations(self._entity_space, [self._seen])
        checked_actions(AgentPlaceholderEnv.__name__, self._entity_space, batch, actions)
