"""Numba kernels: all blocks of the transformer, forward and backward, tile by tile of whole steps.

A block with layer norms n₁ and n₂ takes rows x to

    x ← x + W_out attention(W_qkv n₁(x) + b_qkv) + b_out,    x ← x + W_down gelu(W_up n₂(x) + b_up) + b_down

and backward goes the same way back, one line of the comments in `block_backward` per half.

A tile goes through every layer while it is in the L2 cache. For backward, forward keeps of the whole batch
only what is dear to compute for its size: the input of every block but the first, which is at hand, the
attended values, and a number per row and head of which attention can compute its weights again. Backward
takes up a tile block by block and computes the rest of it again.

The layer norms' scale and shift are folded into the linear map that follows, see `folding`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .attention.relative_attention import (
    RelativeGradients,
    RelativeTables,
    attend_tile_relative,
    attend_tile_relative_backward,
    pair_scratch,
)
from .attention.tile_attention import AttentionPlaces, attend_tile, attend_tile_backward
from .relative_gate import clear_gate_gradients, gate_backward, gate_forward, gate_lines, gate_tiles
from .tiles.linear_maps import Linear, linear, linear_backward, linear_gradients
from .tiles.matrices import Floats, Line, Tile
from .tiles.matrix_products import ADD, ADD_BIAS, SET_BIAS
from .tiles.simd import LANES, inlined, kernel, larger
from .tiles.step_tiles import StepRange, step_tile
from .tiles.tile_kernels import (
    clear_columns,
    copy_floats,
    gelu,
    gelu_with_slope,
    layer_norm,
    layer_norm_backward,
    multiply,
    rows_to_tile,
    tile_to_rows,
)


class BlocksShape(NamedTuple):
    """The sizes of all blocks."""

    layers: int
    d: int
    n_head: int


class BlockParameters(NamedTuple):
    """The start of a block's parameters in the flat array; `FusedEncoder` adds them in this order."""

    norm1_scale: int  # (d,)
    norm1_shift: int  # (d,)
    qkv_weight: int  # (3 d, d)
    qkv_bias: int  # (3 d,)
    out_weight: int  # (d, d)
    out_bias: int  # (d,)
    norm2_scale: int  # (d,)
    norm2_shift: int  # (d,)
    up_weight: int  # (4 d, d)
    up_bias: int  # (4 d,)
    down_weight: int  # (d, 4 d)
    down_bias: int  # (d,)
    end: int  # where the next block's start


class BlockTiles(NamedTuple):
    """The start of a block's activations in the workspace, in lines of a tile, a feature per line."""

    normal1: int  # d lines: the normalized input of attention
    qkv: int  # 3 d
    attended: int  # d
    normal2: int  # d: the normalized input of the MLP
    slope: int  # 4 d: the MLP before its GELU, then the GELU's slopes
    active: int  # 4 d: the GELU's result
    inverse_roots1: int  # 1: of the first layer norm
    inverse_roots2: int  # 1: of the second one
    logs: int  # n_head: attention's, for its backward


class BlockMemory(NamedTuple):
    """A tile's workspace: places are those in `s`."""

    s: Floats
    x: int  # d lines: the rows
    dx: int  # d lines: their gradients
    spare: int  # 5 d lines for backward
    saved: int  # `BlockTiles`
    p: Floats  # attention's weights
    ds: Floats  # the gradients of its scores
    gate: int  # `GateTiles`, with relative positions
    pairs: Floats  # what relative attention keeps of pairs


@inlined
def block_parameters(start: int, d: int) -> BlockParameters:
    """Return the places of a block's parameters, which start at `start`."""
    qkv_weight = start + 2 * d
    qkv_bias = qkv_weight + 3 * d * d
    out_weight = qkv_bias + 3 * d
    out_bias = out_weight + d * d
    norm2_scale = out_bias + d
    up_weight = norm2_scale + 2 * d
    up_bias = up_weight + 4 * d * d
    down_weight = up_bias + 4 * d
    down_bias = down_weight + 4 * d * d
    return BlockParameters(
        start, start + d, qkv_weight, qkv_bias, out_weight, out_bias, norm2_scale, norm2_scale + d,
        up_weight, up_bias, down_weight, down_bias, down_bias + d,
    )  # fmt: skip


@inlined
def _layer_lines(shape: Any) -> int:
    """Return the lines of `BlockTiles`."""
    return 14 * shape.d + 2 + shape.n_head


@inlined
def block_tiles(start: int, d: int, stride: int) -> BlockTiles:
    """Return the places of a block's activations, which start at `start`."""
    qkv = start + d * stride
    attended = qkv + 3 * d * stride
    normal2 = attended + d * stride
    slope = normal2 + d * stride
    active = slope + 4 * d * stride
    roots = active + 4 * d * stride
    return BlockTiles(start, qkv, attended, normal2, slope, active, roots, roots + stride, roots + 2 * stride)


@inlined
def block_memory(shape: Any, stride: int, s: Any) -> BlockMemory:
    """Lay out the scratch memory `s` of `block_scratch` numbers."""
    line = shape.d * stride
    start = 7 * line + _layer_lines(shape) * stride
    gate = start + (2 * LANES + 1) * stride
    pairs = s[gate + gate_lines(shape.d, shape.d // shape.n_head) * stride :]
    return BlockMemory(s, 0, line, 2 * line, 7 * line, s[start:], s[start + LANES * stride :], gate, pairs)


def block_scratch(shape: BlocksShape, capacity: int, relative: bool) -> int:
    """Return the numbers of scratch memory: x, dx, 5 d lines, a layer, p, ds with the means, and what
    attention with `relative` positions needs."""
    d_head = shape.d // shape.n_head
    lines, pairs = 7 * shape.d + int(_layer_lines(shape)) + 2 * LANES + 1, 0
    if relative:
        lines, pairs = lines + int(gate_lines(shape.d, d_head)), pair_scratch(d_head, capacity)
    return lines * (capacity + LANES) + pairs


@kernel
def _attention_input(w: Any, at: Any, memory: Any, tiles: Any, steps: Any, d: int) -> None:
    """Compute the first layer norm of the rows, and queries, keys and values."""
    s, stride, columns = memory.s, steps.stride, steps.columns
    normal = Tile(s, tiles.normal1, stride)
    layer_norm(Tile(s, memory.x, stride), normal, Line(s, tiles.inverse_roots1), d, columns)
    qkv = Linear(w, at.qkv_weight, at.qkv_bias, 3 * d, d)
    linear(qkv, normal, Tile(s, tiles.qkv, stride), columns, SET_BIAS)


@kernel
def _mlp_input(w: Any, at: Any, memory: Any, tiles: Any, steps: Any, d: int) -> None:
    """Add attention's result to the rows, and compute the second layer norm and the MLP before its GELU."""
    s, stride, columns = memory.s, steps.stride, steps.columns
    x, normal = Tile(s, memory.x, stride), Tile(s, tiles.normal2, stride)
    out = Linear(w, at.out_weight, at.out_bias, d, d)
    linear(out, Tile(s, tiles.attended, stride), x, columns, ADD_BIAS)
    layer_norm(x, normal, Line(s, tiles.inverse_roots2), d, columns)
    up = Linear(w, at.up_weight, at.up_bias, 4 * d, d)
    linear(up, normal, Tile(s, tiles.slope, stride), columns, SET_BIAS)


@kernel
def block_forward(
    w: Any, at: Any, shape: Any, steps: Any, memory: Any, tiles: Any, learns: bool, relative: Any
) -> None:
    """Take the rows of a `StepTile` through one block, in place.

    `w` holds folded `BlockParameters` at `at`; `memory`: `BlockMemory`; `learns`: attention's logs are kept;
    `relative`: `RelativeTables` or None.
    """
    d, s, stride, columns = shape.d, memory.s, steps.stride, steps.columns
    _attention_input(w, at, memory, tiles, steps, d)
    attention = AttentionPlaces(tiles.qkv, tiles.attended, tiles.logs if learns else -1)
    if relative is None:
        attend_tile(s, attention, d, shape.n_head, steps, memory.p)
    else:
        gate = gate_tiles(memory.gate, d, d // shape.n_head, stride)
        gate_forward(w, at.norm1_scale, relative, shape, s, tiles.normal1, gate, steps)
        attend_tile_relative(s, attention, gate.gate, shape, steps, relative, memory.p, memory.pairs)
    clear_columns(Tile(s, tiles.attended, stride), d, steps.rows, columns)
    _mlp_input(w, at, memory, tiles, steps, d)
    active = Tile(s, tiles.active, stride)
    gelu(Tile(s, tiles.slope, stride), active, 4 * d, columns)
    down = Linear(w, at.down_weight, at.down_bias, d, 4 * d)
    linear(down, active, Tile(s, memory.x, stride), columns, ADD_BIAS)


@kernel
def block_backward(
    w: Any, at: Any, g: Any, shape: Any, steps: Any, memory: Any, tiles: Any, relative: Any, d_tables: Any
) -> None:
    """Take the gradient `memory.dx` of a `StepTile` back through one block, in place; add those of the
    parameters to `g`, which has them where `w` has, and those of `RelativeTables` to `d_tables`."""
    d, s, stride, columns = shape.d, memory.s, steps.stride, steps.columns
    dx, wide = Tile(s, memory.dx, stride), Tile(s, memory.spare, stride)
    narrow = Tile(s, memory.spare + 4 * d * stride, stride)
    # x + down(gelu(up(norm2(x))))
    down = Linear(w, at.down_weight, at.down_bias, d, 4 * d)
    linear_gradients(down, dx, Tile(s, tiles.active, stride), columns, g)
    linear_backward(down, dx, wide, columns)
    multiply(wide, Tile(s, tiles.slope, stride), 4 * d, columns)
    up, normal = Linear(w, at.up_weight, at.up_bias, 4 * d, d), Tile(s, tiles.normal2, stride)
    linear_gradients(up, wide, normal, columns, g)
    linear_backward(up, wide, narrow, columns)
    layer_norm_backward(narrow, normal, Line(s, tiles.inverse_roots2), dx, d, columns, ADD)
    # x + out(attention(qkv(norm1(x))))
    out = Linear(w, at.out_weight, at.out_bias, d, d)
    linear_gradients(out, dx, Tile(s, tiles.attended, stride), columns, g)
    linear_backward(out, dx, narrow, columns)
    attention = AttentionPlaces(tiles.qkv, tiles.attended, tiles.logs)
    p, ds = memory.p, memory.ds
    gate = gate_tiles(memory.gate, d, d // shape.n_head, stride)
    if relative is None:
        attend_tile_backward(s, attention, narrow.start, wide.start, d, shape.n_head, steps, p, ds)
    else:
        gate_forward(w, at.norm1_scale, relative, shape, s, tiles.normal1, gate, steps)
        clear_gate_gradients(s, gate, d // shape.n_head, steps)
        given = RelativeGradients(narrow.start, wide.start, gate.d_gate)
        attend_tile_relative_backward(
            s, attention, gate.gate, given, shape, steps, relative, d_tables, p, ds, memory.pairs
        )
    clear_columns(wide, 3 * d, steps.rows, columns)
    qkv, normal = Linear(w, at.qkv_weight, at.qkv_bias, 3 * d, d), Tile(s, tiles.normal1, stride)
    linear_gradients(qkv, wide, normal, columns, g)
    linear_backward(qkv, wide, narrow, columns)
    if relative is not None:
        gate_backward(w, at.norm1_scale, g, relative, shape, s, tiles.normal1, gate, steps, narrow.start)
    layer_norm_backward(narrow, normal, Line(s, tiles.inverse_roots1), dx, d, columns, ADD)


# What forward keeps of a batch of N * d `numbers`, one after the other: the attended values of every layer,
# each but the last followed by the layer's result; then attention's logs of every layer.


def kept_size(numbers: int, shape: BlocksShape) -> int:
    """Return the numbers that forward keeps for backward, for N * d `numbers` of rows."""
    logs = shape.layers * shape.n_head * (numbers // shape.d)
    return numbers * max(0, 2 * shape.layers - 1) + logs


@inlined
def _kept_logs(numbers: int, layer: int, shape: Any, row: int) -> int:
    """Return where a layer's logs (n_head, N) start, from `row` on."""
    rows = numbers // shape.d
    return numbers * larger(0, 2 * shape.layers - 1) + layer * shape.n_head * rows + row


@kernel
def _keep(kept: Any, numbers: int, layer: int, shape: Any, steps: Any, memory: Any, tiles: Any) -> None:
    """Keep what backward needs of a layer of a tile."""
    s, d, row, rows = memory.s, shape.d, steps.row, steps.rows
    lines = _kept_logs(numbers, layer, shape, row)
    for head in range(shape.n_head):
        copy_floats(s, tiles.logs + head * steps.stride, kept, lines + head * (numbers // d), rows)
    tile_to_rows(Tile(s, tiles.attended, steps.stride), kept[2 * layer * numbers :], row, rows, d)
    if layer + 1 < shape.layers:
        tile_to_rows(Tile(s, memory.x, steps.stride), kept[(2 * layer + 1) * numbers :], row, rows, d)


@kernel
def _restore(source: Any, kept: Any, layer: int, shape: Any, steps: Any, memory: Any, tiles: Any) -> None:
    """Read the input, the attended values and the logs of a layer of a tile."""
    s, d, row, rows, numbers = memory.s, shape.d, steps.row, steps.rows, len(source)
    given = source
    if layer:
        given = kept[(2 * layer - 1) * numbers :]
    rows_to_tile(given, row, rows, d, Tile(s, memory.x, steps.stride))
    rows_to_tile(kept[2 * layer * numbers :], row, rows, d, Tile(s, tiles.attended, steps.stride))
    lines = _kept_logs(numbers, layer, shape, row)
    for head in range(shape.n_head):
        copy_floats(kept, lines + head * (numbers // d), s, tiles.logs + head * steps.stride, rows)


@kernel
def blocks_forward(
    w: Any, sizes: Any, source: Any, target: Any, kept: Any, run: Any, s: Any, places: Any
) -> None:
    """Take all blocks over a run of steps: rows `source` (N * d,) to `target` (N * d,).

    `w`: folded weights; `sizes`, `run`: the fields of `BlocksShape` and `StepRange`. What backward needs goes
    to `kept` (`kept_size`,), unless it is empty. A step of more rows than the range's capacity has a tile of
    its own, which does not make the others' wider; `s`: scratch of `block_scratch` numbers, for the longest
    step; `places`: the fields of `RelativeTables`, or None.
    """
    shape, steps = BlocksShape(*sizes), StepRange(*run)
    relative = None if places is None else RelativeTables(*places)
    d, numbers, learns, first = shape.d, len(source), len(kept) > 0, steps.first
    while first < steps.last:
        tile = step_tile(steps, first)
        memory = block_memory(shape, tile.stride, s)
        tiles, x = block_tiles(memory.saved, d, tile.stride), Tile(s, memory.x, tile.stride)
        rows_to_tile(source, tile.row, tile.rows, d, x)
        start = 0
        for layer in range(shape.layers):
            at = block_parameters(start, d)
            block_forward(w, at, shape, tile, memory, tiles, learns, relative)
            if learns:
                _keep(kept, numbers, layer, shape, tile, memory, tiles)
            start = at.end
        tile_to_rows(x, target, tile.row, tile.rows, d)
        first = tile.end


@kernel
def blocks_backward(
    w: Any, sizes: Any, source: Any, kept: Any, d_target: Any, d_source: Any, g: Any, run: Any, s: Any,
    places: Any, d_tables: Any,
) -> None:  # fmt: skip
    """Write the gradients of rows to `d_source` (N * d,) and add those of folded weights to `g`, from
    `d_target` (N * d,), which `d_source` may be.

    Other arguments as in `blocks_forward`; `d_tables`: those of keys and values (two arrays), or None.
    """
    shape, steps = BlocksShape(*sizes), StepRange(*run)
    relative = None if places is None else RelativeTables(*places)
    d, first = shape.d, steps.first
    size = block_parameters(0, d).end
    while first < steps.last:
        tile = step_tile(steps, first)
        memory = block_memory(shape, tile.stride, s)
        tiles, dx = block_tiles(memory.saved, d, tile.stride), Tile(s, memory.dx, tile.stride)
        slope, active = Tile(s, tiles.slope, tile.stride), Tile(s, tiles.active, tile.stride)
        rows_to_tile(d_target, tile.row, tile.rows, d, dx)
        for layer in range(shape.layers - 1, -1, -1):
            at = block_parameters(layer * size, d)
            _restore(source, kept, layer, shape, tile, memory, tiles)
            _attention_input(w, at, memory, tiles, tile, d)
            _mlp_input(w, at, memory, tiles, tile, d)
            gelu_with_slope(slope, active, slope, 4 * d, tile.columns)
            block_backward(w, at, g, shape, tile, memory, tiles, relative, d_tables)
        tile_to_rows(dx, d_source, tile.row, tile.rows, d)
        first = tile.end
