"""Layer norm of many narrow rows, in Triton.

Torch's kernel gives each row a block of threads, most of which have no number at a width of 16: a third of an
update's time on the GPU. Here a program takes as many rows as fill it. It keeps no means for the way back,
where computing them again is cheaper than loading them.

Shape alphabet: R rows, D their width.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..derivatives import WITHOUT_TRITON, first_derivatives_only

#: Numbers of a program at a time.
_BLOCK = 2048
#: How often a program of the way back takes so many, before it writes its sums for weight and bias.
_TURNS = 4


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """Return `functional.layer_norm` of the rows of `x` (R, D): (R, D). All are float32."""
    result: Tensor = _LayerNorm.apply(x, weight, bias, eps)
    return result


class _LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
        x, weight, bias = x.contiguous(), weight.contiguous(), bias.contiguous()
        ctx.save_for_backward(x, weight)
        ctx.eps = eps
        out = torch.empty_like(x)
        width, rows = _sizes(x)
        _launch(
            _normalize, triton.cdiv(len(x), rows), x, weight, bias, out, len(x), eps, x.shape[1], width, rows
        )
        return out

    @staticmethod
    @first_derivatives_only("Triton's layer norm", WITHOUT_TRITON)
    def backward(ctx: Any, given: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        x, weight = ctx.saved_tensors
        width, rows = _sizes(x)
        num_programs = triton.cdiv(len(x), rows * _TURNS)
        result, sums = torch.empty_like(x), x.new_empty(num_programs, 2, width)
        own = len(x), ctx.eps, x.shape[1], width, rows, _TURNS
        _launch(_differentiate, num_programs, x, weight, given.contiguous(), result, sums, *own)
        of_weight, of_bias = sums.sum(0)[:, : x.shape[1]].unbind()
        return result, of_weight, of_bias, None


def _launch(kernel: Any, num_programs: int, x: Tensor, *further: Any) -> None:
    if num_programs:
        with torch.cuda.device_of(x):  # Triton computes on the current GPU
            kernel[(num_programs,)](x, *further)


def _sizes(x: Tensor) -> tuple[int, int]:
    """The width of a program's block, a power of two, and its rows."""
    width = triton.next_power_of_2(x.shape[1])
    return width, max(1, _BLOCK // width)


@triton.jit
def _normalize(  # type: ignore[no-untyped-def]
    x, weight, bias, out, R, eps, D: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, WIDTH)[None, :]
    real = (row < R) & (column < D)
    values = tl.load(x + row * D + column, real, 0.0)
    centered = tl.where(real, values - tl.sum(values, 1)[:, None] / D, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centered * centered, 1) / D + eps)
    w, b = tl.load(weight + column, column < D, 0.0), tl.load(bias + column, column < D, 0.0)
    tl.store(out + row * D + column, centered * scale[:, None] * w + b, real)


@triton.jit
def _differentiate(  # type: ignore[no-untyped-def]
    x, weight, given, result, sums, R, eps, D: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr,
    TURNS: tl.constexpr,
):  # fmt: skip
    column = tl.arange(0, WIDTH)[None, :]
    w = tl.load(weight + column, column < D, 0.0)
    of_weight, of_bias = tl.zeros((WIDTH,), tl.float32), tl.zeros((WIDTH,), tl.float32)
    first = tl.program_id(0).to(tl.int64) * (ROWS * TURNS)
    for turn in range(TURNS):
        row = first + turn * ROWS + tl.arange(0, ROWS)[:, None]
        real = (row < R) & (column < D)
        values = tl.load(x + row * D + column, real, 0.0)
        gradient = tl.load(given + row * D + column, real, 0.0)
        centered = tl.where(real, values - tl.sum(values, 1)[:, None] / D, 0.0)
        scale = 1 / tl.sqrt(tl.sum(centered * centered, 1) / D + eps)
        normal, of_normal = centered * scale[:, None], gradient * w
        # y = (x - mean) / deviation: its gradient without the parts along 1 and along y.
        along = tl.sum(of_normal, 1)[:, None] / D + normal * (tl.sum(of_normal * normal, 1)[:, None] / D)
        tl.store(result + row * D + column, (of_normal - along) * scale[:, None], real)
        of_weight += tl.sum(gradient * normal, 0)
        of_bias += tl.sum(gradient, 0)
    at = sums + tl.program_id(0) * (2 * WIDTH) + tl.arange(0, WIDTH)
    tl.store(at, of_weight)
    tl.store(at + WIDTH, of_bias)
