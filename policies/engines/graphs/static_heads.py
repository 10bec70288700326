"""The action heads on arrays of fixed shapes: their inputs and their computation.

Padding consists of actors that read slot 0, with every choice allowed and the first one chosen: their numbers
are finite, and the reader of the results leaves them out.

Shape alphabet: A actors and E actees of one action, P allowed pairs of them, C choices, M components, K
numbers or width of queries; all but C, M and K are capacities.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ....envs import ActionMask
from ....ragged import RaggedArray
from ...inputs.actors import (
    Drawn,
    actor_rows,
    check_choices,
    check_orders,
    not_selectable,
    selection_rows,
    uniform,
)
from ...inputs.rows import RowLayout, plain
from ...rogue_net.composite import CompositeHead
from ...rogue_net.gaussian import GaussianHead
from ...rogue_net.heads import CategoricalHead, SelectEntityHead, categorical, ragged_log_softmax
from ...rogue_net.sampling import allowed_pairs
from .capacity import Sizes
from .packing import Field

Arrays = Mapping[str, NDArray[Any]]
Tensors = Mapping[str, Tensor]


class StaticHead(Protocol):
    """One action. `chosen` is None if actions are to be sampled."""

    num_scores: int

    def sizes(self, mask: ActionMask, chosen: RaggedArray | None) -> dict[str, int]:
        """Return the sizes that a batch needs."""
        ...

    def fields(self, sizes: Sizes) -> dict[str, Field]:
        """Return the arrays for these capacities; those of "chosen" and "pairs" only if actions are given."""
        ...

    def write(
        self, arrays: Arrays, rows: RowLayout, slots: NDArray[np.int64], mask: ActionMask,
        chosen: RaggedArray | None,
    ) -> None:  # fmt: skip
        """Fill all arrays; `slots` (N,): the slot of each row.

        Raises:
            ValueError: actors, mask or choices don't fit the batch.
        """
        ...

    def evaluate(self, x: Tensor, arrays: Tensors) -> tuple[Tensor, Tensor]:
        """Return log-probabilities and entropies (A,) of the chosen actions, from the slots (R, D)."""
        ...

    def scores(self, x: Tensor, arrays: Tensors) -> list[Tensor]:
        """Return the input of `choose`: `num_scores` tensors."""
        ...

    def choose(self, scores: list[Tensor], mask: ActionMask, rng: np.random.Generator | None) -> Drawn:
        """Return actions from scores on the host, which include padding."""
        ...


def static_head(head: nn.Module) -> StaticHead:
    match head:
        case CategoricalHead():
            return StaticCategorical(head)
        case SelectEntityHead():
            return StaticSelect(head)
        case CompositeHead():
            return StaticComposite(head)
        case GaussianHead():
            return StaticGaussian(head)
    raise TypeError(f"no static form of {type(head).__name__}")


def _fill(array: NDArray[Any], values: NDArray[Any], rest: Any = 0) -> None:
    """Write `values` to the start of `array` and `rest` behind them."""
    array[: len(values)] = values
    array[len(values) :] = rest


class StaticCategorical:
    """`CategoricalHead` on fixed shapes."""

    num_scores = 1

    def __init__(self, head: CategoricalHead) -> None:
        self.head = head

    def sizes(self, mask: ActionMask, chosen: RaggedArray | None) -> dict[str, int]:
        return {"actors": mask.actors.num_items}

    def fields(self, sizes: Sizes) -> dict[str, Field]:
        a = sizes["actors"]
        return {
            "actors": Field((a,), np.int64),
            "forbidden": Field((a, self.head.num_choices), bool),
            "chosen": Field((a,), np.int64),
        }

    def write(
        self, arrays: Arrays, rows: RowLayout, slots: NDArray[np.int64], mask: ActionMask,
        chosen: RaggedArray | None,
    ) -> None:  # fmt: skip
        head = self.head
        index = actor_rows(head.name, head.of_step, rows, mask, head.num_choices)
        _fill(arrays["actors"], slots[index])
        if chosen is not None:
            check_choices(head.name, chosen, mask.mask.values)
            _fill(arrays["chosen"], chosen.values)
            _fill(arrays["forbidden"], ~mask.mask.values, False)

    def evaluate(self, x: Tensor, arrays: Tensors) -> tuple[Tensor, Tensor]:
        (logits,) = self.scores(x, arrays)
        return categorical(logits, arrays["forbidden"], arrays["chosen"])

    def scores(self, x: Tensor, arrays: Tensors) -> list[Tensor]:
        return [self.head.proj(x.index_select(0, arrays["actors"]))]

    def choose(self, scores: list[Tensor], mask: ActionMask, rng: np.random.Generator | None) -> Drawn:
        return self.head.choose(scores[0][: mask.actors.num_items].numpy(), mask, uniform(mask, rng))


class StaticSelect:
    """`SelectEntityHead` on fixed shapes; one extra actor owns the pairs of the padding."""

    num_scores = 2

    def __init__(self, head: SelectEntityHead) -> None:
        self.head = head

    def sizes(self, mask: ActionMask, chosen: RaggedArray | None) -> dict[str, int]:
        actees = 0 if mask.actees is None else mask.actees.num_items
        sizes = {"actors": mask.actors.num_items, "actees": actees}
        return sizes if chosen is None else {**sizes, "pairs": int(np.count_nonzero(mask.mask.values))}

    def fields(self, sizes: Sizes) -> dict[str, Field]:
        a, pairs = sizes["actors"], sizes.get("pairs", 0)
        return {
            "actors": Field((a + 1,), np.int64),
            "actees": Field((sizes["actees"],), np.int64),
            "pairs/actor": Field((pairs,), np.int64),
            "pairs/actee": Field((pairs,), np.int64),
            "chosen": Field((a,), np.int64),
        }

    def write(
        self, arrays: Arrays, rows: RowLayout, slots: NDArray[np.int64], mask: ActionMask,
        chosen: RaggedArray | None,
    ) -> None:  # fmt: skip
        actors, actee_rows, actees = selection_rows(self.head.name, rows, mask)
        _fill(arrays["actors"], slots[actors])
        _fill(arrays["actees"], slots[actee_rows])
        if chosen is None:
            return
        _fill(arrays["pairs/actor"], np.zeros(0, np.int64), len(arrays["actors"]) - 1)
        _fill(arrays["pairs/actee"], np.zeros(0, np.int64))
        _fill(arrays["chosen"], np.zeros(0, np.int64))
        wrong = allowed_pairs(
            plain(mask.actors.offsets), plain(actees.offsets), plain(actees.values), plain(mask.mask.values),
            plain(chosen.values), arrays["pairs/actor"], arrays["pairs/actee"], arrays["chosen"],
        )  # fmt: skip
        if wrong >= 0:
            raise not_selectable(self.head.name, chosen, wrong)

    def evaluate(self, x: Tensor, arrays: Tensors) -> tuple[Tensor, Tensor]:
        queries, keys = self._queries_keys(x, arrays)
        owner = arrays["pairs/actor"]
        logits = (queries.index_select(0, owner) * keys.index_select(0, arrays["pairs/actee"])).sum(1)
        log_probs, entropies = ragged_log_softmax(logits / math.sqrt(queries.shape[1]), owner, len(queries))
        return log_probs.index_select(0, arrays["chosen"]), entropies[:-1]

    def scores(self, x: Tensor, arrays: Tensors) -> list[Tensor]:
        queries, keys = self._queries_keys(x, arrays)
        return [queries[:-1], keys]

    def _queries_keys(self, x: Tensor, arrays: Tensors) -> tuple[Tensor, Tensor]:
        queries = self.head.query_proj(x.index_select(0, arrays["actors"]))
        return queries, self.head.key_proj(x.index_select(0, arrays["actees"]))

    def choose(self, scores: list[Tensor], mask: ActionMask, rng: np.random.Generator | None) -> Drawn:
        queries, keys = (part.numpy() for part in scores)
        return self.head.choose(queries[: mask.actors.num_items], keys, mask, uniform(mask, rng))


class StaticComposite:
    """`CompositeHead` on fixed shapes."""

    num_scores = 1

    def __init__(self, head: CompositeHead) -> None:
        self.head = head
        self.action = head.orders.action

    def sizes(self, mask: ActionMask, chosen: RaggedArray | None) -> dict[str, int]:
        return {"actors": mask.actors.num_items}

    def fields(self, sizes: Sizes) -> dict[str, Field]:
        a, m = sizes["actors"], len(self.action.sizes)
        return {
            "actors": Field((a,), np.int64),
            "forbidden": Field((a, self.action.num_choices), bool),
            "something": Field((a, m), np.float32),
            "counts": Field((a, m), np.float32),
            "chosen": Field((a, m), np.int64),
        }

    def write(
        self, arrays: Arrays, rows: RowLayout, slots: NDArray[np.int64], mask: ActionMask,
        chosen: RaggedArray | None,
    ) -> None:  # fmt: skip
        orders, action, allowed = self.head.orders, self.action, mask.mask.values
        index = actor_rows(orders.name, False, rows, mask, action.num_choices)
        _fill(arrays["actors"], slots[index])
        if chosen is None:
            return
        check_orders(orders.name, action, orders.counts_all, chosen, allowed)
        something = action.allows_something(allowed)
        _fill(arrays["forbidden"], ~allowed, False)
        _fill(arrays["something"], something)
        _fill(arrays["counts"], something if orders.counts_all else action.used[chosen.values[:, 0]])
        _fill(arrays["chosen"], chosen.values + action.offsets[:-1])

    def evaluate(self, x: Tensor, arrays: Tensors) -> tuple[Tensor, Tensor]:
        (logits,) = self.scores(x, arrays)
        something, counts = (arrays[name].to(logits.dtype) for name in ("something", "counts"))
        return self.head.orders.outcome(logits, arrays["forbidden"], arrays["chosen"], something, counts)

    def scores(self, x: Tensor, arrays: Tensors) -> list[Tensor]:
        return [self.head.proj(x.index_select(0, arrays["actors"]))]

    def choose(self, scores: list[Tensor], mask: ActionMask, rng: np.random.Generator | None) -> Drawn:
        return self.head.orders.choose(scores[0][: mask.actors.num_items].numpy(), mask.mask, rng)


class StaticGaussian:
    """`GaussianHead` on fixed shapes."""

    num_scores = 2

    def __init__(self, head: GaussianHead) -> None:
        self.head = head

    def sizes(self, mask: ActionMask, chosen: RaggedArray | None) -> dict[str, int]:
        return {"actors": mask.actors.num_items}

    def fields(self, sizes: Sizes) -> dict[str, Field]:
        a = sizes["actors"]
        return {
            "actors": Field((a,), np.int64),
            "chosen": Field((a, self.head.action.size), np.float32),
        }

    def write(
        self, arrays: Arrays, rows: RowLayout, slots: NDArray[np.int64], mask: ActionMask,
        chosen: RaggedArray | None,
    ) -> None:  # fmt: skip
        head = self.head
        _fill(arrays["actors"], slots[actor_rows(head.name, head.action.is_global, rows, mask, 0)])
        if chosen is not None:
            head.numbers.check(chosen)
            _fill(arrays["chosen"], chosen.values)

    def evaluate(self, x: Tensor, arrays: Tensors) -> tuple[Tensor, Tensor]:
        mean = self._mean(x, arrays)
        return self.head.outcome(mean, arrays["chosen"].to(mean.dtype))

    def scores(self, x: Tensor, arrays: Tensors) -> list[Tensor]:
        return [self._mean(x, arrays), self.head.log_std]

    def _mean(self, x: Tensor, arrays: Tensors) -> Tensor:
        mean: Tensor = self.head.proj(x.index_select(0, arrays["actors"]))
        return mean

    def choose(self, scores: list[Tensor], mask: ActionMask, rng: np.random.Generator | None) -> Drawn:
        mean, log_std = scores
        with torch.inference_mode():
            return self.head.choose(mean[: mask.actors.num_items], log_std, mask, rng)
