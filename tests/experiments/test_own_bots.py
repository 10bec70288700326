"""Bots of the user, "module:function", in the commands that play."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from entitize.datasets import EntityDataset

Run = Callable[..., tuple[int, str, str]]

#: A game in which 3 is the right number, and bots.
GAME = """
import entitize as ez
import gymnasium
import numpy as np


class Three(ez.EntityEnv):
    action_space = ez.EntityActionSpace({"Say": ez.Categorical(5)})
    observation_space = ez.EntitySpace({"Unit": ["x"]}, action_space)

    def _reset(self, options):
        self.time = 0
        return self.observed()

    def _step(self, actions):
        self.time += 1
        return self.observed(), float(actions["Say"].choices[0] == 3), self.time == 4, False, {}

    def observed(self):
        return ez.Observation({"Unit": np.ones((1, 1))}, actions={"Say": ez.actions.CategoricalMask()})


def say(number, batch):
    actors = batch.actions["Say"].actors
    return {"Say": actors.with_values(np.full(actors.num_items, number))}


def three(batch, rng):
    return say(3, batch)


def six(batch, rng):
    return say(6, batch)


def columns(batch, rng):
    return {"Say": np.full((len(batch), 1), 3)}


def broken(batch, rng):
    raise RuntimeError("no idea")


def unknown(batch, rng):
    return gymnasium.make("Nope-v0")


class Constant:
    def __init__(self, number):
        self.number = number

    def __call__(self, batch, rng):
        return say(self.number, batch)


always_three, always_four, number = Constant(3), Constant(4), 3


class Race(ez.EntityGame):
    # Who says the larger number wins.

    def __init__(self):
        self.possible_agents = ["first", "second"]
        self.spaces = Three.observation_space, Three.action_space

    def _reset(self, options):
        return {agent: Three.observed(None) for agent in self.possible_agents}

    def _step(self, actions):
        rewards = {agent: float(chosen["Say"].choices[0]) for agent, chosen in actions.items()}
        return self._reset(None), rewards, True, False, {}
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "three_game.py").write_text(GAME)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "three_game", raising=False)


IN_GAME = ("--env.id", "three_game:Three")


def rows(out: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines() if "│" in line]


@pytest.mark.parametrize("bot", ["three_game:three", "three_game:always_three"])
def test_a_bot_is_evaluated_beside_the_random_policy(entitize: Run, bot: str) -> None:
    code, out, err = entitize("eval", bot, *IN_GAME, "--random", "--episodes", 16)
    assert (code, err) == (0, "")
    random, own = rows(out)
    assert random[0] == "random policy" and 0 < float(random[1]) < 2
    assert own[:2] == [bot, "4.00"] and own[3] == "16"


def test_a_bot_is_recorded_and_cloned(entitize: Run, tmp_path: Path) -> None:
    out = tmp_path / "plays"
    assert entitize("record", "three_game:three", *IN_GAME, "--episodes", 8, "--out", out)[0] == 0
    dataset = EntityDataset(out)
    assert dataset.metadata["policy"] == "three_game:three"
    assert [episode.total_reward for episode in dataset.episodes] == [4.0] * 8
    flags = ("--teacher", "three_game:three", "--random", "--episodes", 8, "--out", tmp_path / "taught")
    assert entitize("record", "three_game:three", *IN_GAME, *flags)[0] == 0
    taught = EntityDataset(tmp_path / "taught")
    assert taught.metadata["teacher"] == "three_game:three"
    assert min(episode.total_reward for episode in taught.episodes) < 4, "random actions were carried out"


def test_a_bot_plays_for_a_video(entitize: Run, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    code, _, err = entitize("play", "three_game:three", *IN_GAME, "--html", page, "--episodes", 1)
    assert (code, err) == (0, "") and page.stat().st_size > 1000


def test_bots_play_games_against_each_other(entitize: Run) -> None:
    lanes = ("--env.id", "three_game:Race", "--episodes", 8, "--num-envs", 4)
    code, out, _ = entitize("eval", "three_game:three", "--against", "three_game:always_four", *lanes)
    assert code == 0
    three, four = [line for line in out.splitlines() if line.startswith("three_game:")][-2:]
    assert "0.00" in three and "1.00" in four
    code, _, err = entitize("eval", "three_game:three", "--against", "three_game:three", *lanes)
    assert code == 2 and "each agent once" in err


@pytest.mark.parametrize(
    ("bot", "facts"),
    [
        ("three_game:thre", ["thre", "three"]),
        ("no_game:three", ["no_game"]),
        ("three_game:number", ["three_game:number", "int"]),
        ("three_game:Constant", ["three_game:Constant", "class"]),
        ("three_game:six", ["three_game:six", "Say", "6"]),
        ("three_game:columns", ["three_game:columns", "Say", "RaggedArray", "1)"]),
        ("three_game:broken", ["three_game:broken", "no idea", "three_game.py", "broken"]),
        ("three_game:unknown", ["three_game:unknown", "NameNotFound", "Nope", "three_game.py", "in unknown"]),
    ],
)
def test_bots_that_do_not_play_are_named(entitize: Run, bot: str, facts: list[str]) -> None:
    code, out, err = entitize("eval", bot, *IN_GAME)
    assert code == 2 and out == ""
    assert all(fact in err for fact in facts) and "Traceback" not in err


def test_a_bot_needs_an_environment(entitize: Run) -> None:
    for command in (("eval",), ("play", "--html", "page.html"), ("record", "--out", "plays")):
        code, _, err = entitize(command[0], "three_game:three", *command[1:])
        assert code == 2 and "three_game:three" in err and "--env.id" in err


def test_a_bot_has_no_checkpoint(entitize: Run, tmp_path: Path) -> None:
    code, _, err = entitize("eval", "three_game:three", *IN_GAME, "--checkpoint", tmp_path)
    assert code == 2 and "--checkpoint" in err and "three_game:three" in err


def test_a_bot_has_no_card(entitize: Run) -> None:
    code, _, err = entitize("card", "three_game:three", *IN_GAME, "--out", "card")
    assert code == 2 and "three_game:three" in err
