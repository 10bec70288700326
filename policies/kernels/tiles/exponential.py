"""2 ** x for vectors of 16 floats, cheap enough for the inner loops of attention and GELU.

With n = x rounded to a whole number and r = x - n, 2 ** x = 2 ** n times a polynomial of degree 5 in r, which
is between -½ and ½. Adding 1.5 · 2²³ to x leaves n in the lowest bits of the sum, so that n is had by
subtracting it again, and 2 ** n times a number is one addition to its bits. Relative error at most 2e-7.

Beside five multiply-adds there is nothing but comparing, adding and shifting: about half of `functions.exp`.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from .simd import FLAGS, INT32, LANES, VECTOR, intrinsic, vector

#: ln 2 ** k / k!, but for rounding and the interval's sake: 2 ** r - 1 = r (c₀ + r (c₁ + …)).
_POLYNOMIAL = (6.9314697760e-01, 2.4022242083e-01, 5.5507337443e-02, 9.6715127685e-03, 1.3264727267e-03)
_WHOLE = 12582912.0
_LEAST = -125.0

_BITS = ir.VectorType(INT32, LANES)


def _number(value: float) -> Any:
    return ir.Constant(VECTOR, [value] * LANES)


def emit_exp2(builder: Any, x: Any) -> Any:
    """2 ** x of a vector, at most 2 ** 127; below 2 ** -125 as there. NaN stays."""
    x = builder.select(builder.fcmp_ordered("<", x, _number(_LEAST)), _number(_LEAST), x)
    # Without flags: the optimiser would find that nothing is added in all.
    shifted = builder.fadd(x, _number(_WHOLE))
    r = builder.fsub(x, builder.fsub(shifted, _number(_WHOLE)))
    y = _number(_POLYNOMIAL[-1])
    for coefficient in (*_POLYNOMIAL[-2::-1], 1.0):
        y = builder.fadd(builder.fmul(y, r, flags=FLAGS), _number(coefficient), flags=FLAGS)
    power = builder.shl(builder.bitcast(shifted, _BITS), ir.Constant(_BITS, [23] * LANES))
    return builder.bitcast(builder.add(builder.bitcast(y, _BITS), power), VECTOR)


@intrinsic
def exp2(typing_context: Any, x: Any) -> Any:
    """2 ** x per lane, for x up to 127; below -125 as at -125."""
    return vector(vector), lambda context, builder, signature, args: emit_exp2(builder, args[0])
