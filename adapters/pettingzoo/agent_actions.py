"""`AgentActions`: agents' PettingZoo action spaces as named entity actions, and the way back.

Shape alphabet: B lanes, n agents of one group, C choices, K real numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ...envs import ActionMask, ActionSpace, EntityActionSpace, ObservationError
from ...ragged import RaggedArray
from ..gymnasium.actions import one_per_lane, take_apart
from ..gymnasium.views.batches import pick
from .agent_names import group_agents, same
from .game import PettingZooGame

Orders = Mapping[str, RaggedArray]


class ActionGroup:
    """Agents that share an action space.

    Attributes:
        agents: their names.
        actions: the named actions.
        own: True if the actor is the agent's own entity, False for global actions.
    """

    def __init__(
        self,
        env: str,
        agents: Sequence[str],
        space: spaces.Space[Any],
        choices: tuple[str, ...] | None,
        path: tuple[str, ...],
        own: bool,
    ) -> None:
        self.env, self.agents, self.own = env, tuple(agents), own
        self._space = space
        self._part = take_apart(space, env, choices, path)
        self.actions: dict[str, ActionSpace] = {
            name: action.per_actor() if own else action for name, action in self._part.names.items()
        }

    def flags(self, masks: Sequence[Any], labels: Sequence[str]) -> dict[str, NDArray[np.bool_]]:
        """Return the legal choices of each discrete action, (n, C); all are legal without a mask.

        Args:
            masks: the game's action mask for each of n agents, or None.
            labels: the agents' names in error messages.

        Raises:
            ObservationError: a mask that does not fit the action space.
        """
        flags = {
            name: np.ones((len(masks), action.mask_columns), bool)
            for name, action in self.actions.items()
            if not action.is_continuous
        }
        given = [i for i, mask in enumerate(masks) if mask is not None]
        if not given:
            return flags
        some = [masks[i] for i in given]
        plain = all(isinstance(mask, np.ndarray) for mask in some)
        try:
            read = self._part.masks(np.stack(some) if plain else some, len(given), self.env)
        except (ObservationError, ValueError, TypeError):
            for i in given:
                self._check_mask(masks[i], labels[i])
            raise
        for name, rows in read.items():
            flags[name][given] = rows
        return flags

    def _check_mask(self, mask: Any, label: str) -> None:
        try:
            self._part.masks(mask[None] if isinstance(mask, np.ndarray) else [mask], 1, label)
        except (ObservationError, ValueError, TypeError) as error:
            raise ObservationError(
                f"{label}: expected an action_mask for {self._space}, got {mask!r}: {error}"
            ) from error

    def zeros(self, count: int) -> dict[str, NDArray[Any]]:
        """Return actions of zeros for `count` agents; only those without a legal choice keep them."""
        return {
            name: np.zeros((count, *action.item_shape), action.dtype) for name, action in self.actions.items()
        }

    def game_actions(self, chosen: Mapping[str, NDArray[Any]], count: int) -> list[Any]:
        """Return n PettingZoo actions for choices (n,) and real numbers (n, K) by action name."""
        decoded = self._part.decode(chosen)
        return [pick(self._space, decoded, i) for i in range(count)]


class AgentActions:
    """The actions of several agents.

    Agents with equal action spaces (and names of choices) have the same actions: "action" if that is all
    agents, otherwise one action per group, named after its kinds of agents.

    Args:
        game: a game with these agents.
        agents: their names.
        choices: names of agents' discrete choices, if the game has them.
        own: the agents that act through entities of their own.

    Raises:
        ViewError: an action space without a fixed set of choices.
    """

    def __init__(
        self,
        game: PettingZooGame,
        agents: Sequence[str],
        choices: Mapping[str, tuple[str, ...] | None] | None = None,
        own: Collection[str] = (),
    ) -> None:
        named = choices or {}

        def alike(one: str, other: str) -> bool:
            return (
                same(game.action_spaces[one], game.action_spaces[other])
                and named.get(one) == named.get(other)
                and (one in own) == (other in own)
            )

        groups = group_agents(agents, alike)
        self.kinds = [
            ActionGroup(
                game.name,
                members,
                game.action_spaces[members[0]],
                named.get(members[0]),
                (name,) if len(groups) > 1 else (),
                members[0] in own,
            )
            for name, members in groups.items()
        ]
        self.kind_of = {agent: kind for kind in self.kinds for agent in kind.agents}
        self.action_space = EntityActionSpace({n: a for kind in self.kinds for n, a in kind.actions.items()})

    def masks(
        self,
        acting: Sequence[str | None],
        masks: Sequence[Any],
        labels: Sequence[str],
        actors: NDArray[np.int64],
    ) -> dict[str, ActionMask]:
        """Return the action masks of B lanes with at most one acting agent each.

        Args:
            acting: the agent that acts in each lane, or None.
            masks: the game's action mask for each lane, or None.
            labels: the lanes' agents in error messages.
            actors: the index of the agent's own entity in each lane (B,); -1 without one.
        """
        parts: dict[str, ActionMask] = {}
        for kind in self.kinds:
            lanes = [i for i, agent in enumerate(acting) if agent is not None and self.kind_of[agent] is kind]
            flags = kind.flags([masks[i] for i in lanes], [labels[i] for i in lanes])
            rows = np.array(lanes, np.int64)
            for name, action in kind.actions.items():
                allowed = flags.get(name, np.zeros((len(lanes), 0), bool))
                if not action.is_continuous and not allowed.any(1).all():
                    possible = allowed.any(1)
                    parts[name] = _part(rows[possible], allowed[possible], actors)
                else:
                    parts[name] = _part(rows, allowed, actors)
        return parts

    def game_actions(self, orders: Orders, acting: Sequence[str | None]) -> list[Any]:
        """Return the PettingZoo action of each of B lanes; None for lanes where no agent acts.

        An agent that the mask leaves no choice of an action gets 0 there.
        """
        actions: list[Any] = [None] * len(acting)
        for kind in self.kinds:
            lanes = [i for i, agent in enumerate(acting) if agent is not None and self.kind_of[agent] is kind]
            if not lanes:
                continue
            chosen = {
                name: one_per_lane(action, orders[name])[lanes] for name, action in kind.actions.items()
            }
            for lane, action in zip(lanes, kind.game_actions(chosen, len(lanes)), strict=True):
                actions[lane] = action
        return actions


def _part(lanes: NDArray[np.int64], flags: NDArray[np.bool_], actors: NDArray[np.int64]) -> ActionMask:
    """Return a mask with one actor in each of `lanes`, with its row of `flags`, and none in the others."""
    lengths = np.zeros(len(actors), np.int64)
    lengths[lanes] = 1
    acting = RaggedArray.from_lengths(actors[lanes], lengths)
    return ActionMask(acting, acting.with_values(flags))
