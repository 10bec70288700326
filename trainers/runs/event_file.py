"""`EventFile`: a file of numbers for TensorBoard, written as a whole or not at all.

torch's `SummaryWriter` writes in a thread, whose errors Python prints with a traceback.
"""

from __future__ import annotations

import io
import os
import socket
import time
from itertools import count
from pathlib import Path
from typing import Any

_NUMBERS = count()  # of the files of this process


class EventFile:
    """A new file for TensorBoard in `folder`, with what `SummaryWriter` would write.

    Args:
        purge_step: TensorBoard drops what earlier files in the folder have from this step on.

    Raises:
        OSError: of `flush`: the file can't be written. It ends with the last whole flush.
    """

    def __init__(self, folder: Path, purge_step: int | None = None) -> None:
        # Only here: the import takes 0.2 s.
        from tensorboard.compat.proto.event_pb2 import SessionLog
        from tensorboard.summary.writer.record_writer import RecordWriter

        names = f"{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}.{next(_NUMBERS)}"
        self.path = folder / f"events.out.tfevents.{names}"
        self._pending = io.BytesIO()
        self._records = RecordWriter(self._pending)
        self._size = 0  # of what was written
        self._add(file_version="brain.Event:2")
        if purge_step is not None:
            self._add(step=purge_step, session_log=SessionLog(status=SessionLog.START))

    def add_scalar(self, name: str, value: float, step: int) -> None:
        """Add a number; `flush` writes it."""
        from torch.utils.tensorboard.summary import scalar

        self._add(step=step, summary=scalar(name, value))

    def add_text(self, name: str, content: str) -> None:
        """Add a text in Markdown; `flush` writes it."""
        from torch.utils.tensorboard.summary import text

        self._add(step=0, summary=text(name, content))

    def flush(self) -> None:
        """Write what was added."""
        content = self._pending.getvalue()
        try:
            with self.path.open("ab") as file:  # opened each time: it reaches the system whole
                file.write(content)
        except OSError:
            if self.path.exists():
                os.truncate(self.path, self._size)
            raise
        self._size += len(content)
        self._pending.seek(0)
        self._pending.truncate()

    def _add(self, **fields: Any) -> None:
        from tensorboard.compat.proto.event_pb2 import Event

        self._records.write(Event(wall_time=time.time(), **fields).SerializeToString())
