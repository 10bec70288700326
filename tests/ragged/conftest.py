"""Random ragged arrays beside what they are in plain Python."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from entitize.ragged import RaggedArray
from hypothesis import strategies as st

DTYPES = [np.float32, np.float64, np.int64, np.bool_, np.int32, np.uint8]


@st.composite
def _cases(
    draw: st.DrawFn,
    dtypes: list[Any] = DTYPES,
    inner_shapes: tuple[tuple[int, ...], ...] = ((), (1,), (3,), (0,), (2, 2)),
    lengths: list[int] | None = None,
) -> tuple[list[np.ndarray], RaggedArray]:
    """A list of sequences (n_b, *inner) and the ragged array of them, made without operations under test."""
    if lengths is None:
        lengths = draw(st.lists(st.integers(0, 6), max_size=8))
    dtype = np.dtype(draw(st.sampled_from(dtypes)))
    inner = draw(st.sampled_from(inner_shapes))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    drawn = [rng.normal(0, 3, (n, *inner)) * 2 for n in lengths]
    sequences = [(np.abs(numbers) if dtype.kind == "u" else numbers).astype(dtype) for numbers in drawn]
    values = np.concatenate([np.empty((0, *inner), dtype), *sequences])
    return sequences, RaggedArray(values, np.array([0, *np.cumsum(lengths, dtype=np.int64)]))


@pytest.fixture(scope="session")
def cases() -> Callable[..., st.SearchStrategy[tuple[list[np.ndarray], RaggedArray]]]:
    return _cases


@pytest.fixture(scope="session")
def same() -> Callable[[RaggedArray, list[np.ndarray]], None]:
    """Asserts that a ragged array holds exactly these sequences, dtype and item shape included."""

    def check(array: RaggedArray, sequences: list[np.ndarray]) -> None:
        assert len(array) == len(sequences)
        assert array.offsets.dtype == np.int64
        assert array.offsets[0] == 0 and array.offsets[-1] == len(array.values) == array.num_items
        for b, expected in enumerate(sequences):
            found = array.values[array.offsets[b] : array.offsets[b + 1]]
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected, strict=True)

    return check
