"""The action heads on plain arrays, with their gradients; no torch.

Each head has its parameters in the flat array `w` of all parameters, and the methods of `FusedHead`.
Shape alphabet: A actors of one action at all steps, N rows, D width.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...envs import ActionMask, Categorical, Continuous, MultiCategorical, SelectEntity
from ...ragged import RaggedArray
from ..inputs.actors import (
    FORBIDDEN,
    Drawn,
    actor_rows,
    check_choices,
    check_component_items,
    check_components,
    no_component,
    not_selectable,
    nothing_allowed,
    selection_rows,
)
from ..inputs.number_units import POINTS, WEIGHTS, Numbers
from ..inputs.rows import RowLayout, plain
from ..rogue_net.config import RogueNetConfig
from .heads.choice_kernels import (
    ChoiceBatch,
    ChoiceHead,
    choice_scratch,
    choices_backward,
    draw_choices,
    evaluate_choices,
)
from .heads.number_kernels import (
    NumberBatch,
    NumberHead,
    evaluate_numbers,
    mean_numbers,
    number_scratch,
    numbers_backward,
)
from .heads.select_kernels import (
    SelectionBatch,
    SelectionHead,
    evaluate_selections,
    select_capacity,
    select_scratch,
    selections_backward,
)
from .parallel import workspace
from .parameter_layout import Layout

Floats = NDArray[np.float32]


@dataclass(eq=False)
class HeadBatch:
    """One action of a batch."""

    mask: ActionMask
    offsets: NDArray[np.int64]  # (B + 1,): where each step's actors start
    arrays: Any  # what the kernels read: ChoiceBatch, NumberBatch or SelectionBatch

    @property
    def num_actors(self) -> int:
        return len(self.arrays.rows)


class FusedHead(ABC):
    """An action head."""

    #: Kernels that evaluate and go backward; see `choice_kernels`.
    evaluate_kernel: Callable[..., int]
    backward_kernel: Callable[..., None]

    def __init__(self, name: str, d: int) -> None:
        self.name = name
        self.d = d

    @abstractmethod
    def read(self, rows: RowLayout, mask: ActionMask, actions: RaggedArray | None) -> HeadBatch:
        """Return what the kernels read of a batch, with the `actions` taken; None: they are to be drawn.

        Raises:
            ValueError: the mask does not fit, an entity has no row, or actions of another kind.
        """

    @abstractmethod
    def draw(self, x: Floats, w: Floats, batch: HeadBatch, rng: np.random.Generator | None) -> Drawn:
        """Draw an action for each actor with `rng`; None: take the most probable one."""

    def log_probs(self, x: Floats, w: Floats, batch: HeadBatch) -> Floats | None:
        """Return the log-probability of every choice; same contract as `RogueNet.log_probs`.

        None: the action has no list of choices.
        """
        return None

    @abstractmethod
    def refuse(self, batch: HeadBatch, actions: RaggedArray, actor: int) -> None:
        """
        Raises:
            ValueError: the action of this actor is not allowed.
        """

    @abstractmethod
    def _head(self, w: Floats) -> Any:
        """Return the head as the kernels read it."""

    @abstractmethod
    def _scratch(self, batch: HeadBatch) -> Floats:
        """Return scratch memory for the kernels."""

    def _span(self, batch: HeadBatch, first: int, last: int) -> tuple[int, int]:
        """Return what the kernels count for steps first to last: their actors."""
        return batch.offsets[first], batch.offsets[last]

    def evaluate(
        self, x: Floats, w: Floats, batch: HeadBatch, log_probs: Floats, entropies: Floats,
        first: int, last: int,
    ) -> int:  # fmt: skip
        """Write log-probabilities and entropies (A,) of the actors of steps first to last; return the first
        actor whose action is not allowed, or -1."""
        return self.evaluate_kernel(
            self._head(w), batch.arrays, x, *self._span(batch, first, last), log_probs, entropies,
            self._scratch(batch),
        )  # fmt: skip

    def backward(
        self, x: Floats, w: Floats, batch: HeadBatch, d_log_probs: Floats, d_entropies: Floats, d_x: Floats,
        g: Floats, first: int, last: int,
    ) -> None:  # fmt: skip
        """Add the gradients of the rows (N * D,) to `d_x`, and of the parameters to `g`."""
        self.backward_kernel(
            self._head(w), batch.arrays, x, *self._span(batch, first, last), d_log_probs, d_entropies, d_x,
            g, self._scratch(batch),
        )  # fmt: skip


class FusedChoices(FusedHead):
    """The head of discrete and conditional multi-discrete actions; see `choice_kernels`."""

    evaluate_kernel, backward_kernel = staticmethod(evaluate_choices), staticmethod(choices_backward)

    def __init__(
        self, layout: Layout, name: str, action: Categorical | MultiCategorical, settings: RogueNetConfig
    ) -> None:
        super().__init__(name, settings.d_model)
        self.counts_all = False
        self.of_step = False
        #: The action, if it is a conditional multi-discrete one.
        self.conditional = action if isinstance(action, MultiCategorical) else None
        if isinstance(action, MultiCategorical):
            self.counts_all = settings.composite == "all"
            self.components = action.offsets.copy()
            self.used = action.used.reshape(-1).copy()
        else:
            self.of_step = action.is_global
            self.components = np.array([0, action.num_choices])
            self.used = np.ones(action.num_choices, bool)
        self.parts, self.num_choices = len(self.components) - 1, int(self.components[-1])
        self._scratch_size = choice_scratch(self.d, self.num_choices, self.parts)
        self.place = layout.add(
            "action_heads",
            name,
            proj__weight=(self.num_choices, self.d),
            proj__bias=(self.num_choices,),
        )

    def read(self, rows: RowLayout, mask: ActionMask, actions: RaggedArray | None) -> HeadBatch:
        index = actor_rows(self.name, self.of_step, rows, mask, self.num_choices)
        if actions is None:
            chosen = np.zeros(len(index) * self.parts, np.int64)
        else:
            if self.conditional is not None:
                check_component_items(self.name, self.conditional, actions)
            chosen = plain(actions.values.astype(np.int64, copy=False)).reshape(-1)
        arrays = ChoiceBatch(index, plain(mask.mask.values).reshape(-1), chosen)
        return HeadBatch(mask, plain(mask.actors.offsets), arrays)

    def _head(self, w: Floats) -> ChoiceHead:
        return ChoiceHead(w, self.place, self.d, self.components, self.used, self.counts_all)

    def _scratch(self, batch: HeadBatch) -> Floats:
        return workspace(self._scratch_size)

    def draw(self, x: Floats, w: Floats, batch: HeadBatch, rng: np.random.Generator | None) -> Drawn:
        count, chosen = batch.num_actors, batch.arrays.chosen
        log_probs = np.empty(count, np.float32)
        draws = np.zeros(0) if rng is None else rng.random(len(chosen))
        head, arrays = tuple(self._head(w)), tuple(batch.arrays)
        without_choice = draw_choices(head, arrays, x, 0, count, draws, log_probs, self._scratch(batch))
        if without_choice >= 0:
            if self.conditional is not None:
                raise no_component(self.name, self.conditional, batch.mask.mask, without_choice)
            raise nothing_allowed(self.name, "choice", batch.mask.actors, without_choice)
        if self.conditional is not None:
            return Drawn(chosen.reshape(count, self.parts), log_probs)
        return Drawn(chosen, log_probs)

    def log_probs(self, x: Floats, w: Floats, batch: HeadBatch) -> Floats:
        rows = x.reshape(-1, self.d)[batch.arrays.rows]
        logits = _linear(rows, w, self.place, self.num_choices)
        allowed = batch.arrays.mask.reshape(logits.shape)
        for start, stop in pairwise(self.components.tolist()):
            logits[:, start:stop] = _log_softmax(logits[:, start:stop], allowed[:, start:stop])
        return logits

    def refuse(self, batch: HeadBatch, actions: RaggedArray, actor: int) -> None:
        allowed = batch.mask.mask.values
        if self.conditional is not None:
            check_components(self.name, self.conditional, self.counts_all, actions, allowed)
        else:
            check_choices(self.name, actions, allowed)


class FusedNumbers(FusedHead):
    """The head of continuous actions; see `number_kernels`."""

    evaluate_kernel, backward_kernel = staticmethod(evaluate_numbers), staticmethod(numbers_backward)

    def __init__(self, layout: Layout, name: str, action: Continuous, settings: RogueNetConfig) -> None:
        super().__init__(name, settings.d_model)
        self.action = action
        self.numbers = Numbers(name, action, settings.squash)
        size = action.size
        self.place = layout.add(
            "action_heads", name, proj__weight=(size, self.d), proj__bias=(size,), log_std=(size,)
        )
        self._scratch_size = number_scratch(self.d, size)
        self._points, self._weights = POINTS.astype(np.float32), WEIGHTS.astype(np.float32)

    def read(self, rows: RowLayout, mask: ActionMask, actions: RaggedArray | None) -> HeadBatch:
        index = actor_rows(self.name, self.action.is_global, rows, mask, 0)
        if actions is None:
            raw = np.empty(len(index) * self.action.size, np.float32)
        else:
            self.numbers.check(actions)
            raw = plain(actions.values.astype(np.float32, copy=False)).reshape(-1)
        return HeadBatch(mask, plain(mask.actors.offsets), NumberBatch(index, raw))

    def _head(self, w: Floats) -> NumberHead:
        return NumberHead(
            w, self.place, self.d, self.action.size, self.numbers.squash, self._points, self._weights
        )

    def _scratch(self, batch: HeadBatch) -> Floats:
        return workspace(self._scratch_size)

    def draw(self, x: Floats, w: Floats, batch: HeadBatch, rng: np.random.Generator | None) -> Drawn:
        count, size = batch.num_actors, self.action.size
        mean_numbers(self._head(w), batch.arrays.rows, x, 0, count, batch.arrays.raw, self._scratch(batch))
        raw = batch.arrays.raw.reshape(count, size)
        if rng is not None:
            start = self.place + size * (self.d + 1)
            raw += np.exp(w[start : start + size]) * rng.standard_normal(raw.shape).astype(np.float32)
        self.numbers.check(batch.mask.actors.with_values(raw))
        log_probs, entropies = np.empty(count, np.float32), np.empty(count, np.float32)
        self.evaluate(x, w, batch, log_probs, entropies, 0, len(batch.offsets) - 1)
        return Drawn(self.numbers.actions(raw), log_probs, raw)

    def evaluate(
        self, x: Floats, w: Floats, batch: HeadBatch, log_probs: Floats, entropies: Floats,
        first: int, last: int,
    ) -> int:  # fmt: skip
        """Write log-probabilities and entropies, in the units of the actions."""
        wrong = super().evaluate(x, w, batch, log_probs, entropies, first, last)
        start, stop = self._span(batch, first, last)
        log_probs[start:stop] -= np.float32(self.numbers.log_volume)
        entropies[start:stop] += np.float32(self.numbers.log_volume)
        return wrong

    def refuse(self, batch: HeadBatch, actions: RaggedArray, actor: int) -> None:
        raise AssertionError("every finite number is allowed")


class FusedSelection(FusedHead):
    """The head of select-entity actions; see `select_kernels`."""

    evaluate_kernel, backward_kernel = staticmethod(evaluate_selections), staticmethod(selections_backward)

    def __init__(self, layout: Layout, name: str, settings: RogueNetConfig) -> None:
        super().__init__(name, settings.d_model)
        self.width = settings.d_qk
        shape = (self.width, self.d)
        self.place = layout.add(
            "action_heads", name,
            query_proj__weight=shape, query_proj__bias=(self.width,),
            key_proj__weight=shape, key_proj__bias=(self.width,),
        )  # fmt: skip

    def read(self, rows: RowLayout, mask: ActionMask, actions: RaggedArray | None) -> HeadBatch:
        actors, actees, entities = selection_rows(self.name, rows, mask)
        num_actors, num_actees = mask.actors.lengths, entities.lengths
        pairs = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(num_actors * num_actees, out=pairs[1:])
        most = max(int(numbers.max(initial=0)) for numbers in (num_actors, num_actees))
        if actions is None:
            chosen = np.empty(len(actors), np.int64)
        else:
            chosen = plain(actions.values.astype(np.int64, copy=False))
        arrays = SelectionBatch(
            rows=actors,
            actee_rows=actees,
            actor_offsets=plain(mask.actors.offsets),
            actee_offsets=plain(entities.offsets),
            pair_offsets=pairs,
            actees=plain(entities.values),
            mask=plain(mask.mask.values),
            chosen=chosen,
            capacity=select_capacity(most),
            draws=np.zeros(0),
        )
        return HeadBatch(mask, arrays.actor_offsets, arrays)

    def _head(self, w: Floats) -> SelectionHead:
        return SelectionHead(w, self.place, self.d, self.width)

    def _scratch(self, batch: HeadBatch) -> Floats:
        return workspace(select_scratch(self.d, self.width, batch.arrays.capacity))

    def _span(self, batch: HeadBatch, first: int, last: int) -> tuple[int, int]:
        return first, last  # the kernels count steps

    def draw(self, x: Floats, w: Floats, batch: HeadBatch, rng: np.random.Generator | None) -> Drawn:
        count = batch.num_actors
        log_probs, entropies = np.empty(count, np.float32), np.empty(count, np.float32)
        draws = np.full(count, -1.0) if rng is None else rng.random(count)
        drawing = HeadBatch(batch.mask, batch.offsets, batch.arrays._replace(draws=draws))
        without_choice = self.evaluate(x, w, drawing, log_probs, entropies, 0, len(batch.offsets) - 1)
        if without_choice >= 0:
            raise nothing_allowed(self.name, "entity", batch.mask.actors, without_choice)
        return Drawn(batch.arrays.chosen, log_probs)

    def log_probs(self, x: Floats, w: Floats, batch: HeadBatch) -> Floats:
        rows, arrays = x.reshape(-1, self.d), batch.arrays
        queries = _linear(rows[arrays.rows], w, self.place, self.width)
        keys = _linear(rows[arrays.actee_rows], w, self.place + self.width * (self.d + 1), self.width)
        result = np.empty(len(arrays.mask), np.float32)
        for step in range(len(arrays.pair_offsets) - 1):
            actors, actees, pairs = (
                slice(offsets[step], offsets[step + 1])
                for offsets in (arrays.actor_offsets, arrays.actee_offsets, arrays.pair_offsets)
            )
            scores = queries[actors] @ keys[actees].T / np.float32(np.sqrt(self.width))
            allowed = arrays.mask[pairs].reshape(scores.shape)
            result[pairs] = _log_softmax(scores, allowed).reshape(-1)
        return result

    def refuse(self, batch: HeadBatch, actions: RaggedArray, actor: int) -> None:
        raise not_selectable(self.name, actions, actor)


def _linear(rows: Floats, w: Floats, start: int, size: int) -> Floats:
    """Return W x + b (A, size) of each row (A, d); W (size, d) and b lie in `w` from `start` on."""
    end = start + size * rows.shape[1]
    return rows @ w[start:end].reshape(size, -1).T + w[end : end + size]


def _log_softmax(logits: Floats, allowed: NDArray[np.bool_]) -> Floats:
    """Return log-probabilities (A, C); -inf where not allowed."""
    logits = np.where(allowed, logits, -np.inf)
    shifted = logits - logits.max(1, keepdims=True, initial=np.float32(FORBIDDEN))
    return shifted - np.log(np.maximum(np.exp(shifted).sum(1, keepdims=True), 1))


def fused_head(layout: Layout, name: str, action: Any, settings: RogueNetConfig) -> FusedHead:
    """Return the head of an action; add its parameters to `layout`.

    Raises:
        TypeError: no head handles this kind of action.
    """
    match action:
        case Categorical() | MultiCategorical():
            return FusedChoices(layout, name, action, settings)
        case Continuous():
            return FusedNumbers(layout, name, action, settings)
        case SelectEntity():
            return FusedSelection(layout, name, settings)
    raise TypeError(f"action {name!r}: RogueNet has no head for {action!r}")
