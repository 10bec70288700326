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
from ...envs.actions import (
    Action,
    CategoricalAction,
    CategoricalMask,
    ContinuousAction,
    ContinuousMask,
    GlobalCategoricalAction,
    GlobalCategoricalMask,
    GlobalContinuousAction,
    GlobalContinuousMask,
    Mask,
)
from ...ragged import RaggedArray
from ..gymnasium.actions import take_apart
from ..gymnasium.views.batches import pick
from .agent_names import group_agents, same
from .game import PettingZooGame

Actions = Mapping[str, RaggedArray]


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
        """Return the legal choices of each action, (n, C); all are legal without a mask.

        Args:
            masks: the game's action mask for each of n agents, or None.
            labels: the agents' names in error messages.

        Raises:
            ObservationError: a mask that does not fit the action space.
        """
        flags = {
            name: np.ones((len(masks), action.mask_columns), bool) for name, action in self.actions.items()
        }
        given = [i for i, mask in enumerate(masks) if mask is not None]
        if not given:
            return flags
        some = [masks[i] for i in given]
        plain = all(isinstance(mask, np.ndarray) and mask.shape == np.shape(some[0]) for mask in some)
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

    def decode(self, chosen: Mapping[str, NDArray[Any]]) -> Any:
        """Return a batch of n PettingZoo actions for choices (n,) and real numbers (n, K) by action name."""
        return self._part.decode(chosen)

    def game_actions(self, chosen: Mapping[str, NDArray[Any]], count: int) -> list[Any]:
        """Return `decode` of n actions as a list."""
        decoded = self.decode(chosen)
        if isinstance(decoded, np.ndarray):
            return list(decoded)
        return [pick(self._space, decoded, i) for i in range(count)]


#: By group the agents of a team that act now.
Acting = dict[ActionGroup, list[str]]


#: A group, the lanes in which its agents act, and the offsets (B + 1,) of one actor in each of them.
GroupLanes = tuple[ActionGroup, NDArray[np.int64], NDArray[np.int64]]


class AgentActions:
    """The actions of several agents, each in a lane of its own or all in a team.

    Agents with equal action spaces (and names of choices) have the same actions: "action" if that is all
    agents, otherwise one action per group, named after its kinds of agents. An agent that the mask leaves no
    choice of an action has no actor there, and its PettingZoo action is 0.

    Args:
        game: a game with these agents.
        agents: their names.
        choices: names of agents' discrete choices, if the game has them.
        own: the agents that act through entities of their own.

    Attributes:
        groups: agents with the same actions.
        action_space: all actions.

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
        self.groups = [
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
        self._group_of = {agent: group for group in self.groups for agent in group.agents}
        self._acting: list[str | None] = []
        self._lanes: list[GroupLanes] = []
        self.action_space = EntityActionSpace(
            {n: a for group in self.groups for n, a in group.actions.items()}
        )

    # -- lanes, each with at most one acting agent ----------------------------------------------------------

    def masks(
        self,
        acting: Sequence[str | None],
        masks: Sequence[Any] | None,
        labels: Sequence[str],
        actors: NDArray[np.int64],
    ) -> dict[str, ActionMask]:
        """Return the action masks of B lanes.

        Args:
            acting: the agent that acts in each lane, or None.
            masks: the game's action mask for each lane, or None; None: no lane has one.
            labels: the lanes' agents in error messages, needed for masks.
            actors: the index of the agent's own entity in each lane (B,); -1 without one.
        """
        parts: dict[str, ActionMask] = {}
        for group, lanes, offsets in self._lanes_by_group(acting):
            if masks is None:
                whose = actors[lanes]
                for name, action in group.actions.items():
                    flags = np.ones((len(whose), action.mask_columns), bool)
                    parts[name] = _mask(whose, flags, offsets.copy())
                continue
            given = group.flags([masks[i] for i in lanes], [labels[i] for i in lanes])
            for name, action in group.actions.items():
                possible = given[name].any(1) | action.is_continuous
                able = lanes[possible]
                parts[name] = _mask(actors[able], given[name][possible], _offsets(able, len(actors)))
        return parts

    def game_actions(self, actions: Actions, acting: Sequence[str | None]) -> list[Any]:
        """Return the PettingZoo action of each of B lanes; None for lanes where no agent acts."""
        raw: list[Any] = [None] * len(acting)
        for group, lanes, _ in self._lanes_by_group(acting):
            if not len(lanes):
                continue
            given = group.game_actions(_chosen(group, actions, lanes), len(lanes))
            if len(lanes) == len(acting):
                return given
            for lane, action in zip(lanes.tolist(), given, strict=True):
                raw[lane] = action
        return raw

    def discrete_actions(self, actions: Actions, acting: Sequence[str | None]) -> NDArray[np.int64]:
        """Return `game_actions` of `Discrete` spaces as an array (B,); 0 for lanes where no agent acts."""
        raw = np.zeros(len(acting), np.int64)
        for group, lanes, _ in self._lanes_by_group(acting):
            raw[lanes] = group.decode(_chosen(group, actions, lanes))
        return raw

    def _lanes_by_group(self, acting: Sequence[str | None]) -> list[GroupLanes]:
        """Return for each group the lanes in which its agents act; they rarely change between steps."""
        if acting != self._acting:
            self._acting, self._lanes = list(acting), []
            groups = [None if agent is None else self._group_of[agent] for agent in acting]
            for group in self.groups:
                lanes = np.array([lane for lane, its in enumerate(groups) if its is group], np.int64)
                self._lanes.append((group, lanes, _offsets(lanes, len(acting))))
        return self._lanes

    # -- a team, whose agents act in one observation --------------------------------------------------------

    def team_masks(self, game: PettingZooGame) -> tuple[dict[str, Mask], Acting]:
        """Return an `Observation`'s action masks, and by group the acting agents."""
        masks: dict[str, Mask] = {}
        acting: Acting = {}
        for group in self.groups:
            agents = [agent for agent in game.acting if self._group_of.get(agent) is group]
            if not agents:
                continue
            acting[group] = agents
            flags = group.flags([game.mask(a) for a in agents], [game.agent_label(a) for a in agents])
            for name, action in group.actions.items():
                possible = flags[name].any(1)
                able = [agent for agent, can in zip(agents, possible, strict=True) if can]
                if action.is_continuous:
                    masks[name] = ContinuousMask(actor_ids=agents) if group.own else GlobalContinuousMask()
                elif able and group.own:
                    masks[name] = CategoricalMask(actor_ids=able, mask=flags[name][possible])
                elif able:
                    masks[name] = GlobalCategoricalMask(flags[name][0])
        return masks, acting


def team_actions(acting: Acting, actions: Mapping[str, Action]) -> dict[str, Any]:
    """Return the PettingZoo action of each agent of a team that must act.

    Args:
        acting: the second result of `AgentActions.team_masks`.
        actions: the team's actions.
    """
    raw: dict[str, Any] = {}
    for group, agents in acting.items():
        chosen: dict[str, NDArray[Any]] = {}
        row = {agent: i for i, agent in enumerate(agents)}
        for name, space in group.actions.items():
            chosen[name] = np.zeros((len(agents), *space.item_shape), space.dtype)
            match actions.get(name):
                case (
                    CategoricalAction(actors=actors, choices=values)
                    | ContinuousAction(actors=actors, values=values)
                ) if actors:
                    chosen[name][[row[agent] for agent in actors]] = values
                case GlobalCategoricalAction(choice=value) | GlobalContinuousAction(values=value):
                    chosen[name][:] = value
        raw.update(zip(agents, group.game_actions(chosen, len(agents)), strict=True))
    return raw


def _chosen(group: ActionGroup, actions: Actions, lanes: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    """Return what was chosen in `lanes`, in which agents of `group` act."""
    return {name: actions[name].one_each()[lanes] for name in group.actions}


def _offsets(lanes: NDArray[np.int64], num_lanes: int) -> NDArray[np.int64]:
    """Return the offsets of one actor in each of `lanes`, and none in the others."""
    counts = np.zeros(num_lanes + 1, np.int64)
    counts[lanes + 1] = 1
    return counts.cumsum()


def _mask(actors: NDArray[np.int64], flags: NDArray[np.bool_], offsets: NDArray[np.int64]) -> ActionMask:
    return ActionMask(RaggedArray.unchecked(actors, offsets), RaggedArray.unchecked(flags, offsets))
