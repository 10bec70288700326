"""The action heads on arrays of fixed shapes: their inputs and their computation.

Padding consists of actors that read slot 0, with every choice allowed and the first one chosen: their numbers
are finite, and the reader of the results leaves them out.

Shape alphabet: A actors and E actees of one action, P allowed pairs of them, C choices, M components, K
numbers or width of queries; all but C, M and K are capacities.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ....envs import ActionMask
from ....ragged import RaggedArray
from ...inputs.actors import Drawn, check_choices, check_components, selection_rows
from ...inputs.rows import RowLayout
from ...rogue_net.composite import ConditionalChoices
from ...rogue_net.gaussian import GaussianHead
from ...rogue_net.heads import LogitsHead, SelectEntityHead, categorical, ragged_log_softmax
from ...rogue_net.sampling import chosen_pairs
from .capacity import Sizes
from .packing import Field

Arrays = Mapping[str, NDArray[Any]]
Tensors = Mapping[str, Tensor]


def static_head(head: nn.Module) -> StaticHead:
    match head:
        case LogitsHead():
            composite = isinstance(head.distribution, ConditionalChoices)
            return StaticComposite(head) if composite else StaticChoices(head)
        case SelectEntityHead():
            return StaticSelect(head)
        case GaussianHead():
            return StaticGaussian(head)
    raise TypeError(f"no static form of {type(head).__name__}")


def _fill(array: NDArray[Any], values: NDArray[Any], rest: Any = 0) -> None:
    """Write `values` to the start of `array` and `rest` behind them."""
    array[: len(values)] = values
    array[len(values) :] = rest


class StaticHead(ABC):
    """One action, whose `proj` reads one slot for each actor.

    `chosen` is None if actions are to be sampled.
    """

    num_scores: ClassVar[int] = 1

    def __init__(self, head: Any) -> None:
        self.head = head

    def sizes(self, mask: ActionMask, chosen: RaggedArray | None) -> dict[str, int]:
        """Return the sizes that a batch needs."""
        return {"actors": mask.actors.num_items}

    def fields(self, sizes: Sizes) -> dict[str, Field]:
        """Return the arrays for these capacities; those of "chosen" and "pairs" only if actions are given."""
        a = sizes["actors"]
        own = {name: Field((a, *shape), kind) for name, (shape, kind) in self._chosen_fields().items()}
        return {"actors": Field((a,), np.int64), **own}

    def write(
        self, arrays: Arrays, rows: RowLayout, slots: NDArray[np.int64], mask: ActionMask,
        chosen: RaggedArray | None,
    ) -> None:  # fmt: skip
        """Fill all arrays; `slots` (N,): the slot of each row.

        Raises:
            ValueError: actors, mask or choices don't fit the batch.
        """
        _fill(arrays["actors"], slots[self.head.actor_rows(rows, mask)])
        if chosen is not None:
            self._write_chosen(arrays, mask.mask.values, chosen)

    @abstractmethod
    def evaluate(self, x: Tensor, arrays: Tensors) -> tuple[Tensor, Tensor]:
        """Return log-probabilities and entropies (A,) of the chosen actions, from the slots (R, D)."""

    def scores(self, x: Tensor, arrays: Tensors) -> list[Tensor]:
        """Return the input of `choose`: `num_scores` tensors."""
        return [self.head.proj(x.index_select(0, arrays["actors"]))]

    def choose(self, scores: list[Tensor], mask: ActionMask, rng: np.random.Generator | None) -> Drawn:
        """Return actions from scores on the host, which include padding."""
        drawn: Drawn = self.head.distribution.draw(scores[0][: mask.actors.num_items], mask.mask, rng)
        return drawn

    def _chosen_fields(self) -> dict[str, tuple[tuple[int, ...], Any]]:
        """Return the inner shapes and types of the arrays of given actions."""
        raise NotImplementedError

    def _write_chosen(self, arrays: Arrays, allowed: NDArray[np.bool_], chosen: RaggedArray) -> None:
        """Check given actions and fill their arrays."""
        raise NotImplementedError


class StaticChoices(StaticHead):
    """Discrete actions on fixed shapes."""

    def _chosen_fields(self) -> dict[str, tuple[tuple[int, ...], Any]]:
        return {"forbidden": ((self.head.num_choices,), bool), "chosen": ((), np.int64)}

    def _write_chosen(self, arrays: Arrays, allowed: NDArray[np.bool_], chosen: RaggedArray) -> None:
        check_choices(self.head.distribution.name, chosen, allowed)
        _fill(arrays["chosen"], chosen.values)
        _fill(arrays["forbidden"], ~allowed, False)

    def evaluate(self, x: Tensor, arrays: Tensors) -> tuple[Tensor, Tensor]:
        (logits,) = self.scores(x, arrays)
        return categorical(logits, arrays["forbidden"], arrays["chosen"])


class StaticComposite(StaticHead):
    """Conditional multi-discrete actions on fixed shapes."""

    def _chosen_fields(self) -> dict[str, tuple[tuple[int, ...], Any]]:
        m = len(self.head.distribution.action.sizes)
        return {
            "forbidden": ((self.head.num_choices,), bool),
            "something": ((m,), np.float32),
            "counts": ((m,), np.float32),
            "chosen": ((m,), np.int64),
        }

    def _write_chosen(self, arrays: Arrays, allowed: NDArray[np.bool_], chosen: RaggedArray) -> None:
        distribution = self.head.distribution
        action = distribution.action
        check_components(distribution.name, action, distribution.counts_all, chosen, allowed)
        something = action.allows_something(allowed)
        _fill(arrays["forbidden"], ~allowed, False)
        _fill(arrays["something"], something)
        _fill(arrays["counts"], something if distribution.counts_all else action.used[chosen.values[:, 0]])
        _fill(arrays["chosen"], chosen.values + action.offsets[:-1])

    def evaluate(self, x: Tensor, arrays: Tensors) -> tuple[Tensor, Tensor]:
        (logits,) = self.scores(x, arrays)
        something, counts = (arrays[name].to(logits.dtype) for name in ("something", "counts"))
        distribution: ConditionalChoices = self.head.distribution
        return distribution.outcome(logits, arrays["forbidden"], arrays["chosen"], something, counts)


class StaticGaussian(StaticHead):
    """Continuous actions on fixed shapes."""

    num_scores = 2

    def _chosen_fields(self) -> dict[str, tuple[tuple[int, ...], Any]]:
        return {"chosen": ((self.head.action.size,), np.float32)}

    def _write_chosen(self, arrays: Arrays, allowed: NDArray[np.bool_], chosen: RaggedArray) -> None:
        self.head.numbers.check(chosen)
        _fill(arrays["chosen"], chosen.values)

    def evaluate(self, x: Tensor, arrays: Tensors) -> tuple[Tensor, Tensor]:
        head: GaussianHead = self.head
        mean = self.scores(x, arrays)[0]
        return head.outcome(mean, arrays["chosen"].to(mean.dtype))

    def scores(self, x: Tensor, arrays: Tensors) -> list[Tensor]:
        return [*super().scores(x, arrays), self.head.log_std]

    def choose(self, scores: list[Tensor], mask: ActionMask, rng: np.random.Generator | None) -> Drawn:
        head: GaussianHead = self.head
        mean, log_std = scores
        with torch.inference_mode():
            return head.choose(mean[: mask.actors.num_items], log_std, mask, rng)


class StaticSelect(StaticHead):
    """`SelectEntityHead` on fixed shapes; one extra actor owns the pairs of the padding."""

    num_scores = 2

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
        actors, actees, _ = selection_rows(self.head.name, rows, mask)
        _fill(arrays["actors"], slots[actors])
        _fill(arrays["actees"], slots[actees])
        if chosen is None:
            return
        actor, actee, pairs = chosen_pairs(self.head.name, mask, chosen)
        _fill(arrays["pairs/actor"], actor, len(arrays["actors"]) - 1)
        _fill(arrays["pairs/actee"], actee)
        _fill(arrays["chosen"], pairs)

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
        return self.head.choose(queries[: mask.actors.num_items], keys, mask, rng)
