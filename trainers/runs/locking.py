"""The lock of a run folder: one process, or one trainer of a process, works in it at a time."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_NAME = ".lock"
#: Windows keeps others from reading the byte that is locked: one far behind the text.
_LOCKED_BYTE = 1 << 30


class RunLockedError(RuntimeError):
    """Another process, or another trainer of this one, works in the run folder."""


@contextmanager
def run_lock(run: Path) -> Iterator[None]:
    """Create the folder `run` if it is missing, and lock it.

    Where the block raises, a lock file that was not there before is removed: a folder that is refused stays
    as it was.

    Raises:
        RunLockedError: it is locked already; the message names the process.
        OSError: the folder can't be created or written.
    """
    path = run / _NAME
    try:
        run.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise NotADirectoryError(f"{run} is not a folder") from error
    descriptor, is_new = _locked(path)
    try:
        os.ftruncate(descriptor, 0)
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.write(descriptor, f"process {os.getpid()} on {platform.node()}\n".encode())
        try:
            yield
        except BaseException:
            if is_new:
                with suppress(OSError):  # while it is locked: `_locked` makes another then
                    path.unlink()
            raise
        finally:
            _give_back(descriptor)  # a forked worker may hold the file open for longer than we do
    finally:
        os.close(descriptor)


def _locked(path: Path) -> tuple[int, bool]:
    """Open and lock the file at `path`; return its descriptor, and whether it was made.

    Raises:
        RunLockedError: it is locked already.
    """
    while True:
        is_new = not path.exists()
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            if not _take(descriptor):
                holder = os.read(descriptor, 1000).decode().strip()
                raise RunLockedError(f"{path.parent} is in use by {holder or 'another process'}")
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), path.stat()):
                    return descriptor, is_new
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # its holder removed it in between


if sys.platform == "win32":
    import msvcrt

    def _take(descriptor: int) -> bool:
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _give_back(descriptor: int) -> None:
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _take(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _give_back(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
