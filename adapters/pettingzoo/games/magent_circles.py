"""The entities in the circles of all agents of a MAgent2 field: a kernel.

Shape alphabet: A observing agents, E entities on the field, T entity types, P pairs of an agent and an
entity, R rows of cells.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ....ragged.compiled import compiled

Integers = NDArray[np.int64]


def rows_of_cells(circle: Integers) -> Integers:
    """Return the rows of a circle of cells (K, 2) x, y: each row's y, its first and its last x (R, 3)."""
    x, y = circle.T
    return np.array([(row, x[y == row].min(), x[y == row].max()) for row in np.unique(y)])


@compiled
def observe_circles(
    corner: NDArray[np.int32],
    body: Integers,
    type_of: Integers,
    side: Integers,
    hp: NDArray[np.float64],
    observer: Integers,
    group: Integers,
    radius: Integers,
    circles: Integers,
    circle_offsets: Integers,
    num_types: int,
    size: int,
) -> tuple[NDArray[np.float32], Integers, Integers, Integers]:
    """Return the features of all pairs, sorted by type, agent and entity.

    Args:
        corner: x, y of the upper left cell of each entity (E, 2).
        body: cells along an edge of the body of each entity (E,).
        type_of, side, hp: of each entity (E,).
        observer: the entity of each agent (A,).
        group, radius: of each agent (A,).
        circles: `rows_of_cells` of each group, relative to the upper left cell of the observer;
            `circle_offsets` (groups + 1,).
        size: cells along an edge of the map.

    Returns:
        x, y, hp, ally, own (P, 5); the entity of each row (P,); where the rows of each type and agent begin,
        and where the last end (T * A + 1,); the index of each agent's own entity in its observation (A,).
    """
    first, taken = _taken_cells(corner, body, size)
    found, ends = _find_pairs(corner, observer, group, circles, circle_offsets, first, taken, size)
    agents, starts = _sort_by_entity(found, ends, len(corner))
    bounds = _row_bounds(found, ends, type_of, num_types)
    rows, entities = np.empty((len(found), 5), np.float32), np.empty(len(found), np.int64)
    own, next_row = np.full(len(observer), -1, np.int64), bounds.copy()
    for entity in range(len(corner)):
        for pair in range(starts[entity], starts[entity + 1]):
            agent = agents[pair]
            block, me = type_of[entity] * len(observer) + agent, observer[agent]
            row = next_row[block]
            next_row[block] += 1
            offset = (body[entity] - body[me]) / 2  # of the bodies' middles
            rows[row, 0] = (corner[entity, 0] - corner[me, 0] + offset) / radius[agent]
            rows[row, 1] = (corner[entity, 1] - corner[me, 1] + offset) / radius[agent]
            rows[row, 2] = hp[entity]
            rows[row, 3] = side[entity] == side[me]
            rows[row, 4] = entity == me
            entities[row] = entity
            if entity == me:
                own[agent] = row - bounds[block]
                for earlier in range(agent, block, len(observer)):
                    own[agent] += bounds[earlier + 1] - bounds[earlier]
    return rows, entities, bounds, own


@compiled
def _taken_cells(corner: NDArray[np.int32], body: Integers, size: int) -> tuple[Integers, Integers]:
    """Return how many cells before each are taken (size * size + 1,), and the entity in each taken cell."""
    grid = np.full(size * size, -1, np.int64)  # the entity in each cell
    for entity in range(len(corner)):
        for x in range(corner[entity, 0], corner[entity, 0] + body[entity]):
            for y in range(corner[entity, 1], corner[entity, 1] + body[entity]):
                grid[y * size + x] = entity
    first, taken = np.empty(size * size + 1, np.int64), np.empty(size * size + 1, np.int64)
    count = 0
    for cell in range(size * size):
        first[cell] = count
        taken[count] = grid[cell]
        count += grid[cell] >= 0
    first[size * size] = count
    return first, taken


@compiled
def _find_pairs(
    corner: NDArray[np.int32],
    observer: Integers,
    group: Integers,
    circles: Integers,
    circle_offsets: Integers,
    first: Integers,
    taken: Integers,
    size: int,
) -> tuple[Integers, Integers]:
    """Return the entities in the circle of each agent in turn (P,), and where each agent's end (A + 1,)."""
    num_agents, capacity = len(observer), 0
    for agent in range(num_agents):
        for row in range(circle_offsets[group[agent]], circle_offsets[group[agent] + 1]):
            capacity += circles[row, 2] - circles[row, 1] + 1
    found, ends = np.empty(capacity, np.int64), np.zeros(num_agents + 1, np.int64)
    last_observer = np.full(len(corner), -1, np.int64)
    count = 0
    for agent in range(num_agents):
        x, y = corner[observer[agent]]
        for row in range(circle_offsets[group[agent]], circle_offsets[group[agent] + 1]):
            line = y + circles[row, 0]
            if not 0 <= line < size:
                continue
            start = first[line * size + max(0, x + circles[row, 1])]
            stop = first[line * size + min(size, x + circles[row, 2] + 1)]
            for place in range(start, stop):
                entity = taken[place]
                if last_observer[entity] != agent:  # a larger body is in several cells
                    last_observer[entity] = agent
                    found[count] = entity
                    count += 1
        ends[agent + 1] = count
    return found[:count], ends


@compiled
def _sort_by_entity(found: Integers, ends: Integers, num_entities: int) -> tuple[Integers, Integers]:
    """Return the agents of the same pairs, entity by entity (P,), and where each entity's begin (E + 1,)."""
    starts = np.zeros(num_entities + 1, np.int64)
    for entity in found:
        starts[entity + 1] += 1
    starts = starts.cumsum()
    agents, next_pair = np.empty(len(found), np.int64), starts.copy()
    for agent in range(len(ends) - 1):
        for pair in range(ends[agent], ends[agent + 1]):
            entity = found[pair]
            agents[next_pair[entity]] = agent
            next_pair[entity] += 1
    return agents, starts


@compiled
def _row_bounds(found: Integers, ends: Integers, type_of: Integers, num_types: int) -> Integers:
    """Return where the rows of each type and agent begin, and where the last end (T * A + 1,)."""
    num_agents = len(ends) - 1
    counts = np.zeros(num_types * num_agents + 1, np.int64)
    for agent in range(num_agents):
        for pair in range(ends[agent], ends[agent + 1]):
            counts[type_of[found[pair]] * num_agents + agent + 1] += 1
    return counts.cumsum()
