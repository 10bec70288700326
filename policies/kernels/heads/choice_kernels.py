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

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...inputs.actors import FORBIDDEN
from ..tiles.actor_tiles import TILE, draw_one, gather_rows, masked_logit, scatter_add_rows
from ..tiles.functions import exp, log
from ..tiles.linear_maps import Linear, linear, linear_backward, linear_gradients
from ..tiles.matrices import Floats, Line, Tile, up_to_4, up_to_16
from ..tiles.matrix_products import SET_BIAS
from ..tiles.simd import LANES, inlined, kernel, load, maximum, smaller, splat, store, where_positive

_ZERO = np.float32(0.0)
_ONE = np.float32(1.0)
_FORBIDDEN = np.float32(FORBIDDEN)


class ChoiceHead(NamedTuple):
    """A head that chooses by softmax: C choices in M components, of which the first is K kinds."""

    w: Floats  # all parameters
    start: int  # where W (C, d) and b (C,) start in `w`
    d: int
    components: NDArray[np.int64]  # (M + 1,): where each component's choices start
    used: NDArray[np.bool_]  # (K * M,): the components that each kind uses
    counts_all: bool  # all components count, whatever the kind


class ChoiceBatch(NamedTuple):
    """The actors of one action, and what they chose (`draw_choices` writes it)."""

    rows: NDArray[np.int64]  # (A,): the row of each actor
    mask: NDArray[np.bool_]  # (A * C,)
    chosen: NDArray[np.int64]  # (A * M,)


class ChoicePlaces(NamedTuple):
    """The start of each part of the scratch memory; tiles have lines of `TILE` actors."""

    gathered: int  # actors' rows, one after the other
    tile: int  # (d, TILE): the same rows, feature-major
    logits: int  # (C, TILE), as are the next three
    gradients: int
    probabilities: int
    allowed: int  # 1 or 0
    tops: int  # (M, TILE): the largest logit of each component; the following five have the same shape
    log_sums: int  # log Σ exp(logit - top)
    entropies: int
    some: int  # 1 where the component allows anything
    in_entropy: int  # s_m u_m
    in_log_prob: int  # n_m
    d_log_probs: int  # (TILE,), as are the next two
    d_entropies: int
    mean_values: int  # Σ_k p_k v_k


def choice_scratch(d: int, choices: int, components: int) -> int:
    """Return the numbers of scratch memory `s` that the kernels below need."""
    return (2 * d + 3 * up_to_4(choices) + choices + 6 * components + 4) * TILE


@inlined
def choice_places(head: Any) -> ChoicePlaces:
    components = len(head.components) - 1
    choices = head.components[components]
    padded, size = up_to_4(choices) * TILE, components * TILE
    tile = head.d * TILE
    logits = tile + head.d * TILE
    gradients = logits + padded
    probabilities = gradients + padded
    allowed = probabilities + padded
    tops = allowed + choices * TILE
    lines = tops + 6 * size
    return ChoicePlaces(
        0, tile, logits, gradients, probabilities, allowed, tops, tops + size, tops + 2 * size,
        tops + 3 * size, tops + 4 * size, tops + 5 * size, lines, lines + TILE, lines + 2 * TILE,
    )  # fmt: skip


@inlined
def _choice_map(head: Any) -> Linear:
    choices = head.components[len(head.components) - 1]
    return Linear(head.w, head.start, head.start + choices * head.d, choices, head.d)


@kernel
def _choice_distributions(head: Any, batch: Any, x: Any, start: int, count: int, s: Any) -> None:
    """Write logits, probabilities and entropies of `count` actors from `start` to their places in `s`."""
    at, components, columns = choice_places(head), head.components, up_to_16(count)
    choices, mask = components[len(components) - 1], batch.mask
    tile = Tile(s, at.tile, TILE)
    gather_rows(x, batch.rows, start, count, head.d, Line(s, at.gathered), tile)
    linear(_choice_map(head), tile, Tile(s, at.logits, TILE), columns, SET_BIAS)
    for i in range(count):
        place = (start + i) * choices
        for c in range(choices):
            s[at.allowed + c * TILE + i] = _ONE if mask[place + c] else _ZERO
    for i in range(count, columns):
        for c in range(choices):
            s[at.allowed + c * TILE + i] = _ONE
    for t in range(0, columns, LANES):
        for m in range(len(components) - 1):
            _component_softmax(at, components[m], components[m + 1], m, t, s)


@inlined
def _component_softmax(at: Any, first: int, end: int, m: int, t: int, s: Any) -> None:
    """Softmax over the choices `first` to `end` of component m, for the 16 actors from column t."""
    top = splat(_FORBIDDEN)
    for c in range(first, end):
        flag = load(s, at.allowed + c * TILE + t)
        logit = masked_logit(flag, load(s, at.logits + c * TILE + t))
        store(s, at.logits + c * TILE + t, logit)
        top = maximum(top, logit)
    total, weighted = splat(_ZERO), splat(_ZERO)
    for c in range(first, end):
        shifted = load(s, at.logits + c * TILE + t) - top
        power = exp(shifted) * load(s, at.allowed + c * TILE + t)
        store(s, at.probabilities + c * TILE + t, power)
        total = total + power
        weighted = weighted + power * shifted
    something = where_positive(total, splat(_ONE))
    total = total + splat(_ONE) - something
    inverse = splat(_ONE) / total
    for c in range(first, end):
        place = at.probabilities + c * TILE + t
        store(s, place, load(s, place) * inverse)
    log_total, place = log(total), m * TILE + t
    store(s, at.tops + place, top)
    store(s, at.log_sums + place, log_total)
    store(s, at.entropies + place, (log_total - weighted * inverse) * something)
    store(s, at.some + place, something)


@kernel
def _component_weights(head: Any, batch: Any, start: int, count: int, s: Any) -> int:
    """Write how much each component counts for each actor, in entropy (s_m u_m) and log π (n_m).

    Returns the first actor whose choices can't have been drawn, or -1.
    """
    at, components = choice_places(head), head.components
    parts, kinds = len(components) - 1, components[1]
    for i in range(count):
        kind = batch.chosen[(start + i) * parts]
        if kind < 0 or kind >= kinds:
            return start + i
        for m in range(parts):
            place = m * TILE + i
            choice = batch.chosen[(start + i) * parts + m]
            if choice < 0 or choice >= components[m + 1] - components[m]:
                return start + i
            needed = m == 0 or head.used[kind * parts + m]
            counts = needed
            weight = s[at.some + place]
            if head.counts_all:
                counts = s[at.some + place] > _ZERO
            elif m > 0:
                share = _ZERO
                for k in range(kinds):
                    if head.used[k * parts + m]:
                        share += s[at.probabilities + k * TILE + i]
                weight *= share
            if (needed or counts) and s[at.allowed + (components[m] + choice) * TILE + i] == _ZERO:
                return start + i
            s[at.in_log_prob + place] = _ONE if counts else _ZERO
            s[at.in_entropy + place] = weight
    return -1


@kernel
def evaluate_choices(
    head: Any, batch: Any, x: Any, first: int, last: int, log_probs: Any, entropies: Any, s: Any
) -> int:
    """Write log π and H (A,) of actors first to last, whose rows are in x (N * d,).

    `s`: `choice_scratch`. Returns the first actor whose choices can't have been drawn, or -1.
    """
    at, components = choice_places(head), head.components
    parts = len(components) - 1
    for start in range(first, last, TILE):
        count = smaller(TILE, last - start)
        _choice_distributions(head, batch, x, start, count, s)
        wrong = _component_weights(head, batch, start, count, s)
        if wrong >= 0:
            return wrong
        for i in range(count):
            log_prob, entropy = _ZERO, _ZERO
            for m in range(parts):
                place = m * TILE + i
                if s[at.in_log_prob + place] > _ZERO:
                    choice = components[m] + batch.chosen[(start + i) * parts + m]
                    logit = s[at.logits + choice * TILE + i]
                    log_prob += logit - s[at.tops + place] - s[at.log_sums + place]
                entropy += s[at.in_entropy + place] * s[at.entropies + place]
            log_probs[start + i], entropies[start + i] = log_prob, entropy
    return -1


@kernel
def _logit_gradients(head: Any, columns: int, s: Any) -> None:
    """Write ∂/∂ logits of a tile, but for the chosen ones', from the lines of a and h in `s`."""
    at, components = choice_places(head), head.components
    parts = len(components) - 1
    choices = components[parts]
    for t in range(0, columns, LANES):
        given, bonus = load(s, at.d_log_probs + t), load(s, at.d_entropies + t)
        for m in range(parts):
            place = m * TILE + t
            factor = given * load(s, at.in_log_prob + place)
            weight = bonus * load(s, at.in_entropy + place)
            entropy = load(s, at.entropies + place)
            shift = load(s, at.tops + place) + load(s, at.log_sums + place)
            for c in range(components[m], components[m + 1]):
                log_p = load(s, at.logits + c * TILE + t) - shift
                p = load(s, at.probabilities + c * TILE + t)
                change = (splat(_ZERO) - p) * (factor + weight * (log_p + entropy))
                store(s, at.gradients + c * TILE + t, change)
        if parts > 1 and not head.counts_all:
            _add_kind_gradients(head, t, s)
        for c in range(choices, up_to_4(choices)):
            store(s, at.gradients + c * TILE + t, splat(_ZERO))


@inlined
def _add_kind_gradients(head: Any, t: int, s: Any) -> None:
    """Add h p_k (v_k - Σ_j p_j v_j) to the gradients of the kinds' logits, for 16 actors from column t."""
    at, kinds, parts = choice_places(head), head.components[1], len(head.components) - 1
    mean = splat(_ZERO)
    for k in range(kinds):
        mean = mean + _kind_value(at, head.used, k, parts, t, s) * load(s, at.probabilities + k * TILE + t)
    store(s, at.mean_values + t, mean)
    bonus = load(s, at.d_entropies + t)
    for k in range(kinds):
        value = _kind_value(at, head.used, k, parts, t, s)
        change = bonus * load(s, at.probabilities + k * TILE + t) * (value - mean)
        place = at.gradients + k * TILE + t
        store(s, place, load(s, place) + change)


@inlined
def _kind_value(at: Any, used: Any, k: int, parts: int, t: int, s: Any) -> Any:
    """Return v_k = Σ over m > 0 of used[k, m] H_m, for 16 actors from column t."""
    value = splat(_ZERO)
    for m in range(1, parts):
        if used[k * parts + m]:
            value = value + load(s, at.entropies + m * TILE + t)
    return value


@kernel
def choices_backward(
    head: Any, batch: Any, x: Any, first: int, last: int, d_log_probs: Any, d_entropies: Any, d_x: Any,
    g: Any, s: Any,
) -> None:  # fmt: skip
    """Add the gradients of the rows to `d_x` (N * d,), and of W and b to `g` where `w` has them.

    Arguments as in `evaluate_choices`; d a multiple of 4. `g` has 4 d numbers or more behind the head's.
    """
    at, components, layer = choice_places(head), head.components, _choice_map(head)
    parts = len(components) - 1
    for start in range(first, last, TILE):
        count = smaller(TILE, last - start)
        columns = up_to_16(count)
        _choice_distributions(head, batch, x, start, count, s)
        _component_weights(head, batch, start, count, s)
        for i in range(count):
            s[at.d_log_probs + i], s[at.d_entropies + i] = d_log_probs[start + i], d_entropies[start + i]
        for i in range(count, columns):
            s[at.d_log_probs + i], s[at.d_entropies + i] = _ZERO, _ZERO
            for m in range(parts):  # columns without an actor
                s[at.in_entropy + m * TILE + i], s[at.in_log_prob + m * TILE + i] = _ZERO, _ZERO
        _logit_gradients(head, columns, s)
        for i in range(count):
            for m in range(parts):  # see above: a component's gradients add up to 0
                choice, others = components[m] + batch.chosen[(start + i) * parts + m], _ZERO
                for c in range(components[m], components[m + 1]):
                    if c != choice:
                        others += s[at.gradients + c * TILE + i]
                s[at.gradients + choice * TILE + i] = -others
        gradients, tile = Tile(s, at.gradients, TILE), Tile(s, at.tile, TILE)
        linear_gradients(layer, gradients, tile, columns, g)
        linear_backward(layer, gradients, tile, columns)
        scatter_add_rows(tile, d_x, batch.rows, start, count, head.d, Line(s, at.gathered))


@kernel
def draw_choices(
    of_head: Any, of_batch: Any, x: Any, first: int, last: int, draws: Any, log_probs: Any, s: Any
) -> int:
    """Draw choices for actors first to last: `chosen` of the batch, 0 before, and `log_probs` (A,) get them.

    `of_head`, `of_batch`: the fields of `ChoiceHead` and `ChoiceBatch`.

    `draws` (A * M,) in [0, 1), or (0,) to take the most probable choices, the first of equals. Components
    that the kind does not use stay 0 and don't count; with `counts_all` they are drawn and count, unless they
    allow nothing. Returns the first actor without a choice that it needs, or -1.
    """
    head, batch = ChoiceHead(*of_head), ChoiceBatch(*of_batch)
    at, components, used, chosen = choice_places(head), head.components, head.used, batch.chosen
    parts = len(components) - 1
    for start in range(first, last, TILE):
        count = smaller(TILE, last - start)
        _choice_distributions(head, batch, x, start, count, s)
        for i in range(count):
            own, log_prob = (start + i) * parts, 0.0
            for m in range(parts):
                needed = m == 0 or used[chosen[own] * parts + m]
                if not needed and not head.counts_all:
                    continue
                draw = draws[own + m] if len(draws) else -1.0
                place, size = components[m] * TILE + i, components[m + 1] - components[m]
                choice = draw_one(
                    s, at.allowed + place, TILE, s, at.logits + place, at.probabilities + place, TILE, size,
                    draw,
                )  # fmt: skip
                if choice >= 0:
                    chosen[own + m] = choice
                    logit = s[at.logits + (components[m] + choice) * TILE + i]
                    log_prob += logit - s[at.tops + m * TILE + i] - s[at.log_sums + m * TILE + i]
                elif needed:
                    return start + i
            log_probs[start + i] = log_prob
    return -1
