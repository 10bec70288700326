"""Many arrays in one block of bytes: transferred as one, and read as views."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray
from torch import Tensor

_TORCH = {np.dtype(np.float32): torch.float32, np.dtype(np.int64): torch.int64, np.dtype(bool): torch.bool}

#: Every array starts at a multiple of this many bytes, as kernels that load vectors like it.
_ALIGNMENT = 64


class Field(NamedTuple):
    """The shape and type of an array: float32, int64 or bool."""

    shape: tuple[int, ...]
    dtype: DTypeLike


class Packing:
    """Layout of the arrays in the block."""

    def __init__(self, fields: Mapping[str, Field]) -> None:
        self.fields = dict(fields)
        self._starts: dict[str, int] = {}
        self.num_bytes = 0
        for name, field in self.fields.items():
            self._starts[name] = self.num_bytes
            used = prod(field.shape) * np.dtype(field.dtype).itemsize
            self.num_bytes += -(-used // _ALIGNMENT) * _ALIGNMENT

    def arrays(self, block: NDArray[np.uint8]) -> dict[str, NDArray[Any]]:
        """Return views of `block` (at least `num_bytes`,)."""
        return {
            name: block[start:stop].view(dtype).reshape(shape)
            for name, start, stop, shape, dtype in self._places()
        }

    def tensors(self, block: Tensor) -> dict[str, Tensor]:
        """Return views of `block` (at least `num_bytes`,) uint8, on any device."""
        return {
            name: block[start:stop].view(_TORCH[dtype]).view(shape)
            for name, start, stop, shape, dtype in self._places()
        }

    def _places(self) -> list[tuple[str, int, int, tuple[int, ...], np.dtype[Any]]]:
        places = []
        for name, field in self.fields.items():
            dtype, start = np.dtype(field.dtype), self._starts[name]
            places.append((name, start, start + prod(field.shape) * dtype.itemsize, field.shape, dtype))
        return places
