"""Transfer of host arrays to the device as one block of bytes, while the device computes with another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from . import cuda
from .packing import Packing

#: Writes the contents of a packing's arrays.
Write = Callable[[dict[str, NDArray[Any]]], None]


class _Side:
    """A block of the host and its copy on the device; on the CPU they share memory."""

    def __init__(self, device: torch.device) -> None:
        self._courier = cuda.Courier(device) if device.type == "cuda" else None
        self._host = self._there = torch.empty(0, dtype=torch.uint8)

    @contextmanager
    def sent(self, packing: Packing, write: Write) -> Iterator[Tensor]:
        courier, size = self._courier, packing.num_bytes
        if courier is not None:
            courier.wait()
        if len(self._host) < size:
            room = size + size // 4
            self._host = torch.empty(room, dtype=torch.uint8) if courier is None else cuda.pinned(room)
            self._there = self._host if courier is None else courier.reserve(room)
        write(packing.arrays(self._host.numpy()))
        source, target = self._host[:size], self._there[:size]
        with nullcontext() if courier is None else courier.copied(source, target):
            yield target


class Staging:
    """Two such blocks in turn: one is filled and sent while the device computes with the other."""

    def __init__(self, device: torch.device) -> None:
        self._sides = [_Side(device), _Side(device)]

    @contextmanager
    def sent(self, packing: Packing, write: Write) -> Iterator[Tensor]:
        """Context of launches that read the bytes (`num_bytes`,) that `write` wrote, on the device."""
        self._sides.reverse()
        with self._sides[0].sent(packing, write) as block:
            yield block
