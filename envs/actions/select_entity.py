"""Select-entity actions: `SelectEntity`, each actor picks one of the step's entities.

Shape alphabet: B steps, A actors, E actees.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from ...ragged.compiled import compiled
from ...suggestions import listed, numbered
from .action_mask import ActionMask, allowed_choice
from .action_space import LEGAL, ActionSpace
from .array_checks import MOST_ENTITIES, random_flags, random_subset
from .mask_reader import MaskReader

#: Advice where actees were probably meant: SelectEntityMask(cars, cities).
_BY_POSITION = (
    ". By position the second argument of SelectEntityMask is actor_types. Name actees: actee_ids=… or"
    " actee_types=…"
)


@dataclass
class SelectEntityMask:
    """The actors and actees of a `SelectEntity` action, each by id, type or (with neither) every entity."""

    actor_ids: Sequence[Hashable] | None = None
    actor_types: Sequence[str] | None = None
    actee_ids: Sequence[Hashable] | None = None
    actee_types: Sequence[str] | None = None
    mask: ArrayLike | None = None  # (A, E), true = allowed; None: every actor may select every actee


@dataclass(frozen=True)
class SelectEntityAction:
    """The entity that each actor of a `SelectEntity` action selects."""

    actors: list[Any]  # entity ids; entity indices where an entity has no id
    actees: list[Any]


class SelectEntity(ActionSpace):
    """Each actor picks one of the step's actees.

    Action: int64 (A,), the entity index of the actee that each actor picks.
    Observation part: `actors` int64 (A,), `actees` int64 (E,), `mask` int8 (A * E,), row-major actor × actee.
    """

    selects_entities = True
    mask_type = SelectEntityMask

    def __init__(self, seed: int | None = None) -> None:
        super().__init__(None, np.int64, seed)

    def sample_mask(self, num_entities: int, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
        actors, actees = random_subset(num_entities, rng), random_subset(num_entities, rng)
        if not len(actees):
            actors = actors[:0]
        mask = random_flags((len(actors), len(actees)), rng)
        return {"actors": actors, "actees": actees, "mask": mask.reshape(-1)}

    def _resolved(self, given: SelectEntityMask, step: MaskReader) -> ActionMask:
        actors = step.indices("actor", given.actor_ids, given.actor_types, _BY_POSITION)
        if not len(actors):  # without actors there are no actees
            return self.resolve(None, step)
        actees = step.indices("actee", given.actee_ids, given.actee_types)
        shape = (len(actors), len(actees))
        mask = np.ones(shape, bool) if given.mask is None else step.flags(given.mask, shape)
        return self.one_step(actors, mask, actees)

    # -- rules ----------------------------------------------------------------------------------------------

    def actor_without_choice(self, part: ActionMask) -> tuple[int, str] | None:
        row = int(_first_without_choice(*_layout(part)))
        return None if row < 0 else (row, "expected at least one allowed entity, got none")

    def draw(self, part: ActionMask, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw uniformly from the allowed actees."""
        return _drawn(rng.random(part.actors.num_items), *_actees(part), *_layout(part))

    def first_illegal(self, items: NDArray[np.int64], part: ActionMask) -> int:
        return int(_replaced(items, *_actees(part), *_layout(part))[2])

    def explain(self, item: Any, part: ActionMask, row: int, entity: Callable[[int], str]) -> str:
        assert part.actees is not None
        step = part.actors.sequence_of(row)
        actees = part.actees[step]
        flags = part.mask[step].reshape(-1, len(actees))[row - part.actors.offsets[step]]
        allowed = listed(actees[flags].tolist(), lambda i: numbered(i, entity(i)), "no choices")
        return f"entity {item} is not allowed: expected one of {allowed}"

    def replace_illegal(self, items: NDArray[np.int64], part: ActionMask) -> tuple[NDArray[np.int64], int]:
        return _replaced(items, *_actees(part), *_layout(part))[:2]

    @property
    def bounds(self) -> tuple[int, int]:
        return 0, MOST_ENTITIES - 1

    # -- other forms ----------------------------------------------------------------------------------------

    def to_author(
        self, actors: list[Any], items: NDArray[np.int64], names: Sequence[Any]
    ) -> SelectEntityAction:
        return SelectEntityAction(actors, [names[index] for index in items.tolist()])

    def from_author(self, given: Mapping[str, Any]) -> Sequence[Any]:
        return list(given["actees"])

    def nonexistent(self, num_entities: int) -> int:
        return num_entities

    def masked_items(self, part: ActionMask) -> Iterator[tuple[str, int, Any]]:
        assert part.actees is not None
        for step, mask in enumerate(part.mask):
            if not mask.all():
                actees = part.actees[step]
                row, column = divmod(int(mask.argmin()), len(actees))
                yield "choice", int(part.actors.offsets[step]) + row, int(actees[column])
                return

    def gymnasium_space(self, num_actees: int) -> spaces.Discrete:
        return spaces.Discrete(num_actees)

    def schema(self) -> dict[str, Any]:
        return {}

    def __repr__(self) -> str:
        return "SelectEntity()"


def _actees(part: ActionMask) -> tuple[NDArray[np.int64]]:
    assert part.actees is not None
    return (part.actees.values,)


def _layout(part: ActionMask) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """The flat mask, and where the steps begin in it and in the lists of actors and actees (B + 1,)."""
    assert part.actees is not None
    return part.mask.values, part.mask.offsets, part.actors.offsets, part.actees.offsets


@compiled
def _first_without_choice(
    mask: NDArray[np.bool_],
    mask_offsets: NDArray[np.int64],
    actor_offsets: NDArray[np.int64],
    actee_offsets: NDArray[np.int64],
) -> int:
    for step in range(len(actor_offsets) - 1):
        place, width = mask_offsets[step], actee_offsets[step + 1] - actee_offsets[step]
        for actor in range(actor_offsets[step], actor_offsets[step + 1]):
            if not mask[place : place + width].any():
                return actor
            place += width
    return -1


@compiled
def _drawn(
    uniform: NDArray[np.float64],
    actees: NDArray[np.int64],
    mask: NDArray[np.bool_],
    mask_offsets: NDArray[np.int64],
    actor_offsets: NDArray[np.int64],
    actee_offsets: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return for each actor the allowed actee at the fraction `uniform` (A,) of all that it may select."""
    selected = np.empty(len(uniform), np.int64)
    for step in range(len(actor_offsets) - 1):
        place, first, last = mask_offsets[step], actee_offsets[step], actee_offsets[step + 1]
        for actor in range(actor_offsets[step], actor_offsets[step + 1]):
            column = allowed_choice(mask[place : place + last - first], uniform[actor])
            selected[actor] = actees[first + column] if column >= 0 else -1
            place += last - first
    return selected


@compiled
def _replaced(
    selected: NDArray[np.int64],
    actees: NDArray[np.int64],
    mask: NDArray[np.bool_],
    mask_offsets: NDArray[np.int64],
    actor_offsets: NDArray[np.int64],
    actee_offsets: NDArray[np.int64],
) -> tuple[NDArray[np.int64], int, int]:
    """`selected` (A,) with each actor's first allowed actee in place of what is illegal; how many were, and
    the first of them or `LEGAL`."""
    legal, count, first_illegal = selected.copy(), 0, LEGAL
    for step in range(len(actor_offsets) - 1):
        place, first, last = mask_offsets[step], actee_offsets[step], actee_offsets[step + 1]
        for actor in range(actor_offsets[step], actor_offsets[step + 1]):
            is_legal = False
            for actee in range(first, last):
                if actees[actee] == selected[actor]:
                    is_legal = mask[place + actee - first]
                    break
            if not is_legal:
                first_illegal = actor if count == 0 else first_illegal
                count += 1
                legal[actor] = -1
                for actee in range(first, last):
                    if mask[place + actee - first]:
                        legal[actor] = actees[actee]
                        break
            place += last - first
    return legal, count, first_illegal
