"""Writing files so that a kill or a power cut leaves the old content or the new, never half of it."""

from __future__ import annotations

import os
from pathlib import Path


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
    """Give `path` new content in one step."""
    temporary = path.with_name(f".{path.name}.tmp")
    write_synced(temporary, content)
    temporary.replace(path)
    sync_folder(path.parent)
