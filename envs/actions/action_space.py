"""`ActionSpace`: the base class of all kinds of actions.

Shape alphabet: B steps, A actors, E actees, C choices.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ...ragged import RaggedArray
from ..errors import check_left_out
from .action_mask import ActionMask, stack_ragged
from .array_checks import (
    as_float32,
    binary_problem,
    check_unmasked,
    flag_space,
    index_space,
    indices_problem,
    keys_problem,
    real_numbers,
)
from .mask_reader import MaskReader

#: The answer of `first_illegal` that is no place: all is legal.
LEGAL = -1

_LARGEST = np.iinfo(np.int64).max

_NO_ACTORS = RaggedArray.empty(1, (), np.int64)


class ActionSpace(spaces.Space[NDArray[Any]], ABC):
    """One named action of an environment: the base class of `Categorical`, `SelectEntity`, `Continuous`,
    `MultiCategorical` and the global kinds.

    `sample(mask=…)` takes this action's part of an observation (`obs["actions"][name]`) and draws only legal
    choices; without a mask it is empty, because only an observation says which entities act.

    **To add a kind**, write one module beside `categorical.py`. It holds the space, the mask that an author
    writes, the action that an author gets, and the rules, each of them for a whole batch: a single
    environment is a batch of one. Implement what is abstract below, set the class attributes that differ, and
    list the class in `kinds.py`. Adapters, layouts, schemas and checks then know it. What remains is its head
    in the network: docs/how-it-is-built.md lists the places.

    Wherever a `part` is an `ActionMask`, it belongs to this action; *row* r is its r-th actor over all steps.
    """

    #: Performed once per step, by no entity in particular.
    is_global: ClassVar[bool] = False
    #: Made of real numbers, which no mask restricts.
    is_continuous: ClassVar[bool] = False
    #: Each choice is one of the step's actees; the mask is flat, row-major actor × actee.
    selects_entities: ClassVar[bool] = False
    #: The dataclass that an author puts into `Observation.actions`.
    mask_type: ClassVar[type]
    #: The shape of one actor's part of an action; its dtype is the space's `dtype`.
    item_shape: tuple[int, ...] = ()
    # -- observations: the plain dict of one step, and the mask of many -------------------------------------

    @property
    def mask_keys(self) -> tuple[str, ...]:
        """The arrays of this action's part of an observation."""
        if self.is_global:
            return ("mask",)
        return ("actors", "actees", "mask") if self.selects_entities else ("actors", "mask")

    @property
    def mask_columns(self) -> int:
        """C, the columns of the mask; 0 where the mask has none, or where they are the step's actees."""
        return 0

    @property
    def mask_item_shape(self) -> tuple[int, ...]:
        """The shape of an item of `ActionMask.mask`."""
        return () if self.selects_entities else (self.mask_columns,)

    def mask_space(self) -> spaces.Dict:
        """The space of this action's part of an observation."""
        flags = flag_space(self.mask_item_shape)
        return spaces.Dict({key: flags if key == "mask" else index_space() for key in self.mask_keys})

    def mask_problem(self, part: Any, num_entities: int) -> str | None:
        """Return what is wrong with this action's part of an observation of `num_entities`, or None."""
        problem = keys_problem(part, self.mask_keys)
        if problem:
            return problem
        for key in self.mask_keys[:-1]:
            problem = indices_problem(part[key], num_entities)
            if problem:
                return f"{key!r}: {problem}"
        mask = part["mask"]
        if self.is_global:
            rows = len(mask) if isinstance(mask, np.ndarray) and mask.ndim else 1
            if rows > 1:
                return f"'mask': expected one row, or none where the action is not available, got {rows} rows"
        else:
            rows = len(part["actors"])
        shape = (rows * len(part["actees"]),) if self.selects_entities else (rows, self.mask_columns)
        problem = binary_problem(mask, shape)
        if problem:
            return f"'mask': {problem}"
        found = self.actor_without_choice(self.batch([part]))
        return f"row {found[0]} of 'mask': {found[1]}" if found else None

    def batch(self, parts: Sequence[Mapping[str, NDArray[Any]]]) -> ActionMask:
        """This action's parts of many observations, one step each, unchecked."""
        mask = stack_ragged([p["mask"] for p in parts], bool, self.mask_item_shape)
        if self.is_global:
            return ActionMask(mask.with_values(np.full(mask.num_items, -1, np.int64)), mask)
        actors = stack_ragged([p["actors"] for p in parts], np.int64)
        if not self.selects_entities:
            return ActionMask(actors, mask)
        return ActionMask(actors, mask, stack_ragged([p["actees"] for p in parts], np.int64))

    def unbatch(self, part: ActionMask, step: int) -> dict[str, NDArray[Any]]:
        """This action's part of the observation at `step`, in fresh arrays."""
        arrays = {"mask": part.mask[step].astype(np.int8)}
        if not self.is_global:
            arrays["actors"] = part.actors[step].copy()
        if part.actees is not None:
            arrays["actees"] = part.actees[step].copy()
        return arrays

    def one_step(
        self,
        actors: NDArray[np.int64],
        mask: NDArray[np.bool_],
        actees: NDArray[np.int64] | None = None,
    ) -> ActionMask:
        """The mask of a single step; `actors` (A,) are -1 for a global action."""
        flat = mask.reshape(-1) if self.selects_entities else mask
        return ActionMask(_sequence(actors), _sequence(flat), None if actees is None else _sequence(actees))

    def resolve(self, given: Any | None, step: MaskReader) -> ActionMask:
        """The mask of one step as its author wrote it, with entity indices instead of ids and types.

        Args:
            given: an instance of `mask_type`; None where the action is absent.

        Raises:
            ObservationError: through `step`, which names the environment and the action.
        """
        if given is None:
            return self.one_step(
                _NO_ACTORS.values,
                np.zeros((0, self.mask_columns), bool),
                _NO_ACTORS.values if self.selects_entities else None,
            )
        if type(given) is not self.mask_type:
            step.fail(f"expected a {self.mask_type.__name__}, got {type(given).__name__}")
        part = self._resolved(given, step)
        found = self.actor_without_choice(part)
        if found:
            row, problem = found
            actor = f"the mask of actor {step.name(part.actors.values[row])}"
            way_out = "Remove actors without a choice"
            if self.is_global:
                actor, way_out = "the mask", "Omit the action at steps where it is not available"
            step.fail(f"{actor}: {problem}. {way_out}")
        return part

    @abstractmethod
    def _resolved(self, given: Any, step: MaskReader) -> ActionMask:
        """`resolve` for a mask of the right class; it may allow an actor nothing."""

    @abstractmethod
    def sample_mask(self, num_entities: int, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
        """A random legal part of an observation with `num_entities`."""

    # -- rules ----------------------------------------------------------------------------------------------

    @abstractmethod
    def actor_without_choice(self, part: ActionMask) -> tuple[int, str] | None:
        """The first row whose mask allows no complete action, and why ("expected at least one allowed
        choice, got none"), or None."""

    @abstractmethod
    def draw(self, part: ActionMask, rng: np.random.Generator) -> NDArray[Any]:
        """Random legal actions (A, *item_shape), one for each actor, each of which has an allowed choice."""

    @abstractmethod
    def first_illegal(self, items: NDArray[Any], part: ActionMask) -> int:
        """The place of the first of `items` (A, *item_shape) that `part` forbids, or `LEGAL`.

        They have passed `form_problem`, their dtype is the space's, and there is one for each actor.
        """

    @abstractmethod
    def explain(self, item: Any, part: ActionMask, row: int, entity: Callable[[int], str]) -> str:
        """Return why `item` is illegal in `row`: "choice 3 is not allowed: expected one of 0 ('left')".

        Args:
            entity: what to call an entity of the step, by index.
        """

    @abstractmethod
    def replace_illegal(self, items: NDArray[Any], part: ActionMask) -> tuple[NDArray[Any], int]:
        """`items` (A, *item_shape) with the first legal choice for each illegal one, and how many were.

        Real numbers are clipped. Each actor must have an allowed choice.
        """

    def first_legal(self, part: ActionMask) -> NDArray[Any]:
        """Each actor's first legal choice (A, *item_shape); real numbers are those nearest to 0."""
        nothing = -1 if self.selects_entities else 0
        items = np.full((part.actors.num_items, *self.item_shape), nothing, self.dtype)
        return self.replace_illegal(items, part)[0]

    @property
    @abstractmethod
    def bounds(self) -> tuple[Any, Any]:
        """The least and the greatest value of each number of an item, under any mask."""

    def contains_choices(self, choices: Any) -> bool:
        """Return True if `choices` (n, …) are valid under some mask, for any number of actors."""
        if not isinstance(choices, np.ndarray) or choices.ndim != 1 + len(self.item_shape):
            return False
        low, high = self.bounds
        kind = np.floating if self.is_continuous else np.integer
        has_form = choices.shape[1:] == self.item_shape and np.issubdtype(choices.dtype, kind)
        return has_form and bool(np.all((choices >= low) & (choices <= high)))

    @property
    def item_words(self) -> str:
        """Words for one actor's part of an action: "single integers"."""
        return "single integers"

    def form_problem(self, actions: RaggedArray) -> str | None:
        """Return what is wrong with the items of `actions`, without regard to any mask."""
        kind = "f" if self.is_continuous else "i"
        if actions.inner_shape == self.item_shape and actions.dtype.kind == kind:
            return None
        return f"items: expected {self.item_words}, got {actions.dtype} of shape {actions.inner_shape}"

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> NDArray[Any]:
        """Draw a legal action for `mask`, this action's part of an observation.

        Raises:
            ValueError: the mask allows an actor nothing.
            gymnasium.error.Error: `probability` is given.
        """
        check_left_out(type(self).__name__, probability=probability)
        if mask is None:
            return np.zeros((0, *self.item_shape), self.dtype)
        part = self.batch([mask])
        found = self.actor_without_choice(part)
        if found:
            raise ValueError(f"row {found[0]} of the mask: {found[1]}")
        return self.draw(part, self.np_random)

    def contains(self, x: Any) -> bool:
        """Return True if `x` is valid under some mask; a global action may leave out the axis of actors."""
        if self.is_global:
            x = np.array(x, ndmin=1 + len(self.item_shape))
            return len(x) <= 1 and self.contains_choices(x)
        return self.contains_choices(x)

    # -- a single environment's actions ---------------------------------------------------------------------

    def parse(self, given: Any) -> NDArray[Any]:
        """One environment's action as a fresh array (A, *item_shape), empty if it is None or empty.

        Raises:
            ValueError: another shape, or no numbers of this kind; the text is half a sentence.
        """
        what, kinds = ("numbers", "f") if self.is_continuous else ("integers", "iu")
        given = [] if given is None else given
        try:
            check_unmasked(given)
            items = (
                as_float32(np.atleast_1d(real_numbers(given)))
                if self.is_continuous
                else np.array(given, ndmin=1)
            )
        except (TypeError, ValueError, RuntimeError) as error:
            raise ValueError(f"expected an array of {what}: {error}") from None
        if items.size == 0:
            return np.zeros((0, *self.item_shape), self.dtype)
        if self.is_global and items.ndim == len(self.item_shape):
            items = items[None]
        if items.dtype.kind not in kinds or items.shape[1:] != self.item_shape:
            shape = ", ".join(["n", *map(str, self.item_shape)]) + ("" if self.item_shape else ",")
            raise ValueError(f"expected {what} of shape ({shape}), got {items.dtype} {np.shape(given)}")
        if items.dtype == np.uint64 and items.max() > _LARGEST:
            raise ValueError(f"expected {what} up to {_LARGEST}, got {items.max()}")
        return items.astype(self.dtype, copy=False)

    @abstractmethod
    def to_author(self, actors: list[Any], items: NDArray[Any], names: Sequence[Any]) -> Any | None:
        """Return the author's action object for legal `items` (A, *item_shape).

        Args:
            actors: the ids of the actors that act, (A,).
            names: the ids of all entities, by index.

        Returns:
            an action object; None for a global action that is not taken.
        """

    @abstractmethod
    def from_author(self, given: Mapping[str, Any]) -> Sequence[Any]:
        """Return the item of each actor from the fields of an action object, as JSON holds them.

        The inverse of `to_author`; names of choices do as well as numbers. The items are not checked.

        Raises:
            KeyError: a field is missing.
            TypeError, ValueError: names that there are not.
        """

    # -- checks of environments -----------------------------------------------------------------------------

    def nonexistent(self, num_entities: int) -> Any:
        """One actor's part of an action with a choice that does not exist in a batch of `num_entities`."""
        return self.bounds[1] + 1

    @abstractmethod
    def masked_items(self, part: ActionMask) -> Iterator[tuple[str, int, Any]]:
        """Yield items that `part` forbids: what is forbidden ("choice"), its row, and the item."""

    # -- other forms ----------------------------------------------------------------------------------------

    @abstractmethod
    def gymnasium_space(self, num_actees: int) -> spaces.Space[Any]:
        """The Gymnasium space of one actor's part, with choices 0 to `num_actees` - 1 where it selects."""

    @property
    def choice_columns(self) -> NDArray[np.int64]:
        """The columns of the mask where each of an actor's choices begins."""
        return np.zeros(0 if self.is_continuous else 1, np.int64)

    @abstractmethod
    def schema(self) -> dict[str, Any]:
        """The arguments of the constructor, JSON-able; with the name of the class they define the space."""

    @classmethod
    def from_schema(cls, options: Mapping[str, Any]) -> Self:
        """The space that `schema` described."""
        return cls(**options)

    def per_actor(self) -> ActionSpace:
        """The same action performed by entities; itself where it is not global."""
        return self

    @property
    def is_np_flattenable(self) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.schema() == other.schema()

    def __hash__(self) -> int:
        return hash((type(self), repr(self)))


def _sequence(values: NDArray[Any]) -> RaggedArray:
    """One sequence as a ragged array of one step."""
    return RaggedArray.unchecked(values, np.array([0, len(values)], np.int64))
