"""Ragged arrays as the types of other libraries, which are imported only when asked for.

Nothing is copied unless a docstring says so: both sides then share memory.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"this needs the package {name!r}: pip install {name}") from error


def tensors_of(values: NDArray[Any], offsets: NDArray[np.int64]) -> tuple[torch.Tensor, torch.Tensor]:
    """Both arrays as CPU tensors."""
    torch = _library("torch")
    for name, array in (("values", values), ("offsets", offsets)):
        if not array.flags.writeable:  # torch has no read-only tensors
            raise ValueError(f"the {name} are read-only and a tensor would not be: use copy().to_torch()")
    return torch.from_numpy(values), torch.from_numpy(offsets)


def array_of_tensor(tensor: torch.Tensor) -> NDArray[Any]:
    """A tensor without its gradient as an array: shared where it is on the CPU, a copy from elsewhere."""
    try:
        return tensor.detach().cpu().numpy()
    except TypeError as error:  # bfloat16 and the like
        raise ValueError(f"dtype {tensor.dtype} has no NumPy counterpart") from error


def arrow_of(values: NDArray[Any], offsets: NDArray[np.int64]) -> Any:
    """A `pyarrow.LargeListArray`, items as fixed-size lists; bool is a copy, Arrow packs it into bits."""
    if 0 in values.shape[1:]:
        raise ValueError(f"Arrow has no items without features, these have shape {values.shape[1:]}")
    pyarrow = _library("pyarrow")
    items = pyarrow.array(values.reshape(-1))
    for size in reversed(values.shape[1:]):
        items = pyarrow.FixedSizeListArray.from_arrays(items, size)
    return pyarrow.LargeListArray.from_arrays(pyarrow.array(offsets), items)


def awkward_of(values: NDArray[Any], offsets: NDArray[np.int64]) -> Any:
    """An `awkward.Array` of type B * var * inner * dtype."""
    awkward = _library("awkward")
    contents = awkward.contents
    return awkward.Array(
        contents.ListOffsetArray(awkward.index.Index64(offsets), contents.NumpyArray(values))
    )


def parts_of_awkward(array: Any) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Values and offsets of an awkward array of type B * var * inner * dtype."""
    awkward = _library("awkward")
    layout = awkward.to_layout(array)
    if not layout.is_list or layout.is_regular or layout.parameters:
        raise ValueError(f"expected an array of type B * var * items, got {awkward.type(array)}")
    layout = layout.to_ListOffsetArray64(True)
    offsets = np.asarray(layout.offsets)
    try:
        values = np.asarray(awkward.to_numpy(layout.content[: offsets[-1]], allow_missing=False))
    except ValueError as error:
        raise ValueError(f"the items of {awkward.type(array)} are not all of one shape") from error
    return values, offsets
