"""`entitize train` against past selves."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import entitize as ez
import pytest
import yaml
from entitize.experiments import CONFIGS, OpponentsConfig, TrainConfig, read_config, read_run_config

Run = Callable[..., tuple[int, str, str]]

SNAKES: dict[str, Any] = {
    "env": {"id": "MultiSnake/lanes", "num_envs": 4, "kwargs": {"max_steps": 12}},
    "net": {"d_model": 8, "n_layer": 1, "n_head": 1},
    "ppo": {"total_timesteps": 200, "num_steps": 16, "minibatch_size": 64, "update_epochs": 1},
    "eval": {"episodes": 2, "num_envs": 2},
}


@pytest.fixture
def config(tmp_path: Path) -> Callable[..., Path]:
    def write(opponents: Any, **sections: Any) -> Path:
        path = tmp_path / "config.yaml"
        path.write_text(yaml.safe_dump({**SNAKES, **sections, "opponents": opponents}))
        return path

    return write


def metrics(run: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def test_a_run_against_past_selves_is_resumed_with_them(
    entitize: Run, config: Callable[..., Path], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    file = config({"interval": 50, "latest_share": 0.2, "max_size": 3, "weighting": "hard"})
    code, _, err = entitize("train", "--config", file, "--run", run)
    assert (code, err) == (0, "")
    before = metrics(run)
    first = before[-1]
    assert first["opponents/size"] == 3 and 0 < first["opponents/win_rate"] < 1
    saved = read_run_config(run).opponents
    assert saved == OpponentsConfig(50, 0.2, 3, "hard")
    flags = ("--ppo.total-timesteps", "400", "--opponents.interval", "500")
    assert entitize("train", "--resume", run, *flags)[0] == 0
    lines = metrics(run)
    assert lines[-1]["opponents/games"] > first["opponents/games"]
    later = lines[len(before) :]
    assert later and all(line["opponents/size"] == 3 for line in later)
    assert entitize("eval", run)[0] == 0

    other = tmp_path / "other"
    file = config({"checkpoints": [str(run)], "latest_share": 0.0})
    assert entitize("train", "--config", file, "--run", other)[0] == 0
    assert metrics(other)[-1]["opponents/win_rate_fixed_0"] > 0


def test_agents_that_know_less_of_the_game_are_continued_and_play_along(
    entitize: Run, config: Callable[..., Path], tmp_path: Path
) -> None:
    old, run = tmp_path / "old", tmp_path / "run"
    with ez.make_vec("MultiSnake/lanes", num_envs=4, max_steps=12) as venv:
        space = venv.single_observation_space
        fewer = {name: space.entities[name] for name in list(space.entities)[:-1]}
        narrow = ez.EntitySpace(fewer, space.actions, space.global_features)
        net = ez.RogueNet(narrow, space.actions, **SNAKES["net"])
        net.adapt_to(space)
        ez.PPO(net, venv, ez.PPOConfig(total_timesteps=32, num_steps=8), old).train()
    file = config({"checkpoints": [str(old)], "latest_share": 0.0})
    code, _, err = entitize("train", "--config", file, "--init-from", old, "--run", run)
    assert (code, err) == (0, "")
    assert metrics(run)[-1]["opponents/win_rate_fixed_0"] > 0


@pytest.mark.parametrize(
    ("opponents", "message"),
    [
        ({"interval": 0}, "opponents: interval: expected at least 1, got 0"),
        ({"latest_share": 2}, "opponents: latest_share: expected a number from 0 to 1, got 2.0"),
        ({"weighting": "soft"}, "opponents.weighting: expected"),
        ({"max_size": 1, "checkpoints": ["a"]}, "max_size: expected room for a snapshot"),
        ({"checkpoints": ["nowhere"]}, "checkpoint nowhere: expected a folder"),
        ({"latest": 1}, "unknown key 'opponents.latest'; did you mean 'opponents.latest_share'?"),
    ],
)
def test_wrong_options_are_told(
    entitize: Run, config: Callable[..., Path], tmp_path: Path, opponents: dict[str, Any], message: str
) -> None:
    code, _, err = entitize("train", "--config", config(opponents), "--run", tmp_path / "run")
    assert code == 2 and message in err


def test_flags_begin_the_section(entitize: Run, config: Callable[..., Path], tmp_path: Path) -> None:
    run = tmp_path / "run"
    flags = ("--opponents.max-size", 3, "--opponents.latest-share", 0.5)
    assert entitize("train", "--config", config(None), "--run", run, *flags)[0] == 0
    assert read_run_config(run).opponents == OpponentsConfig(max_size=3, latest_share=0.5)
    assert metrics(run)[-1]["opponents/games"] > 0
    alone = tmp_path / "alone"
    assert entitize("train", "--config", config(None), "--run", alone)[0] == 0
    more = ("--ppo.total-timesteps", 400)
    assert entitize("train", "--resume", alone, "--opponents.latest-share", 0.0, *more)[0] == 0
    assert metrics(alone)[-1]["opponents/games"] > 0


@pytest.mark.parametrize("flag", ["--net.fourier.wavelengths", "--net.relative-position.scale"])
def test_flags_begin_no_section_with_keys_that_have_no_default(entitize: Run, flag: str) -> None:
    code, _, err = entitize("train", flag, "2")
    assert code == 2
    assert (
        flag.replace("-", "_")[2:] in err
        and "--config" in err
        and flag.split(".")[1].replace("-", "_") in err
    )


def test_environments_whose_lanes_never_meet_are_refused(
    entitize: Run, config: Callable[..., Path], tmp_path: Path
) -> None:
    file = config({}, env={"id": "MineSweeper", "num_envs": 2})
    code, _, err = entitize("train", "--config", file, "--run", tmp_path / "run")
    assert code == 2 and "lane_games" in err
    assert not (tmp_path / "run" / "opponents").exists()


def test_microrts_is_trained_against_itself_past_selves_and_bots(entitize: Run, tmp_path: Path) -> None:
    """Two small updates with the configuration that comes along."""
    shipped = read_config(TrainConfig, CONFIGS / "microrts_selfplay.yaml")
    assert shipped.opponents is not None
    venv = ez.make_vec(shipped.env.id, num_envs=shipped.env.num_envs, **shipped.env.kwargs)
    assert venv.lane_games is not None and venv.lane_games[:12].tolist() == [i // 2 for i in range(12)]
    assert len(set(venv.lane_games[12:])) == 12, "games against bots have one lane"
    venv.close()
    plain = yaml.safe_load((CONFIGS / "microrts_selfplay.yaml").read_text())
    plain["env"] |= {"num_envs": 6}
    plain["env"]["kwargs"] |= {"selfplay": 4, "opponents": {"passiveAI": 2}, "max_steps": 20}
    plain["net"] = SNAKES["net"]
    plain["ppo"] |= {"num_steps": 45, "minibatch_size": 256, "update_epochs": 1, "total_timesteps": 400}
    plain["opponents"] |= {"interval": 100, "latest_share": 0.0}
    file = tmp_path / "small.yaml"
    file.write_text(yaml.safe_dump(plain))
    run = tmp_path / "run"
    code, _, err = entitize("train", "--config", file, "--run", run)
    assert (code, err) == (0, "")
    lines = metrics(run)
    assert [line["step"] for line in lines] == [180, 360, 540], "four lanes of six are the learner's"
    assert lines[-1]["opponents/size"] == 3
    assert lines[-1]["opponents/games"] == 2 * 6, "two games of 20 ticks in 135, six times over"
    assert lines[-1]["opponents/win_rate"] == pytest.approx(0.5), "nobody wins in 20 ticks"


def test_orbit_wars_is_trained_against_itself_and_played_against_the_bot(
    entitize: Run, tmp_path: Path
) -> None:
    """Two small updates with the configuration that comes along; then the games have a bot."""
    plain = yaml.safe_load((CONFIGS / "orbit_wars_selfplay.yaml").read_text())
    plain["env"]["num_envs"] = 4
    plain["net"] = SNAKES["net"]
    plain["ppo"] |= {"num_steps": 16, "minibatch_size": 64, "update_epochs": 1, "total_timesteps": 100}
    plain["opponents"] |= {"interval": 50, "latest_share": 0.0}
    file = tmp_path / "small.yaml"
    file.write_text(yaml.safe_dump(plain))
    run = tmp_path / "run"
    code, _, err = entitize("train", "--config", file, "--run", run)
    assert (code, err) == (0, "")
    lines = metrics(run)
    assert lines[-1]["opponents/size"] == 2 and lines[0]["step"] == 2 * 16, (
        "two of four lanes are the learner's"
    )
    words = ("--env.id", "OrbitWars", "--kwargs", "fleets=forecast", "--episodes", 2)
    code, out, err = entitize("eval", run, *words)
    assert (code, err) == (0, "") and "return" in out


def test_agents_play_each_other(entitize: Run, config: Callable[..., Path], tmp_path: Path) -> None:
    one, two = tmp_path / "one" / "0", tmp_path / "two" / "0"
    for seed, run in enumerate((one, two)):
        code, _, err = entitize("train", "--config", config({}), "--run", run, "--ppo.seed", seed)
        assert (code, err) == (0, "")
    flags = ("--episodes", 20, "--seed", 7)
    code, out, err = entitize("eval", one, "--against", two, "--random", *flags)
    assert (code, err) == (0, "")
    with ez.make_vec("MultiSnake/lanes", num_envs=4, max_steps=12) as venv:
        agents = {
            "random policy": ez.evaluation.RandomActor(venv.single_action_space),
            "one/0": ez.load_policy(one),
            "two/0": ez.load_policy(two),
        }
        results = ez.self_play.play_matches(agents, venv, 20, seed=7)
    assert str(results) in out
    code, out, _ = entitize("eval", one, "--against", two, *flags, "--vary", "max_steps=4,8")
    assert code == 0 and [out.count(f"max_steps={steps}") for steps in (4, 8)] == [1, 1]

    code, _, err = entitize("eval", one, "--against", one, *flags)
    assert code == 2 and "--against" in err and str(one) in err


def test_agents_of_a_game_for_one_cannot_play_each_other(
    entitize: Run, config: Callable[..., Path], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    file = config(None, env={"id": "MineSweeper", "num_envs": 4})
    assert entitize("train", "--config", file, "--run", run)[0] == 0
    (checkpoint,) = (run / "checkpoints").iterdir()
    code, _, err = entitize("eval", run, "--against", checkpoint)
    assert code == 2 and "--against" in err and "lane_games" in err


GAME = """
import entitize as ez

class Race(ez.EntityGame):
    def __init__(self, goal=5):
        self.goal, self.possible_agents = goal, ["runner_0", "runner_1"]
        actions = ez.EntityActionSpace({"move": ez.Categorical(["rest", "run"])})
        self.spaces = ez.EntitySpace({"Me": ["x"]}, actions), actions

    def _reset(self, options):
        self.x = {agent: int(self.np_random.integers(3)) for agent in self.possible_agents}
        return self.look()

    def _step(self, actions):
        for agent, chosen in actions.items():
            self.x[agent] += chosen["move"].labels == ["run"]
        there = {agent: x >= self.goal for agent, x in self.x.items()}
        rewards = {agent: float(one) for agent, one in there.items()}
        return self.look(), rewards, any(there.values()), False, {}

    def look(self):
        mask = {"move": ez.actions.CategoricalMask(actor_types=["Me"])}
        return {agent: ez.Observation({"Me": [[x]]}, actions=mask) for agent, x in self.x.items()}
"""


def test_a_game_of_ones_own_is_trained_against_past_selves(
    entitize: Run, config: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "race_of_mine.py").write_text(GAME)
    run, env = tmp_path / "run", {"id": "race_of_mine:Race", "num_envs": 4, "kwargs": {"goal": 4}}
    file = config({"interval": 100, "latest_share": 0.5}, env=env)
    assert entitize("train", "--config", file, "--run", run)[0] == 0
    assert metrics(run)[-1]["opponents/games"] > 0
    assert entitize("train", "--resume", run, "--ppo.total-timesteps", 400)[0] == 0
    first = run / "opponents" / "step_000000000000"
    code, out, err = entitize("eval", run, "--against", first, "--episodes", 10)
    assert (code, err) == (0, "") and "run/step_000000000000" in out and "goal=4" not in out
    assert entitize("check", "race_of_mine:Race")[0] == 0
