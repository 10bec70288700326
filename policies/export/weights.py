"""The weights of a network by the names of its modules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..inputs.moments import shift_and_scale
from ..kernels.parameter_layout import escaped


class ModuleWeights:
    """The arrays of one module; `weights.part("mlp.0")` has those of a module inside it."""

    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._arrays = arrays

    def __getitem__(self, tensor: str) -> NDArray[np.float32]:
        return self._arrays[tensor].astype(np.float32)

    def __contains__(self, tensor: str) -> bool:
        return tensor in self._arrays

    def part(self, module: str) -> ModuleWeights:
        """Return the weights of a module inside this one."""
        prefix = f"{module}."
        return ModuleWeights(
            {n.removeprefix(prefix): a for n, a in self._arrays.items() if n.startswith(prefix)}
        )

    def named(self, place: str, name: str) -> ModuleWeights:
        """Return the weights of an entity type's or an action's module; see `rogue_net.names.module_key`."""
        plain = self.part(f"{place}.{escaped(name)}")
        return plain if plain._arrays else self.part(f"{place}.{escaped(name)}%")

    def shift_and_scale(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return s and k, each (F,), of the normalization x -> (x - s) k, if this is an `InputNorm`."""
        arrays = self._arrays
        shift, scale = shift_and_scale(float(arrays["count"]), arrays["mean"], arrays["squares_sum"])
        return shift.astype(np.float32), scale.astype(np.float32)
