"""The same sequences of several ragged arrays, in one call: how a minibatch is cut out of a rollout.

Shape alphabet: B sequences, K indices.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .array import RaggedArray
from .copy_kernels import gather_items_of_all, gather_offsets_of_all
from .threads import PARALLEL_BYTES, get_num_threads, run_shares
from .validation import checked_integers, out_of_range


def gather_all(arrays: Sequence[RaggedArray], indices: ArrayLike) -> list[RaggedArray]:
    """`array.gather(indices)` for each of `arrays`, at a fraction of the calls.

    Runs on one thread, or where the results have 1 MiB or more on as many as
    `entitize.ragged.set_num_threads` said.

    Raises:
        IndexError: an index outside [-B, B), or indices that are not integers.
        ValueError: the arrays have different numbers of sequences.
    """
    checked = checked_integers(indices, "sequence indices", IndexError)
    if not arrays:
        return []
    sequences = len(arrays[0])
    for k, array in enumerate(arrays):
        if len(array) != sequences:
            raise ValueError(f"array {k}: expected {sequences} sequences, got {len(array)}")
    sources = [np.ascontiguousarray(array.offsets) for array in arrays]  # named, so that they stay
    offset_places = _places(sources)
    offsets = np.empty((len(arrays), len(checked) + 1), np.int64)
    position = gather_offsets_of_all(offset_places, sequences, checked, offsets)
    if position >= 0:
        raise out_of_range(checked[position], sequences, "sequence")
    targets = [
        np.empty((int(count), *array.inner_shape), array.dtype)
        for count, array in zip(offsets[:, -1], arrays, strict=True)
    ]
    values = [np.ascontiguousarray(array.values) for array in arrays]
    sizes = np.array([array.itemsize * int(np.prod(array.shape[1:], dtype=np.int64)) for array in values])
    places, target_places = _places(values), _places(targets)

    def run(_: int, first: int, last: int) -> None:
        gather_items_of_all(
            places, offset_places, sizes, sequences, checked, target_places, offsets, first, last
        )

    threads = get_num_threads()
    if threads == 1 or sum(target.nbytes for target in targets) < PARALLEL_BYTES:
        run(0, 0, len(checked))
    else:
        run_shares([len(checked) * share // threads for share in range(threads + 1)], run)
    return [RaggedArray.unchecked(target, starts) for target, starts in zip(targets, offsets, strict=True)]


def _places(arrays: Sequence[NDArray[np.generic]]) -> NDArray[np.int64]:
    return np.array([array.__array_interface__["data"][0] for array in arrays], np.int64)
