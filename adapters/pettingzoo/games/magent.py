"""MAgent2: armies, hunters and gatherers on a grid, each of which observes a circle of cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....ragged import RaggedArray
from ...gymnasium.views.scope import ViewError
from ..game_view import ArrayStep, GameObservation, GameObservations
from .known_game_view import KnownGameView
from .magent_circles import observe_circles, rows_of_cells
from .magent_field import NOBODY, Integers, MagentEntities, MagentField, MagentGroup
from .magent_step import MagentStep

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
        self._observes = np.array([*(group.type != _FOOD for group in self._groups), False])
        self._radius_of = np.array([group.radius for group in self._groups])
        circles = [rows_of_cells(group.circle) for group in self._groups]
        self._circles = np.concatenate(circles)
        self._circle_offsets = np.concatenate([[0], np.cumsum([len(rows) for rows in circles])])
        self._names = np.array(game.possible_agents, object)
        self._moment: tuple[Any, int] | None = None
        self._step = MagentStep(game)
        self._field: MagentField
        self._observers: _Observers | None = None
        self._observed: _Observations

    def observe(self, agent: str) -> GameObservation:
        self.number(agent)
        self._read()
        return self._observed.of(agent)

    def observe_all(self, agents: Sequence[str]) -> GameObservations:
        self._read()
        return self._observed.of_all(agents)

    def array_step(self, env: Any) -> ArrayStep | None:
        return self._step if env is self.game and MagentStep.fits(env) else None

    def observe_team(self, agents: tuple[str, ...]) -> GameObservation:
        team = [self.number(agent) for agent in agents]
        sides = [self._group_of[agent.rpartition("_")[0]].side for agent in agents]
        self._read()
        field, entities, seen = self._field, self._field.entities, GameObservation()
        own, ally = np.isin(entities.number, team), np.isin(self._side_of[entities.group], sides)
        place = field.middle / (self.game.map_size - 1)
        rows = np.column_stack([place, field.hp, ally, own]).astype(np.float32)
        types = self._type_of[entities.group]
        for kind, (name, features) in enumerate(self.entities.items()):
            here = types == kind
            seen.entities[name] = rows[here, : len(features)]
            if name not in (_FOOD, _WALL):
                seen.ids[name] = self._names[entities.number[here]].tolist()
        return seen

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
        last = self._observers
        entities = None if last is None else last.entities
        self._field = MagentField.read(game, self._groups, entities, not self._step.is_last)
        self._moment = game.agents, game.frames
        if last is None or self._field.entities is not last.entities:
            last = self._observers = self._observers_of(self._field.entities)
        self._observed = self._in_circles(self._field, last)

    def _observers_of(self, entities: MagentEntities) -> _Observers:
        agents = np.flatnonzero((entities.number != NOBODY) & self._observes[entities.group])
        entity = agents[np.argsort(entities.number[agents])]
        group, number = entities.group[entity], entities.number[entity]
        return _Observers(
            entities,
            self._type_of[entities.group],
            self._side_of[entities.group],
            entity,
            group,
            self._radius_of[group],
            {agent: place for place, agent in enumerate(self._names[number].tolist())},
        )

    def _in_circles(self, field: MagentField, who: _Observers) -> _Observations:
        """Return the observations of all agents on the field."""
        rows, entities, bounds, own = observe_circles(
            field.corner,
            field.entities.body,
            who.type_of,
            who.side,
            field.hp,
            who.entity,
            who.group,
            who.radius,
            self._circles,
            self._circle_offsets,
            len(self._types),
            self.game.map_size,
        )
        return _Observations(self.entities, who, rows, entities, self._names, bounds, own)


class _Observers(NamedTuple):
    """The A observing agents of a field, by their numbers."""

    entities: MagentEntities
    type_of: Integers  # of each entity (E,)
    side: Integers  # of each entity (E,)
    entity: Integers  # of each agent (A,)
    group: Integers  # of each agent (A,)
    radius: Integers  # of each agent's circle (A,)
    places: dict[str, int]  # agent -> its place among them


@dataclass(frozen=True)
class _Observations:
    """All agents' observations, sorted by type and agent.

    Attributes:
        who: the A observing agents.
        rows: features of all types (P, 5).
        others: the entities of the rows (P,); `names` are those of all agents.
        bounds: where the rows of each type and agent begin, and where the last end (T * A + 1,).
        own: the index of each agent's own entity (A,).
    """

    entities: Mapping[str, tuple[str, ...]]
    who: _Observers
    rows: NDArray[np.float32]
    others: Integers
    names: NDArray[np.object_]
    bounds: Integers
    own: Integers

    def of(self, agent: str) -> GameObservation:
        """Return one agent's observation, in fresh arrays and lists; an empty one if it is dead."""
        seen, place = GameObservation(), self.who.places.get(agent)
        if place is None:
            return seen
        for kind, (name, features) in enumerate(self.entities.items()):
            start, end = self.bounds[kind * len(self.own) + place :][:2]
            seen.entities[name] = self.rows[start:end, : len(features)].copy()
            if name not in (_FOOD, _WALL):
                seen.ids[name] = self.names[self.who.entities.number[self.others[start:end]]].tolist()
        return seen

    def of_all(self, agents: Sequence[str]) -> GameObservations:
        """Return the observations of living agents, in fresh arrays."""
        count, places = len(self.own), self.who.places
        chosen = None if list(places) == agents else np.array([places[agent] for agent in agents], np.int64)
        entities = {}
        for kind, (name, features) in enumerate(self.entities.items()):
            offsets = self.bounds[kind * count : (kind + 1) * count + 1]
            rows = self.rows[offsets[0] : offsets[-1], : len(features)].copy()
            array = RaggedArray.unchecked(rows, offsets - offsets[0])
            entities[name] = array if chosen is None else array.gather(chosen)
        own = self.own.copy() if chosen is None else self.own[chosen]
        return GameObservations(entities, own, np.zeros((len(agents), 0), np.float32))
