"""The entities in the circles of all agents of a MAgent2 field: kernels.

Shape alphabet: A observing agents, E entities on the field, T entity types, P pairs of an agent and an
entity.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ....ragged.compiled import compiled

Integers = NDArray[np.int64]


@compiled
def find_in_circles(
    grid: Integers,
    origin: Integers,
    group: Integers,
    circles: Integers,
    circle_offsets: Integers,
    type_of: Integers,
    found: Integers,
    counts: Integers,
) -> None:
    """Write the entities that each agent observes into `found` (A, K), in their order, -1 behind the last.

    Args:
        grid: the entity in each cell, -1 for none; flat.
        origin: the cell of each agent's corner (A,).
        group: of each agent (A,).
        circles: the cells of the groups' circles, relative to the corner; `circle_offsets` (groups + 1,).
        type_of: of each entity (E,).
        found: as many columns as the largest circle has cells.
        counts: entities by agent and type (A, T), zeros.
    """
    last_observer = np.full(len(type_of), -1, np.int64)
    for agent in range(len(origin)):
        count = 0
        for place in range(circle_offsets[group[agent]], circle_offsets[group[agent] + 1]):
            entity = grid[origin[agent] + circles[place]]
            if entity < 0 or last_observer[entity] == agent:  # a larger body is in several cells
                continue
            last_observer[entity] = agent
            counts[agent, type_of[entity]] += 1
            slot = count
            while slot > 0 and found[agent, slot - 1] > entity:
                found[agent, slot] = found[agent, slot - 1]
                slot -= 1
            found[agent, slot] = entity
            count += 1
        if count < found.shape[1]:
            found[agent, count] = -1


@compiled
def fill_rows(
    found: Integers,
    bounds: Integers,
    observer: Integers,
    type_of: Integers,
    state: NDArray[np.float64],
    side: Integers,
    radius: Integers,
    rows: NDArray[np.float32],
    entities: Integers,
    own: Integers,
) -> None:
    """Write the features of all pairs, sorted by type, agent and entity.

    Args:
        found: of `find_in_circles`.
        bounds: where the rows of each type and agent begin, and where the last end (T * A + 1,).
        observer: the entity of each agent (A,).
        state: x and y of the middle, and hp, of each entity (E, 3).
        side: of each entity (E,).
        radius: of each agent's circle (A,).
        rows: x, y, hp, ally, own (P, 5).
        entities: the entity of each row (P,).
        own: the index of each agent's own entity in its observation (A,).
    """
    num_agents = len(observer)
    if num_agents == 0:
        return
    written = np.zeros((len(bounds) - 1) // num_agents, np.int64)
    for agent in range(num_agents):
        me = observer[agent]
        written[:] = 0
        for slot in range(found.shape[1]):
            entity = found[agent, slot]
            if entity < 0:
                break
            kind = type_of[entity]
            row = bounds[kind * num_agents + agent] + written[kind]
            rows[row, 0] = (state[entity, 0] - state[me, 0]) / radius[agent]
            rows[row, 1] = (state[entity, 1] - state[me, 1]) / radius[agent]
            rows[row, 2] = state[entity, 2]
            rows[row, 3] = side[entity] == side[me]
            rows[row, 4] = entity == me
            entities[row] = entity
            if entity == me:
                own[agent] = written[kind]
                for before in range(kind):
                    place = before * num_agents + agent
                    own[agent] += bounds[place + 1] - bounds[place]
            written[kind] += 1
