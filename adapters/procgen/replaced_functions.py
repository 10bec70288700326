"""Functions that the engine's library imports, replaced by others for a while.

A library calls imported functions through a table of their addresses. The table belongs to the library, so a
replacement counts for every engine of this process and in all of its threads.
"""

from __future__ import annotations

import ctypes
import functools
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

#: The engine's library, as it is mapped into this process.
_LIBRARY = "libenv.so"
#: Where Linux lists what is mapped into this process.
MAPS = Path("/proc/self/maps")


class ReplacedFunctions:
    """A `with` block in which the library calls other functions; in several threads at once, too.

    `with` returns True if it does, and False on systems other than Linux, and with a library that imports
    other functions or whose table is read-only.

    Args:
        functions: imported function -> what is called in its place (made by `compiled_callback`).
    """

    def __init__(self, functions: Mapping[str, Any]) -> None:
        self._functions = functions
        self._lock = threading.Lock()
        self._users = 0
        self._entries: list[tuple[ctypes.c_uint64, int, int]] | None = None  # where, original, replacement
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._start_over)

    def __enter__(self) -> bool:
        with self._lock:
            if self._entries is None:
                found = ((ctypes.c_uint64.from_address(at), new) for at, new in self.entries().items())
                self._entries = [(entry, entry.value, new) for entry, new in found]
            self._users += 1
            if self._users == 1:
                for entry, _, new in self._entries:
                    entry.value = new
            return bool(self._entries)

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                self._restore()

    def _restore(self) -> None:
        for entry, original, _ in self._entries or ():
            entry.value = original

    def _start_over(self) -> None:
        """In a forked process: the threads that were in a block are not there."""
        self._lock, self._users = threading.Lock(), 0
        self._restore()

    def entries(self, maps: Path = MAPS) -> dict[int, int]:
        """Return the table's entries: address -> replacement; none where they can't be replaced."""
        try:
            regions = [
                line.split() for line in maps.read_text().splitlines() if line.endswith("/" + _LIBRARY)
            ]
            found: dict[int, int] = {}
            for path in dict.fromkeys(region[-1] for region in regions):
                spans = [(*_span(region[0]), region[1]) for region in regions if region[-1] == path]
                base = min(start for start, _, _ in spans)
                offsets = imported_functions(Path(path))
                addresses = {
                    base + offsets[name]: function.address
                    for name, function in self._functions.items()
                    if name in offsets
                }
                writable = [
                    any(start <= address < end and rights.startswith("rw") for start, end, rights in spans)
                    for address in addresses
                ]
                if len(addresses) == len(self._functions) and all(writable):
                    found |= addresses
            return found
        except (OSError, ValueError):
            return {}


def _span(addresses: str) -> tuple[int, int]:
    start, end = addresses.split("-")
    return int(start, 16), int(end, 16)


@functools.cache
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
