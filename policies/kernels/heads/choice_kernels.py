"""Numba kernels: heads that choose by softmax over logits, categorical and composite.

An actor with row x has the logits l = W x + b of C choices, which belong to M components: choices
components[m] to components[m + 1] to component m. A plain categorical action has one component. With allowed
choices only, and for each component m by itself,

    p_c = softmax of l over m,    H_m = -Σ over c in m of p_c log p_c;    s_m = 1 if m allows anything, else 0

and a component that allows nothing has p = 0 and H = 0. The first component is the kind k; used[k, m] says
whether kind k uses component m (always m = 0). Then for chosen c_m, with u_m = Σ_k p_k used[k, m],

    log π = Σ_m n_m log p_(c_m),    H = Σ_m s_m u_m H_m,    n_m = used[k, m];

or, where all components count (`counts_all`), n_m = s_m and u_m = 1.

Backward, from a = ∂/∂ log π and h = ∂/∂ H of an actor:

    ∂/∂ l_c = a n_m (1[c = c_m] - p_c) - h s_m u_m p_c (log p_c + H_m)             c of component m
            + h p_c (v_c - Σ_k p_k v_k),    v_k = Σ over m > 0 of used[k, m] H_m   c of the kind

These add up to 0 in each component, so the chosen one's is computed as what the others lack: 1 - p of a
choice that is all but certain would be nothing but rounding.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...inputs.actors import FORBIDDEN
from ..tiles.actor_tiles import TILE, give_rows, lowered, take_rows, up_to_4
from ..tiles.products import SET, SET_BIAS, outer_sums, product, row_sums
from ..tiles.simd import LANES, exp, kernel, load, log, maximum, splat, store, where_positive

_ZERO = np.float32(0.0)
_ONE = np.float32(1.0)
_FORBIDDEN = np.float32(FORBIDDEN)


def choice_scratch(d: int, choices: int, components: int) -> int:
    """Numbers of scratch memory for the kernels below."""
    return (2 * d + 3 * up_to_4(choices) + choices + 6 * components + 4) * TILE


@kernel
def _places(d: int, choices: int, components: int) -> tuple[int, ...]:
    """Where in the scratch memory lie: actors' rows, their tile, logits, gradients, probabilities, flags of
    what is allowed; per component the largest logit, log of the sum, entropy, whether it allows anything, its
    weight in the entropy and in log π; a line for each of a, h and two more."""
    padded = (choices + 3) // 4 * 4
    tile = d * TILE
    logits = tile + d * TILE
    gradients = logits + padded * TILE
    probabilities = gradients + padded * TILE
    allowed = probabilities + padded * TILE
    top = allowed + choices * TILE
    size = components * TILE
    lines = top + 6 * size
    return (
        0, tile, logits, gradients, probabilities, allowed, top, top + size, top + 2 * size, top + 3 * size,
        top + 4 * size, top + 5 * size, lines,
    )  # fmt: skip


@kernel
def _distributions(
    x: Any, rows: Any, start: int, count: int, columns: int, d: int, w: Any, w0: int, components: Any,
    mask: Any, s: Any,
) -> None:  # fmt: skip
    """Logits, probabilities and entropies of a tile of actors, at their places in `s`."""
    parts = len(components) - 1
    choices = components[parts]
    line, tile, logits, _, probabilities, allowed, tops, logs, entropies, some, _, _, _ = _places(
        d, choices, parts
    )
    take_rows(x, rows, start, count, d, s, line, tile, TILE)
    product(choices, d, w, w0, d, 1, s, tile, TILE, s, logits, TILE, columns, SET_BIAS, w, w0 + choices * d)
    for i in range(count):
        place = (start + i) * choices
        for c in range(choices):
            s[allowed + c * TILE + i] = _ONE if mask[place + c] else _ZERO
    for i in range(count, columns):
        for c in range(choices):
            s[allowed + c * TILE + i] = _ONE
    for t in range(0, columns, LANES):
        for m in range(parts):
            top = splat(_FORBIDDEN)
            for c in range(components[m], components[m + 1]):
                flag = load(s, allowed + c * TILE + t)
                logit = lowered(flag, load(s, logits + c * TILE + t))
                store(s, logits + c * TILE + t, logit)
                top = maximum(top, logit)
            total, weighted = splat(_ZERO), splat(_ZERO)
            for c in range(components[m], components[m + 1]):
                shifted = load(s, logits + c * TILE + t) - top
                power = exp(shifted) * load(s, allowed + c * TILE + t)
                store(s, probabilities + c * TILE + t, power)
                total = total + power
                weighted = weighted + power * shifted
            something = where_positive(total, splat(_ONE))
            total = total + splat(_ONE) - something
            inverse = splat(_ONE) / total
            for c in range(components[m], components[m + 1]):
                place = probabilities + c * TILE + t
                store(s, place, load(s, place) * inverse)
            log_total, place = log(total), m * TILE + t
            store(s, tops + place, top)
            store(s, logs + place, log_total)
            store(s, entropies + place, (log_total - weighted * inverse) * something)
            store(s, some + place, something)


@kernel
def _count(
    start: int, count: int, d: int, components: Any, used: Any, counts_all: bool, chosen: Any, s: Any
) -> int:
    """How much each component counts for each actor, in entropy and log π.

    Returns the first actor whose order can't have been drawn, or -1.
    """
    parts = len(components) - 1
    _, _, _, _, probabilities, allowed, _, _, _, some, in_entropy, in_log_prob, _ = _places(
        d, components[parts], parts
    )
    kinds = components[1]
    for i in range(count):
        kind = chosen[(start + i) * parts]
        if kind < 0 or kind >= kinds:
            return start + i
        for m in range(parts):
            place = m * TILE + i
            choice = chosen[(start + i) * parts + m]
            if choice < 0 or choice >= components[m + 1] - components[m]:
                return start + i
            needed = m == 0 or used[kind * parts + m]
            counts = needed
            weight = s[some + place]
            if counts_all:
                counts = s[some + place] > _ZERO
            elif m > 0:
                share = _ZERO
                for k in range(kinds):
                    if used[k * parts + m]:
                        share += s[probabilities + k * TILE + i]
                weight *= share
            if (needed or counts) and s[allowed + (components[m] + choice) * TILE + i] == _ZERO:
                return start + i
            s[in_log_prob + place] = _ONE if counts else _ZERO
            s[in_entropy + place] = weight
    return -1


@kernel
def evaluate_choices(
    x: Any, rows: Any, first: int, last: int, d: int, w: Any, w0: int, components: Any, used: Any,
    counts_all: bool, mask: Any, chosen: Any, log_probs: Any, entropies: Any, s: Any,
) -> int:  # fmt: skip
    """log π and H (A,) of actors first to last, who chose `chosen` (A * M,).

    x (N * d,) holds the rows, rows (A,) says which are the actors'; W (C, d) and b lie from `w0` in `w`; mask
    (A * C,); used (K * M,); `s`: `choice_scratch`. Returns the first actor whose choice can't have been
    drawn, or -1.
    """
    parts = len(components) - 1
    _, _, logits, _, _, _, tops, logs, entropy, _, in_entropy, in_log_prob, _ = _places(
        d, components[parts], parts
    )
    for start in range(first, last, TILE):
        count = min(TILE, last - start)
        columns = (count + LANES - 1) // LANES * LANES
        _distributions(x, rows, start, count, columns, d, w, w0, components, mask, s)
        wrong = _count(start, count, d, components, used, counts_all, chosen, s)
        if wrong >= 0:
            return wrong
        for i in range(count):
            log_prob, h = _ZERO, _ZERO
            for m in range(parts):
                place = m * TILE + i
                if s[in_log_prob + place] > _ZERO:
                    choice = components[m] + chosen[(start + i) * parts + m]
                    log_prob += s[logits + choice * TILE + i] - s[tops + place] - s[logs + place]
                h += s[in_entropy + place] * s[entropy + place]
            log_probs[start + i], entropies[start + i] = log_prob, h
    return -1


@kernel
def _logit_gradients(
    columns: int, d: int, components: Any, used: Any, counts_all: bool, a: int, h: int, s: Any
) -> None:
    """∂/∂ logits of a tile but for the chosen ones', from the lines `a` and `h` of `s`."""
    parts = len(components) - 1
    choices, kinds = components[parts], components[1]
    _, _, logits, gradients, probabilities, _, tops, logs, entropies, _, in_entropy, in_log_prob, lines = (
        _places(d, choices, parts)
    )
    means = lines + 2 * TILE
    couples = parts > 1 and not counts_all
    for t in range(0, columns, LANES):
        given, bonus = load(s, a + t), load(s, h + t)
        for m in range(parts):
            place = m * TILE + t
            factor = given * load(s, in_log_prob + place)
            weight = bonus * load(s, in_entropy + place)
            entropy, shift = load(s, entropies + place), load(s, tops + place) + load(s, logs + place)
            for c in range(components[m], components[m + 1]):
                at = c * TILE + t
                log_p = load(s, logits + at) - shift
                p = load(s, probabilities + at)
                store(s, gradients + at, (splat(_ZERO) - p) * (factor + weight * (log_p + entropy)))
        if couples:
            mean = splat(_ZERO)
            for k in range(kinds):
                value = splat(_ZERO)
                for m in range(1, parts):
                    if used[k * parts + m]:
                        value = value + load(s, entropies + m * TILE + t)
                mean = mean + value * load(s, probabilities + k * TILE + t)
            store(s, means + t, mean)
            for k in range(kinds):
                value = splat(_ZERO)
                for m in range(1, parts):
                    if used[k * parts + m]:
                        value = value + load(s, entropies + m * TILE + t)
                at = k * TILE + t
                change = bonus * load(s, probabilities + at) * (value - mean)
                store(s, gradients + at, load(s, gradients + at) + change)
        for c in range(choices, (choices + 3) // 4 * 4):
            store(s, gradients + c * TILE + t, splat(_ZERO))


@kernel
def choices_backward(
    x: Any, rows: Any, first: int, last: int, d: int, w: Any, w0: int, components: Any, used: Any,
    counts_all: bool, mask: Any, chosen: Any, d_log_probs: Any, d_entropies: Any, d_x: Any, g: Any, s: Any,
) -> None:  # fmt: skip
    """Add the gradients of the rows to `d_x` (N * d,), and of W and b to `g` where `w` has them.

    Arguments as in `evaluate_choices`; d a multiple of 4. `g` has 4 d numbers or more behind the head's.
    """
    parts = len(components) - 1
    choices = components[parts]
    line, tile, _, gradients, _, _, _, _, _, _, _, in_log_prob, a = _places(d, choices, parts)
    h = a + TILE
    for start in range(first, last, TILE):
        count = min(TILE, last - start)
        columns = (count + LANES - 1) // LANES * LANES
        _distributions(x, rows, start, count, columns, d, w, w0, components, mask, s)
        _count(start, count, d, components, used, counts_all, chosen, s)
        for i in range(count):
            s[a + i], s[h + i] = d_log_probs[start + i], d_entropies[start + i]
        for i in range(count, columns):
            s[a + i], s[h + i] = _ZERO, _ZERO
            for m in range(2 * parts):  # both weights, of actors that there are not
                s[in_log_prob + (m - parts) * TILE + i] = _ZERO
        _logit_gradients(columns, d, components, used, counts_all, a, h, s)
        for i in range(count):
            for m in range(parts):  # see above: a component's gradients add up to 0
                choice, others = components[m] + chosen[(start + i) * parts + m], _ZERO
                for c in range(components[m], components[m + 1]):
                    if c != choice:
                        others += s[gradients + c * TILE + i]
                s[gradients + choice * TILE + i] = -others
        padded = (choices + 3) // 4 * 4
        outer_sums(padded, d, s, gradients, s, tile, TILE, columns, g, w0, d)
        row_sums(choices, s, gradients, TILE, columns, g, w0 + choices * d)
        product(d, choices, w, w0, 1, d, s, gradients, TILE, s, tile, TILE, columns, SET, w, 0)
        give_rows(d_x, rows, start, count, d, s, line, tile, TILE)


@kernel
def _pick(s: Any, probabilities: int, allowed: int, logits: int, size: int, draw: float) -> int:
    """The choice among `size` that `draw` in [0, 1) stands for; the most probable one for a negative draw."""
    best = -1
    for c in range(size):
        if s[allowed + c * TILE] > _ZERO and (best < 0 or s[logits + c * TILE] > s[logits + best * TILE]):
            best = c
    if draw < 0.0 or best < 0:
        return best
    reached = 0.0
    for c in range(size):
        if s[allowed + c * TILE] > _ZERO:
            reached += s[probabilities + c * TILE]
            if reached > draw:
                return c
    return best


@kernel
def draw_choices(
    x: Any, rows: Any, first: int, last: int, d: int, w: Any, w0: int, components: Any, used: Any,
    counts_all: bool, mask: Any, draws: Any, orders: Any, log_probs: Any, s: Any,
) -> int:  # fmt: skip
    """An order for each actor: `orders` (A * M,), 0 before, and `log_probs` (A,) are written.

    draws (A * M,) in [0, 1), or (0,) to take what is most probable, the first of equals. Components that the
    kind does not use stay 0 and don't count; with `counts_all` they are drawn and count, unless they allow
    nothing. Other arguments as in `evaluate_choices`. Returns the first actor without a choice that it needs,
    or -1.
    """
    parts = len(components) - 1
    _, _, logits, _, probabilities, allowed, tops, logs, _, _, _, _, _ = _places(d, components[parts], parts)
    for start in range(first, last, TILE):
        count = min(TILE, last - start)
        columns = (count + LANES - 1) // LANES * LANES
        _distributions(x, rows, start, count, columns, d, w, w0, components, mask, s)
        for i in range(count):
            order, log_prob = (start + i) * parts, 0.0
            for m in range(parts):
                needed = m == 0 or used[orders[order] * parts + m]
                if not needed and not counts_all:
                    continue
                draw = draws[order + m] if len(draws) else -1.0
                at = components[m] * TILE + i
                choice = _pick(
                    s, probabilities + at, allowed + at, logits + at, components[m + 1] - components[m], draw
                )
                if choice >= 0:
                    orders[order + m] = choice
                    place = m * TILE + i
                    log_prob += s[logits + at + choice * TILE] - s[tops + place] - s[logs + place]
                elif needed:
                    return start + i
            log_probs[start + i] = log_prob
    return -1
