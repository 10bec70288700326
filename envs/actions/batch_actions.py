"""Actions for a whole batch: drawing legal ones, and finding illegal ones before any environment moves.

All of it is vectorised over the batch. Shape alphabet: B steps, A actors, E actees, C choices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ...ragged import RaggedArray
from ..batch.entity_batch import ActionMask, EntityBatch
from ..errors import ActionError, ObservationError
from ..spaces.entity_space import (
    ActionSpace,
    Categorical,
    Continuous,
    EntityActionSpace,
    EntitySpace,
    MultiCategorical,
)


def sample_actions(
    space: EntityActionSpace, batch: EntityBatch, rng: np.random.Generator
) -> dict[str, RaggedArray]:
    """Legal actions for every step of `batch`, uniform over what the masks allow.

    Of a composite order the kind is uniform, and then each component that it uses.
    """
    return {name: _sample(name, action, batch.actions[name], rng) for name, action in space.items()}


def no_actions(space: EntityActionSpace, num_steps: int) -> dict[str, RaggedArray]:
    """Actions that order nothing at each of `num_steps` steps."""
    return {
        name: RaggedArray.empty(num_steps, action.item_shape, action.dtype) for name, action in space.items()
    }


def _rows(action: ActionSpace, part: ActionMask) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where each actor's row of the flat mask starts (A,), and how long it is (A,)."""
    if isinstance(action, Categorical):
        lengths = np.full(part.actors.num_items, action.num_choices, np.int64)
        return np.arange(part.actors.num_items) * action.num_choices, lengths
    assert part.actees is not None
    lengths = part.actors.broadcast(part.actees.lengths)
    return part.actors.broadcast(part.mask.offsets[:-1]) + part.actors.item_indices() * lengths, lengths


def _sample(name: str, action: ActionSpace, part: ActionMask, rng: np.random.Generator) -> RaggedArray:
    if isinstance(action, Continuous):
        return part.actors.with_values(action.draw(part.actors.num_items, rng))
    if isinstance(action, MultiCategorical):
        stuck = action.stuck_actor(part.mask.values)
        if stuck:
            row, problem = stuck
            step = part.actors.sequence_indices()[row]
            raise ObservationError(f"env {step}: action {name!r}: the mask of an actor {problem}")
        return part.actors.with_values(action.draw(part.mask.values, rng))
    flags = part.mask.values.reshape(-1)
    starts, lengths = _rows(action, part)
    allowed = np.flatnonzero(flags)
    before = np.zeros(len(flags) + 1, np.int64)  # how many are allowed before each place
    np.cumsum(flags, out=before[1:])
    counts = before[starts + lengths] - before[starts]
    if not counts.all():
        step = part.actors.sequence_indices()[counts.argmin()]
        raise ObservationError(f"env {step}: action {name!r}: the mask allows an actor nothing")
    picks = (rng.random(len(starts)) * counts).astype(np.int64)
    columns = allowed[before[starts] + picks] - starts
    if part.actees is not None:
        columns = part.actees.values[part.actors.broadcast(part.actees.offsets[:-1]) + columns]
    return part.actors.with_values(columns)


def validate_actions(
    space: EntitySpace,
    batch: EntityBatch,
    actions: Mapping[str, RaggedArray],
    names: Sequence[str] | None = None,
) -> dict[str, RaggedArray]:
    """Check `actions` against the last observations `batch` (B steps), before any environment moves.

    Args:
        names: what errors call the steps (B,); None: "env 0" and so on.

    Returns:
        every action of the space, in its order, as int64 (float32 where continuous). At each step a
        sequence is as long as there are actors, or empty, which orders nothing there; a name that was left
        out orders nothing anywhere.

    Raises:
        ActionError: naming the env, the action, the actor and what was allowed.
    """
    if not isinstance(actions, Mapping):
        raise ActionError(f"actions are a dict from action name to RaggedArray, got {type(actions).__name__}")
    for name in actions:
        if name not in space.actions.spaces:
            raise ActionError(f"unknown action {name!r}; known: {', '.join(map(repr, space.actions))}")
    checked = no_actions(space.actions, len(batch))
    for name, order in actions.items():
        checked[name] = _Check(space, name, space.actions[name], batch, names).validated(order)
    return checked


class _Check:
    """One action of one batch under examination."""

    def __init__(
        self,
        space: EntitySpace,
        name: str,
        action: ActionSpace,
        batch: EntityBatch,
        names: Sequence[str] | None,
    ) -> None:
        self.space = space
        self.name = name
        self.action = action
        self.batch = batch
        self.part = batch.actions[name]
        self.names = names

    def validated(self, order: Any) -> RaggedArray:
        if not isinstance(order, RaggedArray):
            raise ActionError(f"action {self.name!r} must be a RaggedArray, got {type(order).__name__}")
        if isinstance(self.action, Continuous):
            return self._validated_numbers(order, self.action)
        if isinstance(self.action, MultiCategorical):
            return self._validated_orders(order, self.action)
        if order.inner_shape or order.dtype.kind != "i":
            raise ActionError(
                f"action {self.name!r}: items must be single integers, got {order.dtype} {order.inner_shape}"
            )
        self._check_steps(order)
        if order.dtype != np.int64:
            order = order.with_values(order.values.astype(np.int64))
        if self._is_plainly_legal(order):
            return order
        rows = self._actors_of(order)
        flat = self.part.mask.values.reshape(-1)
        starts, lengths = _rows(self.action, self.part)
        columns = self._columns(order, rows)
        inside = (columns >= 0) & (columns < lengths[rows])
        allowed = inside & flat[np.where(inside, starts[rows] + columns, 0)] if len(flat) else inside
        if not allowed.all():
            item = int(allowed.argmin())
            self._fail_choice(int(order.values[item]), int(rows[item]))
        return order

    def _is_plainly_legal(self, order: RaggedArray) -> bool:
        """Whether everybody is told one of the choices that the mask allows: the usual case, seen at once."""
        part, choices = self.part, order.values
        if not isinstance(self.action, Categorical) or not np.array_equal(order.offsets, part.actors.offsets):
            return False
        if not len(choices) or choices.min() < 0 or choices.max() >= self.action.num_choices:
            return False
        return bool(part.mask.values[np.arange(len(choices)), choices].all())

    def _validated_numbers(self, order: RaggedArray, action: Continuous) -> RaggedArray:
        if order.inner_shape != (action.size,) or order.dtype.kind != "f":
            raise ActionError(
                f"action {self.name!r}: items must be {action.size} real numbers, got {order.dtype} of shape"
                f" {order.inner_shape}"
            )
        self._check_steps(order)
        order = order.with_values(order.values.astype(np.float32, copy=False))
        rows = self._actors_of(order)
        inside = (order.values >= action.low) & (order.values <= action.high)
        if not inside.all():
            item, k = np.argwhere(~inside)[0]
            step, actor = self._actor(int(rows[item]))
            bounds = f"{action.low[k]} to {action.high[k]}"
            self._fail(step, f"{actor}: number {k} is {order.values[item, k]}, expected {bounds}")
        return order

    def _validated_orders(self, order: RaggedArray, action: MultiCategorical) -> RaggedArray:
        if order.inner_shape != action.item_shape or order.dtype.kind != "i":
            raise ActionError(
                f"action {self.name!r}: items must be {len(action.names)} integers"
                f" ({', '.join(action.names)}), got {order.dtype} of shape {order.inner_shape}"
            )
        self._check_steps(order)
        order = order.with_values(order.values.astype(np.int64, copy=False))
        rows = self._actors_of(order)
        mask = self.part.mask.values
        mask = mask if len(rows) == len(mask) else mask[rows]
        legal = action.legal(order.values, mask).all(1)
        if not legal.all():
            item = int(legal.argmin())
            step, actor = self._actor(int(rows[item]))
            self._fail(step, f"{actor}: {action.illegal_in_words(order.values[item], mask[item])}")
        return order

    def _check_steps(self, order: RaggedArray) -> None:
        if len(order) != len(self.batch):
            raise ActionError(f"action {self.name!r} has {len(order)} steps, expected {len(self.batch)}")

    def _actors_of(self, order: RaggedArray) -> NDArray[np.int64]:
        """For each item of `order` the row of its actor among all actors of the batch."""
        given, expected = order.lengths, self.part.actors.lengths
        wrong = (given != expected) & (given > 0)
        if wrong.any():
            step = int(wrong.argmax())
            if expected[step]:
                actors = ", ".join(self._entity(int(index), step) for index in self.part.actors[step])
                self._fail(step, f"{given[step]} choices came, expected one for each of: {actors}")
            self._fail(step, f"nobody may act at this step, but {given[step]} choices came")
        if order.num_items == self.part.actors.num_items:
            return np.arange(order.num_items)
        return np.flatnonzero(self.part.actors.broadcast(given > 0))

    def _columns(self, order: RaggedArray, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """For each item its column in the actor's row of the mask; -1 for an entity that is no actee."""
        actees = self.part.actees
        if actees is None:
            return order.values
        offsets = self.batch.entity_offsets
        column_of = np.full(
            offsets[-1] + 1, -1, np.int64
        )  # by flat entity row; the last place is never an actee
        column_of[actees.values + actees.broadcast(offsets[:-1])] = actees.item_indices()
        selected = order.values
        exists = (selected >= 0) & (selected < order.broadcast(np.diff(offsets)))
        return column_of[np.where(exists, selected + order.broadcast(offsets[:-1]), offsets[-1])]

    # -- sentences ------------------------------------------------------------------------------------------

    def _entity(self, index: int, step: int) -> str:
        if self.action.is_global:
            return "the global choice"
        name = self.space.entity_name(self.batch.entity_counts(step), index)
        kind, number = name.rsplit(" ", 1)
        features = self.space.entities[kind]
        if "x" not in features or "y" not in features:
            return name
        row = self.batch.entities[kind][step][int(number)]
        return f"{name} at x={row[features.index('x')]:g}, y={row[features.index('y')]:g}"

    def _fail(self, step: int, sentence: str) -> NoReturn:
        env = f"env {step}" if self.names is None else self.names[step]
        raise ActionError(f"{env}: action {self.name!r}: {sentence}")

    def _actor(self, row: int) -> tuple[int, str]:
        """The step of an actor's row, and what to call the actor."""
        step = int(np.searchsorted(self.part.actors.offsets, row, side="right")) - 1
        actor = int(self.part.actors.values[row])
        return step, f"actor {actor} ({self._entity(actor, step)})"

    def _fail_choice(self, choice: int, row: int) -> NoReturn:
        step, actor = self._actor(row)
        starts, lengths = _rows(self.action, self.part)
        columns = np.flatnonzero(self.part.mask.values.reshape(-1)[starts[row] : starts[row] + lengths[row]])
        if isinstance(self.action, Categorical):
            allowed = [f"{c} ({self.action.choices[c]!r})" for c in columns]
            what = "choice"
        else:
            assert self.part.actees is not None
            allowed = [f"{i} ({self._entity(int(i), step)})" for i in self.part.actees[step][columns]]
            what = "entity"
        self._fail(step, f"{actor}: {what} {choice} is not allowed; allowed: {', '.join(allowed)}")
