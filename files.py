"""Files: written so that a kill or a power cut leaves the old content or the new, never half of it; read
although others may have written them, in no more time and memory than their sizes justify."""

from __future__ import annotations

import errno
import json
import os
import stat
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

#: JSON nested deeper is refused: Python's recursion limit would end what reads it.
MAX_DEPTH = 64

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_READ = os.O_RDONLY | sum(getattr(os, f"O_{name}", 0) for name in ("NONBLOCK", "BINARY"))
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)


def write_synced(path: Path, content: bytes) -> None:
    """Write `path` and wait until its content is on the disk."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Wait until the names in the folder `path` are on the disk, where the system can do that."""
    if os.name == "nt":  # Windows opens no folders
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_file(path: Path, content: bytes) -> None:
    """Give `path` new content in one step; where that fails, it keeps its own."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        write_synced(temporary, content)
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    sync_folder(path.parent)


def read_regular(path: Path, links: bool = False) -> bytes:
    """Return the content of a regular file; with `links` also of one that `path` links to.

    Raises:
        OSError: it can't be read, or it is a pipe, a device, a folder or a link; nothing is opened then.
    """
    _check_regular(path, os.stat(path, follow_symlinks=links))
    # A pipe that has taken its place since then does not block.
    with open(os.open(path, _READ | (0 if links else _NO_LINK)), "rb") as file:
        status = os.fstat(file.fileno())
        _check_regular(path, status)
        try:
            return file.read(status.st_size)
        except (MemoryError, OverflowError):
            problem = f"its {status.st_size} bytes exceed this machine's memory"
            raise OSError(errno.EFBIG, problem, str(path)) from None


def _check_regular(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "something else")
        raise OSError(errno.EINVAL, f"expected a regular file, got {kind}", str(path))


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
