"""Dumps without the random generators' text, nine tenths of a dump and of the time to make it.

`get_state` prints three `std::mt19937` as 1,872 decimal numbers through an `ostringstream`: about 70 of its
80 microseconds, for text that no observation uses, and no option leaves it out. The engine's library calls
two functions of the C++ runtime for that, and for nothing else in a dump, through its table of imported
functions. While states are fetched, `terse_dumps` puts functions there that print nothing. The generators'
strings are then empty and all other bytes are the same, which `ProcgenEngine` checks before it relies on it.

The table belongs to the library, so a thread that asks another engine of this process for a state meanwhile
gets a terse one too, which `set_state` can't read. Entitize never calls `set_state`. The switch is
`entitize.process.switch("terse_dumps", False)`.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from numba import cfunc, types

#: The engine's library, as it is mapped into this process.
_LIBRARY = "libenv.so"
#: Where Linux lists what is mapped into this process.
MAPS = Path("/proc/self/maps")

#: At least this many digits and spaces in a row are a generator's text (about 6,700), and nothing else is.
_GENERATOR_TEXT = re.compile(rb"[0-9 ]{5000,}")


@cfunc(types.voidptr(types.voidptr, types.uint64), cache=True)
def _print_no_number(stream: Any, number: Any) -> Any:
    return stream


@cfunc(types.voidptr(types.voidptr, types.voidptr, types.int64), cache=True)
def _print_no_text(stream: Any, text: Any, length: Any) -> Any:
    return stream


#: What prints a generator in libstdc++: `ostream::_M_insert(unsigned long)` and
#: `__ostream_insert(ostream&, const char*, long)`; both return the stream.
_SILENT = {
    "_ZNSo9_M_insertImEERSoT_": _print_no_number,
    "_ZSt16__ostream_insertIcSt11char_traitsIcEERSt13basic_ostreamIT_T0_ES6_PKS3_l": _print_no_text,
}

_lock = threading.Lock()
_users = 0
_originals: dict[int, int] = {}


@contextlib.contextmanager
def terse_dumps() -> Iterator[bool]:
    """Let `get_state` leave out the generators' text; yields whether it does."""
    global _users
    entries = printing_entries()
    with _lock:
        _users += 1
        if _users == 1:
            for address, function in entries.items():
                entry = ctypes.c_uint64.from_address(address)
                _originals[address] = entry.value
                entry.value = function
    try:
        yield bool(entries)
    finally:
        with _lock:
            _users -= 1
            if not _users:
                for address, function in _originals.items():
                    ctypes.c_uint64.from_address(address).value = function


def without_generators(dump: bytes) -> bytes:
    """`dump` as it should be when it is terse: with the generators' strings empty."""
    parts, end = [], 0
    for text in _GENERATOR_TEXT.finditer(dump):
        length_at = text.start() - 4
        length = int.from_bytes(dump[length_at : text.start()], "little")
        parts += [dump[end:length_at], bytes(4)]
        end = text.start() + length
    return b"".join([*parts, dump[end:]])


@functools.cache
def printing_entries(maps: Path = MAPS) -> dict[int, int]:
    """Return the entries of the library's table with printing functions, and their silent replacements.

    Empty where that can't be done: on another system than Linux, with a library that calls them otherwise, or
    whose table is read-only.
    """
    try:
        regions = [line.split() for line in maps.read_text().splitlines() if line.endswith("/" + _LIBRARY)]
        found: dict[int, int] = {}
        for path in dict.fromkeys(region[-1] for region in regions):
            spans = [(*_span(region[0]), region[1]) for region in regions if region[-1] == path]
            base = min(start for start, _, _ in spans)
            offsets = imported_functions(Path(path))
            addresses = {base + offsets[name]: _SILENT[name].address for name in _SILENT if name in offsets}
            writable = [
                any(start <= address < end and rights.startswith("rw") for start, end, rights in spans)
                for address in addresses
            ]
            if len(addresses) == len(_SILENT) and all(writable):
                found |= addresses
        return found
    except (OSError, ValueError):
        return {}


def _span(addresses: str) -> tuple[int, int]:
    start, end = addresses.split("-")
    return int(start, 16), int(end, 16)


def imported_functions(library: Path) -> dict[str, int]:
    """The offset of each imported function's entry in the table of a 64-bit ELF library."""
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile
    from elftools.elf.relocation import RelocationSection

    with library.open("rb") as file:
        try:
            elf = ELFFile(file)
            section = elf.get_section_by_name(".rela.plt")
            if elf.elfclass != 64 or not isinstance(section, RelocationSection):
                return {}
            symbols: Any = elf.get_section(section["sh_link"])
            return {
                symbols.get_symbol(entry["r_info_sym"]).name: int(entry["r_offset"])
                for entry in section.iter_relocations()
            }
        except ELFError:
            return {}
