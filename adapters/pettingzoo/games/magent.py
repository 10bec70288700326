"""MAgent2: armies, hunters and gatherers on a grid, each of which observes a circle of cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...gymnasium.views.scope import ViewError
from ..game_view import GameObservation
from .known_game_view import KnownGameView
from .magent_field import NOBODY, Integers, MagentField, MagentGroup

_FOOD, _WALL = "Food", "Wall"
_ARMIES = (("red", "Soldier", 0), ("blue", "Soldier", 1))
#: Game -> of each group, in the order of the engine's handles: agent name prefix, entity type and side.
GROUPS = {
    "magent2.environments.battle.battle": _ARMIES,
    "magent2.environments.battlefield.battlefield": _ARMIES,
    "magent2.environments.combined_arms.combined_arms": (
        ("redmelee", "Melee", 0),
        ("redranged", "Ranged", 0),
        ("bluemelee", "Melee", 1),
        ("blueranged", "Ranged", 1),
    ),
    "magent2.environments.adversarial_pursuit.adversarial_pursuit": (
        ("predator", "Predator", 0),
        ("prey", "Prey", 1),
    ),
    "magent2.environments.tiger_deer.tiger_deer": (("deer", "Deer", 0), ("tiger", "Tiger", 1)),
    "magent2.environments.gather.gather": (("food", _FOOD, 1), ("omnivore", "Omnivore", 0)),
}


class MagentView(KnownGameView):
    """Battle, battlefield, combined arms, adversarial pursuit, tiger-deer and gather.

    An agent observes the circle of cells around it. x (to the right) and y (down) are those of a body's
    middle, relative to the middle of the observing agent, in radii of its circle. A team observes the whole
    map, from 0 to 1.

    - Agents, by role (`Soldier`; `Melee`, `Ranged`; `Predator`, `Prey`; `Deer`, `Tiger`; `Omnivore`) and
      `Food`: x, y; hp, the remaining share of the role's hit points; ally: 1 on the side of the
      observing agent, or of a member of the team; own: 1 for the observing agent, or members of the team. Ids
      are the agents' names; food has none.
    - `Wall` (x, y): a cell of wall. The map's border is a wall; beyond it there are no entities.

    A predator's body is 2 × 2 cells; it is observed whole if one of them is in the circle. Dead agents are no
    entities, and observe nothing.

    Raises:
        ViewError: not one of these games, or made with minimap_mode or extra_features, whose observations
            contain more than this view.
    """

    modules = tuple(GROUPS)

    def __init__(self, game: Any) -> None:
        super().__init__(game)
        for option, is_on in (("minimap_mode", game.minimap_mode), ("extra_features", game.extra_features)):
            if is_on:
                raise ViewError(
                    f"{type(self).__name__}: expected {type(game).__module__} with {option}=False, got"
                    f" {option}=True,"
                    f" whose additional observations the view ignores. Make it with {option}=False"
                )
        groups = GROUPS[type(game).__module__]
        self._groups = [
            MagentGroup.of(game.env, handle, entity_type, side)
            for handle, (_, entity_type, side) in zip(game.env.get_handles(), groups, strict=True)
        ]
        self._group_of = {prefix: group for (prefix, *_), group in zip(groups, self._groups, strict=True)}
        self._choices = {prefix: group.moves(game.env) for prefix, group in self._group_of.items()}
        self._types = [*dict.fromkeys(group.type for group in self._groups), _WALL]
        features = ("x", "y", "hp", "ally", "own")
        self.entities = {name: features[:2] if name == _WALL else features for name in self._types}
        # By group; the last is for walls, where the group NOBODY leads to.
        self._type_of = np.array([*map(self._types.index, [*(g.type for g in self._groups), _WALL])])
        self._side_of = np.array([*(group.side for group in self._groups), NOBODY])
        self._names = np.array(game.possible_agents, object)
        self._moment: tuple[Any, int] | None = None
        self._field: MagentField
        self._sorted: _SortedObservations

    def observe(self, agent: str) -> GameObservation:
        number = self.number(agent)
        self._read()
        return self._sorted.of(number) if number in self._sorted.bounds else GameObservation()

    def observe_team(self, agents: tuple[str, ...]) -> GameObservation:
        team = [self.number(agent) for agent in agents]
        sides = [self._group_of[agent.rpartition("_")[0]].side for agent in agents]
        self._read()
        field = self._field
        own, ally = np.isin(field.number, team), np.isin(self._side_of[field.group], sides)
        place = field.middle / (self.game.map_size - 1)
        rows = np.column_stack([place, field.hp, ally, own])
        everything = np.arange(len(rows))
        return self._sort(rows, everything, np.zeros_like(everything)).of(0)

    def choices(self, agent: str) -> tuple[str, ...]:
        """Cells to go to or to hit, to the right and down: "move +1 -2", "stay", "attack -1 +0"."""
        self.number(agent)
        return self._choices[agent.rpartition("_")[0]]

    def _read(self) -> None:
        """Read the field once per step for all agents.

        The game makes a new list of its agents at every reset and step; the last one read is kept, so that no
        other list can have its identity.
        """
        game = self.game
        if self._moment is not None and self._moment[0] is game.agents and self._moment[1] == game.frames:
            return
        field = self._field = MagentField.read(game, self._groups)
        self._moment = game.agents, game.frames
        sights = [self._rows_of(index) for index, group in enumerate(self._groups) if group.type != _FOOD]
        rows, things, observers = map(np.concatenate, zip(*sights, strict=True))
        self._sorted = self._sort(rows, things, field.number[observers])

    def _rows_of(self, index: int) -> tuple[np.ndarray, Integers, Integers]:
        """Return the observations of a group: rows (P, 5), the observed entities and the observers."""
        field, group = self._field, self._groups[index]
        observer, thing = field.observed(index, group.circle)
        place = (field.middle[thing] - field.middle[observer]) / group.radius
        ally = self._side_of[field.group[thing]] == group.side
        return np.column_stack([place, field.hp[thing], ally, thing == observer]), thing, observer

    def _sort(self, rows: np.ndarray, things: Integers, observers: Integers) -> _SortedObservations:
        """Sort rows (P, 5) of entities (P,) by their observers' numbers (P,) and by type."""
        group, num_types = self._field.group[things], len(self._types)
        key = observers * num_types + self._type_of[group]
        order = np.argsort(key, kind="stable")
        present = np.unique(observers)
        edges = present[:, None] * num_types + np.arange(num_types + 1)
        bounds = np.searchsorted(key[order], edges).tolist()
        names = self._names[self._field.number[things[order]]].tolist()
        where = dict(zip(present.tolist(), bounds, strict=True))
        return _SortedObservations(self.entities, rows[order].astype(np.float32), names, where)


@dataclass(frozen=True)
class _SortedObservations:
    """All agents' observations, sorted by observer and type.

    Attributes:
        rows: (P, 5), features of all types.
        names: of the P agents; arbitrary for entities without a name.
        bounds: observer's number -> where its rows of each type begin, and where the last ends.
    """

    entities: Mapping[str, tuple[str, ...]]
    rows: NDArray[np.float32]
    names: list[Any]
    bounds: dict[int, list[int]]

    def of(self, number: int) -> GameObservation:
        """Return one agent's observation, in fresh arrays and lists."""
        seen, bounds = GameObservation(), self.bounds[number]
        for (name, features), start, end in zip(self.entities.items(), bounds, bounds[1:], strict=False):
            seen.entities[name] = self.rows[start:end, : len(features)].copy()
            if name not in (_FOOD, _WALL):
                seen.ids[name] = self.names[start:end]
        return seen
