"""`Steps`: recorded steps, and their columns as Arrow arrays.

Shape alphabet: B steps, N items of a ragged column, A actors.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from ..envs import EntityBatch, EntitySpace, PackedLayout
from ..ragged import RaggedArray, gather_all
from ..ragged.validation import checked_integers

#: Column -> its type, for the columns with one number per step.
NUMBERS: dict[str, pa.DataType] = {
    "lane": pa.int32(),
    "episode": pa.int64(),
    "step": pa.int32(),
    "reward": pa.float32(),
    "terminated": pa.bool_(),
    "truncated": pa.bool_(),
    "final": pa.bool_(),
    "inactive": pa.bool_(),
}
#: Column -> the same as a dtype.
DTYPES = {name: np.dtype(kind.to_pandas_dtype()) for name, kind in NUMBERS.items()}


@dataclass(frozen=True, eq=False)
class Steps:
    """B recorded steps: an observation, the actions taken there, and what followed.

    Where `final` is true the row is the last observation of an episode: no action was taken there, and the
    reward is 0. An episode that ended where the engine can't give that observation has no such row.
    """

    observations: EntityBatch
    actions: dict[str, RaggedArray]  # per action (A,), as vector environments take them; int64 or float32
    lane: NDArray[np.int32]  # (B,)
    episode: NDArray[np.int64]  # (B,), numbered through the dataset
    step: NDArray[np.int32]  # (B,), within the episode
    reward: NDArray[np.float32]  # (B,), of the step that these actions made
    terminated: NDArray[np.bool_]  # (B,), whether that step ended the episode
    truncated: NDArray[np.bool_]  # (B,)
    final: NDArray[np.bool_]  # (B,)
    inactive: NDArray[np.bool_]  # (B,), whether the lane had nothing to decide

    def __len__(self) -> int:
        return len(self.lane)

    @property
    def decisions(self) -> NDArray[np.int64]:
        """The rows at which actions were chosen."""
        return np.flatnonzero(~(self.final | self.inactive))

    def gather(self, indices: ArrayLike) -> Steps:
        """Return the steps at `indices` (K,) int, in that order, as copies.

        Raises:
            IndexError: an index outside [-B, B), or indices that are not integers (a boolean mask, say).
        """
        rows = checked_integers(indices, "Steps.gather: indices", IndexError)
        actions = gather_all(list(self.actions.values()), rows)
        return Steps(
            self.observations.gather(rows),
            dict(zip(self.actions, actions, strict=True)),
            **{name: getattr(self, name)[rows] for name in NUMBERS},
        )

    def numbers(self) -> dict[str, NDArray[Any]]:
        """Return the columns with one number per step."""
        return {name: getattr(self, name) for name in NUMBERS}


def ragged_formats(space: EntitySpace) -> dict[str, tuple[np.dtype[Any], tuple[int, ...]]]:
    """Return dtype and shape of an item of each ragged column of `space`, in their order in the files."""
    actions = space.actions.items()
    choices = {f"choices/{name}": (np.dtype(action.dtype), action.item_shape) for name, action in actions}
    return {**PackedLayout(space).formats, **choices}


def arrow_schema(space: EntitySpace, metadata: Mapping[str, Any]) -> pa.Schema:
    """Return the columns of the files of a dataset; `metadata` stands in them as JSON under "entitize"."""
    fields = [
        pa.field(name, _list_type(dtype, shape), nullable=False)
        for name, (dtype, shape) in ragged_formats(space).items()
    ]
    if space.global_features:
        fields.append(pa.field("globals", pa.list_(pa.float32(), len(space.global_features)), nullable=False))
    fields += [pa.field(name, kind, nullable=False) for name, kind in NUMBERS.items()]
    fields.append(pa.field("info", pa.large_string()))
    return pa.schema(fields, {"entitize": json.dumps(metadata)})


def to_arrow(steps: Steps, infos: list[str | None], schema: pa.Schema) -> pa.RecordBatch:
    """Return `steps` as a batch of `schema`; ragged columns are not copied."""
    ragged = ragged_columns(steps)
    columns = []
    for field in schema:
        if field.name in ragged:
            columns.append(_to_list(ragged[field.name], field.type))
        elif field.name == "globals":
            columns.append(
                pa.FixedSizeListArray.from_arrays(
                    pa.array(steps.observations.globals.ravel()), type=field.type
                )
            )
        elif field.name == "info":
            columns.append(pa.array(infos, field.type))
        else:
            columns.append(pa.array(getattr(steps, field.name), field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def ragged_columns(steps: Steps) -> dict[str, RaggedArray]:
    """Return the ragged columns of `steps` by name."""
    arrays = {n: a for n, a in steps.observations.arrays().items() if isinstance(a, RaggedArray)}
    return {**arrays, **{f"choices/{name}": chosen for name, chosen in steps.actions.items()}}


def from_arrow(batch: pa.RecordBatch, space: EntitySpace, *, check: bool = True) -> Steps:
    """Return the steps in `batch`, without copies of ragged columns; their arrays are read-only.

    Args:
        check: check the offsets of ragged columns, which reads all of them.

    Raises:
        ValueError: the offsets of a ragged column do not rise from 0 to the number of its items.
    """
    arrays = {
        name: _from_list(batch.column(name), dtype, shape, check)
        for name, (dtype, shape) in ragged_formats(space).items()
    }
    width = len(space.global_features)
    globals_ = np.zeros((len(batch), 0), np.float32)
    if width:
        globals_ = _values(batch.column("globals").values, np.dtype(np.float32)).reshape(len(batch), width)

    layout = PackedLayout(space)
    observations = layout.batch(globals_, [arrays[name] for name in layout.formats])
    numbers = {name: batch.column(name).to_numpy(zero_copy_only=False) for name in NUMBERS}
    actions = {name: arrays[f"choices/{name}"] for name in space.actions}
    return Steps(observations, actions, **{n: v.astype(DTYPES[n], copy=False) for n, v in numbers.items()})


def not_finite(steps: Steps) -> str | None:
    """Return where `steps` have a number that is not finite, or None. Such steps are no part of a dataset."""
    choices = {f"choices/{name}": chosen for name, chosen in steps.actions.items()}
    columns = {**steps.observations.arrays(), **choices, "reward": steps.reward}
    for name, column in columns.items():
        values = column if isinstance(column, np.ndarray) else column.values
        if values.dtype.kind != "f" or (finite := np.isfinite(values)).all():
            continue
        row = int(np.argwhere(~finite)[0, 0])
        if isinstance(column, RaggedArray):
            row = column.sequence_of(row)
        return f"step {row}: column {name!r}: expected finite numbers, got {values[~finite][0]}"
    return None


# -- one column ---------------------------------------------------------------------------------------------


def _list_type(dtype: np.dtype[Any], inner_shape: tuple[int, ...]) -> pa.DataType:
    """Return the Arrow type of a ragged column: lists of numbers, or of lists of fixed size.

    Flags are bytes (Arrow's own are bits, which can't be read without a copy). Items without numbers (an
    entity type without features) are one byte each, which keeps their count.
    """
    size = math.prod(inner_shape)
    if size == 0:
        return pa.large_list(pa.uint8())
    value = pa.uint8() if dtype == np.bool_ else pa.from_numpy_dtype(dtype)
    return pa.large_list(pa.list_(value, size) if inner_shape else value)


def _to_list(array: RaggedArray, kind: pa.DataType) -> pa.Array:
    values = array.values.view(np.uint8) if array.dtype == np.bool_ else array.values
    if math.prod(array.inner_shape) == 0:
        values = np.zeros(array.num_items, np.uint8)
    flat = pa.array(values.reshape(-1))
    if isinstance(kind.value_type, pa.FixedSizeListType):
        flat = pa.FixedSizeListArray.from_arrays(flat, type=kind.value_type)
    return pa.LargeListArray.from_arrays(pa.array(array.offsets), flat, type=kind)


def _from_list(
    column: pa.LargeListArray, dtype: np.dtype[Any], inner_shape: tuple[int, ...], check: bool
) -> RaggedArray:
    offsets = column.offsets.to_numpy()
    items = column.values
    if math.prod(inner_shape) == 0:
        values = np.zeros((len(items), *inner_shape), dtype)
    else:
        flat = items.values if isinstance(items, pa.FixedSizeListArray) else items
        values = _values(flat, dtype).reshape(len(items), *inner_shape)
    return RaggedArray(values, offsets) if check else RaggedArray.unchecked(values, offsets)


def _values(array: pa.Array, dtype: np.dtype[Any]) -> NDArray[Any]:
    values = array.to_numpy()
    return values.view(np.bool_) if dtype == np.bool_ else values
