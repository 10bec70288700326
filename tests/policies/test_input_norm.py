"""Running input statistics."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from entitize.policies.inputs.moments import FeatureColumns
from entitize.policies.rogue_net import InputNorm
from entitize.ragged import RaggedArray
from hypothesis import given
from hypothesis import strategies as st

from facts import raises


@given(st.lists(st.integers(0, 7), min_size=1, max_size=6), st.integers(0, 2**32 - 1))
def test_pieces_give_the_statistics_of_the_whole(sizes, seed):
    rng = np.random.default_rng(seed)
    whole = (rng.standard_normal((sum(sizes), 3)) * 100 + 1000).astype(np.float32)
    norm = InputNorm(3)
    for piece in np.split(whole, np.cumsum(sizes)[:-1]):
        norm.update(piece)
    assert float(norm.count) == len(whole)
    if len(whole):
        np.testing.assert_allclose(norm.mean, whole.astype(np.float64).mean(0), rtol=1e-12)
        np.testing.assert_allclose(
            norm.squares_sum, len(whole) * whole.astype(np.float64).var(0), rtol=1e-9, atol=1e-6
        )


def test_a_small_spread_far_from_the_first_rows_keeps_its_digits():
    rng = np.random.default_rng(0)
    pieces = [rng.standard_normal((5, 2)), 1e4 + 0.1 * rng.standard_normal((1000, 2))]
    norm = InputNorm(2)
    for piece in pieces:
        norm.update(piece.astype(np.float32))
    whole = np.concatenate(pieces).astype(np.float32).astype(np.float64)
    np.testing.assert_allclose(norm.mean, whole.mean(0), rtol=1e-12)
    np.testing.assert_allclose(norm.squares_sum / (len(whole) - 1), whole.var(0, ddof=1), rtol=1e-10)


def test_normalized_rows_have_mean_zero_and_deviation_one_and_are_clipped():
    rows = np.random.default_rng(0).standard_normal((5000, 2)).astype(np.float32) * [3, 0.01] + [50, -2]
    rows = rows.astype(np.float32)
    norm = InputNorm(2)
    norm.update(rows)
    out = norm(torch.from_numpy(rows))
    assert out.mean(0).abs().max() < 1e-3 and (out.std(0) - 1).abs().max() < 1e-3
    assert norm(torch.tensor([[1e6, -1e6]])).tolist() == [[5.0, -5.0]]


def test_features_that_never_change_are_centred_and_not_blown_up():
    norm = InputNorm(3)
    for _ in range(10):
        norm.update(np.tile(np.array([0.1, 0.0, 1e7], np.float32), (1000, 1)))
    assert norm(torch.tensor([[0.1, 0.0, 1e7]])).abs().max() == 0
    assert norm(torch.tensor([[0.6, 0.5, 1e7 + 1]])).tolist() == [[0.5, 0.5, 1.0]]


def test_features_that_change_by_rounding_alone_count_as_constant():
    norm = InputNorm(1)
    near = np.nextafter(np.float32(0.1), np.float32(1))
    norm.update(np.tile(np.array([[0.1], [near]], np.float32), (500, 1)))
    assert norm(torch.tensor([[0.6]])).item() == pytest.approx(0.5, abs=1e-6)


def test_rows_that_do_not_count_take_no_digits_from_the_others():
    columns = FeatureColumns(np.array([[1e12], [1.0], [2.0], [9.0]], np.float32), np.array([0, 1, 3, 0]))
    mean, squares_sum = columns.moments(columns.first())
    assert columns.count == 4 and (mean[0], squares_sum[0]) == (1.75, 0.75)


def test_before_two_rows_features_are_only_clipped():
    norm = InputNorm(1)
    norm.update(np.array([[3.0]], np.float32))
    assert norm(torch.tensor([[4.0], [9.0]])).tolist() == [[4.0], [5.0]]


def test_statistics_travel_with_the_state_dict():
    rows = np.random.default_rng(1).standard_normal((100, 4)).astype(np.float32) + 3
    norm, other = InputNorm(4), InputNorm(4)
    norm.update(rows)
    other.load_state_dict(norm.state_dict())
    assert torch.equal(norm(torch.from_numpy(rows)), other(torch.from_numpy(rows)))
    assert all(buffer.dtype == torch.float64 for buffer in norm.state_dict().values())


def test_only_update_normalization_moves_the_statistics(make_space, random_batch, make_net, legal_actions):
    space = make_space()
    batch = random_batch(space)
    net = make_net(
        space, batch, relative_position={"extent": [2, 2], "position": ["x", "y"], "key_projection": True}
    )
    before = copy.deepcopy(net.state_dict())
    other = random_batch(space, seed=5)
    for mode in (True, False):
        net.train(mode)
        net.act(other, np.random.default_rng(0))
        net.value(other)
        net.evaluate(other, legal_actions(space, other))
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())
    net.update_normalization(other)
    moved = {name for name, value in net.state_dict().items() if not torch.equal(before[name], value)}
    assert moved == {name for name in before if name.endswith((".count", ".mean", ".squares_sum"))}


@pytest.mark.parametrize("options", [{}, {"global_features": "concat"}])
def test_batches_move_the_statistics_as_numpy_does_in_float64(make_space, random_batch, make_net, options):
    """The reference copies all rows that the network normalizes, and the statistics copy none."""
    space = make_space()
    batches = [random_batch(space, seed=seed) for seed in range(4)]
    net = make_net(space, batches[0], **options)
    for batch in batches[1:]:
        net.update_normalization(batch)
    prepared = [net.inputs.prepare(batch).features for batch in batches]
    for name in net.normalization.names:
        rows = np.concatenate([part[name] for part in prepared if name in part]).astype(np.float64)
        norm = net.normalization[name]
        assert float(norm.count) == len(rows)
        np.testing.assert_allclose(norm.mean, rows.mean(0), rtol=1e-6, atol=1e-12)
        np.testing.assert_allclose(norm.squares_sum, len(rows) * rows.var(0), rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(norm.scale, 1 / rows.std(0, ddof=1), rtol=1e-5)


def test_a_broken_feature_is_named_and_moves_nothing(make_space, random_batch, make_net):
    space = make_space()
    batch = random_batch(space)
    net = make_net(space, batch)
    before = copy.deepcopy(net.state_dict())
    values = batch.entities["Food"].values.copy()
    values[0, 1] = np.nan
    broken = type(batch)(
        {**batch.entities, "Food": RaggedArray(values, batch.entities["Food"].offsets)},
        batch.globals,
        batch.actions,
    )
    with raises(ValueError, "Food", "feature 'y'", "NaN"):
        net.update_normalization(broken)
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_statistics_are_not_rounded_to_16_bits(make_space, random_batch, make_net, dtype):
    """Their sums exceed float16, and a network that loaded infinite ones would scale all features to 0."""
    space = make_space()
    batch = random_batch(space)
    net = make_net(space, batch, path="torch")
    rng = np.random.default_rng(0)
    net.normalization["Food"].update((rng.standard_normal((70_000, 2)) * 3 + 100).astype(np.float32))
    small = copy.deepcopy(net).to(dtype)
    assert small.policy_net.embedding.types["Food"].linear.weight.dtype == dtype
    fresh = make_net(space, batch, path="torch")
    fresh.load_state_dict(small.state_dict())
    for network in (net, small, fresh):
        network.update_normalization(batch)
    for name in net.normalization.names:
        for statistic in ("count", "mean", "squares_sum"):
            expected = getattr(net.normalization[name], statistic)
            for network in (small, fresh):
                assert torch.equal(getattr(network.normalization[name], statistic), expected)
        torch.testing.assert_close(fresh.normalization[name].scale, net.normalization[name].scale)
