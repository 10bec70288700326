"""Evaluation under several settings of the environment."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from entitize.experiments import ConfigError, EvalConfig, TrainConfig, read_config, settings_of, to_yaml

from facts import mentions, raises

Run = Callable[..., tuple[int, str, str]]


def test_options_vary_together() -> None:
    assert settings_of({}) == [{}]
    assert settings_of({"a": [1, 2], "b": ["x", "y"]}) == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]


@pytest.mark.parametrize(
    ("series", "facts"),
    [
        ({"a": 1}, ("vary.a", "list", 1)),
        ({"a": []}, ("vary.a", "list", "[]")),
        ({"a": [1, 2], "b": [1]}, ("2 of a", "1 of b")),
    ],
)
def test_a_series_that_can_not_be_meant(series: dict[str, object], facts: tuple[object, ...]) -> None:
    with raises(ValueError, *facts):
        EvalConfig(vary=series)


def test_a_configuration_can_hold_a_series(tmp_path: Path) -> None:
    config = TrainConfig(eval=EvalConfig(vary={"nrobots": [1, 2]}))
    path = tmp_path / "config.yaml"
    path.write_text(to_yaml(config))
    assert read_config(TrainConfig, path) == config
    path.write_text("eval: {vary: {nrobots: 3}}")
    with raises(ConfigError, "eval", "vary.nrobots", "list", 3):
        read_config(TrainConfig, path)


def test_eval_has_a_line_for_each_setting(entitize: Run, trained: Path) -> None:
    words = ("--vary", "nrobots=1,3", "nmines=2,9", "--kwargs", "width=8")
    code, out, err = entitize("eval", trained, "--random", *words)
    assert (code, err) == (0, "")
    assert "MineSweeper width=8" in out
    assert re.search(r"agent +┃ nrobots ┃ nmines ┃ return", out)
    lines = re.findall(r"│ (\S.*?) +│ +(\d+) │ +(\d+) │ +[\d.]+ │ +[\d.]+ … [\d.]+ │ +3 │", out)
    agents = ("random policy", "trained")
    assert lines == [(name, *counts) for counts in (("1", "2"), ("3", "9")) for name in agents]


@pytest.mark.parametrize("words", [("nrobots=",), ("nrobots=1,,2",), ("nrobots=1", "nmines=")])
def test_a_series_without_a_value_is_refused(entitize: Run, trained: Path, words: tuple[str, ...]) -> None:
    code, _, err = entitize("eval", trained, "--vary", *words)
    name, _, values = words[-1].partition("=")
    assert code == 2
    assert re.search(mentions("--vary", f"{name}: expected values separated by commas", repr(values)), err)


def test_an_option_that_is_no_number_is_named(entitize: Run, trained: Path) -> None:
    code, _, err = entitize("eval", trained, "--kwargs", "nrobots=x")
    assert code == 2
    assert re.search(mentions("nrobots: expected a whole number", "'x'"), err)


def test_what_is_varied_reaches_the_game(entitize: Run, trained: Path) -> None:
    code, out, _ = entitize("eval", trained, "--vary", "max_steps=1,2", "--levels", "training")
    assert code == 0
    assert [float(steps) for steps in re.findall(r"│ +3 │ +(\d+) │", out)] == [1, 2]


def test_what_is_varied_counts_over_fixed_options(entitize: Run, trained: Path) -> None:
    words = ("--vary", "max_steps=1,2", "--kwargs", "max_steps=7", "nrobots=1")
    code, out, _ = entitize("eval", trained, *words, "--levels", "training")
    assert code == 0
    assert [float(steps) for steps in re.findall(r"│ +3 │ +(\d+) │", out)] == [1, 2]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--vary", "nrobots=1,2", "nmines=3"], "got 2 of nrobots, 1 of nmines"),
        (["--vary", "nrobots=1,99"], "99 robots do not fit"),
        (["--kwargs", "nrobot=1"], "can't be made"),
    ],
)
def test_what_can_not_be_played_is_told(entitize: Run, trained: Path, words: list[str], message: str) -> None:
    code, _, err = entitize("eval", trained, *words)
    assert code == 2
    assert message in " ".join(err.replace("|", " ").split())  # it may come in a box
