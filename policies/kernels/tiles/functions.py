"""exp, log and erf of vectors (see `simd`), to about 1e-7."""

from __future__ import annotations

from typing import Any

import numpy as np

from .simd import exponent, floor, inlined, mantissa, maximum, minimum, power_of_two, splat

# Cephes expf: x = n ln 2 + r with |r| <= ln(2) / 2, and a polynomial of degree 5 in r; ln 2 is split in two
# so that n ln 2 is subtracted without loss. Relative error about 1e-7.
_LOG2_E = np.float32(1.44269504088896341)
_LN2_HIGH = np.float32(0.693359375)
_LN2_LOW = np.float32(-2.12194440e-4)
_EXP_MIN = np.float32(-87.0)
_EXP_MAX = np.float32(88.0)
_EXP_POLYNOMIAL = tuple(
    np.float32(c)
    for c in (
        1.9875691500e-4,
        1.3981999507e-3,
        8.3334519073e-3,
        4.1665795894e-2,
        1.6666665459e-1,
        5.0000001201e-1,
    )
)
_ONE = np.float32(1.0)
_HALF = np.float32(0.5)


@inlined
def exp(x: Any) -> Any:
    """e ** x per lane; below -87 as at -87 (1.6e-38), above 88 as at 88."""
    x = minimum(maximum(x, splat(_EXP_MIN)), splat(_EXP_MAX))
    n = floor(x * splat(_LOG2_E) + splat(_HALF))
    r = x - n * splat(_LN2_HIGH) - n * splat(_LN2_LOW)
    c = _EXP_POLYNOMIAL
    y = splat(c[0]) * r + splat(c[1])
    y = y * r + splat(c[2])
    y = y * r + splat(c[3])
    y = y * r + splat(c[4])
    y = y * r + splat(c[5])
    return (y * r * r + r + splat(_ONE)) * power_of_two(n)


# Cephes logf: x = m 2 ** n with m in [√½, √2), and a polynomial of degree 8 in m - 1. Relative error 1e-7.
_LOG_POLYNOMIAL = tuple(
    np.float32(c)
    for c in (
        7.0376836292e-2,
        -1.1514610310e-1,
        1.1676998740e-1,
        -1.2420140846e-1,
        1.4249322787e-1,
        -1.6668057665e-1,
        2.0000714765e-1,
        -2.4999993993e-1,
        3.3333331174e-1,
    )
)


@inlined
def log(x: Any) -> Any:
    """The natural logarithm per lane, of positive numbers that are not denormal."""
    n, m = exponent(x), mantissa(x) - splat(_ONE)
    c = _LOG_POLYNOMIAL
    y = splat(c[0]) * m + splat(c[1])
    y = y * m + splat(c[2])
    y = y * m + splat(c[3])
    y = y * m + splat(c[4])
    y = y * m + splat(c[5])
    y = y * m + splat(c[6])
    y = y * m + splat(c[7])
    y = y * m + splat(c[8])
    square = m * m
    y = y * m * square + n * splat(_LN2_LOW) - splat(_HALF) * square
    return m + y + n * splat(_LN2_HIGH)


# Rational approximation of erf on [-4, 4] (the one of Eigen and XLA): absolute error about 1e-7.
_ERF_NUMERATOR = tuple(
    np.float32(c)
    for c in (
        -2.72614225801306e-10,
        2.77068142495902e-08,
        -2.10102402082508e-06,
        -5.69250639462346e-05,
        -7.34990630326855e-04,
        -2.95459980854025e-03,
        -1.60960333262415e-02,
    )
)
_ERF_DENOMINATOR = tuple(
    np.float32(c)
    for c in (
        -1.45660718464996e-05,
        -2.13374055278905e-04,
        -1.68282697438203e-03,
        -7.37332916720468e-03,
        -1.42647390514189e-02,
    )
)
_ERF_LIMIT = np.float32(4.0)


@inlined
def erf(x: Any) -> Any:
    """The error function per lane."""
    x = minimum(maximum(x, splat(-_ERF_LIMIT)), splat(_ERF_LIMIT))
    t = x * x
    a, b = _ERF_NUMERATOR, _ERF_DENOMINATOR
    p = splat(a[0]) * t + splat(a[1])
    p = p * t + splat(a[2])
    p = p * t + splat(a[3])
    p = p * t + splat(a[4])
    p = p * t + splat(a[5])
    p = p * t + splat(a[6])
    q = splat(b[0]) * t + splat(b[1])
    q = q * t + splat(b[2])
    q = q * t + splat(b[3])
    q = q * t + splat(b[4])
    return x * p / q
