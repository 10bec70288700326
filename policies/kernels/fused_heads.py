"""The action heads on plain arrays, with their gradients: what the fused engine runs; no torch.

Each head has its parameters in the flat array `w` of all parameters, and gives the same methods:
`read` (what a batch's mask says, checked), `draw`, and `evaluate` and `backward` for a run of steps.
Shape alphabet: A actors of one action at all steps, N rows, D width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ...envs import ActionMask, Categorical, Continuous, MultiCategorical, SelectEntity
from ...ragged import RaggedArray
from ..inputs.actors import (
    Drawn,
    actor_rows,
    check_choices,
    check_order_items,
    check_orders,
    no_choice,
    no_entity,
    no_order,
    not_selectable,
    selection_rows,
    uniform,
)
from ..inputs.rows import Rows, plain
from ..rogue_net.config import RogueNetConfig
from ..rogue_net.number_units import POINTS, WEIGHTS, Numbers
from .flat import Layout
from .heads.choice_kernels import choice_scratch, choices_backward, draw_choices, evaluate_choices
from .heads.number_kernels import evaluate_numbers, mean_numbers, number_scratch, numbers_backward
from .heads.select_kernels import (
    draw_selections,
    evaluate_selections,
    select_capacity,
    select_scratch,
    selections_backward,
)
from .parallel import workspace

Floats = NDArray[np.float32]


@dataclass(eq=False)
class Task:
    """One action at one batch, as kernels read it."""

    mask: ActionMask
    rows: NDArray[np.int64]  # (A,): each actor's row
    offsets: NDArray[np.int64]  # (B + 1,): where each step's actors start
    flags: NDArray[np.bool_]  # the mask, flat
    more: tuple[Any, ...] = ()  # what only one kind of head needs
    chosen: NDArray[Any] | None = None  # what was done, flat


class FusedHead(Protocol):
    """What the heads below have in common."""

    name: str

    def read(self, rows: Rows, mask: ActionMask, actions: RaggedArray | None) -> Task:
        """The task that `mask` sets, with `actions` that were taken or None.

        Raises:
            ValueError: the mask does not fit, an entity has no row, or actions of another kind.
        """

    def draw(self, x: Floats, w: Floats, task: Task, rng: np.random.Generator | None) -> Drawn:
        """Choose for each actor, from `rng` or (None) what is most probable."""

    def evaluate(
        self, x: Floats, w: Floats, task: Task, log_probs: Floats, entropies: Floats, first: int, last: int
    ) -> int:
        """Write log-probabilities and entropies (A,) of the actors of steps first to last; returns the first
        actor whose action is not allowed, or -1."""

    def complain(self, task: Task, actions: RaggedArray, actor: int) -> None:
        """
        Raises:
            ValueError: the action of this actor is not allowed.
        """

    def backward(
        self, x: Floats, w: Floats, task: Task, d_log_probs: Floats, d_entropies: Floats, d_x: Floats,
        g: Floats, first: int, last: int,
    ) -> None:  # fmt: skip
        """Add the gradients of the rows (N * D,) to `d_x`, and of the parameters to `g`."""


class FusedChoices:
    """Categorical actions and composite orders; see `choice_kernels`."""

    def __init__(
        self, layout: Layout, name: str, action: Categorical | MultiCategorical, settings: RogueNetConfig
    ) -> None:
        self.name = name
        self.action = action
        self.d = settings.d_model
        self.counts_all = False
        self.of_step = False
        if isinstance(action, MultiCategorical):
            self.counts_all = settings.composite == "all"
            self.components = action.offsets.copy()
            self.used = action.used.reshape(-1).copy()
        else:
            self.of_step = action.is_global
            self.components = np.array([0, action.num_choices])
            self.used = np.ones(action.num_choices, bool)
        self.parts, self.num_choices = len(self.components) - 1, int(self.components[-1])
        self.place = layout.add(
            "action_heads",
            name,
            proj__weight=(self.num_choices, self.d),
            proj__bias=(self.num_choices,),
        )

    def read(self, rows: Rows, mask: ActionMask, actions: RaggedArray | None) -> Task:
        index = actor_rows(self.name, self.of_step, rows, mask, self.num_choices)
        chosen = None
        if actions is not None:
            if isinstance(self.action, MultiCategorical):
                check_order_items(self.name, self.action, actions)
            chosen = plain(actions.values.astype(np.int64, copy=False)).reshape(-1)
        return Task(
            mask, index, plain(mask.actors.offsets), plain(mask.mask.values).reshape(-1), chosen=chosen
        )

    def _scratch(self) -> Floats:
        return workspace(choice_scratch(self.d, self.num_choices, self.parts))

    def draw(self, x: Floats, w: Floats, task: Task, rng: np.random.Generator | None) -> Drawn:
        count = len(task.rows)
        orders = np.zeros(count * self.parts, np.int64)
        log_probs = np.empty(count, np.float32)
        draws = np.zeros(0) if rng is None else rng.random(len(orders))
        stuck = draw_choices(
            x, task.rows, 0, count, self.d, w, self.place, self.components, self.used, self.counts_all,
            task.flags, draws, orders, log_probs, self._scratch(),
        )  # fmt: skip
        if stuck >= 0:
            if isinstance(self.action, MultiCategorical):
                raise no_order(self.name, self.action, task.mask.mask, stuck)
            raise no_choice(self.name, task.mask.actors, stuck)
        if isinstance(self.action, MultiCategorical):
            return Drawn(orders.reshape(count, self.parts), log_probs)
        return Drawn(orders, log_probs)

    def evaluate(
        self, x: Floats, w: Floats, task: Task, log_probs: Floats, entropies: Floats, first: int, last: int
    ) -> int:
        wrong: int = evaluate_choices(
            x, task.rows, task.offsets[first], task.offsets[last], self.d, w, self.place, self.components,
            self.used, self.counts_all, task.flags, task.chosen, log_probs, entropies, self._scratch(),
        )  # fmt: skip
        return wrong

    def complain(self, task: Task, actions: RaggedArray, actor: int) -> None:
        allowed = task.mask.mask.values
        if isinstance(self.action, MultiCategorical):
            check_orders(self.name, self.action, self.counts_all, actions, allowed)
        else:
            check_choices(self.name, actions, allowed)

    def backward(
        self, x: Floats, w: Floats, task: Task, d_log_probs: Floats, d_entropies: Floats, d_x: Floats,
        g: Floats, first: int, last: int,
    ) -> None:  # fmt: skip
        choices_backward(
            x, task.rows, task.offsets[first], task.offsets[last], self.d, w, self.place, self.components,
            self.used, self.counts_all, task.flags, task.chosen, d_log_probs, d_entropies, d_x, g,
            self._scratch(),
        )  # fmt: skip


class FusedNumbers:
    """Continuous actions; see `number_kernels`."""

    def __init__(self, layout: Layout, name: str, action: Continuous, settings: RogueNetConfig) -> None:
        self.name = name
        self.action = action
        self.d = settings.d_model
        self.numbers = Numbers(name, action, settings.squash)
        size = action.size
        self.place = layout.add(
            "action_heads", name, proj__weight=(size, self.d), proj__bias=(size,), log_std=(size,)
        )
        self._points, self._weights = POINTS.astype(np.float32), WEIGHTS.astype(np.float32)

    def read(self, rows: Rows, mask: ActionMask, actions: RaggedArray | None) -> Task:
        index = actor_rows(self.name, self.action.is_global, rows, mask, 0)
        drawn = None
        if actions is not None:
            self.numbers.check(actions)
            drawn = plain(actions.values.astype(np.float32, copy=False)).reshape(-1)
        return Task(mask, index, plain(mask.actors.offsets), np.zeros(0, bool), chosen=drawn)

    def _scratch(self) -> Floats:
        return workspace(number_scratch(self.d, self.action.size))

    def draw(self, x: Floats, w: Floats, task: Task, rng: np.random.Generator | None) -> Drawn:
        count, size = len(task.rows), self.action.size
        means = np.empty((count, size), np.float32)
        mean_numbers(x, task.rows, 0, count, self.d, w, self.place, size, means.reshape(-1), self._scratch())
        start = self.place + size * (self.d + 1)
        drawn = means
        if rng is not None:
            noise = rng.standard_normal(means.shape).astype(np.float32)
            drawn = means + np.exp(w[start : start + size]) * noise
        given = task.mask.actors.with_values(drawn)
        self.numbers.check(given)
        task.chosen = drawn.reshape(-1)
        log_probs, entropies = np.empty(count, np.float32), np.empty(count, np.float32)
        self.evaluate(x, w, task, log_probs, entropies, 0, len(task.offsets) - 1)
        return Drawn(self.numbers.actions(drawn), log_probs, drawn)

    def evaluate(
        self, x: Floats, w: Floats, task: Task, log_probs: Floats, entropies: Floats, first: int, last: int
    ) -> int:
        start, stop = task.offsets[first], task.offsets[last]
        evaluate_numbers(
            x, task.rows, start, stop, self.d, w, self.place, self.action.size, self.numbers.squash,
            self._points, self._weights, task.chosen, log_probs, entropies, self._scratch(),
        )  # fmt: skip
        log_probs[start:stop] -= np.float32(self.numbers.log_volume)
        entropies[start:stop] += np.float32(self.numbers.log_volume)
        return -1

    def complain(self, task: Task, actions: RaggedArray, actor: int) -> None:
        raise AssertionError("every finite number is allowed")

    def backward(
        self, x: Floats, w: Floats, task: Task, d_log_probs: Floats, d_entropies: Floats, d_x: Floats,
        g: Floats, first: int, last: int,
    ) -> None:  # fmt: skip
        numbers_backward(
            x, task.rows, task.offsets[first], task.offsets[last], self.d, w, self.place, self.action.size,
            self.numbers.squash, self._points, self._weights, task.chosen, d_log_probs, d_entropies, d_x, g,
            self._scratch(),
        )  # fmt: skip


class FusedSelection:
    """Actions that select an entity; see `select_kernels`."""

    def __init__(self, layout: Layout, name: str, settings: RogueNetConfig) -> None:
        self.name = name
        self.d, self.width = settings.d_model, settings.d_qk
        shape = (self.width, self.d)
        self.place = layout.add(
            "action_heads", name,
            query_proj__weight=shape, query_proj__bias=(self.width,),
            key_proj__weight=shape, key_proj__bias=(self.width,),
        )  # fmt: skip

    def read(self, rows: Rows, mask: ActionMask, actions: RaggedArray | None) -> Task:
        actors, actees, entities = selection_rows(self.name, rows, mask)
        numbers = mask.actors.lengths, entities.lengths
        pairs = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(numbers[0] * numbers[1], out=pairs[1:])
        most = max(int(n.max(initial=0)) for n in numbers)
        more = (
            actees, plain(mask.actors.offsets), plain(entities.offsets), pairs, plain(entities.values),
            select_capacity(most),
        )  # fmt: skip
        chosen = None if actions is None else plain(actions.values.astype(np.int64, copy=False))
        return Task(mask, actors, plain(mask.actors.offsets), plain(mask.mask.values), more, chosen)

    def _head(self, task: Task, x: Floats, w: Floats, first: int, last: int) -> tuple[Any, ...]:
        """The arguments that all kernels begin with, and the scratch memory that they end with."""
        actees, actor_offsets, actee_offsets, pairs, entities, capacity = task.more
        arguments = (
            x, task.rows, actees, actor_offsets, actee_offsets, pairs, entities, first, last, self.d, w,
            self.place, self.width, capacity, task.flags,
        )  # fmt: skip
        return arguments, workspace(select_scratch(self.d, self.width, capacity))

    def draw(self, x: Floats, w: Floats, task: Task, rng: np.random.Generator | None) -> Drawn:
        choices = np.empty(len(task.rows), np.int64)
        log_probs = np.empty(len(choices), np.float32)
        arguments, scratch = self._head(task, x, w, 0, len(task.offsets) - 1)
        stuck = draw_selections(*arguments, uniform(task.mask, rng), choices, log_probs, scratch)
        if stuck >= 0:
            raise no_entity(self.name, task.mask.actors, stuck)
        return Drawn(choices, log_probs)

    def evaluate(
        self, x: Floats, w: Floats, task: Task, log_probs: Floats, entropies: Floats, first: int, last: int
    ) -> int:
        arguments, scratch = self._head(task, x, w, first, last)
        wrong: int = evaluate_selections(*arguments, task.chosen, log_probs, entropies, scratch)
        return wrong

    def complain(self, task: Task, actions: RaggedArray, actor: int) -> None:
        raise not_selectable(self.name, actions, actor)

    def backward(
        self, x: Floats, w: Floats, task: Task, d_log_probs: Floats, d_entropies: Floats, d_x: Floats,
        g: Floats, first: int, last: int,
    ) -> None:  # fmt: skip
        arguments, scratch = self._head(task, x, w, first, last)
        selections_backward(*arguments, task.chosen, d_log_probs, d_entropies, d_x, g, scratch)


def fused_head(layout: Layout, name: str, action: Any, settings: RogueNetConfig) -> FusedHead:
    """The head of an action; adds its parameters to `layout`.

    Raises:
        TypeError: there is none.
    """
    match action:
        case Categorical() | MultiCategorical():
            return FusedChoices(layout, name, action, settings)
        case Continuous():
            return FusedNumbers(layout, name, action, settings)
        case SelectEntity():
            return FusedSelection(layout, name, settings)
    raise TypeError(f"action {name!r}: RogueNet has no head for {action!r}")
