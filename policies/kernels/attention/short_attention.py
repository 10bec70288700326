"""Numba kernels: attention over several short sequences at once, for processors with AVX-512.

A vector has 16 lanes and a sequence of four rows fills four of them. So neighbouring sequences that have no
more than 16 rows together share a vector, a row in each lane, and every lane walks over its own sequence, a
row per round; lanes that have met all their rows sit out. What lanes need of whom they meet is fetched by one
permutation per feature. A lane reads rows of its own sequence and nothing else, so a NaN stays in its step.

With the mathematics and names of `tile_attention`, forward has a query per lane and meets keys, in the same
order for all, so that equal entities have equal results and the first of equals stays the first. In backward
row i of a sequence of n rows meets row (i + r) mod n in round r, so that all meet different ones: a query per
lane meets keys for p, ds and dq, and in the same round the row that was met has met, as a key, the query r
places before it, and fetches p, ds, q and do from there for dv and dk.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..tiles.exponential import exp2
from ..tiles.functions import log
from ..tiles.processor import WIDE_REGISTERS
from ..tiles.simd import LANES, kernel, larger, load, maximum, permuted, splat, store, where_positive

_ZERO = np.float32(0.0)
_ONE = np.float32(1.0)
_HALF = np.float32(0.5)
_LOWEST = np.float32(-3e38)
_LOG2_E = np.float32(1.4426950408889634)

#: Lines of 16 of a round in `rounds`: whom a lane meets, who meets it, and above 0 where it
#: meets anyone.
_PARTNER, _BACK, _MEETS, _LINES = 0, LANES, 2 * LANES, 3 * LANES

#: Numbers of `rounds`.
ROUNDS = LANES * _LINES


@kernel
def short_end(offsets: Any, first: int, last: int) -> int:
    """Return the end of the run of sequences from `first` that share a vector; `first` + 1: there is none."""
    end = first + 1
    if WIDE_REGISTERS:
        while end < last and offsets[end + 1] - offsets[first] <= LANES:
            end += 1
    return end


@kernel
def plan_rounds(offsets: Any, first: int, end: int, turns: bool, rounds: Any) -> int:
    """Write which row each lane meets in each round, for sequences first to end; return the rounds.

    Each lane starts with the first row of its sequence, or where it `turns`, with itself. A lane beyond the
    rows is a sequence of its own.
    """
    longest, rows = 1, offsets[end] - offsets[first]
    for b in range(first, end):
        start, n = offsets[b] - offsets[first], offsets[b + 1] - offsets[b]
        longest = larger(longest, n)
        for i in range(start, start + n):
            rounds[i], rounds[LANES + i], rounds[2 * LANES + i] = i, start, n
    for i in range(rows, LANES):
        rounds[i], rounds[LANES + i], rounds[2 * LANES + i] = i, i, 1
    lane, start, n = load(rounds, 0), load(rounds, LANES), load(rounds, 2 * LANES)
    stop = start + n
    if not turns:
        lane = start
    for r in range(longest):
        left = n - splat(np.float32(r))
        turn = where_positive(left, splat(np.float32(r)))
        ahead, behind = lane + turn, lane - turn
        at = r * _LINES
        store(rounds, at + _PARTNER, ahead - where_positive(ahead - stop + splat(_HALF), n))
        store(rounds, at + _BACK, behind + where_positive(start - behind, n))
        store(rounds, at + _MEETS, left)
    return longest


@kernel
def attend_short(x: Any, head: Any, rounds: Any, longest: int, p: Any) -> None:
    """Attend with one head of 16 lanes: write o, and the logs unless their place is negative.

    `head`: `HeadPlaces`; `rounds`: `longest` rounds of `plan_rounds`; `p`: scratch of 16 * 16.
    """
    features = head.d_head * head.stride
    factor = splat(np.float32(_LOG2_E / np.sqrt(head.d_head)))
    top = splat(_LOWEST)
    for r in range(longest):
        partner = load(rounds, r * _LINES + _PARTNER)
        score = splat(_ZERO)
        for m in range(0, features, head.stride):
            score = score + load(x, head.q + m) * permuted(load(x, head.k + m), partner)
        store(p, r * LANES, score)
        # Who sits out meets the key of round 0 again, which changes no maximum.
        top = maximum(score, top)
    shift, sums = top * factor, splat(_ZERO)
    for r in range(longest):
        meets = load(rounds, r * _LINES + _MEETS)
        e = where_positive(meets, exp2(load(p, r * LANES) * factor - shift))
        store(p, r * LANES, e)
        sums = sums + e
    inverse = splat(_ONE) / sums
    for m in range(0, features, head.stride):
        value, weighted = load(x, head.v + m), splat(_ZERO)
        for r in range(longest):
            partner = load(rounds, r * _LINES + _PARTNER)
            weighted = weighted + load(p, r * LANES) * permuted(value, partner)
        store(x, head.o + m, weighted * inverse)
    if head.logs >= 0:
        store(x, head.logs, shift + log(sums) * splat(_LOG2_E))


@kernel
def attend_short_backward(
    x: Any, head: Any, gradients: Any, rounds: Any, longest: int, p: Any, ds: Any
) -> None:
    """Write the gradients dq, dk and dv of one head of 16 lanes. `p`, `ds`: scratch of 16 * 16 each."""
    features = head.d_head * head.stride
    scale = np.float32(1.0 / np.sqrt(head.d_head))
    logs, mean = load(x, head.logs), splat(_ZERO)
    for m in range(0, features, head.stride):
        mean = mean + load(x, head.o + m) * load(x, gradients.do + m)
    for r in range(longest):
        partner, back = load(rounds, r * _LINES + _PARTNER), load(rounds, r * _LINES + _BACK)
        meets = load(rounds, r * _LINES + _MEETS)
        score, slope = splat(_ZERO), splat(_ZERO)
        for m in range(0, features, head.stride):
            score = score + load(x, head.q + m) * permuted(load(x, head.k + m), partner)
            slope = slope + load(x, gradients.do + m) * permuted(load(x, head.v + m), partner)
        power = where_positive(meets, exp2(score * splat(scale * _LOG2_E) - logs))
        slope = power * (slope - mean) * splat(scale)
        store(p, r * LANES, permuted(power, back))
        store(ds, r * LANES, slope)
    for m in range(0, features, head.stride):
        key, query, given = load(x, head.k + m), load(x, head.q + m), load(x, gradients.do + m)
        d_query, d_key, d_value = splat(_ZERO), splat(_ZERO), splat(_ZERO)
        for r in range(longest):
            partner, back = load(rounds, r * _LINES + _PARTNER), load(rounds, r * _LINES + _BACK)
            slope = load(ds, r * LANES)
            d_query = d_query + slope * permuted(key, partner)
            d_key = d_key + permuted(slope, back) * permuted(query, back)
            d_value = d_value + load(p, r * LANES) * permuted(given, back)
        store(x, gradients.dq + m, d_query)
        store(x, gradients.dk + m, d_key)
        store(x, gradients.dv + m, d_value)
