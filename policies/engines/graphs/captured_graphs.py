"""Run a function of a block of bytes: on a GPU as one CUDA graph per capacity, elsewhere directly."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from . import cuda
from .capacity import Capacity

#: Runs of a capacity before it is captured. They are real runs: their effects count.
WARM_UP = 3
#: How many graphs are kept. Their intermediate results share memory.
_KEPT = 16


@dataclass
class _Entry:
    runs: int = 0
    block: Tensor | None = None  # what the graph reads
    result: Tensor | None = None  # what the graph writes
    replay: Callable[[], Any] | None = None


class Graphs:
    """Calls `function(capacity, block)`, whose result is one tensor of a fixed shape.

    The function may change parameters and their state in place. `token` identifies the memory that a graph
    refers to (an optimizer's state, for example): when it changes, all graphs are dropped.
    """

    def __init__(
        self,
        function: Callable[[Capacity, Tensor], Tensor],
        device: torch.device,
        token: Callable[[], Hashable],
    ) -> None:
        self.function = function
        self.device = device
        self.captures = device.type == "cuda"
        self._token = token
        self._held: Hashable = None
        self._entries: dict[Capacity, _Entry] = {}
        self._pool: Any = None  # of the graphs' memory

    def run(self, capacity: Capacity, block: Tensor) -> Tensor:
        """Return the result, in memory of its own."""
        if not self.captures:
            return self.function(capacity, block)
        token = self._token()
        if token != self._held:
            self._entries.clear()
            self._held, self._pool = token, None
        entry = self._entries.pop(capacity, None) or _Entry()
        self._entries[capacity] = entry  # least recently used first
        while len(self._entries) > _KEPT:
            del self._entries[next(iter(self._entries))]
        entry.runs += 1
        if entry.runs <= WARM_UP:
            result = cuda.aside(lambda: self.function(capacity, block), self.device)
            self._held = self._token()  # the first run may have made the optimizer's state
            return result
        if entry.replay is None:
            own = entry.block = torch.empty_like(block)
            entry.result, entry.replay, self._pool = cuda.capture(
                lambda: self.function(capacity, own), self.device, self._pool
            )
        assert entry.block is not None and entry.result is not None
        entry.block.copy_(block)
        entry.replay()
        return entry.result.clone()
