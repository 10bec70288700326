"""Blocks of memory with many arrays, joined, beside the arrays joined one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from entitize.ragged import BlockLayout, RaggedArray, concatenate

from facts import raises

DENSE: list[Any] = [(np.dtype(np.float32), ()), (np.dtype(np.bool_), ()), (np.dtype(np.float32), (3,))]
RAGGED: list[Any] = [
    (np.dtype(np.float32), (2,)),
    (np.dtype(np.bool_), (5,)),
    (np.dtype(np.int64), ()),
    (np.dtype(np.uint8), (0,)),
]


def some_arrays(
    rng: np.random.Generator, sequences: int, most: int
) -> tuple[list[np.ndarray], list[RaggedArray]]:
    dense = [rng.integers(0, 2, (sequences, *shape)).astype(dtype) for dtype, shape in DENSE]
    ragged = []
    for dtype, shape in RAGGED:
        lengths = rng.integers(0, most + 1, sequences)
        values = rng.integers(0, 100, (lengths.sum(), *shape)).astype(dtype)
        ragged.append(RaggedArray.from_lengths(values, lengths))
    return dense, ragged


@pytest.mark.parametrize(("counts", "most"), [([3], 4), ([2, 5, 1], 6), ([0, 4], 3), ([0], 1), ([4, 4], 0)])
def test_joined_blocks_hold_the_joined_arrays(counts: list[int], most: int) -> None:
    rng = np.random.default_rng(sum(counts))
    layout = BlockLayout(DENSE, RAGGED)
    parts = [some_arrays(rng, count, most) for count in counts]
    memory = np.zeros(sum(layout.size(*part) for part in parts) + 8 * len(parts) + 8, np.uint8)
    starts, end = [], 0
    for part in parts:
        starts.append(end + 8)
        end = layout.write(memory, *part, start=end + 8)
        assert end - starts[-1] == layout.size(*part)
    addresses = [memory.ctypes.data + start for start in starts]
    dense, ragged, ends = layout.join(addresses, counts)
    memory[:] = 255  # what comes back is no view of it
    assert np.subtract(ends, addresses).tolist() == [layout.size(*part) for part in parts]
    for d, rows in enumerate(dense):
        np.testing.assert_array_equal(rows, np.concatenate([part[0][d] for part in parts]), strict=True)
    for k, array in enumerate(ragged):
        expected = concatenate([part[1][k] for part in parts])
        assert array == expected and array.dtype == expected.dtype
        assert array.values.flags.writeable and array.values.flags.aligned


def test_arrays_of_another_kind_are_refused() -> None:
    layout, rng = BlockLayout(DENSE, RAGGED), np.random.default_rng(0)
    dense, ragged = some_arrays(rng, 3, 2)
    memory = np.zeros(10_000, np.uint8)
    for odd, facts in (
        (([dense[0].astype(np.float64), *dense[1:]], ragged), ("3 sequences of float32", "got 3 of float64")),
        ((dense, [ragged[1], *ragged[1:]]), ("3 sequences of float32 (2,)", "got 3 of bool (5,)")),
        (([*dense[:2], dense[2][:, :1]], ragged), ("float32 (3,)", "got 3 of float32 (1,)")),
        ((dense, ragged[:3]), ("longer",)),
        (([dense[0][:2], *dense[1:]], ragged), ("2 sequences of bool", "got 3")),
        ((dense, [ragged[0][:2], *ragged[1:]]), ("3 sequences of float32", "got 2")),
    ):
        with raises(ValueError, *facts):
            layout.write(memory, *odd)
