"""Environments with a state for checkpoints, and a check of arrays of one, which may be damaged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..batch.entity_batch import EntityBatch

State = Mapping[str, NDArray[Any]]
Bound = float | tuple[float, ...]
#: The least and the greatest valid numbers of arrays by name; both broadcast against the array.
Bounds = dict[str, tuple[Bound, Bound]]


@runtime_checkable
class EvolvingVectorEnv(Protocol):
    """A vector environment that changes during training, beside its episodes, such as `PastSelfPlay`."""

    def get_training_state(self) -> dict[str, Any]:
        """Return the state that a resumed run needs, JSON-able; called at every checkpoint."""
        ...

    def set_training_state(self, state: Mapping[str, Any]) -> None:
        """Restore `state`.

        Raises:
            CheckpointError: this is not possible; nothing has changed.
        """
        ...

    def training_metrics(self) -> dict[str, float]:
        """Return metrics to log after an update."""
        ...


@runtime_checkable
class StatefulVectorEnv(Protocol):
    """A vector environment that can save its state; a resumed run then continues bit for bit."""

    def get_state(self) -> dict[str, NDArray[Any]]:
        """Return everything that the future depends on, as arrays of bool, integers or floats."""
        ...

    def set_state(self, state: Mapping[str, NDArray[Any]]) -> EntityBatch:
        """Restore `state`; return the observations of that moment, one per environment."""
        ...


def check_arrays(where: str, own: State, given: State) -> None:
    """Check that `given` has the arrays of `own`, in their dtypes and shapes, and that bools are 0 or 1.

    Raises:
        ValueError: an array is missing or differs; the message starts with `where`.
    """
    for name, array in own.items():
        got = given.get(name)
        if got is None or got.shape != array.shape or got.dtype != array.dtype:
            found = "nothing" if got is None else f"{got.dtype} {got.shape}"
            raise ValueError(f"{where}: state {name!r}: expected {array.dtype} {array.shape}, got {found}")
        if got.dtype == bool and (got.view(np.uint8) > 1).any():  # bytes of a file; kernels count with them
            raise ValueError(
                f"{where}: state {name!r}: expected bytes 0 and 1, got {got.view(np.uint8).max()}"
            )
