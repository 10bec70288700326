"""Evaluation under several settings of the environment."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
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


#: Level n returns n; those below 3 are successes.
LEVELS = """
import entitize as ez
import numpy as np


class Levels(ez.EntityEnv):
    action_space = ez.EntityActionSpace({"Go": ez.Categorical(2)})
    observation_space = ez.EntitySpace({"Unit": ["x"]}, action_space)

    def __init__(self, levels=4):
        self.levels = levels

    def _reset(self, options):
        self.level = int(self.np_random.integers(self.levels))
        return self.observed(), {"level": -1}

    def _step(self, actions):
        info = {"level": self.level, "is_success": self.level < 3}
        return self.observed(), float(self.level), True, False, info

    def observed(self):
        return ez.Observation({"Unit": np.ones((1, 1))}, actions={"Go": ez.actions.CategoricalMask()})
"""


def test_results_by_what_infos_say(entitize: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "levels_game.py").write_text(LEVELS)
    monkeypatch.syspath_prepend(tmp_path)
    run = tmp_path / "run"
    small = ("--env.num-envs", 2, "--ppo.num-steps", 4, "--ppo.total-timesteps", 16, "--net.d-model", 8)
    assert entitize("train", "--env.id", "levels_game:Levels", "--run", run, *small)[0] == 0
    code, out, _ = entitize("eval", run, "--by", "level", "--episodes", 40)
    assert code == 0
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines() if "│" in line]
    (_, level, mean, bounds, success, episodes, steps), *parts = rows
    assert (level, episodes, steps) == ("all", "40", "1") and "…" in bounds
    counts = [int(part[5]) for part in parts]
    assert [part[1] for part in parts] == ["0", "1", "2", "3"] and sum(counts) == 40
    assert [float(part[2]) for part in parts] == [0, 1, 2, 3]
    assert [float(part[4]) for part in parts] == [1, 1, 1, 0]
    assert float(mean) == pytest.approx(np.dot(counts, range(4)) / 40, abs=0.006)
    assert float(success) == pytest.approx(1 - counts[3] / 40, abs=0.006)
    code, out, _ = entitize("eval", run, "--episodes", 40)
    ((_, *alone),) = [
        [cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines() if "│" in line
    ]
    assert (alone[0], alone[2]) == (mean, success) and "…" in alone[1] and "…" in alone[3]
    code, out, _ = entitize("eval", run, "--by", "level", "--episodes", 400, "--kwargs", "levels=60")
    levels = [line.split("│")[2].strip() for line in out.splitlines() if "│" in line]
    assert code == 0 and levels == ["all", *map(str, range(10)), *map(str, range(50, 60))]
    assert "10 lowest" in out and "60" in out
    code, out, _ = entitize("eval", run, "--by", "levle", "--episodes", 4)
    assert code == 0 and out.count(" 4 │") == 1 and "'levle'" in out
    for words in (("--by", "level", "--against", run), ("--by", "levels", "--vary", "levels=2,3")):
        code, _, err = entitize("eval", run, *words)
        assert code == 2 and "--by" in err and words[2] in err


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
