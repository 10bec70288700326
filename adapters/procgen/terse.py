"""Dumps without the random generators' text, nine tenths of a dump and of the time to make it.

`get_state` prints three `std::mt19937` as 1,872 decimal numbers through an `ostringstream`: about 70 of its
80 microseconds, for text that no observation uses, and no option leaves it out. The engine's library imports
two functions of the C++ runtime for that, and for nothing else in a dump. While states are fetched,
`terse_dumps` puts functions there that print nothing. The generators' strings are then empty and all other
bytes are the same, which `ProcgenEngine` checks before it relies on it.

A thread that asks another engine of this process for a state meanwhile gets a terse one too, which
`set_state` can't read; Entitize gives it whole ones only. The switch is
`entitize.process.switch("terse_dumps", False)`.
"""

from __future__ import annotations

import re
from typing import Any

from numba import types

from ...ragged.compiled import compiled_callback
from .replaced_functions import ReplacedFunctions

#: At least this many digits and spaces in a row are a generator's text (about 6,700), and nothing else is.
_GENERATOR_TEXT = re.compile(rb"[0-9 ]{5000,}")


@compiled_callback(types.voidptr(types.voidptr, types.uint64))
def _print_no_number(stream: Any, number: Any) -> Any:
    return stream


@compiled_callback(types.voidptr(types.voidptr, types.voidptr, types.int64))
def _print_no_text(stream: Any, text: Any, length: Any) -> Any:
    return stream


#: `with terse_dumps:` lets `get_state` leave out the generators' text. The functions are what prints a
#: generator in libstdc++: `ostream::_M_insert(unsigned long)` and
#: `__ostream_insert(ostream&, const char*, long)`; both return the stream.
terse_dumps = ReplacedFunctions(
    {
        "_ZNSo9_M_insertImEERSoT_": _print_no_number,
        "_ZSt16__ostream_insertIcSt11char_traitsIcEERSt13basic_ostreamIT_T0_ES6_PKS3_l": _print_no_text,
    }
)


def without_generators(dump: bytes) -> bytes:
    """`dump` as it should be when it is terse: with the generators' strings empty."""
    parts, end = [], 0
    for text in _GENERATOR_TEXT.finditer(dump):
        length_at = text.start() - 4
        length = int.from_bytes(dump[length_at : text.start()], "little")
        parts += [dump[end:length_at], bytes(4)]
        end = text.start() + length
    return b"".join([*parts, dump[end:]])
