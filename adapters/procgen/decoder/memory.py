"""The decorator of this package's kernels, and reading numbers at any byte of a dump (they are unaligned)."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import extending, types
from numba.core import cgutils

from ....ragged.compiled import compiled
from .layout import ENTITY_FIELDS

#: Where fields start in an entity's record, in bytes.
X, Y, RX, RY = (ENTITY_FIELDS[name] * 4 for name in ("x", "y", "rx", "ry"))

# Numba's annotations do not know that callers of an intrinsic leave out its first parameter.
_intrinsic: Any = extending.intrinsic

#: For what only one other kernel calls: its code becomes part of that kernel's before either is compiled.
kernel: Any = compiled(cache=False, inline="always")


def _load(element: ir.Type) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        buffer = cgutils.create_struct_proxy(signature.args[0])(context, builder, arguments[0])
        address = builder.gep(buffer.data, [arguments[1]])
        return builder.load(builder.bitcast(address, element.as_pointer()), align=1)

    return codegen


@_intrinsic
def load_int(typing: Any, buffer: Any, at: Any) -> Any:
    """The int32 at byte `at` (int64) of `buffer` (uint8, C order). Unchecked: the caller has looked."""
    return types.int32(buffer, types.int64), _load(ir.IntType(32))


@_intrinsic
def load_float(typing: Any, buffer: Any, at: Any) -> Any:
    """The float32 at byte `at` (int64) of `buffer` (uint8, C order). Unchecked: the caller has looked."""
    return types.float32(buffer, types.int64), _load(ir.FloatType())
