"""Reading numbers at any byte of a buffer from Numba code (dumps are unaligned)."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


def _load(element: ir.Type) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        buffer = cgutils.create_struct_proxy(signature.args[0])(context, builder, arguments[0])
        address = builder.gep(buffer.data, [arguments[1]])
        return builder.load(builder.bitcast(address, element.as_pointer()), align=1)

    return codegen


@intrinsic  # type: ignore[untyped-decorator]
def load_int(typing: Any, buffer: Any, at: Any) -> Any:
    """The int32 that starts at byte `at` (int64) of `buffer` (uint8, C order). Unchecked: the caller has looked."""
    return types.int32(buffer, types.int64), _load(ir.IntType(32))


@intrinsic  # type: ignore[untyped-decorator]
def load_float(typing: Any, buffer: Any, at: Any) -> Any:
    """The float32 that starts at byte `at` (int64) of `buffer` (uint8, C order). Unchecked: the caller has looked."""
    return types.float32(buffer, types.int64), _load(ir.FloatType())
