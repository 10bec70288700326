"""The distribution of composite orders (`MultiCategorical`), from the logits of all their components.

Shape alphabet: A actors, M components, C choices of all components together, K kinds (the choices of the first
component).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...envs import MultiCategorical
from ...ragged import RaggedArray
from .heads import FORBIDDEN
from .rows import as_tensor, plain
from .sampling import draw_one

#: Which components of an order count: those that its kind uses, or all of them.
Composite = Literal["used", "all"]

_kernel: Any = numba.njit(cache=True, error_model="numpy")


@_kernel
def _draw_orders(
    logits: Any, mask: Any, offsets: Any, used: Any, count_all: bool, draws: Any, orders: Any, log_probs: Any
) -> int:
    """One order for each actor. logits, mask (A, C); offsets (M + 1,); used (K, M); draws (A, M) or (0, M).

    Written: orders (A, M), 0 where a component does not count or allows nothing; log_probs (A,). Returns the
    first actor that may choose nothing of a component that its kind uses, or -1.
    """
    greedy = len(draws) == 0
    for a in range(len(orders)):
        log_probs[a] = 0.0
        for m in range(len(offsets) - 1):
            orders[a, m] = 0
            needed = m == 0 or used[orders[a, 0], m]
            if needed or count_all:
                first, last = offsets[m], offsets[m + 1]
                draw = 0.0 if greedy else draws[a, m]
                choice, log_prob = draw_one(logits[a, first:last], mask[a, first:last], draw, greedy)
                if choice >= 0:
                    orders[a, m] = choice
                    log_probs[a] += log_prob
                elif needed:
                    return a
    return -1


@dataclass(frozen=True)
class Orders:
    """What logits (A, C) and masks (A, C) say about the orders (A, M) of one action.

    Components are independent given the kind:

        log π(order) = log p(kind) + Σ over the components m that the kind uses of log p(m)
        entropy = H(kind) + Σ over kinds p(kind) · Σ over the components m that it uses of H(m)

    With `composite="all"` every component that allows something counts, whatever the kind, as in the programs
    of Gym-μRTS and its successors; unused components then hold what was drawn for them.
    """

    name: str
    action: MultiCategorical
    composite: Composite = "used"

    def draw(
        self, logits: Tensor, mask: RaggedArray, rng: np.random.Generator | None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Orders (A, M) and their log-probabilities (A,), from `rng` or (None) the most probable.

        The most probable order is the most probable kind with the most probable choices that it uses.

        Raises:
            ValueError: an actor may choose nothing of a component that it needs.
        """
        shape = (len(mask.values), len(self.action.sizes))
        draws = np.zeros((0, shape[1])) if rng is None else rng.random(shape)
        orders, log_probs = np.empty(shape, np.int64), np.empty(shape[0], np.float32)
        stuck = _draw_orders(
            logits.detach().cpu().numpy(), plain(mask.values), self.action.offsets, self.action.used,
            self.composite == "all", draws, orders, log_probs,
        )  # fmt: skip
        if stuck >= 0:
            step = mask.sequence_indices()[stuck]
            found = self.action.stuck_actor(mask.values[stuck : stuck + 1])
            reason = found[1] if found else "allows nothing"
            raise ValueError(f"action {self.name!r}: step {step}: the mask of an actor {reason}")
        return orders, log_probs

    def evaluate(self, logits: Tensor, mask: RaggedArray, orders: RaggedArray) -> tuple[Tensor, Tensor]:
        """Log-probability of each order and entropy of its distribution, each (A,), with gradients.

        Raises:
            ValueError: an order was not allowed.
        """
        action, allowed = self.action, mask.values
        self._check(mask, orders)
        logits = logits.masked_fill(as_tensor(~allowed, logits), FORBIDDEN)
        parts = [torch.log_softmax(part, 1) for part in logits.split(action.sizes.tolist(), 1)]
        picks = as_tensor(orders.values, logits)
        log_probs = torch.stack(
            [part.gather(1, picks[:, m : m + 1]).squeeze(1) for m, part in enumerate(parts)], 1
        )  # (A, M)
        entropies = torch.stack([-(part.exp() * part).sum(1) for part in parts], 1)  # (A, M)
        if self.composite == "all":
            counts = as_tensor(action.allows_something(allowed), logits, logits.dtype)
            return (log_probs * counts).sum(1), (entropies * counts).sum(1)
        used = as_tensor(action.used, logits, logits.dtype)
        # A component that nothing is allowed of has no entropy to speak of, and no kind that needs it either.
        return (log_probs * used[picks[:, 0]]).sum(1), ((parts[0].exp() @ used) * entropies).sum(1)

    def _check(self, mask: RaggedArray, orders: RaggedArray) -> None:
        action, allowed, chosen = self.action, mask.values, orders.values
        if orders.inner_shape != action.item_shape or orders.dtype.kind not in "iu":
            raise ValueError(
                f"action {self.name!r}: items must be {action.item_shape[0]} integers, got {orders.dtype} of"
                f" shape {orders.inner_shape}"
            )
        legal = action.legal(chosen, allowed)
        if not legal.all():
            actor = int(np.argmin(legal.all(1)))
            raise ValueError(
                f"action {self.name!r}: step {orders.sequence_indices()[actor]}:"
                f" {action.illegal_in_words(chosen[actor], allowed[actor])}"
            )
        if self.composite == "all":
            permitted = np.take_along_axis(allowed, action.offsets[:-1] + chosen, 1)
            permitted |= ~action.allows_something(allowed)
            if not permitted.all():
                actor, component = (int(place) for place in np.argwhere(~permitted)[0])
                raise ValueError(
                    f"action {self.name!r}: step {orders.sequence_indices()[actor]}: component"
                    f" {action.names[component]!r}: {chosen[actor, component]} is not allowed, and with"
                    " composite='all' unused components count"
                )
