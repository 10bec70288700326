"""Conditional multi-discrete actions: `MultiCategorical`, several choices per actor; the first says which of
the others count.

Shape alphabet: A actors, M components of an action, C choices of all components together, K kinds (choices
of the first component).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Self

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from ...ragged.compiled import compiled
from ...suggestions import listed, numbered
from .action_mask import ActionMask, allowed_choice
from .action_space import LEGAL, ActionSpace
from .array_checks import choice_names, choice_number, named_parts, random_subset, unique_names
from .mask_reader import MaskReader


@dataclass
class MultiCategoricalMask:
    """The actors of a `MultiCategorical` action, by id, by type or (with neither) every entity, and their
    masks."""

    actor_ids: Sequence[Hashable] | None = None
    actor_types: Sequence[str] | None = None
    mask: ArrayLike | None = None  # (A, C), the components' masks side by side; None: everything is allowed


@dataclass(frozen=True)
class MultiCategoricalAction:
    """The choices of the actors of a `MultiCategorical` action, in the order of `actors`."""

    actors: list[Any]  # entity ids; entity indices where an entity has no id
    choices: NDArray[np.int64]  # (A, M)
    labels: list[dict[str, str]]  # per actor the choice of each component that its kind uses, by name


class MultiCategorical(ActionSpace):
    """Each actor makes one choice for each of M named components.

        MultiCategorical(
            {"kind": ["none", "move", "attack"], "move": ["north", "east", "south", "west"], "attack": 49},
            uses={"move": ["move"], "attack": ["attack"]},
        )

    The first component is the *kind*; `uses` says which of the others it needs, and a kind that `uses` leaves
    out needs none. Without `uses` all components count always.

    Action: int64 (A, M), one row per actor in the order of the observation's `actors`.
    A component that the kind does not use may hold any of its choices; 0 is what sampling and policies write.
    Observation part: `actors` int64 (A,) entity indices, `mask` int8 (A, C), 1 = allowed: the components'
    masks side by side, component m in the columns `offsets[m]` to `offsets[m + 1]`. Each actor must be
    allowed a kind, and for each allowed kind something of every component that it uses; of a component that
    no allowed kind uses nothing needs to be allowed.

    Attributes:
        components: per component the names of its choices, in order; a number n stands for "0" to "n - 1", an
            Enum for the names of its members.
        uses: per kind the further components that it uses, in the components' order.
        sizes: int64 (M,), the choices of each component.
        offsets: int64 (M + 1,), where each component's columns of the mask start.
        used: bool (K, M), which components count for a kind; the kind itself always does.

    Raises:
        TypeError, ValueError: no component, one without choices, names that repeat or are no strings, or
            `uses` with an unknown kind or component.
    """

    mask_type = MultiCategoricalMask

    def __init__(
        self,
        components: Mapping[str, Sequence[str] | int | type[Enum]],
        uses: Mapping[str, Sequence[str]] | None = None,
        seed: int | None = None,
    ) -> None:
        if not isinstance(components, Mapping) or not components:
            raise TypeError(f"components: expected a non-empty dict from name to choices, got {components!r}")
        named_parts(components, "components")
        self.components: dict[str, tuple[str, ...]] = {
            name: choice_names(choices, f"component {name!r}: choices")
            for name, choices in components.items()
        }
        self.names: tuple[str, ...] = tuple(self.components)
        self.sizes: NDArray[np.int64] = np.array([len(c) for c in self.components.values()], np.int64)
        self.offsets: NDArray[np.int64] = np.concatenate([[0], np.cumsum(self.sizes)])
        kinds, others = self.components[self.names[0]], self.names[1:]
        if uses is None:
            uses = dict.fromkeys(kinds, others)
        named_parts(uses, "uses")
        self.used: NDArray[np.bool_] = np.zeros((len(kinds), len(self.names)), bool)
        self.used[:, 0] = True
        for kind, needed in uses.items():
            needed = _checked_use(kind, needed, kinds, others)
            self.used[kinds.index(kind)] |= np.isin(self.names, needed)
        self.uses: dict[str, tuple[str, ...]] = {
            kind: tuple(name for name, use in zip(others, row[1:], strict=True) if use)
            for kind, row in zip(kinds, self.used.tolist(), strict=True)
        }
        self.item_shape = (len(self.names),)
        super().__init__(None, np.int64, seed)

    @property
    def num_choices(self) -> int:
        """C, the choices of all components together."""
        return int(self.offsets[-1])

    @property
    def kinds(self) -> tuple[str, ...]:
        """The choices of the first component (K,)."""
        return self.components[self.names[0]]

    @property
    def mask_columns(self) -> int:
        return int(self.offsets[-1])

    def labels(self, choices: NDArray[np.int64]) -> dict[str, str]:
        """The names of one actor's choices (M,), of the components that its kind uses alone."""
        used = self.used[choices[0]].tolist()
        named = zip(self.components.items(), choices.tolist(), used, strict=True)
        return {name: names[choice] for (name, names), choice, use in named if use}

    # -- masks ----------------------------------------------------------------------------------------------

    def _resolved(self, given: MultiCategoricalMask, step: MaskReader) -> ActionMask:
        actors = step.indices("actor", given.actor_ids, given.actor_types)
        shape = (len(actors), self.num_choices)
        return self.one_step(
            actors, np.ones(shape, bool) if given.mask is None else step.flags(given.mask, shape)
        )

    def sample_mask(self, num_entities: int, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
        """Draw a part in which components that no allowed kind uses allow nothing about half of the time."""
        actors = random_subset(num_entities, rng)
        mask = rng.random((len(actors), self.num_choices)) < 0.7
        columns = self.offsets[:-1] + rng.integers(self.sizes, size=(len(actors), len(self.sizes)))
        np.put_along_axis(mask, columns, True, 1)
        needed = mask[:, : self.sizes[0]] @ self.used
        keep = needed | (rng.random(needed.shape) < 0.5)
        mask &= np.repeat(keep, self.sizes, axis=1)
        return {"actors": actors, "mask": mask.astype(np.int8)}

    def allows_something(self, mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """The components of which `mask` (A, C) allows a choice: (A, M)."""
        return np.logical_or.reduceat(mask, self.offsets[:-1], axis=1)

    def first_allowed(self, mask: NDArray[np.bool_]) -> NDArray[np.int64]:
        """The first choice of each component that `mask` (A, C) allows, else 0: (A, M)."""
        bounds = zip(self.offsets[:-1], self.offsets[1:], strict=True)
        return np.stack([mask[:, start:stop].argmax(1) for start, stop in bounds], 1)

    # -- rules ----------------------------------------------------------------------------------------------

    @property
    def item_words(self) -> str:
        return f"{len(self.names)} integers ({', '.join(self.names)})"

    def actor_without_choice(self, part: ActionMask) -> tuple[int, str] | None:
        """The first row without a legal action for each allowed kind."""
        mask = part.mask.values
        row, m = _first_without_choice(mask, self.offsets, self.used)
        if row < 0:
            return None
        if m == 0:
            return row, f"expected at least one allowed {self.names[0]!r}, got none"
        kind = self.kinds[int((mask[row, : self.sizes[0]] & self.used[:, m]).argmax())]
        return (
            row,
            f"expected at least one allowed {self.names[m]!r}, which the allowed kind {kind!r} uses,"
            " got none",
        )

    def draw(self, part: ActionMask, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw the kind uniformly from the allowed ones, then each component that it uses; others are 0."""
        mask = part.mask.values
        return _drawn(mask, rng.random((len(mask), len(self.names))), self.offsets, self.used)

    def first_illegal(self, items: NDArray[np.int64], part: ActionMask) -> int:
        legal = self.legal(items, part.mask.values)
        return LEGAL if legal.all() else int(legal.all(1).argmin())

    def legal(self, choices: NDArray[np.int64], mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """The components of `choices` (A, M) that `mask` (A, C) permits: (A, M).

        A component that the kind does not use needs only to be in range.
        """
        return _legal(choices, mask, self.offsets, self.used)

    def explain(self, item: Any, part: ActionMask, row: int, entity: Callable[[int], str]) -> str:
        return self.illegal_in_words(item, part.mask.values[row])

    def illegal_in_words(self, choices: NDArray[np.int64], row: NDArray[np.bool_]) -> str:
        """Return why choices (M,) are not legal for a row (C,) of the mask, with component and choice."""
        component = int(self.legal(choices[None], row[None])[0].argmin())
        name, choice = self.names[component], int(choices[component])
        names = self.components[name]
        if not 0 <= choice < len(names):
            return f"component {name!r}: expected a choice from 0 to {len(names) - 1}, got choice {choice}"
        kind = f" of kind {self.kinds[choices[0]]!r}" if component else ""
        legal = np.flatnonzero(row[self.offsets[component] : self.offsets[component + 1]])
        allowed = listed(legal.tolist(), lambda number: numbered(number, repr(names[number])), "no choices")
        what = f"component {name!r}{kind}: {numbered(choice, repr(names[choice]))}"
        return f"{what} is not allowed: expected one of {allowed}"

    def replace_illegal(self, items: NDArray[np.int64], part: ActionMask) -> tuple[NDArray[np.int64], int]:
        """Each component counts as one choice; those that a new kind uses are replaced, too."""
        mask = part.mask.values
        first = self.first_allowed(mask)
        legal = self.legal(items, mask)
        replaced = items.copy()
        replaced[:, 0] = np.where(legal[:, 0], items[:, 0], first[:, 0])
        return np.where(self.legal(replaced, mask), replaced, first), int(np.count_nonzero(~legal))

    @property
    def bounds(self) -> tuple[int, NDArray[np.int64]]:
        return 0, self.sizes - 1

    # -- other forms ----------------------------------------------------------------------------------------

    def to_author(
        self, actors: list[Any], items: NDArray[np.int64], names: Sequence[Any]
    ) -> MultiCategoricalAction:
        return MultiCategoricalAction(actors, items, [self.labels(row) for row in items])

    def from_author(self, given: Mapping[str, Any]) -> Sequence[Any]:
        if "choices" in given:
            return list(given["choices"])
        parts = self.components.items()
        return [
            [choice_number(names, one[part]) if part in one else 0 for part, names in parts]
            for one in given["labels"]
        ]

    def masked_items(self, part: ActionMask) -> Iterator[tuple[str, int, Any]]:
        """For each component choices (M,) of which the mask forbids that one and no other."""
        mask = part.mask.values
        kinds = mask[:, : self.sizes[0]]
        for component, name in enumerate(self.names):
            columns = slice(self.offsets[component], self.offsets[component + 1])
            used = kinds & self.used[:, component]  # (A, K): the allowed kinds that use it
            masked = np.argwhere(~mask[:, columns] & used.any(1)[:, None])
            if len(masked):
                row, choice = (int(place) for place in masked[0])
                item = np.zeros((1, len(self.names)), np.int64)
                item[0, 0] = used[row].argmax()
                only = self.one_step(np.zeros(1, np.int64), mask[row : row + 1])
                item, _ = self.replace_illegal(item, only)
                item[0, component] = choice
                yield f"choice of component {name!r}", row, item[0]

    def gymnasium_space(self, num_actees: int) -> spaces.MultiDiscrete:
        return spaces.MultiDiscrete(self.sizes)

    @property
    def choice_columns(self) -> NDArray[np.int64]:
        return self.offsets[:-1]

    def schema(self) -> dict[str, Any]:
        return {
            "components": [[name, list(choices)] for name, choices in self.components.items()],
            "uses": {kind: list(names) for kind, names in self.uses.items()},
        }

    @classmethod
    def from_schema(cls, options: Mapping[str, Any]) -> Self:
        return cls(dict(options["components"]), options.get("uses"))

    def __repr__(self) -> str:
        components = {name: list(choices) for name, choices in self.components.items()}
        return f"{type(self).__name__}({components}, { ({k: list(u) for k, u in self.uses.items()}) })"


def _checked_use(
    kind: str, needed: Sequence[str], kinds: tuple[str, ...], others: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the components that a kind uses, all of them known."""
    if kind not in kinds:
        raise ValueError(f"uses: expected kinds of {listed(kinds)}, got the unknown kind {kind!r}")
    names = unique_names(needed, f"uses of {kind!r}")
    for name in names:
        if name not in others:
            raise ValueError(
                f"uses of {kind!r}: expected components of {listed(others)}, got the unknown component"
                f" {name!r}"
            )
    return names


@compiled
def _legal(
    choices: NDArray[np.int64],
    mask: NDArray[np.bool_],
    components: NDArray[np.int64],
    used: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Kernel of `MultiCategorical.legal`: `components` (M + 1,) says where each component's columns begin,
    `used` (K, M) which components count for a kind."""
    legal = np.empty(choices.shape, np.bool_)
    for actor in range(len(choices)):
        kind = choices[actor, 0] if 0 <= choices[actor, 0] < len(used) else 0
        for m in range(choices.shape[1]):
            choice = choices[actor, m]
            legal[actor, m] = 0 <= choice < components[m + 1] - components[m] and (
                mask[actor, components[m] + choice] or not used[kind, m]
            )
    return legal


@compiled
def _first_without_choice(
    mask: NDArray[np.bool_], components: NDArray[np.int64], used: NDArray[np.bool_]
) -> tuple[int, int]:
    """The first row of `mask` (A, C) and the component that it allows nothing of but needs; -1, -1: none."""
    for actor in range(len(mask)):
        if not mask[actor, : components[1]].any():
            return actor, 0
        for m in range(1, len(components) - 1):
            if not mask[actor, components[m] : components[m + 1]].any():
                for kind in range(components[1]):
                    if mask[actor, kind] and used[kind, m]:
                        return actor, m
    return -1, -1


@compiled
def _drawn(
    mask: NDArray[np.bool_],
    uniform: NDArray[np.float64],
    components: NDArray[np.int64],
    used: NDArray[np.bool_],
) -> NDArray[np.int64]:
    """For each actor and component that its kind uses the allowed choice at the fraction `uniform` (A, M)."""
    choices = np.zeros(uniform.shape, np.int64)
    for actor in range(len(mask)):
        for m in range(uniform.shape[1]):
            if not used[choices[actor, 0], m]:
                continue
            first, last = components[m], components[m + 1]
            choices[actor, m] = allowed_choice(mask[actor, first:last], uniform[actor, m])
    return choices
