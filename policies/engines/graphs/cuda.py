"""Everything that only a GPU can do, in short functions; the rest of the package is tested without one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor


def pinned(num_bytes: int) -> Tensor:
    """Allocate pinned bytes on the host, which a GPU can read while the processor does something else."""
    return torch.empty(num_bytes, dtype=torch.uint8, pin_memory=True)


def aside(function: Callable[[], Tensor], device: torch.device) -> Tensor:
    """Run on a separate stream, as required for the runs before a capture."""
    stream, main = torch.cuda.Stream(device), torch.cuda.current_stream(device)
    stream.wait_stream(main)
    with torch.cuda.stream(stream):
        result = function()
    main.wait_stream(stream)
    result.record_stream(main)
    return result


def capture(
    function: Callable[[], Tensor], device: torch.device, pool: Any = None
) -> tuple[Tensor, Callable[[], Any], Any]:
    """Record what `function` launches without running it.

    Returns:
        its result's memory, how to run it, and the pool of its memory: with that `pool` later captures use
        the same memory, so a result is valid until another one of them runs.
    """
    graph = torch.cuda.CUDAGraph()
    # torch's own stream for captures is on the GPU that was current at the first one, perhaps another.
    with torch.cuda.device(device), torch.cuda.graph(graph, pool=pool, stream=torch.cuda.Stream(device)):
        result = function()
    return result, graph.replay, graph.pool()


class Courier:
    """Copies pinned bytes to the device on a stream of its own."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._stream = torch.cuda.Stream(device)
        self._sent = torch.cuda.Event()
        self._read = torch.cuda.Event()

    def wait(self) -> None:
        """Wait until the last copy has left the pinned bytes."""
        self._sent.synchronize()

    @contextmanager
    def copied(self, source: Tensor, target: Tensor) -> Iterator[None]:
        """Context of launches that read a copy, made before them; they finish before the next copy."""
        main = torch.cuda.current_stream(self.device)
        self._stream.wait_event(self._read)
        with torch.cuda.stream(self._stream):
            target.copy_(source, non_blocking=True)
            self._sent.record(self._stream)
        main.wait_event(self._sent)
        try:
            yield
        finally:
            self._read.record(main)

    def reserve(self, num_bytes: int) -> Tensor:
        """Return bytes on the device that no launched work still uses."""
        block = torch.empty(num_bytes, dtype=torch.uint8, device=self.device)
        torch.cuda.synchronize(self.device)  # it may be memory that queued work has not finished with
        return block


@contextmanager
def matrix_precision(precision: str) -> Iterator[None]:
    """Multiply float32 matrices in TensorFloat-32 if `precision` is "tf32"."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if precision == "tf32" else before)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
