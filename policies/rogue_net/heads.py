"""Action heads and the value head.

Shape alphabet: A actors and E actees of one action at all steps, C choices, D width, K query width, P pairs.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ...envs import ActionMask
from ...ragged import RaggedArray
from ..inputs.actors import (
    FORBIDDEN,
    Drawn,
    actor_rows,
    check_choices,
    no_choice,
    no_entity,
    not_selectable,
    selection_rows,
    uniform,
)
from ..inputs.rows import RowLayout, plain
from .sampling import allowed_pairs, draw_categorical, draw_entity
from .tensors import as_tensor, inverse_lengths, steps_of


class CategoricalHead(nn.Module):
    """Logits of C choices, from the row of the actor (or of the step, for a global action)."""

    def __init__(self, name: str, num_choices: int, d_model: int, of_step: bool) -> None:
        super().__init__()
        self.name = name
        self.num_choices = num_choices
        self.of_step = of_step
        self.proj = nn.Linear(d_model, num_choices)
        nn.init.orthogonal_(self.proj.weight, 0.01)
        nn.init.zeros_(self.proj.bias)

    def _logits(self, x: Tensor, rows: RowLayout, mask: ActionMask) -> Tensor:
        index = actor_rows(self.name, self.of_step, rows, mask, self.num_choices)
        return self.proj(x.index_select(0, as_tensor(index, x)))

    def draw(self, x: Tensor, rows: RowLayout, mask: ActionMask, rng: np.random.Generator | None) -> Drawn:
        """Sample a choice for each actor with `rng`; None: the most probable choice."""
        draws = uniform(mask, rng)
        return self.choose(self._logits(x, rows, mask).cpu().numpy(), mask, draws)

    def choose(self, logits: NDArray[Any], mask: ActionMask, draws: NDArray[np.float64]) -> Drawn:
        """Return a choice for each actor from logits (A, C).

        `draws` (A,) are uniform numbers; if they are empty, the most probable choices are taken.
        """
        choices = np.empty(len(logits), np.int64)
        log_probs = np.empty(len(logits), np.float32)
        stuck = draw_categorical(logits, plain(mask.mask.values), draws, choices, log_probs)
        if stuck >= 0:
            raise no_choice(self.name, mask.actors, stuck)
        return Drawn(choices, log_probs)

    def evaluate(
        self, x: Tensor, rows: RowLayout, mask: ActionMask, choices: RaggedArray
    ) -> tuple[Tensor, Tensor]:
        """Return the log-probability of each actor's choice and the entropy of its distribution (A,)."""
        allowed, chosen = mask.mask.values, choices.values
        logits = self._logits(x, rows, mask)
        check_choices(self.name, choices, allowed)
        forbidden = None if allowed.all() else as_tensor(~allowed, x)
        return categorical(logits, forbidden, as_tensor(chosen, x))


def categorical(logits: Tensor, forbidden: Tensor | None, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Return log-probabilities (A,) of the choices `chosen` (A,) and entropies (A,), from logits (A, C)."""
    if forbidden is not None:
        logits = logits.masked_fill(forbidden, FORBIDDEN)
    log_probs = torch.log_softmax(logits, 1)
    entropies = -(log_probs.exp() * log_probs).sum(1)
    return log_probs.gather(1, chosen[:, None]).squeeze(1), entropies


class SelectEntityHead(nn.Module):
    """Select-entity head: softmax(query·key / √K) over the actees that an actor may select."""

    def __init__(self, name: str, d_model: int, d_qk: int) -> None:
        super().__init__()
        self.name = name
        self.query_proj = nn.Linear(d_model, d_qk)
        self.key_proj = nn.Linear(d_model, d_qk)

    def _queries_keys(
        self, x: Tensor, rows: RowLayout, mask: ActionMask
    ) -> tuple[Tensor, Tensor, RaggedArray]:
        """Return the queries (A, K), the keys (E, K) and the actees."""
        actors, actees, of_step = selection_rows(self.name, rows, mask)
        queries = self.query_proj(x.index_select(0, as_tensor(actors, x)))
        return queries, self.key_proj(x.index_select(0, as_tensor(actees, x))), of_step

    def draw(self, x: Tensor, rows: RowLayout, mask: ActionMask, rng: np.random.Generator | None) -> Drawn:
        """Sample an entity index for each actor with `rng`; None: the most probable one."""
        draws = uniform(mask, rng)
        queries, keys, _ = self._queries_keys(x, rows, mask)
        return self.choose(queries.cpu().numpy(), keys.cpu().numpy(), mask, draws)

    def choose(
        self, queries: NDArray[Any], keys: NDArray[Any], mask: ActionMask, draws: NDArray[np.float64]
    ) -> Drawn:
        """Return an actee for each actor from queries (A, K) and keys (E, K).

        `draws` (A,) are uniform numbers; if they are empty, the most probable actees are taken.
        """
        actees = mask.actees
        assert actees is not None
        choices = np.empty(len(queries), np.int64)
        log_probs = np.empty(len(queries), np.float32)
        stuck = draw_entity(
            queries, keys, plain(mask.actors.offsets), plain(actees.offsets),
            plain(actees.values), plain(mask.mask.values), draws, choices, log_probs,
        )  # fmt: skip
        if stuck >= 0:
            raise no_entity(self.name, mask.actors, stuck)
        return Drawn(choices, log_probs)

    def evaluate(
        self, x: Tensor, rows: RowLayout, mask: ActionMask, choices: RaggedArray
    ) -> tuple[Tensor, Tensor]:
        """Return the log-probability of each actor's choice and the entropy of its distribution (A,)."""
        queries, keys, actees = self._queries_keys(x, rows, mask)
        num_pairs = int(mask.mask.values.sum())
        actor, actee = np.empty(num_pairs, np.int64), np.empty(num_pairs, np.int64)
        chosen = np.empty(len(queries), np.int64)
        wrong = allowed_pairs(
            plain(mask.actors.offsets), plain(actees.offsets), plain(actees.values), plain(mask.mask.values),
            plain(choices.values), actor, actee, chosen,
        )  # fmt: skip
        if wrong >= 0:
            raise not_selectable(self.name, choices, wrong)
        of_actor = as_tensor(actor, x)
        logits = (queries[of_actor] * keys[as_tensor(actee, x)]).sum(1) / math.sqrt(queries.shape[1])
        log_probs, entropies = ragged_log_softmax(logits, of_actor, len(queries))
        return log_probs[as_tensor(chosen, x)], entropies


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
        scores = torch.mv(x, self.proj.weight[0])
        sums = scores.new_zeros(len(rows)).index_add(0, steps_of(rows, x), scores)
        return sums * inverse_lengths(rows, x) + self.proj.bias
