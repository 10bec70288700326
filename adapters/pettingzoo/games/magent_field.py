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
class MagentField:
    """Positions and hit points of all entities, (E,) each: agents in the order of their groups, then walls.

    Attributes:
        group: place in the list of groups; `NOBODY` for walls.
        number: place in the game's `possible_agents`; `NOBODY` for food and walls.
        corner: (E, 2) x, y of the body's upper left cell.
        middle: (E, 2) float64, x, y of the body's middle.
        hp: float64, the remaining share of full hit points; 0 for walls.
        grid: the entity in each cell, by y, x, with a margin around the map; `NOBODY` in empty cells.
        margin: in cells.
    """

    group: Integers
    number: Integers
    corner: Integers
    middle: NDArray[np.float64]
    hp: NDArray[np.float64]
    grid: Integers
    margin: int

    @classmethod
    def read(cls, game: Any, groups: Sequence[MagentGroup]) -> MagentField:
        engine, walls = game.env, game.env._get_walls_info()
        corners = [engine.get_pos(group.handle) for group in groups] + [walls]
        counts = [len(corner) for corner in corners]
        number = np.concatenate(
            [*(engine.get_agent_id(g.handle) for g in groups), np.full(len(walls), NOBODY)]
        )
        number[number >= len(game.possible_agents)] = NOBODY
        corner = np.concatenate(corners).astype(np.int64)
        body = np.repeat([group.body for group in groups] + [1], counts)
        hp = [_life(game, group, count) for group, count in zip(groups, counts, strict=False) if count]
        margin = max(group.radius for group in groups)
        return cls(
            group=np.repeat([*range(len(groups)), NOBODY], counts),
            number=number.astype(np.int64),
            corner=corner,
            middle=corner + (body[:, None] - 1) / 2,
            hp=np.concatenate([*hp, np.zeros(len(walls))]),
            grid=_occupants(corner, body, game.map_size, margin),
            margin=margin,
        )


def _life(game: Any, group: MagentGroup, count: int) -> NDArray[np.float64]:
    """The share of hp left (n,): the observation's own-team channel, where the observer itself stands.

    The game has just observed for the groups that play. The engine still has what it wrote then, and it is
    right if no member of the group has died since: observing again would take half as long as the step.
    """
    engine, handle = game.env, group.handle
    view = engine.obs_bufs[engine.OBS_INDEX_VIEW].get(handle.value)
    plays = any(other.value == handle.value for other in game.handles)
    if view is None or not plays or len(view) != count:
        view = engine.get_observation(handle)[0]
    return view[:, view.shape[1] // 2, view.shape[2] // 2, 2].astype(np.float64)


def _occupants(corner: Integers, body: Integers, map_size: int, margin: int) -> Integers:
    grid = np.full((map_size + 2 * margin,) * 2, NOBODY, np.int64)
    things = np.arange(len(corner))
    for x in range(body.max()):
        for y in range(body.max()):
            large = body > max(x, y)
            column, row = (corner[large] + (x, y) + margin).T
            grid[row, column] = things[large]
    return grid


def _name(verb: str, x: float, y: float) -> str:
    return "stay" if verb == "move" and x == y == 0 else f"{verb} {x:+g} {y:+g}"
