"""The lanes that the parent steps itself while its workers step theirs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....ragged import RaggedArray
from ...errors import WorkerError
from .answers import Answer, AnswerLayout
from .worker_hosts import Host


class OwnShare:
    """Steps a run of lanes in this process, and writes the result where it is joined with the workers'.

    Raises:
        WorkerError: something raised in these lanes, in any method.
    """

    def __init__(self, host_fn: Callable[[], Host], lanes: range) -> None:
        self.lanes = lanes
        self._host: Host | None = None
        self._host = self._guarded("being made", host_fn)
        self.introduction = self._host.introduction
        self._layout = AnswerLayout(self.introduction.space)
        self._memory: NDArray[np.uint8] = np.empty(0, np.uint8)
        self.address = 0

    def reset(self, seed: Any, options: dict[str, Any] | None) -> tuple[Any, int]:
        """Start an episode in every lane: the rest of the answer, and the number of last observations."""
        return self._written(self._guarded("reset", self.host.reset, seed, options))

    def step(self, actions: dict[str, RaggedArray]) -> tuple[Any, int]:
        """Step every lane: likewise."""
        return self._written(self._guarded("step", self.host.step, actions))

    def render(self) -> tuple[Any, ...]:
        """One frame per lane."""
        return self._guarded("render", self.host.render)

    def set_progress(self, fraction: float) -> None:
        """Pass the progress of training on."""
        self._guarded("set_progress", self.host.set_progress, fraction)

    @property
    def host(self) -> Host:
        assert self._host is not None
        return self._host

    def close(self) -> None:
        """Close the lanes. A second call does nothing."""
        host, self._host = self._host, None
        if host is not None:
            host.close()

    def _written(self, answer: Answer) -> tuple[Any, int]:
        size = self._layout.write(answer.step, self._memory)
        if size > len(self._memory):
            self._memory = np.empty(2 * size, np.uint8)
            self.address = self._memory.ctypes.data
            self._layout.write(answer.step, self._memory)
        return answer.rest, answer.num_final

    def _guarded(self, doing: str, call: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return call(*arguments)
        except Exception as error:
            if isinstance(error, WorkerError) and error.env_indices:
                raise
            lanes = list(self.lanes)
            sentence = f"envs {lanes} raised {type(error).__name__} in {doing}: {error}"
            raise WorkerError(sentence, lanes) from error
