"""Action heads and the value head.

Shape alphabet: A actors and E actees of one action at all steps, C choices, D width, K query width, P pairs.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from ...envs import ActionMask
from ...ragged import RaggedArray
from ..inputs.actors import (
    Drawn,
    actor_rows,
    check_choices,
    nothing_allowed,
    selection_rows,
)
from ..inputs.rows import RowLayout
from .sampling import allowed_pairs, chosen_pairs, draw_actees, draw_choices
from .tensors import as_tensor, forbid, inverse_lengths, steps_of


class Distribution(Protocol):
    """Distribution of an action with logits (A, C); `mask` (A, C) is as in `ActionMask`."""

    name: str

    def draw(self, logits: Tensor, mask: RaggedArray, rng: np.random.Generator | None) -> Drawn:
        """Sample an action for each actor with `rng`; None: the most probable one.

        Raises:
            ValueError: the mask allows an actor nothing.
        """
        ...

    def evaluate(self, logits: Tensor, mask: RaggedArray, actions: RaggedArray) -> tuple[Tensor, Tensor]:
        """Return the log-probability of each actor's action and the entropy of its distribution, each (A,).

        Raises:
            ValueError: an action is masked or out of range.
        """
        ...

    def log_probs(self, logits: Tensor, mask: RaggedArray) -> Tensor:
        """Return the log-probability of each choice (A, C); -inf of one that the mask forbids."""
        ...


class Choices(nn.Module):
    """Distribution of discrete actions: a softmax over C choices."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def draw(self, logits: Tensor, mask: RaggedArray, rng: np.random.Generator | None) -> Drawn:
        """Sample a choice for each actor; same contract as `Distribution.draw`."""
        draws = None if rng is None else rng.random(len(logits))
        chosen, log_probs = draw_choices(logits.cpu().double().numpy(), mask.values, draws)
        if (chosen < 0).any():
            raise nothing_allowed(self.name, "choice", mask, int((chosen < 0).argmax()))
        return Drawn(chosen, log_probs.astype(np.float32))

    def evaluate(self, logits: Tensor, mask: RaggedArray, choices: RaggedArray) -> tuple[Tensor, Tensor]:
        """Return log-probabilities and entropies; same contract as `Distribution.evaluate`."""
        allowed = mask.values
        check_choices(self.name, choices, allowed)
        forbidden = None if allowed.all() else as_tensor(~allowed, logits)
        return categorical(logits, forbidden, as_tensor(choices.values, logits))

    def log_probs(self, logits: Tensor, mask: RaggedArray) -> Tensor:
        """Return log-probabilities; same contract as `Distribution.log_probs`."""
        forbidden = as_tensor(~mask.values, logits)
        return forbid(logits, forbidden).log_softmax(1).masked_fill(forbidden, -torch.inf)


def categorical(logits: Tensor, forbidden: Tensor | None, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Return log-probabilities (A,) of the choices `chosen` (A,) and entropies (A,), from logits (A, C)."""
    if forbidden is not None:
        logits = forbid(logits, forbidden)
    log_probs = torch.log_softmax(logits, 1)
    entropies = -(log_probs.exp() * log_probs).sum(1)
    return log_probs.gather(1, chosen[:, None]).squeeze(1), entropies


class LogitsHead(nn.Module):
    """Logits of C choices, from the row of the actor (or of the step, for a global action)."""

    def __init__(self, distribution: Distribution, num_choices: int, d_model: int, of_step: bool) -> None:
        super().__init__()
        self.distribution = distribution
        self.num_choices = num_choices
        self.of_step = of_step
        self.proj = nn.Linear(d_model, num_choices)
        nn.init.orthogonal_(self.proj.weight, 0.01)
        nn.init.zeros_(self.proj.bias)

    def actor_rows(self, rows: RowLayout, mask: ActionMask) -> NDArray[np.int64]:
        """Return the row that each actor's logits come from (A,)."""
        return actor_rows(self.distribution.name, self.of_step, rows, mask, self.num_choices)

    def logits(self, x: Tensor, rows: RowLayout, mask: ActionMask) -> Tensor:
        """Return the logits of each actor's choices (A, C), of rows (N, D) of `RogueNet.encode`; unmasked."""
        return self.proj(x.index_select(0, as_tensor(self.actor_rows(rows, mask), x)))

    def draw(self, x: Tensor, rows: RowLayout, mask: ActionMask, rng: np.random.Generator | None) -> Drawn:
        """Sample an action for each actor with `rng`; None: the most probable one."""
        return self.distribution.draw(self.logits(x, rows, mask), mask.mask, rng)

    def evaluate(
        self, x: Tensor, rows: RowLayout, mask: ActionMask, actions: RaggedArray
    ) -> tuple[Tensor, Tensor]:
        """Return the log-probability of each actor's action and the entropy of its distribution (A,)."""
        return self.distribution.evaluate(self.logits(x, rows, mask), mask.mask, actions)

    def as_raw(self, chosen: RaggedArray) -> RaggedArray:
        """Return actions as `evaluate` takes them: choices stay as they are."""
        return chosen

    def log_probs(self, x: Tensor, rows: RowLayout, mask: ActionMask) -> Tensor:
        """Return the log-probability of each choice (A, C); -inf of one that the mask forbids."""
        return self.distribution.log_probs(self.logits(x, rows, mask), mask.mask)

    def explain(self, x: Tensor, rows: RowLayout, mask: ActionMask) -> Tensor:
        """Return the probability of each choice (A, C)."""
        return self.log_probs(x, rows, mask).exp()


class SelectEntityHead(nn.Module):
    """Select-entity head: softmax(query·key / √K) over the actees that an actor may select."""

    def __init__(self, name: str, d_model: int, d_qk: int) -> None:
        super().__init__()
        self.name = name
        self.query_proj = nn.Linear(d_model, d_qk)
        self.key_proj = nn.Linear(d_model, d_qk)

    def _queries_keys(self, x: Tensor, rows: RowLayout, mask: ActionMask) -> tuple[Tensor, Tensor]:
        """Return the queries (A, K) and the keys (E, K)."""
        actors, actees, _ = selection_rows(self.name, rows, mask)
        queries = self.query_proj(x.index_select(0, as_tensor(actors, x)))
        return queries, self.key_proj(x.index_select(0, as_tensor(actees, x)))

    def draw(self, x: Tensor, rows: RowLayout, mask: ActionMask, rng: np.random.Generator | None) -> Drawn:
        """Sample an entity index for each actor with `rng`; None: the most probable one."""
        queries, keys = self._queries_keys(x, rows, mask)
        if queries.dtype is torch.bfloat16:  # which NumPy doesn't have
            queries, keys = queries.float(), keys.float()
        return self.choose(queries.cpu().numpy(), keys.cpu().numpy(), mask, rng)

    def choose(
        self, queries: NDArray[Any], keys: NDArray[Any], mask: ActionMask, rng: np.random.Generator | None
    ) -> Drawn:
        """Sample an entity index for each actor from queries (A, K) and keys (E, K)."""
        draws = None if rng is None else rng.random(len(queries))
        chosen, log_probs = draw_actees(queries, keys, mask, draws)
        if (chosen < 0).any():
            raise nothing_allowed(self.name, "entity", mask.actors, int((chosen < 0).argmax()))
        return Drawn(chosen, log_probs.astype(np.float32))

    def evaluate(
        self, x: Tensor, rows: RowLayout, mask: ActionMask, choices: RaggedArray
    ) -> tuple[Tensor, Tensor]:
        """Return the log-probability of each actor's choice and the entropy of its distribution (A,)."""
        actor, actee, chosen = chosen_pairs(self.name, mask, choices)
        log_probs, entropies = self._pairs(x, rows, mask, actor, actee)
        return log_probs[as_tensor(chosen, x)], entropies

    def log_probs(self, x: Tensor, rows: RowLayout, mask: ActionMask) -> Tensor:
        """Return the log-probability of each pair of the mask (P,); -inf of one that it forbids."""
        log_probs, _ = self._pairs(x, rows, mask, *allowed_pairs(mask))
        allowed = as_tensor(np.flatnonzero(mask.mask.values), x)
        return log_probs.new_full((mask.mask.num_items,), -torch.inf).index_put((allowed,), log_probs)

    def _pairs(
        self,
        x: Tensor,
        rows: RowLayout,
        mask: ActionMask,
        actor: NDArray[np.int64],
        actee: NDArray[np.int64],
    ) -> tuple[Tensor, Tensor]:
        """Return the log-probabilities of these pairs (P,) and the entropies of the actors (A,)."""
        queries, keys = self._queries_keys(x, rows, mask)
        of_actor = as_tensor(actor, x)
        logits = (queries[of_actor] * keys[as_tensor(actee, x)]).sum(1) / math.sqrt(queries.shape[1])
        return ragged_log_softmax(logits, of_actor, len(queries))

    def as_raw(self, chosen: RaggedArray) -> RaggedArray:
        """Return actions as `evaluate` takes them: choices stay as they are."""
        return chosen

    def explain(self, x: Tensor, rows: RowLayout, mask: ActionMask) -> Tensor:
        """Return the probability of each actee (A, E) at a single step."""
        assert mask.actees is not None
        return self.log_probs(x, rows, mask).exp().view(mask.actors.num_items, mask.actees.num_items)


def ragged_log_softmax(logits: Tensor, owner: Tensor, owners: int) -> tuple[Tensor, Tensor]:
    """Return log-probabilities (P,) of items among those of the same owner, and entropies (owners,)."""
    top = logits.new_zeros(owners).scatter_reduce(0, owner, logits.detach(), "amax", include_self=False)
    shifted = logits - top[owner]
    totals = logits.new_zeros(owners).index_add(0, owner, shifted.exp())
    log_probs = shifted - totals.log()[owner]
    return log_probs, -logits.new_zeros(owners).index_add(0, owner, log_probs.exp() * log_probs)


class ValueHead(nn.Module):
    """A linear map of the mean of a step's rows, zero at first. A step without rows gets the bias."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.proj = nn.Linear(d_model, 1)
        nn.init.zeros_(self.proj.weight)
        nn.init.zeros_(self.proj.bias)

    def forward(self, x: Tensor, rows: RowLayout) -> Tensor:
        """Return the values (B,) of rows (N, D).

        The map is linear, so it is applied before the mean: to N numbers instead of N × D.
        """
        scores = F.linear(x, self.proj.weight).squeeze(1)  # torch.mv does not follow torch.autocast
        sums = scores.new_zeros(len(rows)).index_add(0, steps_of(rows, x), scores)
        return sums * inverse_lengths(rows, x) + self.proj.bias
