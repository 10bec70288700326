"""The SIMD vectors and the tile kernels against NumPy and torch in float64."""

from __future__ import annotations

import itertools
import math
import os
import warnings

import numpy as np
import pytest
import torch
from entitize.policies.kernels import parallel
from entitize.policies.kernels.tiles import products
from entitize.policies.kernels.tiles import tile_kernels as tiles
from entitize.policies.kernels.tiles.exponential import exp2
from entitize.policies.kernels.tiles.products import ADD, ADD_BIAS, SET, SET_BIAS
from entitize.policies.kernels.tiles.simd import (
    LANES,
    erf,
    exp,
    floats_at,
    load,
    log,
    maximum,
    minimum,
    splat,
    square_root,
    store,
    total,
    transpose,
    where_positive,
)
from numba import njit
from numba.core.errors import TypingError


@njit
def _powers(x, out):
    for i in range(0, x.size, LANES):
        store(out, i, exp2(load(x, i)))


def test_powers_of_two():
    x = np.concatenate([np.linspace(-125, 127, 256 * LANES), np.arange(-120, 120)]).astype(np.float32)
    out = np.empty_like(x)
    _powers(x, out)
    np.testing.assert_allclose(out, np.exp2(x.astype(np.float64)), rtol=3e-7)
    np.testing.assert_array_equal(out[-240:], np.exp2(np.arange(-120.0, 120.0)))
    x[:3] = -1e30, -np.inf, np.nan
    _powers(x, out)
    assert 0 < out[0] == out[1] < 1e-37 and np.isnan(out[2])


@njit
def _functions(x, out):
    for i in range(0, x.size, LANES):
        v = load(x, i)
        store(out[0], i, exp(v))
        store(out[1], i, erf(v))
        store(out[2], i, maximum(v, splat(np.float32(1.0))))
        store(out[3], i, minimum(v, splat(np.float32(1.0))))
        store(out[4], i, square_root(v * v))
        store(out[5], i, (v + v) * v / (v - splat(np.float32(1000.0))))
        store(out[6], i, where_positive(v, v + v))


def test_functions_of_vectors_are_those_of_their_lanes():
    x = np.linspace(-30, 30, 64 * LANES).astype(np.float32)
    out = np.empty((7, x.size), np.float32)
    _functions(x, out)
    exact = x.astype(np.float64)
    np.testing.assert_allclose(out[0], np.exp(exact), rtol=3e-7)
    np.testing.assert_allclose(out[1], [math.erf(v) for v in exact], atol=4e-7)
    np.testing.assert_array_equal(out[2], np.maximum(x, 1))
    np.testing.assert_array_equal(out[3], np.minimum(x, 1))
    np.testing.assert_allclose(out[4], np.abs(x), rtol=1e-6)
    np.testing.assert_allclose(out[5], 2 * exact**2 / (exact - 1000), rtol=1e-6)
    np.testing.assert_array_equal(out[6], np.where(x > 0, 2 * x, 0))


@njit
def _logarithms(address, size, out):
    x = floats_at(address, size)
    for i in range(0, size, LANES):
        store(out, i, log(load(x, i)))


def test_logarithms_of_numbers_at_an_address():
    x = np.geomspace(1e-37, 1e38, 64 * LANES).astype(np.float32)
    x[:LANES] = np.linspace(0.98, 1.02, LANES)
    x[-1] = np.nan
    out = np.empty_like(x)
    _logarithms(x.ctypes.data, x.size, out)
    np.testing.assert_allclose(out, np.log(x.astype(np.float64)), rtol=3e-7, atol=1e-7)


def test_memory_of_another_kind_is_refused():
    with pytest.raises(TypingError):
        _functions(np.zeros(LANES), np.zeros((7, LANES)))
    with pytest.raises(TypingError):
        _functions(np.zeros(2 * LANES, np.float32)[::2], np.zeros((7, LANES), np.float32))


def test_exp_is_bounded_and_nan_stays_nan():
    x = np.full(LANES, np.nan, np.float32)
    x[:4] = [-1000, 1000, -np.inf, 0]
    out = np.empty((7, LANES), np.float32)
    _functions(x, out)
    np.testing.assert_allclose(out[0, :4], [np.exp(-87), np.exp(88), np.exp(-87), 1], rtol=1e-6)
    assert np.isnan(out[:6, 4:]).all()


@njit
def _shuffle(x, out):
    transpose(x, 2, 20, out, 1, 17)
    return total(load(x, 3))


def test_transpose_and_total():
    x = np.random.default_rng(0).standard_normal(16 * 20 + 2).astype(np.float32)
    out = np.zeros(17 * 16 + 1, np.float32)
    sum_of_lanes = _shuffle(x, out)
    np.testing.assert_array_equal(out[1:].reshape(16, 17)[:, :16], x[2:].reshape(16, 20)[:, :16].T)
    assert sum_of_lanes == pytest.approx(float(x[3:19].sum()), rel=1e-5)


@pytest.mark.parametrize("mode", [SET, ADD, SET_BIAS, ADD_BIAS])
@pytest.mark.parametrize(
    ("rows", "inner", "columns"), [(1, 1, 16), (4, 7, 48), (9, 16, 112), (16, 3, 64), (6, 0, 32)]
)
def test_product(rows, inner, columns, mode):
    rng = np.random.default_rng(rows)
    a, x, bias = (
        rng.standard_normal((rows, inner)),
        rng.standard_normal((inner, columns)),
        rng.standard_normal(rows),
    )
    y = rng.standard_normal((rows, columns))
    expected = a @ x + (bias[:, None] if mode & SET_BIAS else 0) + (y if mode & ADD else 0)
    flat_y = np.concatenate([[0.0], y.reshape(-1)]).astype(np.float32)
    one = np.float32
    products.product(
        rows, inner, np.ascontiguousarray(a.T, one).reshape(-1), 0, 1, rows,
        x.astype(one).reshape(-1), 0, columns, flat_y, 1, columns, columns, mode, bias.astype(one), 0,
    )  # fmt: skip
    np.testing.assert_allclose(flat_y[1:].reshape(rows, columns), expected, rtol=1e-5, atol=1e-5)
    assert flat_y[0] == 0


def test_weight_and_bias_gradients():
    rng = np.random.default_rng(1)
    y, x = rng.standard_normal((8, 48)).astype(np.float32), rng.standard_normal((12, 48)).astype(np.float32)
    g, sums = np.ones(8 * 12, np.float32), np.ones(8, np.float32)
    products.outer_sums(8, 12, y.reshape(-1), 0, x.reshape(-1), 0, 48, 48, g, 0, 12)
    products.row_sums(8, y.reshape(-1), 0, 48, 48, sums, 0)
    np.testing.assert_allclose(g.reshape(8, 12), 1 + y.astype(np.float64) @ x.T, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(sums, 1 + y.astype(np.float64).sum(1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("features", [1, 5, 16])
def test_layer_norm_and_gelu_with_their_gradients(features):
    rng = np.random.default_rng(features)
    x, given = (rng.standard_normal((features, 32)).astype(np.float32) for _ in range(2))
    y, rstd, dx = (
        np.empty(features * 32, np.float32),
        np.empty(32, np.float32),
        np.ones(features * 32, np.float32),
    )
    tiles.layer_norm(x.reshape(-1), 0, y, 0, rstd, 0, features, 32, 32)
    tiles.layer_norm_backward(given.reshape(-1), 0, y, 0, rstd, 0, dx, 0, features, 32, 32, ADD)
    exact = torch.from_numpy(x).double().requires_grad_()
    wanted = torch.nn.functional.layer_norm(exact.T, (features,)).T
    wanted.backward(torch.from_numpy(given).double())
    np.testing.assert_allclose(y.reshape(features, 32), wanted.detach(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(dx.reshape(features, 32) - 1, exact.grad, rtol=1e-3, atol=1e-5)
    slope = np.empty_like(y)
    tiles.gelu(x.reshape(-1), 0, y, 0, slope, 0, features, 32, 32)
    exact.grad = None
    wanted = torch.nn.functional.gelu(exact)
    wanted.sum().backward()
    np.testing.assert_allclose(y.reshape(features, 32), wanted.detach(), atol=1e-6)
    np.testing.assert_allclose(slope.reshape(features, 32), exact.grad, atol=1e-6)
    plain = np.empty_like(y)
    tiles.gelu_only(x.reshape(-1), 0, plain, 0, features, 32, 32)
    np.testing.assert_array_equal(plain, y)


@pytest.mark.parametrize(("rows", "features"), [(0, 3), (1, 1), (16, 16), (37, 20), (15, 33)])
def test_rows_to_tile_and_back(rows, features):
    source = np.random.default_rng(0).standard_normal((rows + 2, features)).astype(np.float32)
    stride = 64
    tile = np.full(features * stride, 7, np.float32)
    tiles.rows_to_tile(source.reshape(-1), 1, rows, features, tile, 0, stride)
    padded = -(-rows // LANES) * LANES
    np.testing.assert_array_equal(tile.reshape(features, stride)[:, :rows], source[1 : rows + 1].T)
    assert not tile.reshape(features, stride)[:, rows:padded].any()
    back = np.full((rows + 2, features), 9, np.float32)
    tiles.tile_to_rows(tile, 0, stride, back.reshape(-1), 1, rows, features)
    np.testing.assert_array_equal(back[1 : rows + 1], source[1 : rows + 1])
    assert (back[[0, -1]] == 9).all()


def test_memory_is_taken_up_again_when_nobody_holds_it():
    first, second = parallel.recycled(10_000), parallel.recycled(10_000)
    first[:], second[:] = 1, 2
    part = first[10:20].reshape(2, 5)
    place = second.ctypes.data
    del first, second
    third, fourth = parallel.recycled(9_000), parallel.recycled(9_000)
    third[:], fourth[:] = 3, 4
    assert (part == 1).all()  # a view keeps what it is a view of
    assert place in (third.ctypes.data, fourth.ctypes.data)
    assert len(third) == 9_000 and (third == 3).all()
    assert len(parallel.recycled(100_000)) == 100_000
    assert len(parallel.recycled(10)) == 10


def test_shares_cover_all_sequences_and_balance_their_work():
    offsets = np.concatenate([[0], np.cumsum(np.random.default_rng(0).integers(0, 60, 500))])
    bounds = parallel.shares(offsets, 4)
    assert bounds[0] == 0 and bounds[-1] == 500 and (np.diff(bounds) > 0).all()
    lengths = np.diff(offsets)
    work = [(lengths[a:b] * (lengths[a:b] + 64)).sum() for a, b in itertools.pairwise(bounds)]
    assert max(work) < 1.1 * min(work)
    assert parallel.shares(np.zeros(1, np.int64), 3).tolist() == [0, 0, 0, 0]


def test_shares_run_on_threads_and_their_errors_arrive(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    monkeypatch.setattr(parallel, "ROWS_PER_THREAD", 10)
    offsets = np.arange(0, 101, 10)
    seen = []
    parallel.over_sequences(offsets, lambda share, first, last: seen.append((share, first, last)))
    assert sorted(seen)[0][1] == 0 and sorted(seen)[-1][2] == 10 and len(seen) == 3

    def fails(share, first, last):
        if share == 2:
            raise RuntimeError("share 2 failed")

    with pytest.raises(RuntimeError, match="share 2 failed"):
        parallel.over_sequences(offsets, fails)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_gets_threads_of_its_own(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    monkeypatch.setattr(parallel, "ROWS_PER_THREAD", 1)
    offsets = np.arange(5)
    parallel.over_sequences(offsets, lambda *share: None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of threads at a fork
        child = os.fork()
    if child == 0:
        seen = []
        parallel.over_sequences(offsets, lambda *share: seen.append(share))
        os._exit(0 if len(seen) == 2 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_reuse_of_arrays_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENTITIZE_REUSE_ARRAYS", "0")
    # A reused array is a view of one that is as large or larger.
    assert parallel.recycled(10_000).base is None
    monkeypatch.setenv("ENTITIZE_REUSE_ARRAYS", "1")
    assert parallel.recycled(10_000).base is not None
