"""Fourier features of positions: their columns against NumPy in float64, every engine, and wrong options."""

from __future__ import annotations

import dataclasses
import json
import math
from functools import partial
from pathlib import Path
from typing import Any

import entitize as ez
import gymnasium
import numpy as np
import pytest
import torch
from entitize import RogueNet
from entitize.envs import Categorical, EntityActionSpace, EntityBatch, EntitySpace
from entitize.policies import RogueNetConfig
from entitize.policies.rogue_net import FourierFeatures
from entitize.ragged import RaggedArray
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from hypothesis import given
from hypothesis import strategies as st

from facts import raises

WAVES: dict[str, Any] = {"features": ["y", "x"], "wavelengths": [2, 5.5, 0.25]}


def waves(values: np.ndarray, wavelengths: list[float]) -> np.ndarray:
    """Sines and cosines in float64 (N,) -> (N, 2 W)."""
    columns = []
    for wavelength in wavelengths:
        angle = 2 * np.pi * values.astype(np.float64) / wavelength
        columns += [np.sin(angle), np.cos(angle)]
    return np.stack(columns, 1)


def assert_waves(got: np.ndarray, exact: np.ndarray) -> None:
    """To float32; a sine below 7e-5 may also be 0."""
    assert (np.abs(got - exact) < np.where(np.abs(exact) < 7e-5, 7e-5, 3e-7)).all()


def one_type(positions: np.ndarray) -> tuple[EntitySpace, EntityBatch]:
    space = EntitySpace({"Unit": ("health", "x")}, EntityActionSpace({"move": Categorical(2)}))
    values = np.stack([np.arange(len(positions)), positions], 1).astype(np.float32)
    rows = RaggedArray.from_lengths(values, [len(positions)])
    return space, EntityBatch({"Unit": rows}, np.zeros((1, 0), np.float32), {})


# -- the columns ---------------------------------------------------------------------------------------------


@given(
    positions=st.lists(st.floats(-1e4, 1e4, width=32), max_size=200),
    wavelengths=st.lists(st.floats(0.01, 1e3), min_size=1, max_size=7, unique=True),
)
def test_columns_are_sines_and_cosines_in_float64(positions: list[float], wavelengths: list[float]) -> None:
    space, batch = one_type(np.array(positions, np.float32))
    net = RogueNet(space, space.actions, fourier={"features": ["x"], "wavelengths": wavelengths})
    assert len(net.inputs.features["Unit"]) == 2 + 2 * len(wavelengths)
    if positions:
        got = net.inputs.prepare(batch).features["Unit"]
        before = batch.entities["Unit"].values
        assert got.dtype == np.float32
        np.testing.assert_array_equal(got[:, :2], before)
        assert_waves(got[:, 2:], waves(before[:, 1], wavelengths))


def test_every_type_gets_the_waves_of_the_features_that_it_has(make_space, random_batch, make_net):
    space = make_space()
    batch = random_batch(space)
    features = make_net(space, fourier={**WAVES, "features": ["x", "joy"]}).inputs.features
    added = {name: len(features[name]) - len(space.entities[name]) for name in space.entities}
    assert added == {"Player": 6, "Enemy": 6, "Food": 6, "Wall": 0, "Mood": 6}
    assert all(len(set(names)) == len(names) for names in features.values())
    prepared = make_net(space, fourier=WAVES).inputs.prepare(batch).features
    for name, (y, x) in {"Player": (1, 0), "Enemy": (0, 1), "Food": (1, 0)}.items():
        values = batch.entities[name].values
        expected = [
            values,
            waves(values[:, y], WAVES["wavelengths"]),
            waves(values[:, x], WAVES["wavelengths"]),
        ]
        assert_waves(prepared[name], np.concatenate(expected, 1))


def test_waves_are_those_of_translated_positions(make_space, random_batch, make_net):
    space = make_space()
    batch = random_batch(space, empty=False)
    translation = {"reference": "Player", "position": ["x", "y"], "add_distance": True}
    fourier = {"features": ["x", "distance to reference"], "wavelengths": [3]}
    plain = make_net(space, translation=translation).inputs.prepare(batch).features
    with_waves = make_net(space, translation=translation, fourier=fourier).inputs.prepare(batch).features
    for column, place in ((0, 3), (2, 5)):
        assert_waves(with_waves["Food"][:, place : place + 2], waves(plain["Food"][:, column], [3]))


def test_rounding_is_no_feature_on_a_grid() -> None:
    """All sines at a wavelength of two cells are 0; what is not would be scaled up by normalization."""
    cells = np.arange(-300, 300) / 10
    space, batch = one_type(np.concatenate([cells.astype(np.float32), (cells + 1e-6).astype(np.float32)]))
    net = RogueNet(space, space.actions, fourier={"features": ["x"], "wavelengths": [0.2]})
    sine, cosine = net.inputs.prepare(batch).features["Unit"][:, 2:].T
    assert not sine.any()
    np.testing.assert_allclose(np.abs(cosine), 1, rtol=1e-6)


def test_whatever_is_not_finite_stays_in_its_entity() -> None:
    space, batch = one_type(np.array([1.0, np.nan, 2.0, np.inf, 3.0], np.float32))
    net = RogueNet(space, space.actions, fourier={"features": ["x"], "wavelengths": [2, 4]})
    got = net.inputs.prepare(batch).features["Unit"][:, 2:]
    assert np.isnan(got).all(1).tolist() == [False, True, False, True, False]
    assert not np.isnan(got[::2]).any()
    with raises(ValueError, "Unit", "'x'"):
        net.update_normalization(batch)


def test_the_batch_stays_as_it_was(make_space, random_batch, make_net):
    space = make_space()
    batch = random_batch(space)
    before = {name: rows.values.copy() for name, rows in batch.entities.items()}
    make_net(space, batch, fourier=WAVES).value(batch)
    assert all(np.array_equal(before[name], rows.values) for name, rows in batch.entities.items())


# -- networks (test_rogue_net_reference compares the engines, and their gradients, with float64) -------------


@pytest.mark.parametrize("options", [{}, {"global_features": "concat"}])
def test_statistics_are_those_of_what_the_network_reads(make_space, random_batch, make_net, options):
    space = make_space()
    batch = random_batch(space, steps=40)
    net = make_net(space, batch, fourier=WAVES, **options)
    for name, values in net.inputs.prepare(batch).features.items():
        if values.shape[1]:
            exact = values.astype(np.float64)
            np.testing.assert_allclose(net.normalization[name].mean, exact.mean(0), rtol=1e-6, atol=1e-7)


def test_another_order_of_features_gives_the_same_values(make_space, random_batch, make_net):
    space = make_space()
    batch = random_batch(space)
    net = make_net(space, batch, fourier=WAVES)
    expected = net.value(batch)
    other = EntitySpace(
        {name: ("new", *reversed(features)) for name, features in space.entities.items()},
        space.actions,
        space.global_features,
    )
    entities = {
        name: rows.with_values(
            np.ascontiguousarray(np.concatenate([rows.values[:, :1] * 0, rows.values[:, ::-1]], 1))
            if rows.values.shape[1]
            else np.zeros((rows.num_items, 1), np.float32)
        )
        for name, rows in batch.entities.items()
    }
    net.adapt_to(other)
    np.testing.assert_array_equal(net.value(dataclasses.replace(batch, entities=entities)), expected)


@pytest.mark.parametrize("engine", ["fused", "torch"])
def test_padded_observations_have_the_same_waves(make_space, random_batch, make_net, engine):
    space = make_space()
    batch = random_batch(space)
    net = make_net(space, batch, fourier=WAVES, engine=engine)
    layout = ez.batch.PaddedLayout(space, dict.fromkeys(space.entities, 3))
    twin = ez.PaddedRogueNet(layout.observation_space, slot_rows=False, **net.config)
    twin.load_rogue_net(net)
    padded = {name: torch.from_numpy(array) for name, array in layout.pad(batch).items()}
    values = net.value_head.proj(twin.eval()(padded)[:, : net.settings.d_model])[:, 0]
    np.testing.assert_allclose(values.detach().numpy(), net.value(batch), rtol=1e-5, atol=1e-5)
    plain = ez.PaddedRogueNet(layout.observation_space, slot_rows=False, **{**net.config, "fourier": None})
    with raises(ValueError, "fourier"):
        plain.load_rogue_net(net)


def test_wrapped_environments_have_positions_as_well(tmp_path: Path) -> None:
    games = SyncVectorEnv(
        [partial(gymnasium.make, "CartPole-v1")] * 2, autoreset_mode=AutoresetMode.SAME_STEP
    )
    venv = ez.wrap_vec(games)
    (name, features), *_ = venv.single_observation_space.entities.items()
    fourier = {"features": [features[0]], "wavelengths": [1, 2]}
    net = RogueNet(venv.single_observation_space, venv.single_action_space, fourier=fourier)
    config = ez.PPOConfig(total_timesteps=32, num_steps=8, minibatch_size=8)
    with venv:
        ez.PPO(net, venv, config, run_dir=tmp_path).train()
        batch, _ = venv.reset(seed=0)
    agent = ez.load_agent(tmp_path)
    np.testing.assert_allclose(agent.value(batch), net.value(batch), rtol=1e-5, atol=1e-5)
    again = ez.load_policy(tmp_path)
    assert again.settings == net.settings
    np.testing.assert_array_equal(again.value(batch), net.value(batch))
    assert len(net.inputs.features[name]) == len(features) + 4


# -- options -------------------------------------------------------------------------------------------------


def test_the_option_survives_json() -> None:
    config = RogueNetConfig(fourier=FourierFeatures(("x",), (2, 4.5)))
    assert RogueNetConfig(**json.loads(json.dumps(config.to_dict()))) == config
    assert config.fourier == FourierFeatures(["x"], [2.0, 4.5])  # type: ignore[arg-type]
    assert RogueNetConfig().to_dict()["fourier"] is None


@pytest.mark.parametrize(
    ("options", "error", "facts"),
    [
        ({"features": ["X", "relativ_x"]}, ValueError, ["'relativ_x'", "'relative_x'"]),
        ({"features": ["time"]}, ValueError, ["'time'", "relative_x"]),  # a global feature
        ({"features": []}, ValueError, ["features"]),
        ({"features": "X"}, TypeError, ["features", "'X'"]),
        ({"features": [1]}, TypeError, ["features", 1]),
        ({"features": ["X", "X"]}, ValueError, ["features", "'X'"]),
        ({"wavelengths": []}, ValueError, ["wavelengths"]),
        ({"wavelengths": 2}, TypeError, ["wavelengths", 2]),
        ({"wavelengths": [2, 0]}, ValueError, ["wavelengths", 0]),
        ({"wavelengths": [-1.5]}, ValueError, ["wavelengths", -1.5]),
        ({"wavelengths": [math.nan]}, ValueError, ["wavelengths", "nan"]),
        ({"wavelengths": [math.inf]}, ValueError, ["wavelengths", "inf"]),
        ({"wavelengths": [2, 2.0]}, ValueError, ["wavelengths", 2.0]),
        ({"wavelengths": ["2"]}, TypeError, ["wavelengths", "'2'"]),
        ({"wavelengths": [True]}, TypeError, ["wavelengths", "True"]),
        ({"wavelength": [2]}, TypeError, ["'wavelength'", "'wavelengths'"]),
    ],
)
def test_wrong_options_are_named(options: Any, error: type[Exception], facts: list[Any]) -> None:
    entities = {"Unit": ("X", "relative_x")}
    space = EntitySpace(entities, EntityActionSpace({"move": Categorical(2)}), ["time"])
    with raises(error, *facts):
        RogueNet(space, space.actions, fourier={"features": ["X"], "wavelengths": [2], **options})
