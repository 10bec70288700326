"""Numba kernels that draw actions: masked softmax and inverse CDF in one pass, from given uniform draws.

Choices of an actor stand in their order; the draw u in [0, 1) takes the first one whose cumulative
probability exceeds u. Without draws (an empty array) the most probable allowed choice is taken, the first of
equals.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ragged.compiled import compiled


@compiled
def _draw(scores: Any, allowed: Any, draw: float, greedy: bool) -> tuple[int, float]:
    """The chosen position and its log-probability; position -1 where nothing is allowed."""
    top, best = -np.inf, -1
    for c in range(len(scores)):
        if allowed[c] and (best < 0 or scores[c] > top):
            top, best = float(scores[c]), c
    if best < 0:
        return -1, 0.0
    total = 0.0
    for c in range(len(scores)):
        if allowed[c]:
            total += np.exp(scores[c] - top)
    chosen = best
    if not greedy:
        wanted, reached = draw * total, 0.0
        for c in range(len(scores)):
            if allowed[c]:
                reached += np.exp(scores[c] - top)
                if reached > wanted:
                    chosen = c
                    break
    return chosen, scores[chosen] - top - np.log(total)


@compiled
def draw_categorical(logits: Any, mask: Any, draws: Any, choices: Any, log_probs: Any) -> int:
    """One choice for each actor. logits, mask (A, C); draws (A,) or (0,); written: choices, log_probs (A,).

    Returns the first actor that may do nothing, or -1.
    """
    greedy = len(draws) == 0
    for a in range(len(choices)):
        choice, log_prob = _draw(logits[a], mask[a], 0.0 if greedy else draws[a], greedy)
        if choice < 0:
            return a
        choices[a], log_probs[a] = choice, log_prob
    return -1


@compiled
def draw_orders(
    logits: Any, mask: Any, draws: Any, components: Any, used: Any, all_count: bool, orders: Any,
    log_probs: Any,
) -> int:  # fmt: skip
    """One composite order for each actor: a choice of each component, the first of which is the kind.

    logits, mask (A, C); draws (A, M) or (0, M); components (M + 1,): where each starts among the C; used
    (K, M): which ones a kind uses. Written: orders (A, M), which is 0 before, and log_probs (A,). Components
    that the kind does not use stay 0 and don't count; with `all_count` they are drawn and count, unless they
    allow nothing.

    Returns the first actor without a choice that it needs, or -1.
    """
    greedy = len(draws) == 0
    for a in range(len(orders)):
        total = 0.0
        for m in range(orders.shape[1]):
            needed = m == 0 or used[orders[a, 0], m]
            if not needed and not all_count:
                continue
            start, stop = components[m], components[m + 1]
            draw = 0.0 if greedy else draws[a, m]
            choice, log_prob = _draw(logits[a, start:stop], mask[a, start:stop], draw, greedy)
            if choice >= 0:
                orders[a, m] = choice
                total += log_prob
            elif needed:
                return a
        log_probs[a] = total
    return -1


@compiled
def draw_entity(
    queries: Any, keys: Any, actor_offsets: Any, actee_offsets: Any, actees: Any, mask: Any, draws: Any,
    choices: Any, log_probs: Any,
) -> int:  # fmt: skip
    """One actee for each actor of each step, by softmax over the allowed actees of query·key / √width.

    queries (A, K), keys (E, K), actees (E,) entity indices, mask (sum of A_b E_b,) actor-major, draws (A,) or
    (0,); choices (an entity index) and log_probs (A,) are written. Returns the first actor without an allowed
    actee, or -1.
    """
    greedy = len(draws) == 0
    scale = 1.0 / np.sqrt(queries.shape[1])
    longest = 0
    for b in range(len(actee_offsets) - 1):
        longest = max(longest, actee_offsets[b + 1] - actee_offsets[b])
    scores = np.empty(longest)
    place = 0
    for b in range(len(actor_offsets) - 1):
        first, n = actee_offsets[b], actee_offsets[b + 1] - actee_offsets[b]
        for a in range(actor_offsets[b], actor_offsets[b + 1]):
            for e in range(n):
                s = 0.0
                for k in range(queries.shape[1]):
                    s += queries[a, k] * keys[first + e, k]
                scores[e] = s * scale
            choice, log_prob = _draw(scores[:n], mask[place : place + n], 0.0 if greedy else draws[a], greedy)
            if choice < 0:
                return a
            choices[a], log_probs[a] = actees[first + choice], log_prob
            place += n
    return -1


@compiled
def allowed_pairs(
    actor_offsets: Any, actee_offsets: Any, actees: Any, mask: Any, chosen: Any,
    pair_actor: Any, pair_actee: Any, chosen_pair: Any,
) -> int:  # fmt: skip
    """List the allowed (actor, actee) pairs, actor by actor.

    mask as in `draw_entity`; chosen (A,) entity indices. Written: pair_actor and pair_actee (one per true of
    the mask): rows in the lists of all actors and actees; chosen_pair (A,): where each choice is in that
    list. Returns the first actor whose choice is not allowed, or -1.
    """
    place, pair = 0, 0
    for b in range(len(actor_offsets) - 1):
        for a in range(actor_offsets[b], actor_offsets[b + 1]):
            found = False
            for e in range(actee_offsets[b], actee_offsets[b + 1]):
                if mask[place]:
                    pair_actor[pair], pair_actee[pair] = a, e
                    if actees[e] == chosen[a]:
                        chosen_pair[a], found = pair, True
                    pair += 1
                place += 1
            if not found:
                return a
    return -1
