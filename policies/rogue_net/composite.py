"""The head of conditional multi-discrete actions: categorical distributions of the kind and the components.

Shape alphabet: A actors of one action at all steps, M components, C choices of all of them, K kinds, D width.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ...envs import ActionMask, MultiCategorical
from ...ragged import RaggedArray
from ..inputs.actors import FORBIDDEN, Drawn, actor_rows, check_orders, no_order
from ..inputs.rows import RowLayout, plain
from .config import Composite, RogueNetConfig
from .sampling import draw_orders
from .tensors import as_tensor


class CompositeOrders(nn.Module):
    """Distribution of conditional multi-discrete actions with logits (A, C).

    Components are independent given the kind.

    With `composite="used"` log-probability and entropy count the components that the kind uses (k is the
    kind, mₖ the components that it uses):

        log π = log p(k) + Σ over m in mₖ of log p(choice of m)
        H = H(kind) + Σ over k of p(k) Σ over m in mₖ of H(m)

    These belong to the actions as they are executed: unused components have no effect. With `composite="all"`
    every component counts,

        log π = Σ over m of log p(choice of m),    H = Σ over m of H(m),

    as in Gym-μRTS (Huang et al. 2021, arXiv:2105.13807) and its successors; choices without effect then add
    noise to the gradient. A component of which the mask allows no choice contributes nothing.

    With "used" an unused component of a sampled action is 0; with "all" it is an allowed choice, if there is
    one, because its probability counts.
    """

    used: Tensor  # (K, M - 1) 0 or 1: the kind uses the component
    component: Tensor  # (C,) int64: the component that each choice is of
    members: Tensor  # (C, M) 0 or 1: the same

    def __init__(self, name: str, action: MultiCategorical, composite: Composite) -> None:
        super().__init__()
        self.name = name
        self.action = action
        self.counts_all = composite == "all"
        component = torch.as_tensor(np.repeat(np.arange(len(action.sizes)), action.sizes))
        used = torch.as_tensor(action.used[:, 1:], dtype=torch.get_default_dtype())
        members = nn.functional.one_hot(component, len(action.sizes)).to(used.dtype)
        for buffer_name, buffer in (("used", used), ("component", component), ("members", members)):
            self.register_buffer(buffer_name, buffer, persistent=False)
        self._sizes: list[int] = action.sizes.tolist()

    def draw(self, logits: Tensor, mask: RaggedArray, rng: np.random.Generator | None) -> Drawn:
        """Sample an action for each actor with `rng`; None: the most probable kind and components.

        `logits` (A, C); `mask` (A, C), as in `ActionMask`.

        Raises:
            ValueError: the mask allows an actor no choice of a component that it needs.
        """
        return self.choose(logits.cpu().numpy(), mask, rng)

    def choose(self, logits: NDArray[Any], mask: RaggedArray, rng: np.random.Generator | None) -> Drawn:
        """Choose actions; same contract as `draw`."""
        orders = np.zeros((len(logits), len(self._sizes)), np.int64)
        draws = np.zeros((0, len(self._sizes))) if rng is None else rng.random(orders.shape)
        log_probs = np.empty(len(logits), np.float32)
        stuck = draw_orders(
            logits, plain(mask.values), draws, self.action.offsets, self.action.used,
            self.counts_all, orders, log_probs,
        )  # fmt: skip
        if stuck >= 0:
            raise no_order(self.name, self.action, mask, stuck)
        return Drawn(orders, log_probs)

    def evaluate(self, logits: Tensor, mask: RaggedArray, orders: RaggedArray) -> tuple[Tensor, Tensor]:
        """Return the log-probability of each actor's action and the entropy of its distribution, each (A,).

        Raises:
            ValueError: an action is masked or out of range.
        """
        action, allowed, chosen = self.action, mask.values, orders.values
        check_orders(self.name, action, self.counts_all, orders, allowed)
        something = action.allows_something(allowed)
        counts = something if self.counts_all else action.used[chosen[:, 0]]
        return self.outcome(
            logits,
            None if allowed.all() else as_tensor(~allowed, logits),
            as_tensor(chosen + action.offsets[:-1], logits),
            as_tensor(something, logits, logits.dtype),
            as_tensor(counts, logits, logits.dtype),
        )

    def outcome(
        self, logits: Tensor, forbidden: Tensor | None, chosen: Tensor, something: Tensor, counts: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return log-probabilities and entropies (A,) of actions that were checked.

        `forbidden` (A, C) bool: masked choices; `chosen` (A, M): indices among all choices; `something` (A,
        M), 0 or 1: the mask allows a choice of the component; `counts` (A, M), 0 or 1: the component counts
        in the log-probability.
        """
        if forbidden is not None:
            logits = logits.masked_fill(forbidden, FORBIDDEN)
        # A softmax per component, all of them at once.
        with torch.no_grad():
            top = torch.stack([part.amax(1) for part in logits.split(self._sizes, 1)], 1)  # (A, M)
        shifted = logits - top.index_select(1, self.component)
        powers = shifted.exp()  # (A, C)
        totals = powers @ self.members  # (A, M), at least 1
        picked = shifted.gather(1, chosen) - totals.log()
        entropies = totals.log() - (powers * shifted) @ self.members / totals  # (A, M)
        # How much each of the further components counts: (A, M - 1).
        weights = something[:, 1:]
        if not self.counts_all:
            weights = weights * (powers[:, : self._sizes[0]] / totals[:, :1] @ self.used)
        entropy = entropies[:, 0] + (weights * entropies[:, 1:]).sum(1)
        return (picked * counts).sum(1), entropy


class CompositeHead(nn.Module):
    """Logits of all C choices from the actor's row; see `CompositeOrders`."""

    def __init__(self, name: str, action: MultiCategorical, settings: RogueNetConfig) -> None:
        super().__init__()
        self.orders = CompositeOrders(name, action, settings.composite)
        self.proj = nn.Linear(settings.d_model, action.num_choices)
        nn.init.orthogonal_(self.proj.weight, 0.01)
        nn.init.zeros_(self.proj.bias)

    def draw(self, x: Tensor, rows: RowLayout, mask: ActionMask, rng: np.random.Generator | None) -> Drawn:
        """Sample an action for each actor with `rng`; None: the most probable one."""
        return self.orders.draw(self._logits(x, rows, mask), mask.mask, rng)

    def evaluate(
        self, x: Tensor, rows: RowLayout, mask: ActionMask, orders: RaggedArray
    ) -> tuple[Tensor, Tensor]:
        """Return the log-probability of each actor's action and the entropy of its distribution (A,)."""
        return self.orders.evaluate(self._logits(x, rows, mask), mask.mask, orders)

    def _logits(self, x: Tensor, rows: RowLayout, mask: ActionMask) -> Tensor:
        index = actor_rows(self.orders.name, False, rows, mask, self.orders.action.num_choices)
        return self.proj(x.index_select(0, as_tensor(index, x)))
