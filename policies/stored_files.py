"""Reading files that others may have written: regular files only, JSON of limited depth, few tensors.

Reading never takes more time or memory than the size of the file justifies.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any

#: JSON nested deeper is refused: Python's recursion limit would end what reads it.
MAX_DEPTH = 64
#: A safetensors file with more tensors is refused, and not written: reading one takes 50 µs, however small.
MAX_TENSORS = 10_000
#: Bytes of a safetensors file's table of tensors.
MAX_TABLE = 8 * 2**20

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
#: A pipe that takes the place of a file between the check and the opening does not block.
_FLAGS = os.O_RDONLY | sum(
    getattr(os, f"O_{name}", 0) for name in ("NONBLOCK", "NOFOLLOW", "BINARY", "CLOEXEC")
)


def read_regular(path: Path) -> bytes:
    """Return the content of a regular file.

    Raises:
        OSError: it can't be read, or it is a link, a pipe, a device or a folder; nothing is opened then.
    """
    _check_regular(os.lstat(path))
    with open(os.open(path, _FLAGS), "rb") as file:
        status = os.fstat(file.fileno())
        _check_regular(status)
        try:
            return file.read(status.st_size)
        except (MemoryError, OverflowError):
            raise OSError(errno.EFBIG, f"its {status.st_size} bytes exceed this machine's memory") from None


def _check_regular(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "something else")
        raise OSError(errno.EINVAL, f"expected a regular file, got {kind}")


def parse_json(content: bytes | str) -> Any:
    """Return what JSON text says.

    Raises:
        ValueError: it is no JSON, or nested deeper than `MAX_DEPTH`.
    """
    try:
        value = json.loads(content)
    except RecursionError:
        raise _too_deep() from None
    level, depth = [value], 0
    while level:
        if depth > MAX_DEPTH:
            raise _too_deep()
        level = [
            child
            for item in level
            if isinstance(item, dict | list)
            for child in (item.values() if isinstance(item, dict) else item)
            if isinstance(child, dict | list)
        ]
        depth += 1
    return value


def _too_deep() -> ValueError:
    return ValueError(f"nested too deeply: expected at most {MAX_DEPTH} levels, got more")


def check_tensor_count(content: bytes) -> None:
    """Check the table of tensors with which a safetensors file begins, before anything is made of it.

    Raises:
        ValueError: there is no table, or it has more than `MAX_TENSORS` tensors.
    """
    length = int.from_bytes(content[:8], "little")
    if len(content) < 8 or length > len(content) - 8:
        raise ValueError(f"table of tensors: expected {length} bytes, got {max(len(content) - 8, 0)}")
    if length > MAX_TABLE:
        raise ValueError(f"table of tensors: expected at most {MAX_TABLE} bytes, got {length}")
    table = parse_json(content[8 : 8 + length])
    if not isinstance(table, dict):
        raise ValueError(f"table of tensors: expected a JSON object, got {type(table).__name__}")
    if len(table) > MAX_TENSORS:
        raise ValueError(f"expected at most {MAX_TENSORS} tensors, got {len(table)}")
