"""Drawing actions on the host, from scores and given uniform draws: masked softmax and inverse CDF.

Choices of an actor stand in their order; the draw u in [0, 1) takes the first one whose cumulative
probability exceeds u. Without draws (None) the most probable allowed choice is taken, the first of equals.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...envs import ActionMask
from ...ragged import RaggedArray
from ...ragged.compiled import compiled
from ..inputs.actors import not_selectable

Draws = NDArray[np.float64] | None


def draw_choices(
    scores: NDArray[Any], allowed: NDArray[np.bool_], draws: Draws
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return one of C choices for each actor (A,), -1 where none is allowed, and its log-probability (A,).

    `scores`, `allowed`: (A, C); `draws`: (A,).
    """
    chosen, log_probs = np.empty(len(scores), np.int64), np.empty(len(scores))
    draw_rows(scores, allowed, np.empty(0) if draws is None else draws, chosen, log_probs)
    return chosen, log_probs


@compiled(nogil=True)
def draw_rows(scores: Any, allowed: Any, draws: Any, chosen: Any, log_probs: Any) -> None:
    """Compute `draw_choices`; `draws` (0,) takes the most probable choices. Written: the last two (A,)."""
    reached = np.empty(scores.shape[1])
    for actor in range(len(scores)):
        best = -1
        for c in range(scores.shape[1]):
            # A NaN, of a broken network, counts as the largest: the log-probability shows it.
            if allowed[actor, c] and (best < 0 or not scores[actor, c] <= scores[actor, best]):
                best = c
        chosen[actor], log_probs[actor] = best, 0.0
        if best < 0:
            continue
        top, total = np.float64(scores[actor, best]), 0.0
        for c in range(scores.shape[1]):
            if allowed[actor, c]:
                total += math.exp(scores[actor, c] - top)
            reached[c] = total
        if len(draws):
            c = 0
            while c < len(reached) and not reached[c] > draws[actor] * total:
                c += 1
            if c < len(reached):
                chosen[actor] = c
        log_probs[actor] = scores[actor, chosen[actor]] - top - math.log(total)


def allowed_pairs(mask: ActionMask) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the pairs that the mask of a select-entity action allows, actor by actor: (P,) indices of their
    actors and of their actees, in the lists of all steps."""
    assert mask.actees is not None
    many, first = (
        np.repeat(numbers, mask.actors.lengths) for numbers in (mask.actees.lengths, mask.actees.offsets[:-1])
    )  # (A,): how many actees the step of each actor has, and where they start
    actor = np.repeat(np.arange(len(many)), many)
    actee = np.arange(len(actor)) + (first - np.cumsum(many) + many)[actor]
    allowed = mask.mask.values
    return actor[allowed], actee[allowed]


def chosen_pairs(
    name: str, mask: ActionMask, choices: RaggedArray
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return `allowed_pairs`, and which of them is the one that each actor has chosen (A,).

    Raises:
        ValueError: a choice is not allowed.
    """
    actor, actee = allowed_pairs(mask)
    assert mask.actees is not None
    hits = np.flatnonzero(mask.actees.values[actee] == choices.values[actor])
    chosen = np.full(choices.num_items, -1, np.int64)
    chosen[actor[hits]] = hits
    if (chosen < 0).any():
        raise not_selectable(name, choices, int((chosen < 0).argmax()))
    return actor, actee, chosen


def draw_actees(
    queries: NDArray[Any], keys: NDArray[Any], mask: ActionMask, draws: Draws
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return an entity index for each actor (A,), -1 where none is allowed, and its log-probability (A,), by
    softmax of query·key / √K over the allowed actees.

    `queries`: (A, K); `keys`: (E, K), of the actees of all steps; `draws`: (A,).
    """
    actor, actee = allowed_pairs(mask)
    assert mask.actees is not None
    first = np.repeat(mask.actees.offsets[:-1], mask.actors.lengths)  # (A,)
    shape = len(queries), max(1, int(mask.actees.lengths.max(initial=0)))
    scores, allowed = np.zeros(shape), np.zeros(shape, bool)
    places = actor, actee - first[actor]
    allowed[places] = True
    scores[places] = np.einsum("pk,pk->p", queries[actor], keys[actee]) / np.sqrt(queries.shape[1])
    chosen, log_probs = draw_choices(scores, allowed, draws)
    entities = np.full(len(chosen), -1, np.int64)
    some = chosen >= 0
    entities[some] = mask.actees.values[(first + chosen)[some]]
    return entities, log_probs
