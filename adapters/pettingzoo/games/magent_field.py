"""The state of a MAgent2 field at one step.

Shape alphabet: E entities on the field (agents first, then walls), n agents in play of a group, K cells of
an observation's circle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
#: Types whose living members have all their hit points: predators and prey lose none, and one attack kills an
#: omnivore.
_UNHURT = frozenset({"Predator", "Prey", "Omnivore"})
NOBODY = -1  # the number of what is no agent, and the group of walls


@dataclass(frozen=True)
class MagentGroup:
    """The members of one of the engine's groups, which are all alike.

    Attributes:
        handle: the engine's handle.
        type: of entity.
        side: 0 or 1.
        body: cells along an edge of the body.
        radius: of the observed circle, in cells from the body's middle.
        circle: (K, 2) x, y of the observed cells, from the body's upper left cell.
    """

    handle: Any
    type: str
    side: int
    body: int
    radius: int
    circle: Integers

    @classmethod
    def of(cls, engine: Any, handle: Any, entity_type: str, side: int) -> MagentGroup:
        """A group as the engine describes it: a view is 2 radius + 1 cells wide around a body of one cell,
        2 radius around one of 2 × 2, with the circle around the body's middle."""
        width = int(engine.get_view_space(handle)[1])
        body, radius = 2 - width % 2, width // 2
        corner = np.indices((width, width)).reshape(2, -1).T - (width - body) // 2
        distance = corner - (body - 1) / 2
        circle = corner[(distance**2).sum(1) <= radius**2]
        return cls(handle, entity_type, side, body, radius, circle)

    def moves(self, engine: Any) -> tuple[str, ...]:
        """Names of the group's actions: first the cells of a circle, row by row, to go to; then those that
        the engine's map of attacks names."""
        base, attacks = engine.get_view2attack(self.handle)
        cells = np.indices((2 * base + 1, 2 * base + 1)).reshape(2, -1).T - base  # y, x; more than enough
        nearest = cells[np.argsort((cells**2).sum(1), kind="stable")[:base]]
        names = [_name("move", x, y) for y, x in sorted(map(tuple, nearest.tolist()))]
        middle = (len(attacks) - 1) / 2
        hits = {number: (x - middle, y - middle) for (y, x), number in np.ndenumerate(attacks) if number >= 0}
        return (*names, *(_name("attack", *hits[number]) for number in sorted(hits)))


@dataclass(frozen=True)
class MagentEntities:
    """The entities of a field: agents in the order of their groups, then walls. The same until an agent dies.

    Attributes:
        episode: the game's list of team sizes, which is another object in each episode.
        counts: entities of each group.
        group: place in the list of groups; `NOBODY` for walls (E,).
        number: place in the game's `possible_agents`; `NOBODY` for food and walls (E,).
        body: cells along an edge of the body (E,).
        walls: x, y of walls (W, 2).
    """

    episode: Any
    counts: list[int]
    group: Integers
    number: Integers
    body: Integers
    walls: NDArray[np.int32]

    @classmethod
    def read(cls, game: Any, groups: Sequence[MagentGroup], counts: list[int]) -> MagentEntities:
        walls = game.env._get_walls_info()
        number = [game.env.get_agent_id(group.handle) for group in groups]
        number = np.concatenate([*number, np.full(len(walls), NOBODY)])
        number[number >= len(game.possible_agents)] = NOBODY
        repeats = [*counts, len(walls)]
        return cls(
            episode=game.team_sizes,
            counts=counts,
            group=np.repeat([*range(len(groups)), NOBODY], repeats),
            number=number.astype(np.int64),
            body=np.repeat([*(group.body for group in groups), 1], repeats),
            walls=walls.copy(),
        )


@dataclass(frozen=True)
class MagentField:
    """Positions and hit points of all entities, in the order of `entities`.

    Attributes:
        entities: which they are; the same object until an agent dies.
        corner: x, y of the body's upper left cell (E, 2).
        hp: the remaining share of full hit points; 0 for walls (E,).
    """

    entities: MagentEntities
    corner: NDArray[np.int32]
    hp: NDArray[np.float64]

    @classmethod
    def read(
        cls, game: Any, groups: Sequence[MagentGroup], last: MagentEntities | None, observed: bool
    ) -> MagentField:
        """Read the field.

        Args:
            last: the entities of the last field that was read.
            observed: True if the game's last step or reset made its own observations.
        """
        corners = [game.env.get_pos(group.handle) for group in groups]
        counts = [len(corner) for corner in corners]
        entities = last
        if entities is None or entities.episode is not game.team_sizes or entities.counts != counts:
            entities = MagentEntities.read(game, groups, counts)
        hp = [
            _life(game, group, count, observed) for group, count in zip(groups, counts, strict=True) if count
        ]
        return cls(
            entities,
            np.concatenate([*corners, entities.walls]),
            np.concatenate([*hp, np.zeros(len(entities.walls))]),
        )

    @property
    def middle(self) -> NDArray[np.float64]:
        """x, y of the bodies' middles (E, 2)."""
        return self.corner + (self.entities.body[:, None] - 1) / 2


def _life(game: Any, group: MagentGroup, count: int, observed: bool) -> NDArray[np.float32]:
    """The share of hp left (n,): the observation's own-team channel, where the observer itself stands.

    If the game has just `observed`, for the groups that play, the engine still has what it wrote then, and it
    is right if no member of the group has died since.
    """
    if group.type in _UNHURT:
        return np.ones(count, np.float32)
    engine, handle = game.env, group.handle
    view = engine.obs_bufs[engine.OBS_INDEX_VIEW].get(handle.value)
    plays = any(other.value == handle.value for other in game.handles)
    if not observed or view is None or not plays or len(view) != count:
        view = engine.get_observation(handle)[0]
    return view[:, view.shape[1] // 2, view.shape[2] // 2, 2]


def _name(verb: str, x: float, y: float) -> str:
    return "stay" if verb == "move" and x == y == 0 else f"{verb} {x:+g} {y:+g}"
