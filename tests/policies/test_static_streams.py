"""What is sent to a GPU arrives whole, whatever order its streams run in: with streams that the test runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import pytest
import torch
from entitize.policies.engines.graphs import Field, Packing, Staging, cuda

GPU = torch.device("cuda", 1)


class Stream:
    """Work that is done some time, in its order."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self.work: list[Callable[[], None]] = []
        self.waits: list[Event | None] = []  # one for each piece: it starts once this record is reached
        gpu.streams.append(self)

    def launch(self, work: Callable[[], None], after: Event | None = None) -> None:
        self.work.append(work)
        self.waits.append(after)

    def wait_event(self, event: Event) -> None:
        self.launch(lambda: None, event.latest())


class Event:
    """As of CUDA: who waits does so for the record that was last asked for; without one for nothing."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self.done = True
        self._latest: Event | None = None

    def latest(self) -> Event | None:
        return self._latest

    def record(self, stream: Stream) -> None:
        mark = self._latest = Event(self.gpu)
        mark.done = False
        stream.launch(lambda: setattr(mark, "done", True))

    def synchronize(self) -> None:
        if self._latest is not None:
            self.gpu.run(self._latest)


class Gpu:
    """Does one piece of work of a random stream at a time, and only when somebody waits."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.streams: list[Stream] = []
        self.main = self.current = Stream(self)

    def run(self, until: Event | None = None) -> None:
        """Everything that is launched, or no more than it takes to reach a record."""
        while until is None or not until.done:
            ready = [s for s in self.streams if s.work and (s.waits[0] is None or s.waits[0].done)]
            if not ready:
                assert until is None and not any(stream.work for stream in self.streams)
                return
            stream = ready[self.rng.integers(len(ready))]
            stream.waits.pop(0)
            stream.work.pop(0)()

    @contextmanager
    def within(self, stream: Stream) -> Iterator[None]:
        before, self.current = self.current, stream
        yield
        self.current = before


@pytest.fixture
def gpu(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Gpu:
    gpu = Gpu(request.param)

    class There(torch.Tensor):
        """Memory of the device: what is copied into it arrives when its stream gets to it."""

        def copy_(self, source: torch.Tensor, non_blocking: bool = False) -> There:  # type: ignore[override]
            assert non_blocking
            target = self.as_subclass(torch.Tensor)

            def arrive() -> None:
                target.copy_(source)

            gpu.current.launch(arrive)
            return self

    monkeypatch.setattr(torch.cuda, "Stream", lambda device: Stream(gpu))
    monkeypatch.setattr(torch.cuda, "Event", lambda: Event(gpu))
    monkeypatch.setattr(torch.cuda, "stream", gpu.within)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: gpu.main)
    monkeypatch.setattr(cuda, "pinned", lambda size: torch.zeros(size, dtype=torch.uint8))

    def reserve(courier: cuda.Courier, size: int) -> torch.Tensor:
        gpu.run()  # it synchronizes
        return torch.zeros(size, dtype=torch.uint8).as_subclass(There)

    monkeypatch.setattr(cuda.Courier, "reserve", reserve)
    return gpu


@pytest.mark.parametrize("gpu", range(20), indirect=True)
def test_blocks_arrive_whole_in_any_order_of_the_streams(gpu: Gpu) -> None:
    staging, seen, sizes = Staging(GPU), [], [3, 3, 3, 9, 2, 9, 9, 4, 30, 30]
    most_behind = 0
    for number, size in enumerate(sizes):
        packing = Packing({"numbers": Field((size,), np.int64)})
        with staging.sent(packing, lambda arrays, n=number: arrays["numbers"].fill(n)) as block:
            numbers = packing.tensors(block.as_subclass(torch.Tensor))["numbers"]
            gpu.main.launch(lambda numbers=numbers: seen.append(numbers.tolist()))
        most_behind = max(most_behind, number + 1 - len(seen))
    gpu.run()
    assert seen == [[number] * size for number, size in enumerate(sizes)]
    assert most_behind >= 2, "one block is written while the one before is still to be read"


def test_a_graph_is_captured_on_the_device_that_it_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    told: dict[str, Any] = {}

    class Graph:
        def replay(self) -> str:
            return "replayed"

        def pool(self) -> int:
            return 7

    def graph(held: Graph, pool: Any, stream: Any) -> Any:
        told.update(graph=held, pool=pool, stream=stream)
        return nullcontext()

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "graph", graph)
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: ("stream", device))
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext(told.update(device=device)))
    result, replay, pool = cuda.capture(lambda: torch.ones(2), GPU, pool=6)
    assert result.tolist() == [1, 1] and replay() == "replayed" and (told["pool"], pool) == (6, 7)
    assert isinstance(told["graph"], Graph)
    assert told["stream"] == ("stream", GPU) and told["device"] == GPU
