"""Attention within the steps of narrow tiles (`engines/graphs/static_tiles.py`), in Triton.

Torch's kernel reads a mask, and gives heads of width 8 the time of wider ones. Here a program takes one head
of one tile: it reads queries, keys and values where the layer's product wrote them, compares the steps of the
slots, and keeps all scores in registers. On the way back it computes them again and writes all gradients.

Shape alphabet: R slots, D width of all heads.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..derivatives import WITHOUT_TRITON, first_derivatives_only


def attend_in_tiles(qkv: Tensor, steps: Tensor, width: int, n_head: int) -> Tensor:
    """Return attention among the slots of each step: (R, 3 D) queries, keys and values to (R, D), float32.

    Args:
        steps: the step of each slot (R,); a step lies in one tile.
        width: the slots of a tile, a power of two of at least 16; R is a multiple of it.
    """
    result: Tensor = _TileAttention.apply(qkv, steps, width, n_head)
    return result


class _TileAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, qkv: Tensor, steps: Tensor, width: int, n_head: int) -> Tensor:
        qkv = qkv.contiguous()
        ctx.save_for_backward(qkv, steps)
        ctx.sizes = width, n_head
        out = qkv.new_empty(len(qkv), qkv.shape[1] // 3)
        _launch(_attend, width, n_head, qkv, steps, out)
        return out

    @staticmethod
    @first_derivatives_only("Triton's attention", WITHOUT_TRITON)
    def backward(ctx: Any, given: Tensor) -> tuple[Tensor, None, None, None]:
        qkv, steps = ctx.saved_tensors
        result = torch.empty_like(qkv)
        _launch(_differentiate, *ctx.sizes, qkv, steps, given.contiguous(), result)
        return result, None, None, None


def _launch(kernel: Any, width: int, n_head: int, qkv: Tensor, steps: Tensor, *outer: Tensor) -> None:
    d = qkv.shape[1] // 3
    d_head = d // n_head
    precise = "ieee" if torch.get_float32_matmul_precision() == "highest" else "tf32"
    with torch.cuda.device_of(qkv):  # Triton computes on the current GPU
        kernel[len(qkv) // width, n_head](
            qkv, steps, *outer, 1 / math.sqrt(d_head), d, d_head, width,
            max(16, triton.next_power_of_2(d_head)), precise, num_warps=4 if width <= 64 else 8,
        )  # fmt: skip


@triton.jit
def _attend(  # type: ignore[no-untyped-def]
    qkv, steps, out, scale, D: tl.constexpr, HEAD: tl.constexpr, WIDTH: tl.constexpr, PADDED: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0).to(tl.int64) * WIDTH + tl.arange(0, WIDTH)
    columns = tl.arange(0, PADDED)[None, :]
    real = columns < HEAD
    own = tl.program_id(1) * HEAD + columns
    at = qkv + rows[:, None] * (3 * D) + own
    q, k, v = tl.load(at, real, 0.0), tl.load(at + D, real, 0.0), tl.load(at + 2 * D, real, 0.0)
    step = tl.load(steps + rows)
    scores = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale
    scores = tl.where(step[:, None] == step[None, :], scores, -float("inf"))
    weights = tl.exp(scores - tl.max(scores, 1)[:, None])
    weights = weights / tl.sum(weights, 1)[:, None]
    tl.store(out + rows[:, None] * D + own, tl.dot(weights, v, input_precision=PRECISION), real)


@triton.jit
def _differentiate(  # type: ignore[no-untyped-def]
    qkv, steps, given, result, scale, D: tl.constexpr, HEAD: tl.constexpr, WIDTH: tl.constexpr,
    PADDED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0).to(tl.int64) * WIDTH + tl.arange(0, WIDTH)
    columns = tl.arange(0, PADDED)[None, :]
    real = columns < HEAD
    own = tl.program_id(1) * HEAD + columns
    place = rows[:, None] * (3 * D) + own
    at = qkv + place
    q, k, v = tl.load(at, real, 0.0), tl.load(at + D, real, 0.0), tl.load(at + 2 * D, real, 0.0)
    gradient = tl.load(given + rows[:, None] * D + own, real, 0.0)
    step = tl.load(steps + rows)
    scores = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale
    scores = tl.where(step[:, None] == step[None, :], scores, -float("inf"))
    weights = tl.exp(scores - tl.max(scores, 1)[:, None])
    weights = weights / tl.sum(weights, 1)[:, None]
    of_weights = tl.dot(gradient, tl.trans(v), input_precision=PRECISION)
    # The gradient of a softmax: p (g - sum p g).
    of_scores = weights * (of_weights - tl.sum(weights * of_weights, 1)[:, None]) * scale
    to = result + place
    tl.store(to, tl.dot(of_scores, k, input_precision=PRECISION), real)
    tl.store(to + D, tl.dot(tl.trans(of_scores), q, input_precision=PRECISION), real)
    tl.store(to + 2 * D, tl.dot(tl.trans(weights), gradient, input_precision=PRECISION), real)
