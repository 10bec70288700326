"""`gather_all` against a choice of sequences from lists."""

from __future__ import annotations

import numpy as np
import pytest
from entitize.ragged import RaggedArray, gather_all, get_num_threads, set_num_threads

from facts import raises


def arrays_of(rng: np.random.Generator, sequences: int, longest: int) -> list[RaggedArray]:
    arrays = []
    for shape, dtype in (((3,), np.float32), ((), np.int64), ((0,), bool), ((5,), bool), ((), np.float64)):
        lengths = rng.integers(0, longest, sequences)
        values = rng.integers(0, 2, (lengths.sum(), *shape)).astype(dtype)
        arrays.append(RaggedArray.from_lengths(values, lengths))
    return arrays


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("longest", [1, 4, 400])
def test_gathers_each_array(threads: int, longest: int) -> None:
    rng = np.random.default_rng(longest)
    before = get_num_threads()
    set_num_threads(threads)
    try:
        arrays = arrays_of(rng, 300, longest)
        for indices in (rng.integers(-300, 300, 700), rng.permutation(300), np.zeros(0, np.int64)):
            for array, gathered in zip(arrays, gather_all(arrays, indices), strict=True):
                sequences = [array[i] for i in range(300)]
                assert gathered.dtype == array.dtype and len(gathered) == len(indices)
                for index, sequence in zip(indices, gathered, strict=True):
                    np.testing.assert_array_equal(sequence, sequences[index])
    finally:
        set_num_threads(before)


def test_no_arrays_give_none() -> None:
    assert gather_all([], [1, 2]) == []


def test_bad_input_is_named() -> None:
    arrays = arrays_of(np.random.default_rng(0), 4, 3)
    for index in (4, -5):
        with raises(IndexError, f"sequence {index}", "4 sequences"):
            gather_all(arrays, [0, index])
    with raises(IndexError, "integers", "float64"):
        gather_all(arrays, [0.5])
    with raises(ValueError, "array 5", 2, 4):
        gather_all([*arrays, RaggedArray.empty(2)], [0])
