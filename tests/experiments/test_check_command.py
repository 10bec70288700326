"""`entitize check`: what it finds, what it says, and with which exit code."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from facts import mentions

Run = Callable[..., tuple[int, str, str]]

MODULE = """
import entitize as ez
import gymnasium
import numpy as np


class Good(ez.EntityEnv):
    def __init__(self, size=2, label="x"):
        if label == "bad":
            raise RuntimeError("no such label")
        self.size = size
        self.action_space = ez.EntityActionSpace({"go": ez.Categorical(2)})
        self.observation_space = ez.EntitySpace({"A": ["x"]}, self.action_space)

    def _reset(self, options):
        self.time = 0
        return self.look()

    def _step(self, actions):
        self.time += 1
        return self.look(), 1.0, self.time == 5, False, {}

    def look(self):
        return self.show(self.np_random.random((self.size, 1)))

    def show(self, rows):
        return ez.Observation({"A": rows}, actions={"go": ez.actions.CategoricalMask()})


class Converted(gymnasium.Env):
    unwrapped = "another library's environment"
    observation_space = gymnasium.spaces.Box(0, 1, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), 0.0, False, False, {}


class Idle(Good):
    def __init__(self):
        super().__init__()
        self.action_space = ez.EntityActionSpace({"go": ez.Categorical(2), "build": ez.Categorical(2)})
        self.observation_space = ez.EntitySpace({"A": ["x"]}, self.action_space)


class Unseeded(Good):
    def look(self):
        return self.show(np.random.default_rng().random((2, 1)))


class NaN(Good):
    def look(self):
        return self.show([[np.nan]])


class Crash(Good):
    def _step(self, actions):
        return self.fall()

    def fall(self):
        return np.random.default_rng(0).random("many")


def lanes():
    return ez.vector.ListVectorEnv([Crash] * 2)


class Pair(ez.pettingzoo.MultiAgentEnv):
    metadata = {"name": "pair_v0", "render_modes": []}

    def __init__(self, broken=""):
        self.broken, self.possible_agents, self.agents = broken, ["cat_0", "cat_1"], []
        self.space = ez.EntitySpace({"Cat": ["x"]}, ez.EntityActionSpace({"go": ez.GlobalCategorical(2)}))
        self.rng = np.random.default_rng()

    def observation_space(self, agent):
        return self.space

    def action_space(self, agent):
        actions = self.space.actions
        return ez.EntityActionSpace(dict(actions.items())) if self.broken == "copies" else actions

    def reset(self, seed=None, options=None):
        if seed is not None and self.broken != "seed":
            self.rng = np.random.default_rng(seed)
        self.agents, self.time = list(self.possible_agents), 0
        return {a: self.look() for a in self.agents}, {a: {} for a in self.agents}

    def look(self):
        x = self.rng.random((1, 1), np.float32)
        x += np.float32("nan" if self.broken == "nan" else 0)
        return {"entities": {"Cat": x}, "actions": {"go": {"mask": np.array([[1, 0]], np.int8)}}}

    def step(self, actions):
        if not self.agents and self.broken != "endless":
            raise gymnasium.error.ResetNeeded("reset")
        for agent in {**actions, **dict.fromkeys(self.agents)}:
            action = actions.get(agent, {})
            if self.broken == "trusting":
                continue
            if agent not in self.agents or action.keys() - {"go"}:
                raise ez.ActionError("no")
            if list(action.get("go", ())) != [0]:
                raise ez.ActionError("'go' is left out or masked")
        self.time += 1
        acted = self.agents
        ended = {a: bool(self.rng.random() < 0.2) for a in acted}
        self.agents = [a for a in acted if not ended[a]]
        seen = {a: self.look() for a in acted}
        return seen, {a: 0.0 for a in acted}, ended, dict.fromkeys(acted, False), {a: {} for a in acted}


good = Good()
number = 3
"""

COUNTED = "20 random steps, three times from seed 0: "


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to be in, with a module of environments."""
    (tmp_path / "checked_games.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "checked_games", raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (["checked_games:Good"], "Good, an environment of entities"),
        (["checked_games:good"], "Good, an environment of entities"),
        (["checked_games:Good", "--kwargs", "size=3", "label=y"], "Good, an environment of entities"),
        (["checked_games:Good", "--kwargs", "size=1"], "Good, an environment of entities"),
        (["entitize.envs.games.xor:Xor"], "Xor, an environment of entities"),
        (["entitize.envs.games.xor:make_vec"], "XorVectorEnv, an EntityVectorEnv of 3 lanes"),
        (["entitize/Xor-v0"], "Xor, an environment of entities"),
        (["MaskedBandit", "--kwargs", "num_arms=3"], "MaskedBandit, an environment of entities"),
        (["CartPole-v1"], "CartPoleEnv, which knows no entities: use ez.wrap(env), which is what is checked"),
        (["Procgen/bigfish"], "ProcgenVectorEnv, an EntityVectorEnv of 3 lanes"),
        (["checked_games:Pair"], "Pair, a MultiAgentEnv of 2 agents"),
    ],
)
def test_what_keeps_the_rules_is_ok(entitize: Run, folder: Path, words: list[str], kind: str) -> None:
    code, out, err = entitize("check", *words, "--steps", 20)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == f"{words[0]} makes {kind}"
    assert lines[1].startswith(COUNTED)
    assert lines[-1] == "ok"


def test_a_check_that_cannot_be_made_is_skipped(entitize: Run, folder: Path) -> None:
    code, out, _ = entitize("check", "checked_games:Converted", "--steps", 5)
    assert code == 0 and re.search(mentions("note", "check_env", "unwrapped", "ok"), out)
    assert "gymnasium's check_env\n" not in out


def test_an_action_without_actors_is_noted(entitize: Run, folder: Path) -> None:
    code, out, _ = entitize("check", "checked_games:Idle", "--steps", 20)
    assert code == 0 and re.search(mentions("note", "in 20 steps action 'build' never had an actor"), out)


def test_environments_of_entity_gym_are_checked_too(entitize: Run) -> None:
    pytest.importorskip("ragged_buffer", reason="entity_gym needs it, and no build is for Python 3.12")
    importlib.import_module("entitize.adapters.entity_gym")  # swallows the warning of the import
    code, out, _ = entitize("check", "entity_gym.examples:Minefield", "--steps", 20)
    assert code == 0
    assert out.startswith(
        "entity_gym.examples:Minefield makes Minefield for entity_gym: use ez.from_entity_gym(env)"
    )


@pytest.mark.filterwarnings("ignore:The old environment creation API")  # of pettingzoo.classic
@pytest.mark.parametrize(
    "env", ["classic.tictactoe_v3:env", "butterfly.knights_archers_zombies_v11:parallel_env"]
)
def test_games_of_pettingzoo_are_checked_too(entitize: Run, env: str) -> None:
    code, out, _ = entitize("check", f"pettingzoo.{env}", "--steps", 20)
    assert code == 0 and out.rstrip().endswith("ok")
    assert out.startswith(f"pettingzoo.{env} makes ") and "use ez.from_pettingzoo(env)" in out.splitlines()[0]


def test_a_vector_environment_of_its_own_is_checked_too(entitize: Run) -> None:
    _, out, _ = entitize("check", "Xor", "--steps", 20)
    assert "Xor makes XorVectorEnv, an EntityVectorEnv of 3 lanes\n" in out


@pytest.mark.parametrize(
    ("words", "finding"),
    [
        (["Good", "--kwargs", "size=0"], "Good: expected actors of an action at some step, got none of 'go'"),
        (["NaN"], "NaN: entity type 'A': feature 'x' of entity 0: expected a finite number, got nan"),
        (
            ["Unseeded"],
            "Unseeded: expected the same results for the same seed and actions, got different results"
            " in reset: entities/A",
        ),
        (
            ["Pair", "--kwargs", "broken=copies"],
            "Pair: agent 'cat_0': spaces: expected the same objects at every call, got different ones",
        ),
        (
            ["Pair", "--kwargs", "broken=seed"],
            "Pair: expected the same results for the same seed and actions, got different results in reset",
        ),
        (
            ["Pair", "--kwargs", "broken=nan"],
            "Pair: reset: agent 'cat_0': entity type 'Cat': feature 'x' of entity 0: expected a finite"
            " number, got nan",
        ),
        (
            ["Pair", "--kwargs", "broken=endless"],
            "Pair: step without agents in play: expected ResetNeeded, got no error",
        ),
        (
            ["Pair", "--kwargs", "broken=trusting"],
            "Pair: agent 'cat_0': an action with the unknown name 'go+': expected ActionError, got no error",
        ),
    ],
)
def test_a_broken_rule_is_a_sentence_and_code_1(
    entitize: Run, folder: Path, words: list[str], finding: str
) -> None:
    code, out, err = entitize("check", f"checked_games:{words[0]}", *words[1:], "--steps", 20)
    assert (code, err) == (1, "")
    assert out.splitlines()[1].startswith(finding)


def test_an_exception_of_the_environment_is_told_with_its_place(entitize: Run, folder: Path) -> None:
    line = MODULE.splitlines().index('        return np.random.default_rng(0).random("many")') + 1
    _, out, _ = entitize("check", "checked_games:Crash")
    assert out.splitlines()[1].startswith("TypeError: ")
    assert out.splitlines()[2] == f"  raised at checked_games.py:{line} in fall"
    code, out, _ = entitize("check", "checked_games:lanes")
    assert code == 1
    assert "env 0 (Crash) raised TypeError in step" in out
    assert out.splitlines()[-1] == f"  raised at checked_games.py:{line} in fall"
    code, out, _ = entitize("check", "checked_games:Good", "--kwargs", "label=bad")
    assert code == 1
    assert "RuntimeError: no such label\n  raised at checked_games.py:10 in __init__" in out


def test_a_module_that_cannot_be_imported_is_told_with_the_place(entitize: Run, folder: Path) -> None:
    (folder / "checked_wreck.py").write_text("import checked_nothing\n")
    code, out, _ = entitize("check", "checked_wreck:Game")
    assert code == 1
    assert out.splitlines() == [
        "ModuleNotFoundError: No module named 'checked_nothing'",
        "  raised at checked_wreck.py:1 in <module>",
    ]


@pytest.mark.filterwarnings("ignore:The old environment creation API")  # of pettingzoo.classic
@pytest.mark.parametrize(
    ("words", "facts"),
    [
        (["checked_game:Good"], ["module 'checked_game'", "'checked_games'"]),
        (["checked_games.sub:Good"], ["module 'checked_games.sub'"]),
        (["checked_games:God"], ["'checked_games'", "'God'", "'Good'"]),
        (
            ["pettingzoo.test.example_envs.generated_agents_parallel_v0:parallel_env"],
            ["generated_agents_parallel_v0", "possible_agents", "from_pettingzoo"],
        ),
        (["checked_games:number"], ["checked_games:number", 3]),
        (["checked_games:Good", "--kwargs", "sise=3"], ["checked_games:Good", "sise"]),
        (["checked_games:good", "--kwargs", "size=3"], ["checked_games:good", "size"]),
        (["MineSweep"], ["'MineSweep'", "'MineSweeper'"]),
        (["CartPole-v1", "--kwargs", "wheels=3"], ["CartPole-v1", "wheels"]),
        (["checked_nothing:Good-v0"], ["'checked_nothing'"]),
    ],
)
def test_what_cannot_be_checked_is_an_error_with_code_2(
    entitize: Run, folder: Path, words: list[str], facts: list[object]
) -> None:
    code, _, err = entitize("check", *words)
    assert code == 2
    assert err.startswith("entitize: ") and re.search(mentions(*facts), err), err


@pytest.mark.parametrize("flag", ["--steps", "--seed"])
def test_numbers_out_of_range_are_told(entitize: Run, flag: str) -> None:
    code, _, err = entitize("check", "Xor", flag, "-1")
    assert code == 2
    assert flag in err


def test_the_process_ends_with_the_code_and_looks_beside_itself(folder: Path) -> None:
    command = [sys.executable, "-m", "entitize", "check", "checked_games:NaN", "--steps", "3"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert result.returncode == 1
    assert result.stdout.endswith(
        "NaN: entity type 'A': feature 'x' of entity 0: expected a finite number, got nan\n"
    )
    assert "Traceback" not in result.stderr
