"""`entitize record`, `clone` and `replay`."""

from __future__ import annotations

from pathlib import Path

import entitize as ez
import numpy as np
import pytest
import torch
import yaml
from entitize.cli import main
from entitize.datasets import EntityDataset


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("commands") / "run"
    venv = ez.make_vec("MineSweeper", num_envs=4)
    torch.manual_seed(0)
    net = ez.RogueNet(venv.single_observation_space, venv.single_action_space, d_model=8, n_layer=1)
    ez.PPO(net, venv, ez.PPOConfig(total_timesteps=64, num_steps=16), path).train(progress=False)
    return path


def test_recorded_cloned_and_played_again(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plays, clone = tmp_path / "plays", tmp_path / "clone"
    assert main(["record", str(run), "--steps", "40", "--num-envs", "4", "--out", str(plays)]) == 0
    dataset = EntityDataset(plays)
    assert len(dataset.decisions) == 160
    assert dataset.metadata["env"] == "MineSweeper" and dataset.metadata["policy"] == str(run)
    assert "view" not in dataset.metadata
    assert main(["replay", str(plays)]) == 0
    assert "160 steps" in (text := capsys.readouterr().out) and "no difference" in text
    assert main(["replay", str(plays), "--kwargs", "nmines=3"]) == 1
    assert "Mine" in capsys.readouterr().out
    flags = ["--cloning.epochs", "2", "--net.d-model", "8", "--net.n-layer", "1"]
    no_gpu = f"cuda:{torch.cuda.device_count()}"
    assert main(["clone", str(plays), "--run", str(clone), "--cloning.device", no_gpu]) == 2
    assert no_gpu in capsys.readouterr().err and not clone.exists()
    assert main(["clone", str(plays), "--run", str(clone), *flags]) == 0
    assert "epoch 2/2" in capsys.readouterr().out
    assert main(["eval", str(clone), "--episodes", "2"]) == 0
    assert main(["clone", str(plays), "--run", str(clone), *flags]) == 2
    assert "--resume" in capsys.readouterr().err
    more = ["clone", str(plays), "--run", str(clone), "--resume", "--cloning.epochs"]
    assert main([*more, "3"]) == 0  # with the network and the options of the run
    assert "epoch 3/3" in capsys.readouterr().out
    assert main([*more, "4", "--cloning.learning-rate", "0.1"]) == 2
    assert "learning_rate" in capsys.readouterr().err


def test_games_with_a_lane_per_agent_are_played_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("noughts_and_crosses.py").write_text("""
from functools import partial

import entitize
import pettingzoo


def boards(num_envs=1):
    board = partial(pettingzoo.make, "aec", "classic/tictactoe-v3")
    return entitize.from_pettingzoo(board, num_envs=num_envs)
""")
    name = "noughts_and_crosses:boards"
    with ez.make_vec(name, num_envs=3) as venv:
        ez.record(venv, None, "boards", steps=12, seed=1)
        assert venv.num_envs == 6
    assert main(["replay", "boards", "--env", name]) == 0
    assert "72 steps" in capsys.readouterr().out


def test_the_view_of_a_recording_is_used_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, plays, clone = tmp_path / "run", tmp_path / "plays", tmp_path / "clone"
    view = {"view": "Vector", "name": "Cart"}
    venv = ez.make_vec("CartPole-v1", num_envs=2, view=view)
    net = ez.RogueNet(venv.single_observation_space, venv.single_action_space, d_model=8, n_layer=1)
    ez.PPO(net, venv, ez.PPOConfig(total_timesteps=8, num_steps=4), run).train(progress=False)
    assert main(["record", str(run), "--steps", "10", "--num-envs", "2", "--out", str(plays)]) == 0
    assert EntityDataset(plays).metadata["view"] == view
    assert main(["replay", str(plays)]) == 0
    assert main(["replay", str(plays), "--view", "view=Vector", "name=Cart"]) == 0
    assert main(["replay", str(plays), "--view", "view=Vector", "name=Pole"]) == 2
    assert "Cart" in capsys.readouterr().err
    flags = ["--cloning.epochs", "1", "--net.d-model", "8", "--net.n-layer", "1"]
    assert main(["clone", str(plays), "--run", str(clone), *flags]) == 0
    assert yaml.safe_load((clone / "config.yaml").read_text())["env"]["view"] == view
    assert main(["eval", str(clone), "--episodes", "2"]) == 0


def test_a_run_learns_from_a_teacher_where_it_gets_to(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plays, taught, clone = tmp_path / "plays", tmp_path / "taught", tmp_path / "clone"
    words = ["--steps", "20", "--num-envs", "4", "--out"]
    assert main(["record", str(run), *words, str(plays)]) == 0
    assert main(["record", str(run), "--random", "--teacher", str(run), *words, str(taught)]) == 0
    dataset, agent = EntityDataset(taught), ez.load_agent(run)
    assert dataset.metadata["teacher"] == str(run)
    steps = dataset.gather(dataset.decisions)
    best = agent.act(steps.observations, np.random.default_rng(0), True).actions
    for name, chosen in steps.actions.items():
        np.testing.assert_array_equal(chosen.values, best[name].values)
    words = ["clone", str(plays), str(taught), "--init-from", str(run), "--run", str(clone)]
    assert main([*words, "--cloning.epochs", "1", "--cloning.held-out", "0"]) == 0
    assert f"{len(dataset.decisions) + 80:,} steps to learn from" in capsys.readouterr().out
    assert main(["record", str(run), "--teacher", str(tmp_path / "none"), "--out", str(tmp_path / "x")]) == 2
    assert "none" in capsys.readouterr().err


def test_a_clone_has_the_network_of_a_configuration(run: Path, tmp_path: Path) -> None:
    plays, clone, file = tmp_path / "plays", tmp_path / "clone", tmp_path / "net.yaml"
    assert main(["record", str(run), "--steps", "20", "--num-envs", "2", "--out", str(plays)]) == 0
    fourier = {"features": ["x", "y"], "wavelengths": [4.0]}
    file.write_text(yaml.safe_dump({"net": {"d_model": 12, "n_layer": 1, "n_head": 3, "fourier": fourier}}))
    words = ["clone", str(plays), "--run", str(clone), "--config", str(file), "--cloning.epochs", "1"]
    assert main([*words, "--net.d-model", "6"]) == 0
    net = yaml.safe_load((clone / "config.yaml").read_text())["net"]
    assert (net["d_model"], net["n_head"], net["fourier"]) == (6, 3, fourier), "flags change the file"


def test_whole_episodes_of_the_random_policy(run: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "plays")
    assert main(["record", str(run), "--episodes", "5", "--random", "--out", out]) == 0
    dataset = EntityDataset(out)
    assert [episode.is_complete for episode in dataset.episodes] == [True] * 5
    assert dataset.metadata["policy"] == "random"


def test_an_environment_without_a_name_must_be_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, plays = tmp_path / "run", tmp_path / "plays"
    venv = ez.vector.ListVectorEnv([ez.games.Count] * 2)
    net = ez.RogueNet(venv.single_observation_space, venv.single_action_space, d_model=8, n_layer=1)
    ez.PPO(net, venv, ez.PPOConfig(total_timesteps=8, num_steps=4), run).train(progress=False)
    words = ["record", str(run), "--steps", "3", "--num-envs", "2", "--out", str(plays)]
    assert main(words) == 2
    assert "--env.id" in capsys.readouterr().err
    assert main([*words, "--env.id", "entitize.envs.games.count:Count"]) == 0
    assert EntityDataset(plays).metadata["env"] == "entitize.envs.games.count:Count"


def test_code_that_a_dataset_names_is_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plays, clone, made = tmp_path / "plays", tmp_path / "clone", tmp_path / "made"
    metadata = {"env": "subprocess:getoutput", "kwargs": {"cmd": f"touch {made}"}}
    ez.record(ez.make_vec("MineSweeper", num_envs=2), None, plays, steps=4, metadata=metadata)
    assert main(["replay", str(plays)]) == 2
    assert "'subprocess:getoutput'" in capsys.readouterr().err
    assert main(["replay", str(plays), "--env", "MineSweeper"]) == 2  # its options are not those
    flags = ["--cloning.epochs", "1", "--net.d-model", "8", "--net.n-layer", "1"]
    assert main(["clone", str(plays), "--run", str(clone), *flags]) == 0
    assert main(["eval", str(clone)]) == 2
    assert "--env.id" in capsys.readouterr().err
    assert main(["eval", str(clone), "--env.id", "MineSweeper", "--episodes", "2"]) == 0
    assert not made.exists()
    viewed = {"env": "MineSweeper", "view": {"view": "subprocess:getoutput"}}
    ez.record(ez.make_vec("MineSweeper", num_envs=2), None, tmp_path / "viewed", steps=4, metadata=viewed)
    assert main(["replay", str(tmp_path / "viewed")]) == 2
    assert "'subprocess:getoutput'" in capsys.readouterr().err
    assert main(["clone", str(tmp_path / "viewed"), "--run", str(tmp_path / "other"), *flags]) == 0
    assert yaml.safe_load((tmp_path / "other" / "config.yaml").read_text())["env"] == {"id": None}


@pytest.mark.parametrize(
    ("arguments", "fact"),
    [
        (["record", "RUN", "--out", "FULL"], "FULL"),
        (
            ["record", "RUN", "--steps", "5", "--out", "FULL/thesis.txt/new"],
            "FULL/thesis.txt/new can't be written",
        ),
        (["record", "RUN", "--out", "new", "--episodes", "0"], "--episodes"),
        (["record", "RUN", "--out", "new", "--episodes", "1", "--steps", "1"], "--steps"),
        (["clone", "FULL"], "dataset.json"),
        (["clone", "FULL", "--resume"], "--run"),
        (["clone", "FULL", "--config", "nothing"], "nothing"),
        (["clone", "FULL", "--config", "microrts", "--init-from", "RUN"], "--init-from"),
        (["clone", "FULL", "--config", "microrts_gridnet"], "GridNet"),
        (["replay", "FULL"], "dataset.json"),
        (["replay", "FULL", "--tolerance", "-1"], "--tolerance: expected at least 0, got -1"),
    ],
)
def test_wrong_calls_are_one_sentence(
    arguments: list[str],
    fact: str,
    run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    full = tmp_path / "FULL"
    full.mkdir()
    (full / "thesis.txt").write_text("mine")
    words = [{"RUN": str(run), "FULL": str(full)}.get(word, word) for word in arguments]
    try:
        code: object = main(words)
    except SystemExit as ended:  # wrong flags end the program
        code = ended.code
    assert code == 2
    assert fact in capsys.readouterr().err


def test_a_recording_is_of_the_seed_that_is_asked_for(run: Path, tmp_path: Path) -> None:
    found = []
    for place, seed in enumerate((7, 7, 8)):
        out = tmp_path / str(place)
        words = ["record", str(run), "--random", "--steps", "4", "--num-envs", "2", "--seed", str(seed)]
        assert main([*words, "--out", str(out)]) == 0
        dataset = EntityDataset(out)
        assert dataset.metadata["seed"] == seed
        found.append(dataset.gather(np.arange(len(dataset))).observations)
    assert found[0].equals(found[1]) and not found[0].equals(found[2])


def test_the_mean_return_of_a_recording_is_that_of_whole_episodes(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "plays"
    words = ["record", str(run), "--random", "--steps", "13", "--num-envs", "4", "--seed", "1"]
    assert main([*words, "--out", str(out)]) == 0
    episodes = EntityDataset(out).episodes
    whole = [episode.total_reward for episode in episodes if episode.is_complete]
    assert 0 < len(whole) < len(episodes)
    assert (
        f"52 steps, {len(whole)} whole episodes, mean return {np.mean(whole):.2f}" in capsys.readouterr().out
    )
