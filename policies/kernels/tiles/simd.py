"""SIMD for Numba: a vector of 16 float32 lanes that kernels hold in local variables.

Numba's own loops reach a third to a half of what the core can do on small matrices, because LLVM has to guess
the shape of the loops. Here the kernel says it: `load` takes 16 neighbouring floats, arithmetic works lane by
lane, and `store` puts them back. Code reads like scalar code:

    v = load(x, i)
    store(y, i, exp(v - maximum(v, splat(0.0))))

The LLVM vectors are 16 wide everywhere: on AVX-512 that is one register, elsewhere LLVM splits them. Vectors
live inside kernels only; they are never boxed into Python objects. Arrays are one-dimensional float32 and
contiguous; offsets are int64 and unchecked.

Arithmetic may be contracted to fused multiply-adds and reassociated, but NaN and infinity are respected, so
that a broken weight shows in the result.

**What this uses of Numba beyond `njit`**, and why:

- A Numba type, `VectorType`. A local variable of a kernel has a Numba type, and no type that Numba has
  for the CPU is an LLVM vector (tuples and arrays are structs and memory, which LLVM turns into vectors
  only where it recognizes the loop). The type has a data model of one line and nothing else: no boxing,
  no array of it.
- `intrinsic`, `type_callable` and `lower_builtin`, the documented ways to write LLVM code, for loads, stores,
  arithmetic and shuffles.
Tried with Numba 0.68.1 and llvmlite 0.50.0; `tests/policies/test_simd_kernels.py` fails with a version where
one of these no longer holds.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import lower_builtin, models, register_jitable, register_model, type_callable

from ....ragged.compiled import compiled
from ....ragged.compiler import KernelCompiler
from .processor import WIDE_REGISTERS

# Numba annotates `intrinsic` as if it kept a function's parameters.
intrinsic: Any = numba.extending.intrinsic

#: Lanes of a vector.
LANES = 16

#: Licence for the optimiser; `nnan` and `ninf` are left out on purpose.
FLAGS = ("contract", "reassoc", "arcp", "nsz")

FLOAT = ir.FloatType()
INT32 = ir.IntType(32)
INT64 = ir.IntType(64)
VECTOR = ir.VectorType(FLOAT, LANES)
_VECTOR_INT = ir.VectorType(INT32, LANES)


class VectorType(types.Type):
    """The Numba type of a vector of 16 float32."""

    def __init__(self) -> None:
        super().__init__("Float32x16")


vector = VectorType()


@register_model(VectorType)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, numba_type: Any) -> None:
        super().__init__(manager, numba_type, VECTOR)


#: Compile a kernel: kept on disk, without the GIL, once for constants and variables alike.
kernel: Any = compiled(nogil=True, separate=True)


def inlined(function: Callable[..., Any]) -> Any:
    """Let kernels call `function`, whose code becomes part of theirs; for Python it stays what it is."""
    # Wrappers for Python and C that are never called would take half of the time to compile it.
    wrappers = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    options = {"nogil": True, "error_model": "numpy", "forceinline": True, **wrappers}
    return register_jitable(pipeline_class=KernelCompiler, **options)(function)


# -- pieces for code generation ------------------------------------------------------------------------------


def data_pointer(context: Any, builder: Any, array_type: Any, array: Any) -> Any:
    return context.make_array(array_type)(context, builder, array).data


def load_vector(builder: Any, data: Any, offset: Any) -> Any:
    value = builder.load(builder.bitcast(builder.gep(data, [offset]), VECTOR.as_pointer()))
    value.align = 4
    return value


def store_vector(builder: Any, value: Any, data: Any, offset: Any) -> None:
    stored = builder.store(value, builder.bitcast(builder.gep(data, [offset]), VECTOR.as_pointer()))
    stored.align = 4


def splat_scalar(builder: Any, scalar: Any) -> Any:
    one = builder.insert_element(ir.Constant(VECTOR, ir.Undefined), scalar, ir.Constant(INT32, 0))
    return builder.shuffle_vector(one, one, ir.Constant(_VECTOR_INT, [0] * LANES))


def constant(value: int) -> Any:
    return ir.Constant(INT64, value)


def _shuffle(builder: Any, a: Any, b: Any, lanes: Sequence[int]) -> Any:
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(INT32, len(lanes)), list(lanes)))


def transpose_vectors(builder: Any, rows: list[Any]) -> list[Any]:
    """Return 16 vectors as the columns of the same 16 × 16 block, by four rounds of swapping halves.

    8 vectors: as the columns of two 8 × 8 blocks side by side; 4 vectors: of four 4 × 4 blocks.
    """
    for distance in [d for d in (8, 4, 2, 1) if d < len(rows)]:
        low = [i if not i & distance else LANES + i - distance for i in range(LANES)]
        high = [i + distance if not i & distance else LANES + i for i in range(LANES)]
        swapped = list(rows)
        for r in range(len(rows)):
            if not r & distance:
                swapped[r] = _shuffle(builder, rows[r], rows[r + distance], low)
                swapped[r + distance] = _shuffle(builder, rows[r], rows[r + distance], high)
        rows = swapped
    return rows


# -- memory --------------------------------------------------------------------------------------------------


def is_flat_float32(array: Any) -> bool:
    """Return True for a contiguous array of float32; memory of any other kind would be misread."""
    return isinstance(array, types.Array) and (array.dtype, array.ndim, array.layout) == (
        types.float32,
        1,
        "C",
    )


@intrinsic
def load(typing_context: Any, array: Any, offset: Any) -> Any:
    """array[offset : offset + 16]"""
    if not is_flat_float32(array):
        return None

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return load_vector(builder, data_pointer(context, builder, signature.args[0], args[0]), args[1])

    return vector(array, types.int64), generate


@intrinsic
def store(typing_context: Any, array: Any, offset: Any, value: Any) -> Any:
    """array[offset : offset + 16] = value"""
    if not is_flat_float32(array):
        return None

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        store_vector(builder, args[2], data_pointer(context, builder, signature.args[0], args[0]), args[1])
        return context.get_dummy_value()

    return types.void(array, types.int64, vector), generate


@intrinsic
def splat(typing_context: Any, scalar: Any) -> Any:
    """The same number in every lane."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return splat_scalar(builder, args[0])

    return vector(types.float32), generate


@intrinsic
def transpose(
    typing_context: Any,
    source: Any,
    start: Any,
    stride: Any,
    target: Any,
    target_start: Any,
    target_stride: Any,
) -> Any:
    """target[target_start + i * target_stride + j] = source[start + j * stride + i] for i, j < 16"""
    if not (is_flat_float32(source) and is_flat_float32(target)):
        return None

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        read = data_pointer(context, builder, signature.args[0], args[0])
        write = data_pointer(context, builder, signature.args[3], args[3])

        def at(first: Any, step: Any, r: int) -> Any:
            return builder.add(first, builder.mul(step, constant(r)))

        rows = [load_vector(builder, read, at(args[1], args[2], r)) for r in range(LANES)]
        for r, column in enumerate(transpose_vectors(builder, rows)):
            store_vector(builder, column, write, at(args[4], args[5], r))
        return context.get_dummy_value()

    i64 = types.int64
    return types.void(source, i64, i64, target, i64, i64), generate


@intrinsic
def _float_pointer(typing_context: Any, address: Any) -> Any:
    """An integer as a pointer to float32."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

    return types.CPointer(types.float32)(types.int64), generate


@compiled(cache=False)
def floats_at(address: int, size: int) -> Any:
    """Return the array of `size` float32 at a memory address; so a kernel can read any number of arrays."""
    return numba.carray(_float_pointer(address), (size,))


# -- arithmetic ----------------------------------------------------------------------------------------------


def _lanewise(emit: Callable[..., Any], operands: int) -> Any:
    """Return an intrinsic that maps `operands` vectors to one by `emit(builder, *vectors)`."""
    if operands == 1:

        @intrinsic
        def unary(typing_context: Any, a: Any) -> Any:
            return vector(vector), lambda context, builder, signature, args: emit(builder, *args)

        return unary

    @intrinsic
    def binary(typing_context: Any, a: Any, b: Any) -> Any:
        return vector(vector, vector), lambda context, builder, signature, args: emit(builder, *args)

    return binary


def _integers(sign: str) -> Any:
    """Return an intrinsic that gives one of two whole numbers: the first if it is `sign` the second."""

    @intrinsic
    def chosen(typing_context: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.select(builder.icmp_signed(sign, *args), *args)

        return types.int64(types.int64, types.int64), generate

    return chosen


#: Numba compiles its own min and max again for each combination of constants and variables.
smaller, larger = _integers("<"), _integers(">")


def _llvm(name: str) -> Callable[..., Any]:
    """Return a function that emits a call of the LLVM intrinsic `name` on vectors."""

    def emit(builder: Any, *args: Any) -> Any:
        function_type = ir.FunctionType(VECTOR, [VECTOR] * len(args))
        function = cgutils.get_or_insert_function(builder.module, function_type, f"llvm.{name}.v{LANES}f32")
        return builder.call(function, args, fastmath=FLAGS)

    return emit


def _emit_maximum(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered("<", a, b), b, a)


def _emit_minimum(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", a, b), b, a)


def _emit_power_of_two(builder: Any, exponent: Any) -> Any:
    bias = ir.Constant(_VECTOR_INT, [127] * LANES)
    shift = ir.Constant(_VECTOR_INT, [23] * LANES)
    return builder.bitcast(
        builder.shl(builder.add(builder.fptosi(exponent, _VECTOR_INT), bias), shift), VECTOR
    )


#: Bits of float32(sqrt(1/2)), and how far they are below those of 1: a mantissa is taken from [√½, √2).
_ROOT_BITS = 0x3F3504F3
_BELOW_ONE = 0x3F800000 - _ROOT_BITS


def _whole(value: int) -> Any:
    return ir.Constant(_VECTOR_INT, [value] * LANES)


def _emit_exponent(builder: Any, x: Any) -> Any:
    bits = builder.add(builder.bitcast(x, _VECTOR_INT), _whole(_BELOW_ONE))
    return builder.sitofp(builder.sub(builder.ashr(bits, _whole(23)), _whole(127)), VECTOR)


def _emit_mantissa(builder: Any, x: Any) -> Any:
    bits = builder.add(builder.bitcast(x, _VECTOR_INT), _whole(_BELOW_ONE))
    bits = builder.add(builder.and_(bits, _whole(0x007FFFFF)), _whole(_ROOT_BITS))
    # A NaN would lose its meaning with its exponent.
    return builder.select(builder.fcmp_ordered("ord", x, x), builder.bitcast(bits, VECTOR), x)


def _emit_where_positive(builder: Any, condition: Any, value: Any) -> Any:
    zero = ir.Constant(VECTOR, [0.0] * LANES)
    return builder.select(builder.fcmp_ordered(">", condition, zero), value, zero)


maximum = _lanewise(_emit_maximum, 2)  # the larger of two; a NaN in the first stays
minimum = _lanewise(_emit_minimum, 2)  # the smaller of two; a NaN in the first stays
where_positive = _lanewise(_emit_where_positive, 2)  # the second where the first is above 0, else 0
square_root = _lanewise(_llvm("sqrt"), 1)
floor = _lanewise(_llvm("floor"), 1)
quotient = _lanewise(lambda builder, a, b: builder.fdiv(a, b), 2)  # exact; a / b may be a times 1 / b
rounded = _lanewise(_llvm("rint"), 1)  # to the nearest whole number, halves to the even one
exponent = _lanewise(_emit_exponent, 1)  # n of a positive x = m 2 ** n, with m in [√½, √2)
mantissa = _lanewise(_emit_mantissa, 1)  # its m
power_of_two = _lanewise(_emit_power_of_two, 1)  # 2 ** n for a whole n in [-126, 127]


def _register_operator(python_operator: Any, instruction: str) -> None:
    """Let kernels write an operator between vectors, for an LLVM instruction.

    Not by `overload`, with which Numba types and inlines a function for each operator that a kernel contains:
    that was a tenth of the time to compile all kernels.
    """

    @type_callable(python_operator)
    def typed(context: Any) -> Any:
        return lambda a, b: vector if isinstance(a, VectorType) and isinstance(b, VectorType) else None

    @lower_builtin(python_operator, VectorType, VectorType)
    def lowered(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return getattr(builder, instruction)(*args, flags=FLAGS)


_register_operator(operator.add, "fadd")
_register_operator(operator.sub, "fsub")
_register_operator(operator.mul, "fmul")
_register_operator(operator.truediv, "fdiv")


@intrinsic
def total(typing_context: Any, value: Any) -> Any:
    """The sum of the lanes, float32."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        function_type = ir.FunctionType(FLOAT, [FLOAT, VECTOR])
        name = f"llvm.vector.reduce.fadd.v{LANES}f32"
        function = cgutils.get_or_insert_function(builder.module, function_type, name)
        return builder.call(function, [ir.Constant(FLOAT, 0.0), args[0]], fastmath=FLAGS)

    return types.float32(vector), generate


@intrinsic
def permuted(typing_context: Any, value: Any, lanes: Any) -> Any:
    """Lane i of the result is lane `lanes[i]` of `value`; one instruction where there is AVX-512.

    `lanes`: whole numbers from 0 to 15, as floats.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if not WIDE_REGISTERS:
            places, result = builder.fptosi(args[1], _VECTOR_INT), args[0]
            for i in range(LANES):
                place = builder.extract_element(places, INT32(i))
                lane = builder.extract_element(args[0], place)
                result = builder.insert_element(result, lane, INT32(i))
            return result
        function_type = ir.FunctionType(VECTOR, [VECTOR, _VECTOR_INT])
        name = "llvm.x86.avx512.permvar.sf.512"
        function = cgutils.get_or_insert_function(builder.module, function_type, name)
        return builder.call(function, [args[0], builder.fptosi(args[1], _VECTOR_INT)])

    return vector(vector, vector), generate
