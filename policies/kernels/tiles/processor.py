"""The processor that Numba compiles for."""

from __future__ import annotations

import numba
from llvmlite.binding import get_host_cpu_features


def _has_wide_registers() -> bool:
    """Return True if a vector fits one register (AVX-512) of the processor that Numba compiles for."""
    if numba.config.CPU_NAME:  # set by NUMBA_CPU_NAME, with the features beside it
        return "+avx512f" in (numba.config.CPU_FEATURES or "")
    try:
        return bool(get_host_cpu_features().get("avx512f"))
    except RuntimeError:  # llvmlite doesn't know this processor
        return False


#: Where a vector takes several registers, 64 columns at a time would not fit in them.
WIDE_REGISTERS = _has_wide_registers()
