"""Reductions against plain Python and NumPy, sequence by sequence, in float64."""

import math
from typing import Any

import numpy as np
import pytest
from entitize.ragged import RaggedArray
from hypothesis import given, settings
from hypothesis import strategies as st

quick = settings(deadline=None, derandomize=True, max_examples=30)
FLOATS = [np.float32, np.float64]
TOLERANCE = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-12}


def per_sequence(sequences: list[np.ndarray], function: Any, array: RaggedArray, dtype: Any) -> np.ndarray:
    """`function` of each sequence, stacked (B, *inner)."""
    rows = [function(s) for s in sequences]
    return np.array(rows, dtype).reshape(len(sequences), *array.inner_shape)


@quick
@given(data=st.data())
def test_sum_adds_up_each_sequence(cases: Any, data: st.DataObject) -> None:
    sequences, array = data.draw(cases())
    wide = array.dtype if array.dtype.kind == "f" else np.int64
    expected = per_sequence(sequences, lambda s: s.sum(0, dtype=np.float64), array, wide)
    assert array.sum().dtype == wide
    np.testing.assert_allclose(array.sum(), expected, rtol=1e-5, atol=1e-5)
    if wide == np.int64:
        np.testing.assert_array_equal(array.sum(), expected)


def test_sums_of_int32_and_bool_do_not_overflow() -> None:
    assert RaggedArray(np.full(3, 2**31 - 1, np.int32), [0, 3]).sum().tolist() == [3 * (2**31 - 1)]
    assert RaggedArray(np.ones(1000, bool), [0, 1000]).sum().tolist() == [1000]


@quick
@given(data=st.data())
def test_mean_is_the_mean_or_zero(cases: Any, data: st.DataObject) -> None:
    sequences, array = data.draw(cases())
    zero = np.zeros(array.inner_shape)
    expected = per_sequence(
        sequences, lambda s: s.mean(0, dtype=np.float64) if len(s) else zero, array, np.float64
    )
    assert array.mean().dtype == (array.dtype if array.dtype.kind == "f" else np.float64)
    np.testing.assert_allclose(array.mean(), expected, rtol=1e-5, atol=1e-5)


@quick
@given(data=st.data())
def test_max_is_the_largest_or_the_stated_identity(cases: Any, data: st.DataObject) -> None:
    sequences, array = data.draw(cases())
    identity = {"f": -np.inf, "i": 0, "u": 0, "b": False}[array.dtype.kind]
    if array.dtype.kind == "i":
        identity = np.iinfo(array.dtype).min
    lowest = np.full(array.inner_shape, identity, array.dtype)
    expected = per_sequence(sequences, lambda s: s.max(0) if len(s) else lowest, array, array.dtype)
    np.testing.assert_array_equal(array.max(), expected, strict=True)


@quick
@given(data=st.data())
def test_argmax_is_the_first_largest_or_minus_one(cases: Any, data: st.DataObject) -> None:
    sequences, array = data.draw(cases())
    none = np.full(array.inner_shape, -1)
    expected = per_sequence(sequences, lambda s: s.argmax(0) if len(s) else none, array, np.int64)
    np.testing.assert_array_equal(array.argmax(), expected, strict=True)


@pytest.mark.parametrize("inner", [(), (2,)])
@pytest.mark.parametrize("dtype", FLOATS)
def test_max_and_argmax_treat_nan_as_numpy_does(dtype: Any, inner: tuple[int, ...]) -> None:
    for numbers in ([1, np.nan, 3, np.nan], [np.nan, 1], [-np.inf, -np.inf], [np.inf, np.nan], [2, 2, 1]):
        column = np.array(numbers, dtype)
        values = column if inner == () else np.stack([column, column[::-1]], axis=1)
        array = RaggedArray(values, [0, len(values)])
        np.testing.assert_array_equal(array.max()[0], values.max(0))
        np.testing.assert_array_equal(array.argmax()[0], values.argmax(0))


def logsumexp_by_hand(sequence: np.ndarray) -> np.ndarray:
    """In exact order, by columns, for finite numbers."""
    columns = sequence.reshape(len(sequence), math.prod(sequence.shape[1:])).astype(np.float64).T
    return np.array([math.log(math.fsum(map(math.exp, c))) if len(c) else -math.inf for c in columns])


@quick
@given(data=st.data())
def test_logsumexp_is_the_logarithm_of_the_sum(cases: Any, data: st.DataObject) -> None:
    sequences, array = data.draw(cases(dtypes=FLOATS))
    result = array.logsumexp()
    assert result.dtype == array.dtype
    expected = per_sequence(sequences, lambda s: logsumexp_by_hand(s).reshape(s.shape[1:]), array, np.float64)
    np.testing.assert_allclose(result, expected, rtol=TOLERANCE[array.dtype], atol=TOLERANCE[array.dtype])


@quick
@given(data=st.data())
def test_softmax_is_positive_and_adds_up_to_one(cases: Any, same: Any, data: st.DataObject) -> None:
    sequences, array = data.draw(cases(dtypes=FLOATS))
    result = array.softmax()
    assert result.dtype == array.dtype and result.offsets.tolist() == array.offsets.tolist()
    for b, sequence in enumerate(sequences):
        weights = np.exp(
            sequence.astype(np.float64) - logsumexp_by_hand(sequence).reshape(sequence.shape[1:])
        )
        np.testing.assert_allclose(result[b], weights, rtol=10 * TOLERANCE[array.dtype], atol=1e-30)


@pytest.mark.parametrize("dtype", FLOATS)
def test_large_logits_neither_overflow_nor_vanish(dtype: Any) -> None:
    array = RaggedArray(np.array([1e4, 1e4, -1e4, -1e4, -np.inf, 0], dtype), [0, 2, 4, 6])
    np.testing.assert_allclose(
        array.logsumexp(), np.array([1e4, -1e4, -math.log(2)]) + math.log(2), atol=1e-3
    )
    np.testing.assert_allclose(array.softmax().values, [0.5, 0.5, 0.5, 0.5, 0, 1])


def test_infinities_go_the_way_of_torch() -> None:
    import torch

    for numbers in ([-np.inf, -np.inf], [np.inf, 0], [np.nan, 0], [np.inf, np.inf], [np.inf, 1e30, -np.inf]):
        array = RaggedArray(np.array(numbers, np.float32), [0, len(numbers)])
        tensor = torch.tensor(numbers, dtype=torch.float32)
        np.testing.assert_array_equal(array.logsumexp()[0], torch.logsumexp(tensor, 0).numpy())
        np.testing.assert_array_equal(array.softmax().values, torch.softmax(tensor, 0).numpy())


def draw_by_hand(sequence: np.ndarray, uniform: Any) -> tuple[int, float]:
    """The first item whose cumulated probability exceeds `uniform`, and how close the call was."""
    weights = [math.exp(x - max(sequence)) for x in sequence.astype(np.float64)]
    cumulated = np.cumsum(weights) / math.fsum(weights)
    return int(np.searchsorted(cumulated, uniform, side="right")), np.abs(cumulated - uniform).min()


@quick
@given(data=st.data())
def test_sample_inverts_the_cumulative_distribution(cases: Any, data: st.DataObject) -> None:
    sequences, array = data.draw(cases(dtypes=FLOATS, inner_shapes=((),)))
    uniform = np.random.default_rng(len(sequences)).random(len(sequences))
    chosen = array.sample(uniform)
    assert chosen.dtype == np.int64 and chosen.shape == (len(sequences),)
    for sequence, u, choice in zip(sequences, uniform, chosen, strict=True):
        if len(sequence) == 0:
            assert choice == -1
        else:
            expected, margin = draw_by_hand(sequence, u)
            assert choice == expected or margin < 1e-6


def test_samples_are_as_frequent_as_their_probability() -> None:
    probabilities = np.array([0.5, 0.125, 0.25, 0.125])
    count = 4096
    logits = RaggedArray.from_lengths(np.tile(np.log(probabilities), count), [4] * count)
    chosen = logits.sample((np.arange(count) + 0.5) / count)
    assert (np.bincount(chosen) / count).tolist() == probabilities.tolist()


@pytest.mark.parametrize("uniform", [0.0, 0.3, 0.999999, np.nextafter(1.0, 0.0)])
@pytest.mark.parametrize("dtype", FLOATS)
def test_an_item_of_probability_zero_is_never_drawn(dtype: Any, uniform: Any) -> None:
    logits = np.array([-np.inf, 0.1, -np.inf, 0.7, 0.3, -np.inf, -1e4], dtype)
    array = RaggedArray(logits, [0, 7])
    assert array.sample([uniform])[0] in (1, 3, 4)
    assert RaggedArray(np.array([-np.inf, 5], dtype), [0, 2]).sample([uniform]).tolist() == [1]
    assert RaggedArray(np.array([5, -np.inf], dtype), [0, 2]).sample([uniform]).tolist() == [0]


@pytest.mark.parametrize("bad", [[-np.inf, -np.inf], [0, np.nan], [np.inf, 0]])
def test_sample_names_a_sequence_that_is_no_distribution(bad: Any) -> None:
    array = RaggedArray(np.array([0, *bad], np.float32), [0, 1, 1, 3])
    with pytest.raises(ValueError, match="the logits of sequence 2 are no distribution"):
        array.sample([0.5, 0.5, 0.5])


@pytest.mark.parametrize(
    ("uniform", "message"),
    [
        ([0.5], r"uniform has shape \(1,\), expected \(2,\)"),
        ([[0.5, 0.5]], r"uniform has shape \(1, 2\), expected \(2,\)"),
        ([0.5, 1.0], r"uniform must be in \[0, 1\), got 1.0 for sequence 1"),
        ([-0.1, 0.5], r"uniform must be in \[0, 1\), got -0.1 for sequence 0"),
        ([0.5, np.nan], r"uniform must be in \[0, 1\), got nan for sequence 1"),
    ],
)
def test_sample_names_a_bad_draw(uniform: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RaggedArray(np.zeros(3), [0, 1, 3]).sample(uniform)


def test_what_needs_floats_or_single_numbers_says_so() -> None:
    for name in ("logsumexp", "softmax"):
        with pytest.raises(ValueError, match=f"{name} needs floating-point values, got int64"):
            getattr(RaggedArray(np.zeros(1, np.int64), [0, 1]), name)()
    with pytest.raises(ValueError, match="sample needs floating-point values, got bool"):
        RaggedArray(np.zeros(1, bool), [0, 1]).sample([0.5])
    with pytest.raises(ValueError, match=r"sample needs one logit per item, got items of shape \(2,\)"):
        RaggedArray(np.zeros((1, 2)), [0, 1]).sample([0.5])
