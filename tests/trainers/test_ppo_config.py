"""Hyper-parameters: defaults, ranges, types, names."""

from __future__ import annotations

import copy
import inspect
import pickle
from dataclasses import FrozenInstanceError, asdict, fields, replace
from typing import Any

import pytest
from entitize.policies.rogue_net import RogueNetConfig
from entitize.suggestions import ELSEWHERE
from entitize.trainers import PPOConfig, annealed, is_due

from facts import raises


def test_the_names_are_those_of_the_field() -> None:
    names = {field.name for field in fields(PPOConfig)}
    assert names >= {
        *(
            "learning_rate",
            "anneal_lr",
            "num_steps",
            "gamma",
            "gae_lambda",
            "minibatch_size",
            "update_epochs",
        ),
        *("norm_adv", "clip_coef", "clip_vloss", "ent_coef", "anneal_entropy", "vf_coef", "max_grad_norm"),
        *("target_kl", "microbatch_size", "seed", "total_timesteps"),
    }


def test_every_field_has_a_line_of_help_below_it() -> None:
    source = inspect.getsource(PPOConfig)
    for field in fields(PPOConfig):
        definition = f"    {field.name}: {field.type} = "
        assert definition in source
        assert source.split(definition)[1].split("\n")[1].startswith('    """'), field.name


@pytest.mark.parametrize(
    ("name", "here"),
    [
        ("n_steps", "num_steps"),
        ("lr", "learning_rate"),
        ("batch_size", "minibatch_size"),
        ("num_stps", "num_steps"),
    ],
)
def test_names_of_other_libraries_and_misspelt_ones_are_translated(name: str, here: str) -> None:
    with raises(TypeError, "PPOConfig", repr(name), repr(here)):
        PPOConfig(**{name: 3})


def test_names_of_other_libraries_are_those_of_options() -> None:
    names = {field.name for kind in (PPOConfig, RogueNetConfig) for field in fields(kind)}
    assert set(ELSEWHERE.values()) <= names | {"num_envs"} and not names & set(ELSEWHERE)


def test_a_config_is_copied_and_pickled() -> None:
    config = PPOConfig(7, num_steps=5)
    assert config.total_timesteps == 7
    assert (
        pickle.loads(pickle.dumps(config))
        == copy.deepcopy(config)
        == config
        == replace(config, seed=config.seed)
    )


def test_a_config_is_frozen_and_survives_a_dict() -> None:
    config = PPOConfig(learning_rate=0.5, target_kl=0.1)
    with pytest.raises(FrozenInstanceError):
        config.gamma = 0.5  # type: ignore[misc]
    assert PPOConfig(**asdict(config)) == config


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({"learning_rate": -1.0}, ["learning_rate", -1.0]),
        ({"minibatch_size": 0}, ["minibatch_size", 0]),
        ({"minibatch_size": 1}, ["minibatch_size", 2, 1, "norm_adv=False"]),
        ({"target_kl": 0.0}, ["target_kl", 0.0]),
        ({"ent_coef": -0.1}, ["ent_coef", -0.1]),
        ({"gamma": 1.5}, ["gamma", 0, 1, 1.5]),
        ({"gamma": float("nan")}, ["gamma", "finite", "nan"]),
        ({"learning_rate": float("inf")}, ["learning_rate", "finite", "inf"]),
    ],
)
def test_numbers_out_of_range_are_refused(options: dict[str, Any], facts: list[object]) -> None:
    with raises(ValueError, *facts):
        PPOConfig(**options)


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({"learning_rate": "1e-3"}, ["learning_rate", "float", "'1e-3'", "str"]),
        ({"num_steps": 2.5}, ["num_steps", "int", 2.5]),
        ({"num_steps": True}, ["num_steps", "int", True]),
        ({"anneal_lr": 1}, ["anneal_lr", "bool", 1]),
        ({"seed": None}, ["seed", "int", None]),
        ({"microbatch_size": "all"}, ["microbatch_size", "int | None", "'all'"]),
    ],
)
def test_values_of_the_wrong_type_are_refused(options: dict[str, Any], facts: list[object]) -> None:
    with raises(TypeError, *facts):
        PPOConfig(**options)


def test_annealing_falls_linearly_and_stays_at_zero() -> None:
    assert [annealed(2.0, done) for done in (0.0, 0.25, 1.0, 1.5)] == [2.0, 1.5, 0.0, 0.0]


def test_something_is_due_whenever_a_multiple_was_passed() -> None:
    passed = [is_due(before, before + 30, 100) for before in range(0, 300, 30)]
    assert passed == [False, False, False, True, False, False, True, False, False, True]
    assert is_due(70, 100, 100) and not is_due(100, 130, 100)
    assert is_due(0, 1000, 100), "more than one multiple at once is one time"
