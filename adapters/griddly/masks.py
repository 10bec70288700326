"""The choices that actors have, from the types of the objects in the cells that their actions reach.

Shape alphabet: A actors, C choices, E lanes, G games, N objects of all games, T entity types.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...ragged.compiled import compiled
from .behaviours import ALWAYS, FIRST_TEST, NEVER, OPERATORS
from .objects import NEXT, Objects, X, Y, Z

_EQ, _NEQ, _LT, _LTE, _GT, _GTE = range(len(OPERATORS))


class ChoiceTable(NamedTuple):
    """The choices of an actor, but the first, which is to wait."""

    vectors: NDArray[np.int64]  # (C, 2) from the actor's cell to the one that it acts upon
    is_relative: NDArray[np.bool_]  # (C,) as if the actor faced upwards
    avatar: int  # the type of all actors; -1: of several
    effects: NDArray[np.int16]  # (C, T, T + 2), and these, as in behaviours.Effects
    comparisons: NDArray[np.int64]
    bounds: NDArray[np.int64]
    first_variable: int  # of an object, among what is reported of it


class ActorTable(NamedTuple):
    """The objects that act. Each is on top of its cell; only an avatar may have another above it."""

    actors: NDArray[np.int64]  # (A, 4) as in fill.Lanes
    games: NDArray[np.int64]  # (E,) of each lane
    variables: NDArray[np.float32]  # (E, V) of the game, as they are for the lane's player


@compiled
def judge(
    objects: Objects, boards: NDArray[np.int64], actors: ActorTable, table: ChoiceTable, turns: bool
) -> NDArray[np.int8]:
    """Return what each choice of each actor (A, C) can do: behaviours.NEVER, ALWAYS or DEPENDS.

    Args:
        boards: (G, 2) width and height.
        turns: objects can have a direction.
    """
    firsts, tops = _find_tops(objects, boards)
    num_actors, num_choices, empty = len(actors.actors), len(table.vectors), table.effects.shape[2] - 2
    found = np.full((num_actors, num_choices), ALWAYS, np.int8)
    for actor in range(num_actors):
        lane, _, own_x, own_y = actors.actors[actor]
        game = actors.games[lane]
        width, height = boards[game]
        row = tops[firsts[game] + own_y * width + own_x]
        if row < 0 or (table.avatar >= 0 and objects.types[row] != table.avatar):
            continue  # the engine judges what is above an avatar instead of it
        kind, start = objects.types[row], objects.starts[row]
        ahead_x, ahead_y = _facing(objects.values, start + NEXT, turns)
        for choice in range(1, num_choices):
            dx, dy = table.vectors[choice]
            if table.is_relative[choice]:
                dx, dy = -dx * ahead_y - dy * ahead_x, dx * ahead_x - dy * ahead_y
            x, y = own_x + dx, own_y + dy
            other = empty + 1  # beyond the board
            if 0 <= x < width and 0 <= y < height:
                row = tops[firsts[game] + y * width + x]
                other = objects.types[row] if row >= 0 else empty
            effect = table.effects[choice, kind, other]
            if effect >= FIRST_TEST:
                own = objects.values[start + table.first_variable :]
                holds = _holds(effect - FIRST_TEST, own, actors.variables[lane], table)
                effect = ALWAYS if holds else NEVER
            found[actor, choice] = effect
    return found


@compiled
def _facing(values: NDArray[np.float32], start: int, turns: bool) -> tuple[int, int]:
    """Return the direction at `start`; one without a direction faces upwards."""
    if not turns or (values[start] == 0 and values[start + 1] == 0):
        return 0, -1
    return int(values[start]), int(values[start + 1])


@compiled
def _holds(test: int, own: NDArray[np.float32], shared: NDArray[np.float32], table: ChoiceTable) -> bool:
    """Return true if all comparisons of a test hold, of the variables of an object and of the game."""
    for row in range(table.bounds[test], table.bounds[test + 1]):
        operator, variable, number = table.comparisons[row]
        value = own[variable] if variable >= 0 else shared[-1 - variable]
        holds = (
            (value == number and operator in (_EQ, _LTE, _GTE))
            or (value < number and operator in (_NEQ, _LT, _LTE))
            or (value > number and operator in (_NEQ, _GT, _GTE))
        )
        if not holds:
            return False
    return True


@compiled
def _find_tops(objects: Objects, boards: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where the cells of each game (G,) start, and the object on top of each cell, or -1."""
    firsts = np.zeros(len(boards), np.int64)
    for game in range(1, len(boards)):
        firsts[game] = firsts[game - 1] + boards[game - 1, 0] * boards[game - 1, 1]
    tops = np.full(firsts[-1] + boards[-1, 0] * boards[-1, 1], -1)
    for game in range(len(boards)):
        for row in range(objects.ends[game], objects.ends[game + 1]):
            start = objects.starts[row]
            x, y = int(objects.values[start + X]), int(objects.values[start + Y])
            cell = firsts[game] + y * boards[game, 0] + x
            if tops[cell] < 0 or objects.values[objects.starts[tops[cell]] + Z] < objects.values[start + Z]:
                tops[cell] = row
    return firsts, tops
