"""`Behaviours`: what a game's file says that actions do between which types of objects.

Shape alphabet: C choices, T entity types.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

#: What an action can do to an object: nothing, something, or something if a precondition is met that only the
#: engine knows. Higher numbers are those of tests.
NEVER, ALWAYS, DEPENDS, FIRST_TEST = range(4)
OPERATORS = ("eq", "neq", "lt", "lte", "gt", "gte")
#: Numbers below are exact in float32, and larger ones stay larger.
_EXACT = 1 << 24
#: An operator, the name of a variable, and a number.
Comparison = tuple[str, str, int]
#: Types of the engine's own, by which it stands for empty cells, and for those beyond the board.
EMPTY, BOUNDARY = "_empty", "_boundary"

#: Commands that make objects, turn them, and write what is reported of them.
_MAKES, _TURNS, _MARKS = (
    re.compile(pattern) for pattern in ('"(spawn|change_to)"', '"rot"', "_playerId|_d[xy]")
)


@dataclass(frozen=True)
class Side:
    """Types of objects that act or are acted upon, and the commands that these then carry out."""

    names: frozenset[str]
    commands: str

    @classmethod
    def of(cls, description: Mapping[str, Any] | None) -> Side:
        """Read a side of a behaviour; one without objects is the engine's empty cell."""
        description = description or {}
        found = description.get("Object") or EMPTY
        names = found if isinstance(found, list) else [found]
        return cls(frozenset(map(str, names)), json.dumps(description.get("Commands"), default=str))


@dataclass(frozen=True)
class Behaviour:
    """The effect of an action between objects of some types."""

    action: str
    source: Side
    target: Side
    is_conditional: bool
    comparisons: tuple[Comparison, ...] | None  # its preconditions; None: others than such

    @classmethod
    def of(cls, action: str, description: Mapping[str, Any]) -> Behaviour:
        """Read a behaviour of an action."""
        source = description.get("Src") or {}
        sides = Side.of(source), Side.of(description.get("Dst"))
        return cls(action, *sides, "Preconditions" in source, _comparisons(source.get("Preconditions")))

    def test(self, own: Sequence[str], shared: Sequence[str]) -> list[tuple[int, int, int]] | None:
        """Return the comparisons as in `Effects`, for an object with these variables in a game with those."""
        if self.comparisons is None or not {name for _, name, _ in self.comparisons} <= {*own, *shared}:
            return None
        return [
            (OPERATORS.index(operator), own.index(name) if name in own else -1 - shared.index(name), number)
            for operator, name, number in self.comparisons
        ]


class Effects(NamedTuple):
    """The effects of each action by an object of a type on an object of another."""

    #: int16 (actions, T, T + 2) of NEVER, ALWAYS or DEPENDS, or FIRST_TEST and the number of a test: it does
    #: something where that holds. The last two objects are EMPTY and BOUNDARY.
    table: NDArray[np.int16]
    #: int64 (comparisons, 3) of all tests: one of OPERATORS, a variable and a number. A variable is the
    #: acting object's by its number from 0 up, or the game's from -1 down.
    comparisons: NDArray[np.int64]
    #: int64 (tests + 1,) of each test in the above.
    bounds: NDArray[np.int64]


@dataclass(frozen=True)
class Behaviours:
    """The behaviours of a game's actions."""

    found: tuple[Behaviour, ...]

    @classmethod
    def of(cls, actions: Iterable[Mapping[str, Any]]) -> Behaviours:
        """Read the part `Actions` of a game's file."""
        return cls(
            tuple(
                Behaviour.of(str(action["Name"]), description)
                for action in actions
                for description in action.get("Behaviours") or ()
            )
        )

    def stay_plain(self, avatar: str) -> bool:
        """Return true if no command gives an object but the avatar an owner or a direction.

        An object that is made belongs to the owner of the one that makes it. Empty cells have one, too.
        """
        makers = {avatar, EMPTY, BOUNDARY}
        return not any(
            _MARKS.search(side.commands)
            or (_MAKES.search(side.commands) and not makers.isdisjoint(side.names))
            or (_TURNS.search(side.commands) and side.names != {avatar})
            for behaviour in self.found
            for side in (behaviour.source, behaviour.target)
        )

    def effects(
        self, actions: Sequence[str], objects: Mapping[str, Sequence[str]], variables: Sequence[str]
    ) -> Effects:
        """Return what actions do between types of objects.

        As in the engine, one behaviour whose preconditions are met is enough, and one without preconditions
        counts only among others like it.

        Args:
            objects: the types, and their variables.
            variables: of the game.
        """
        kinds = {name: number for number, name in enumerate((*objects, EMPTY, BOUNDARY))}
        table = np.full((len(actions), len(objects), len(kinds)), NEVER, np.int16)
        tests: list[list[tuple[int, int, int]]] = []
        for behaviour in sorted(self.found, key=lambda behaviour: behaviour.is_conditional):
            for number in [number for number, action in enumerate(actions) if action == behaviour.action]:
                for actor in behaviour.source.names.intersection(objects):
                    test = behaviour.test(objects[actor], variables)
                    effect = ALWAYS
                    if behaviour.is_conditional:
                        effect = DEPENDS if test is None else FIRST_TEST + len(tests)
                        tests += [] if test is None else [test]
                    for other in behaviour.target.names.intersection(kinds):
                        place = number, kinds[actor], kinds[other]
                        table[place] = effect if table[place] <= ALWAYS else DEPENDS
        bounds = np.cumsum([0, *map(len, tests)])
        comparisons = np.array([row for test in tests for row in test], np.int64).reshape(-1, 3)
        return Effects(table, comparisons, bounds)


def _comparisons(preconditions: Any) -> tuple[Comparison, ...] | None:
    """Read preconditions that compare variables with numbers; return None if there are others, or none."""
    found = []
    for precondition in preconditions if isinstance(preconditions, list) else []:
        for operator, arguments in precondition.items():
            match arguments:
                case [str(name), int(number)] if operator in OPERATORS and abs(number) < _EXACT:
                    found.append((operator, name, number))
                case _:
                    return None
    return tuple(found) or None
