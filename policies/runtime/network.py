"""Networks out of plain arrays, run by the fused kernels."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ...envs import EntityBatch, EntitySpace
from ..checkpoint import StoredCheckpoint, check_weights, stored_weights
from ..inputs.moments import shift_and_scale
from ..inputs.prepare import Inputs
from ..kernels.fused_network import FusedNetwork
from ..kernels.parameter_layout import Entry, escaped
from ..policy import ActingPolicy, ActResult, source_of_draws
from ..rogue_net.config import RogueNetConfig

Arrays = Mapping[str, NDArray[Any]]


class Network(ActingPolicy, Protocol):
    """Interface of the networks of an `Agent`."""

    def value(self, batch: EntityBatch) -> NDArray[np.float32]:
        """Return the values (B,); same contract as `Policy.value`."""
        ...

    def log_probs(self, batch: EntityBatch) -> Mapping[str, Any]:
        """Return arrays or tensors; same contract as `RogueNet.log_probs`."""
        ...

    def adapt_to(self, space: EntitySpace) -> None:
        """Read batches of `space`; same contract as `RogueNet.adapt_to`."""
        ...


class FlatNetwork:
    """A RogueNet whose parameters come as one flat array, in the order of `FusedNetwork.layout`.

    They are zero until `load`. It has no other state.
    """

    def __init__(self, space: EntitySpace, settings: RogueNetConfig) -> None:
        self._inputs = Inputs(space, settings)
        self._network = FusedNetwork(self._inputs.features, space.actions, settings)
        self.load(np.zeros(self._network.layout.room, np.float32))

    def load(self, flat: NDArray[np.float32]) -> None:
        """Take the parameters `flat` (P,), which must not change from now on."""
        self._weights = self._network.weights(flat)

    def act(self, batch: EntityBatch, rng: np.random.Generator, deterministic: bool = False) -> ActResult:
        """Choose an action for every actor; same contract as `Policy.act`.

        Raises:
            TypeError: `rng` is no generator.
            ValueError: the batch does not fit the space, or an actor may do nothing.
        """
        source = source_of_draws(rng, deterministic)
        return self._network.act(self._inputs.prepare(batch), batch.actions, self._weights, source)

    def value(self, batch: EntityBatch) -> NDArray[np.float32]:
        """Predicted return of each step (B,)."""
        return self._network.values(self._inputs.prepare(batch), self._weights)

    def log_probs(self, batch: EntityBatch) -> dict[str, NDArray[np.float32]]:
        """Log-probabilities of all choices; same contract as `RogueNet.log_probs`, without gradients."""
        return self._network.log_probs(self._inputs.prepare(batch), batch.actions, self._weights)

    def adapt_to(self, space: EntitySpace) -> None:
        """Read batches of `space`; same contract as `RogueNet.adapt_to`."""
        self._inputs.adapt_to(space)


class KernelNetwork(FlatNetwork):
    """A RogueNet out of a checkpoint, whose parameters never change: read, folded and packed once."""

    def __init__(
        self, space: EntitySpace, settings: RogueNetConfig, checkpoint: StoredCheckpoint[NDArray[Any]]
    ) -> None:
        """Read the parameters.

        Raises:
            CheckpointError: it has other parameters than such a network.
        """
        super().__init__(space, settings)
        arrays = stored_weights(checkpoint)
        modules = _marked_modules(arrays)
        layout = self._network.layout
        expected: dict[str, tuple[int, ...]] = {}
        for entry in layout.entries:
            expected |= _stored_shapes(entry, _module(entry, modules))
        check_weights(expected, checkpoint)
        self.load(layout.pack(lambda entry: _values(entry, _module(entry, modules), arrays)))


def _marked_modules(arrays: Arrays) -> set[str]:
    """Return the modules whose names in a state dict end with a %; see `escaped`."""
    return {name[: at + 1] for name in arrays for at in range(len(name)) if name.startswith("%.", at)}


def _module(entry: Entry, marked: Collection[str]) -> str:
    """Return the name of a parameter's module in a state dict."""
    if entry.name is None:
        return entry.place
    plain = f"{entry.place}.{escaped(entry.name)}"
    return f"{plain}%" if f"{plain}%" in marked else plain


def _stored_shapes(entry: Entry, module: str) -> dict[str, tuple[int, ...]]:
    """Names and shapes of what a checkpoint holds for a parameter."""
    if entry.place == "normalization":
        return {f"{module}.count": (), f"{module}.mean": entry.shape, f"{module}.squares_sum": entry.shape}
    return {f"{module}.{entry.tensor}": entry.shape}


def _values(entry: Entry, module: str, arrays: Arrays) -> NDArray[np.float32]:
    """A parameter as kernels use it."""
    if entry.place != "normalization":
        return arrays[f"{module}.{entry.tensor}"].astype(np.float32)
    count, mean, squares_sum = (arrays[f"{module}.{name}"] for name in ("count", "mean", "squares_sum"))
    shift, scale = shift_and_scale(float(count), mean, squares_sum)
    return (shift if entry.tensor == "shift" else scale).astype(np.float32)
