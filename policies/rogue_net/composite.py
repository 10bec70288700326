"""Conditional multi-discrete actions: categorical distributions of the kind and the components.

Shape alphabet: A actors of one action at all steps, M components, C choices of all of them, K kinds.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from ...envs import MultiCategorical
from ...ragged import RaggedArray
from ..inputs.actors import Drawn, check_components, no_component
from .config import Composite
from .sampling import draw_choices
from .tensors import as_tensor, forbid


class ConditionalChoices(nn.Module):
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

        Same contract as `Distribution.draw`.
        """
        numbers, allowed, action = logits.cpu().double().numpy(), mask.values, self.action
        actions, log_probs = np.zeros((len(numbers), len(self._sizes)), np.int64), np.zeros(len(numbers))
        draws = None if rng is None else rng.random(actions.shape)
        without_choice = np.zeros(len(numbers), bool)
        for m, (start, stop) in enumerate(pairwise(action.offsets.tolist())):
            own = None if draws is None else draws[:, m]
            chosen, log_prob = draw_choices(numbers[:, start:stop], allowed[:, start:stop], own)
            needed = action.used[actions[:, 0], m]
            without_choice |= needed & (chosen < 0)
            counts = (needed | self.counts_all) & (chosen >= 0)
            actions[counts, m] = chosen[counts]
            log_probs[counts] += log_prob[counts]
        if without_choice.any():
            raise no_component(self.name, action, mask, int(without_choice.argmax()))
        return Drawn(actions, log_probs.astype(np.float32))

    def evaluate(self, logits: Tensor, mask: RaggedArray, actions: RaggedArray) -> tuple[Tensor, Tensor]:
        """Return log-probabilities and entropies; same contract as `Distribution.evaluate`."""
        action, allowed, chosen = self.action, mask.values, actions.values
        check_components(self.name, action, self.counts_all, actions, allowed)
        something = action.allows_something(allowed)
        counts = something if self.counts_all else action.used[chosen[:, 0]]
        return self.outcome(
            logits,
            None if allowed.all() else as_tensor(~allowed, logits),
            as_tensor(chosen + action.offsets[:-1], logits),
            as_tensor(something, logits, logits.dtype),
            as_tensor(counts, logits, logits.dtype),
        )

    def log_probs(self, logits: Tensor, mask: RaggedArray) -> Tensor:
        """Return log-probabilities, each among the choices of its component; see `Distribution.log_probs`."""
        forbidden = as_tensor(~mask.values, logits)
        parts = forbid(logits, forbidden).split(self._sizes, 1)
        return torch.cat([part.log_softmax(1) for part in parts], 1).masked_fill(forbidden, -torch.inf)

    def outcome(
        self, logits: Tensor, forbidden: Tensor | None, chosen: Tensor, something: Tensor, counts: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return log-probabilities and entropies (A,) of actions that were checked.

        `forbidden` (A, C) bool: masked choices; `chosen` (A, M): indices among all choices; `something` (A,
        M), 0 or 1: the mask allows a choice of the component; `counts` (A, M), 0 or 1: the component counts
        in the log-probability.
        """
        if forbidden is not None:
            logits = forbid(logits, forbidden)
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
