"""The SIMD vectors and the tile kernels against NumPy and torch in float64."""

from __future__ import annotations

import itertools
import math
import os
import platform
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from entitize.policies.kernels import parallel
from entitize.policies.kernels.tiles import matrix_products
from entitize.policies.kernels.tiles import tile_kernels as tiles
from entitize.policies.kernels.tiles.exponential import exp2
from entitize.policies.kernels.tiles.functions import erf, exp, log
from entitize.policies.kernels.tiles.linear_maps import Linear, linear, linear_backward, linear_gradients
from entitize.policies.kernels.tiles.matrices import Line, Strided, Tile
from entitize.policies.kernels.tiles.matrix_products import ADD, ADD_BIAS, SET, SET_BIAS
from entitize.policies.kernels.tiles.simd import (
    LANES,
    floats_at,
    kernel,
    load,
    maximum,
    minimum,
    permuted,
    quotient,
    rounded,
    splat,
    square_root,
    store,
    total,
    transpose,
    where_positive,
)
from numba import njit
from numba.core.errors import TypingError

from facts import raises


@njit
def _permuted(x, lanes, out):
    store(out, 0, permuted(load(x, 0), load(lanes, 0)))


def test_lanes_are_permuted():
    x, lanes, out = (
        np.arange(16, dtype=np.float32) / 3,
        np.float32([3] * 8 + [15, 0, 2, 2, 9, 8, 7, 1]),
        np.empty(16, np.float32),
    )
    _permuted(x, lanes, out)
    np.testing.assert_array_equal(out, x[lanes.astype(int)])


#: Compares the network's kernels with torch, short steps and long ones, and permutes lanes.
WITHOUT_AVX512 = """
import entitize as ez, numpy as np
from entitize.policies.kernels.tiles.processor import WIDE_REGISTERS
from test_simd_kernels import test_lanes_are_permuted

assert not WIDE_REGISTERS
test_lanes_are_permuted()
venv = ez.make_vec("entitize/MultiSnake-v0", num_envs=64)
net = ez.RogueNet(venv.single_observation_space, venv.single_action_space, engine="fused")
batch, _ = venv.reset(seed=0)
net.evaluate(batch, net.act(batch, np.random.default_rng(0)).raw).values.sum().backward()
print(net.engine.name)
"""


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="names processors of x86-64")
def test_processors_without_avx512_have_kernels_too():
    """Numba compiles for a processor that has none, in a process of its own: LLVM ends it where it can't."""
    named = {"NUMBA_CPU_NAME": "x86-64-v3", "NUMBA_CPU_FEATURES": "+avx2,+fma"}
    paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_AVX512],
        env={**os.environ, **named, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout.split()) == (0, ["fused"]), done.stderr[-3000:]


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
        store(out[7], i, rounded(v))
        store(out[8], i, quotient(v, splat(np.float32(0.3))))


def test_functions_of_vectors_are_those_of_their_lanes():
    x = np.linspace(-30, 30, 64 * LANES).astype(np.float32)
    x[:6] = -2.5, -1.5, -0.5, 0.5, 1.5, 2.5
    out = np.empty((9, x.size), np.float32)
    _functions(x, out)
    exact = x.astype(np.float64)
    np.testing.assert_allclose(out[0], np.exp(exact), rtol=3e-7)
    np.testing.assert_allclose(out[1], [math.erf(v) for v in exact], atol=4e-7)
    np.testing.assert_array_equal(out[2], np.maximum(x, 1))
    np.testing.assert_array_equal(out[3], np.minimum(x, 1))
    np.testing.assert_allclose(out[4], np.abs(x), rtol=1e-6)
    np.testing.assert_allclose(out[5], 2 * exact**2 / (exact - 1000), rtol=1e-6)
    np.testing.assert_array_equal(out[6], np.where(x > 0, 2 * x, 0))
    np.testing.assert_array_equal(out[7], np.rint(x))
    np.testing.assert_array_equal(out[8], x / np.float32(0.3))


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
        _functions(np.zeros(LANES), np.zeros((9, LANES)))
    with pytest.raises(TypingError):
        _functions(np.zeros(2 * LANES, np.float32)[::2], np.zeros((9, LANES), np.float32))


def test_exp_is_bounded_and_nan_stays_nan():
    x = np.full(LANES, np.nan, np.float32)
    x[:4] = [-1000, 1000, -np.inf, 0]
    out = np.empty((9, LANES), np.float32)
    _functions(x, out)
    np.testing.assert_allclose(out[0, :4], [np.exp(-87), np.exp(88), np.exp(-87), 1], rtol=1e-6)
    assert np.isnan(out[:6, 4:]).all()


@kernel
def _element(tile, m):
    return tile.data[tile.start + m * tile.stride]


@njit
def _elements(x, m):
    return _element(Tile(x, 0, 2), 1), _element(Tile(x, 1, m), m)


def test_a_kernel_is_compiled_once_for_constants_and_variables():
    x = np.arange(8, dtype=np.float32)
    assert _elements(x, 2) == (2, 5)
    assert len(_element.signatures) == 1


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


def flat(array):
    """The numbers of an array, row by row, as kernels read them."""
    return np.ascontiguousarray(array, np.float32).reshape(-1)


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
    turned = Strided(flat(a.T), 0, 1, rows)
    matrix_products.product(
        rows, inner, turned, Tile(flat(x), 0, columns), Tile(flat_y, 1, columns), columns, mode,
        Line(flat(bias), 0),
    )  # fmt: skip
    np.testing.assert_allclose(flat_y[1:].reshape(rows, columns), expected, rtol=1e-5, atol=1e-5)
    assert flat_y[0] == 0


@pytest.mark.parametrize("outputs", [3, 8])
def test_linear_map_and_its_gradients(outputs):
    inputs, columns = 12, 48
    rng = np.random.default_rng(outputs)
    weight, bias = rng.standard_normal((outputs, inputs)), rng.standard_normal(outputs)
    x, dy = rng.standard_normal((inputs, columns)), np.zeros((8, columns))
    dy[:outputs] = rng.standard_normal((outputs, columns))
    w = flat(np.concatenate([[0.0], weight.reshape(-1), bias, np.zeros(3 * inputs)]))
    layer = Linear(w, 1, 1 + outputs * inputs, outputs, inputs)
    y, dx = np.zeros(outputs * columns, np.float32), np.zeros(inputs * columns, np.float32)
    linear(layer, Tile(flat(x), 0, columns), Tile(y, 0, columns), columns, SET_BIAS)
    np.testing.assert_allclose(y.reshape(-1, columns), weight @ x + bias[:, None], rtol=1e-5, atol=1e-5)
    linear_backward(layer, Tile(flat(dy), 0, columns), Tile(dx, 0, columns), columns)
    np.testing.assert_allclose(dx.reshape(-1, columns), weight.T @ dy[:outputs], rtol=1e-5, atol=1e-5)
    g = np.ones_like(w)
    linear_gradients(layer, Tile(flat(dy), 0, columns), Tile(flat(x), 0, columns), columns, g)
    d_weight = g[1 : 1 + outputs * inputs].reshape(outputs, inputs)
    np.testing.assert_allclose(d_weight, 1 + dy[:outputs] @ x.T, rtol=1e-5, atol=1e-5)
    d_bias = g[1 + outputs * inputs :][:outputs]
    np.testing.assert_allclose(d_bias, 1 + dy[:outputs].sum(1), rtol=1e-5, atol=1e-5)
    assert g[0] == 1 and (g[1 + outputs * (inputs + 1) :] == 1).all()


@pytest.mark.parametrize("features", [1, 5, 16])
def test_layer_norm_and_gelu_with_their_gradients(features):
    rng = np.random.default_rng(features)
    x, given = (rng.standard_normal((features, 32)).astype(np.float32) for _ in range(2))
    y, rstd, dx = (
        np.empty(features * 32, np.float32),
        np.empty(32, np.float32),
        np.ones(features * 32, np.float32),
    )
    x_tile, y_tile, roots = Tile(flat(x), 0, 32), Tile(y, 0, 32), Line(rstd, 0)
    tiles.layer_norm(x_tile, y_tile, roots, features, 32)
    tiles.layer_norm_backward(Tile(flat(given), 0, 32), y_tile, roots, Tile(dx, 0, 32), features, 32, ADD)
    exact = torch.from_numpy(x).double().requires_grad_()
    wanted = torch.nn.functional.layer_norm(exact.T, (features,)).T
    wanted.backward(torch.from_numpy(given).double())
    np.testing.assert_allclose(y.reshape(features, 32), wanted.detach(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(dx.reshape(features, 32) - 1, exact.grad, rtol=1e-3, atol=1e-5)
    slope = np.empty_like(y)
    tiles.gelu_with_slope(x_tile, y_tile, Tile(slope, 0, 32), features, 32)
    exact.grad = None
    wanted = torch.nn.functional.gelu(exact)
    wanted.sum().backward()
    np.testing.assert_allclose(y.reshape(features, 32), wanted.detach(), atol=1e-6)
    np.testing.assert_allclose(slope.reshape(features, 32), exact.grad, atol=1e-6)
    plain = np.empty_like(y)
    tiles.gelu(x_tile, Tile(plain, 0, 32), features, 32)
    np.testing.assert_array_equal(plain, y)


@pytest.mark.parametrize(("rows", "features"), [(0, 3), (1, 1), (16, 16), (37, 20), (15, 33)])
def test_rows_to_tile_and_back(rows, features):
    source = np.random.default_rng(0).standard_normal((rows + 2, features)).astype(np.float32)
    stride = 64
    tile = np.full(features * stride, 7, np.float32)
    tiles.rows_to_tile(source.reshape(-1), 1, rows, features, Tile(tile, 0, stride))
    padded = -(-rows // LANES) * LANES
    np.testing.assert_array_equal(tile.reshape(features, stride)[:, :rows], source[1 : rows + 1].T)
    assert not tile.reshape(features, stride)[:, rows:padded].any()
    back = np.full((rows + 2, features), 9, np.float32)
    tiles.tile_to_rows(Tile(tile, 0, stride), back.reshape(-1), 1, rows, features)
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
    bounds = parallel.sequence_shares(offsets, 4)
    assert bounds[0] == 0 and bounds[-1] == 500 and (np.diff(bounds) > 0).all()
    lengths = np.diff(offsets)
    work = [(lengths[a:b] * (lengths[a:b] + 64)).sum() for a, b in itertools.pairwise(bounds)]
    assert max(work) < 1.1 * min(work)
    assert parallel.sequence_shares(np.zeros(1, np.int64), 3).tolist() == [0, 0, 0, 0]


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

    with raises(RuntimeError, "share 2"):
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
