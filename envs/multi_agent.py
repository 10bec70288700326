"""`MultiAgentEnv`: several agents in one game, each of which sees entities and acts by itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from .actions import EntityActionSpace
from .errors import no_render_mode
from .spaces import EntitySpace

#: By agent: plain observations of its `EntitySpace`, rewards, terminations, truncations and infos.
MultiAgentStep = tuple[
    dict[str, dict[str, Any]], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]
]


def kind_of(agent: str) -> str:
    """Return the kind in an agent's name: "drone" for "drone_0" and "drone0"; without a number, the name."""
    name = str(agent)
    head = name.rstrip("0123456789")
    return name if head == name else head.removesuffix("_") or name


class MultiAgentEnv(ABC):
    """A game of several agents that act at the same time, with the interface of PettingZoo's `ParallelEnv`.

    Every agent has an `EntitySpace` and an `EntityActionSpace` of its own; observations and actions are the
    plain dicts of `EntityEnv`. An agent that terminates or is truncated gets that step's observation and
    reward and is gone from `agents` afterwards; it does not come back before the next `reset`.
    `ez.to_pettingzoo` makes a PettingZoo environment of it. `EntityGame` is easier to write.

    Attributes:
        possible_agents: the names of all agents there can be, such as "snake_0".
        agents: those that live.
        metadata: with "name", "render_modes" and "render_fps".
        render_mode: one of the render modes, or None.
    """

    metadata: dict[str, Any] = {"name": "multi_agent_v0", "render_modes": []}  # noqa: RUF012 - as Gymnasium's
    possible_agents: list[str]
    agents: list[str]
    render_mode: str | None = None

    @abstractmethod
    def observation_space(self, agent: str) -> EntitySpace:
        """The same object at every call."""

    @abstractmethod
    def action_space(self, agent: str) -> EntityActionSpace:
        """The same object at every call."""

    @abstractmethod
    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
        """Start a game: observations and infos by agent. Without a seed the random numbers continue."""

    @abstractmethod
    def step(self, actions: Mapping[str, Mapping[str, Any]]) -> MultiAgentStep:
        """Let every living agent act; an agent that is left out leaves out all its actions.

        Raises:
            ActionError: an unknown action, one of an agent that is not alive, or an action that is left out
                although it has actors and the agent's action space is not `optional`; nothing has moved.
            gymnasium.error.ResetNeeded: before the first reset, or when no agent is left.
        """

    def render(self) -> Any:
        """A frame, in the mode of `render_mode`."""
        raise no_render_mode(type(self).__name__)

    def set_progress(self, fraction: float) -> None:  # noqa: B027 - see `EntityEnv.set_progress`
        """Receive the fraction of training that is done; does nothing here."""

    def close(self) -> None:  # noqa: B027 - most games hold nothing
        """Release what the game holds; may be called twice."""
