"""Kernels that move items as bytes, so that one compilation serves every dtype and feature count.

They take `uint8` views of C-contiguous memory and an item size in bytes, and trust their arguments: callers
check indices and capacities first.

Shape alphabet: B sequences, N items in all, K indices or arrays.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import carray, types
from numba.core import cgutils
from numba.extending import intrinsic

from .compiled import compiled

_BYTE_POINTER = ir.IntType(8).as_pointer()

# Copies are the C library's memcpy: Numba's slice assignment and loops over signed indices take two to three
# times as long.


@intrinsic
def _copy(typing_context, target, at, source, start, count):  # type: ignore[no-untyped-def]
    """Copy `count` bytes from byte `start` of `source` to byte `at` of `target`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        to = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        to = builder.gep(builder.bitcast(to, _BYTE_POINTER), [arguments[1]])
        origin = context.make_array(signature.args[2])(context, builder, arguments[2]).data
        origin = builder.gep(builder.bitcast(origin, _BYTE_POINTER), [arguments[3]])
        cgutils.raw_memcpy(builder, to, origin, arguments[4], 1)
        return context.get_dummy_value()

    return types.void(target, types.intp, source, types.intp, types.intp), generate


@intrinsic
def _copy_between_addresses(typing_context, to, origin, count):  # type: ignore[no-untyped-def]
    """Copy `count` bytes from one memory address to another."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        to, origin = (builder.inttoptr(address, _BYTE_POINTER) for address in arguments[:2])
        cgutils.raw_memcpy(builder, to, origin, arguments[2], 1)
        return context.get_dummy_value()

    return types.void(types.intp, types.intp, types.intp), generate


@intrinsic
def _integer_pointer(typing_context, address):  # type: ignore[no-untyped-def]
    """A memory address as a pointer to int64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(types.int64)(types.int64), generate


@compiled
def append_sequences(values, offsets, target, target_offsets, sequences):  # type: ignore[no-untyped-def]
    """Put `values` (N, *inner) with `offsets` (B + 1,) behind the first `sequences` sequences of the target.

    The only kernel that takes typed arrays: it runs at every rollout step for every array, where making byte
    views would cost more than the copy. Returns false, and has changed nothing, where there is no room.
    """
    items = target_offsets[sequences]
    if items + len(values) > len(target) or sequences + len(offsets) > len(target_offsets):
        return False
    if values.size > 0:
        count = values.size * values.itemsize
        _copy(target, items * (count // len(values)), values, 0, count)
    for b in range(1, len(offsets)):
        target_offsets[sequences + b] = items + offsets[b]
    return True


@compiled(nogil=True)
def gather_items(source, offsets, indices, target, target_offsets, size):  # type: ignore[no-untyped-def]
    """Copy sequence `indices[k]` of `source` to row `target_offsets[k]` of `target`."""
    for k in range(len(indices)):
        b = indices[k] + (len(offsets) - 1 if indices[k] < 0 else 0)
        first = target_offsets[k]
        _copy(target, first * size, source, offsets[b] * size, (target_offsets[k + 1] - first) * size)


@compiled(nogil=True)
def fill_block_offsets(blocks, sizes, num_dense, offsets, starts):  # type: ignore[no-untyped-def]
    """Fill the starts of sequences and arrays after W blocks are joined; see `blocks.BlockLayout`.

    Block w is at the address `blocks[0, w]` and holds `blocks[1, w]` sequences: rows of the first `num_dense`
    of `sizes` (D + K,) bytes and items of the others. Fills `offsets` (K, B + 1), and `starts` (D + K + 1,)
    with the byte at which each joined array starts, and last their size.
    """
    at = 0
    for d in range(num_dense):
        starts[d] = at
        at += (sizes[d] * (offsets.shape[1] - 1) + 7) & ~7
    offsets[:, 0] = 0
    done = 0
    for w in range(blocks.shape[1]):
        address, count = blocks[0, w], blocks[1, w]
        for d in range(num_dense):
            address += (sizes[d] * count + 7) & ~7
        for k in range(len(offsets)):
            source = carray(_integer_pointer(address), (count + 1,))
            for b in range(1, count + 1):
                offsets[k, done + b] = offsets[k, done] + source[b]
            address += 8 * (count + 1)
        done += count
    for k in range(len(offsets)):
        starts[num_dense + k] = at
        at += (sizes[num_dense + k] * offsets[k, done] + 7) & ~7
    starts[-1] = at


@compiled(nogil=True)
def join_blocks(blocks, sizes, num_dense, offsets, starts, target):  # type: ignore[no-untyped-def]
    """Copy the rows and items of W blocks to where `fill_block_offsets` said; `blocks[2]` gets the addresses
    behind them."""
    done, to = 0, target.ctypes.data
    for w in range(blocks.shape[1]):
        address, count = blocks[0, w], blocks[1, w]
        for d in range(num_dense):
            size = sizes[d] * count
            _copy_between_addresses(to + starts[d] + sizes[d] * done, address, size)
            address += (size + 7) & ~7
        address += 8 * (count + 1) * len(offsets)
        for k in range(len(offsets)):
            first, item = offsets[k, done], sizes[num_dense + k]
            size = item * (offsets[k, done + count] - first)
            _copy_between_addresses(to + starts[num_dense + k] + item * first, address, size)
            address += (size + 7) & ~7
        done += count
        blocks[2, w] = address
