"""Runs that Python made, at the command line."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import PIPE
from typing import Any

import entitize as ez
import pytest
import yaml
from entitize.experiments import EnvChoice, read_run_config
from entitize.experiments.config_file import read_yaml
from entitize.trainers import RunFolder, RunLockedError, read_origin, run_lock

from facts import raises

Run = Callable[..., tuple[int, str, str]]
PPO_OPTIONS: dict[str, Any] = {"total_timesteps": 32, "num_steps": 8, "minibatch_size": 16, "seed": 3}


def made_in_python(run: Path, venv: ez.EntityVectorEnv, **options: Any) -> ez.PPO:
    policy = ez.RogueNet(venv.single_observation_space, venv.single_action_space, d_model=8, n_layer=1)
    return ez.PPO(policy, venv, ez.PPOConfig(**{**PPO_OPTIONS, **options}), run)


@pytest.fixture(scope="module")
def python_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("runs") / "mines"
    with ez.make_vec("MineSweeper", num_envs=2, nrobots=1) as venv:
        made_in_python(run, venv).train(progress=False)
    return run


@pytest.fixture(scope="module")
def anonymous_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in an environment that `make_vec` did not make."""
    run = tmp_path_factory.mktemp("runs") / "count"
    with ez.vector.ListVectorEnv([ez.games.Count] * 2) as venv:
        made_in_python(run, venv).train(progress=False)
    return run


def test_the_configuration_is_that_of_the_command_line(python_run: Path) -> None:
    config = read_run_config(python_run)
    assert (config.env.id, config.env.num_envs, config.env.kwargs) == ("MineSweeper", 2, {"nrobots": 1})
    assert (config.network, config.net.d_model, config.net.n_layer) == ("RogueNet", 8, 1)
    assert (config.ppo.seed, config.ppo.num_steps) == (3, 8)
    assert [part.from_step for part in read_origin(python_run)] == [0]


def test_commands_take_the_run(entitize: Run, python_run: Path, tmp_path: Path) -> None:
    code, out, err = entitize("eval", python_run, "--episodes", 2)
    assert (code, err) == (0, "") and "MineSweeper" in out
    video = tmp_path / "video.gif"
    code, out, _ = entitize("play", python_run, "--max-steps", 3, "--out", video)
    assert code == 0 and video.is_file()
    for words in ((python_run,), ("--run", python_run)):
        code, out, _ = entitize("info", *words)
        assert code == 0 and "MineSweeper" in out and "Robot" in out
    assert ez.load_agent(python_run).action_space is not None


def test_the_command_line_continues_the_run(entitize: Run, tmp_path: Path) -> None:
    run = tmp_path / "run"
    with ez.make_vec("MineSweeper", num_envs=2) as venv:
        made_in_python(run, venv).train(progress=False)
    code, _, err = entitize("train", "--resume", run, "--ppo.total-timesteps", 64)
    assert code == 0, err
    assert [part.from_step for part in read_origin(run)] == [0, 32]
    with ez.make_vec("MineSweeper", num_envs=2) as venv:
        policy = ez.RogueNet(venv.single_observation_space, venv.single_action_space, d_model=8, n_layer=1)
        config = ez.PPOConfig(**{**PPO_OPTIONS, "total_timesteps": 96})
        trainer = ez.PPO(policy, venv, config, run, resume=True)
        assert trainer.step == 64
        trainer.train(progress=False)


def test_an_anonymous_environment_must_be_named(entitize: Run, anonymous_run: Path, tmp_path: Path) -> None:
    commands: tuple[tuple[object, ...], ...] = (
        ("eval", anonymous_run, "--episodes", 2),
        ("play", anonymous_run, "--max-steps", 3, "--out", tmp_path / "video.gif"),
    )
    for words in commands:
        code, _, err = entitize(*words)
        assert code == 2 and str(anonymous_run) in err and "--env.id" in err
        code, _, err = entitize(*words, "--env.id", "entitize.envs.games.count:Count")
        assert code == 0, err
    code, out, _ = entitize("info", anonymous_run)
    assert code == 0 and "--env.id" not in out and "parameters" in out
    code, out, _ = entitize("info", "Count", "--run", anonymous_run)
    assert code == 0 and "multiply-adds" in out


def test_runs_of_version_0_1_are_read(anonymous_run: Path, tmp_path: Path) -> None:
    config = yaml.safe_load((anonymous_run / "config.yaml").read_text())
    policy = {"class": "RogueNet", "config": config["net"]}
    former = {"ppo": config["ppo"], "policy": policy, "spaces": {}, "num_envs": 2}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(former))
    read = read_run_config(tmp_path, EnvChoice("Count"))
    assert (read.env.id, read.env.num_envs, read.net.d_model, read.ppo.seed) == ("Count", 2, 8, 3)


def test_another_environment_has_options_of_its_own(anonymous_run: Path, tmp_path: Path) -> None:
    config = yaml.safe_load((anonymous_run / "config.yaml").read_text())
    config["env"] = {"id": "MineSweeper", "num_envs": 6, "kwargs": {"nmines": 4}, "view": {}}
    config["eval"] = {"episodes": 7, "kwargs": {"nmines": 2}, "vary": {"nrobots": [1, 2]}}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    other = read_run_config(tmp_path, EnvChoice("Count"))
    assert (other.env.num_envs, other.env.kwargs) == (6, {})
    assert (other.eval.episodes, other.eval.kwargs, other.eval.vary) == (7, {}, {})
    for choice in (None, EnvChoice(), EnvChoice("MineSweeper")):
        same = read_run_config(tmp_path, choice)
        assert (same.env.kwargs, same.eval.kwargs) == ({"nmines": 4}, {"nmines": 2})
        assert same.eval.vary == {"nrobots": [1, 2]}


def test_a_network_of_ones_own_is_named(entitize: Run, anonymous_run: Path, tmp_path: Path) -> None:
    config = yaml.safe_load((anonymous_run / "config.yaml").read_text())
    config["network"] = "MyNetwork"
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    code, _, err = entitize("eval", tmp_path, "--env.id", "Count")
    assert code == 2 and "MyNetwork" in err and "RogueNet" in err


# -- what make_vec records -----------------------------------------------------------------------------------


def make_count(first: int = 0) -> ez.EntityEnv:
    return ez.games.Count()


def test_make_vec_records_names_and_plain_options() -> None:
    with ez.make_vec("CartPole-v1", 2, view={"view": "Vector"}, max_episode_steps=7) as venv:
        spec = venv.vector_spec
        assert spec is not None
        assert (spec.id, spec.num_envs, spec.kwargs) == ("CartPole-v1", 2, {"max_episode_steps": 7})
        assert spec.view == {"view": "Vector"}
    with ez.make_vec(ez.games.Count, 2) as venv:
        assert venv.vector_spec is not None
        assert venv.vector_spec.id == "entitize.envs.games.count:Count"
    with ez.make_vec(lambda: ez.games.Count(), 2) as venv:
        assert venv.vector_spec is None
    with ez.make_vec(make_count, 1, first=object()) as venv:
        assert venv.vector_spec is None


# -- locks ---------------------------------------------------------------------------------------------------


def test_a_run_of_python_is_trained_by_one_process_at_a_time(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "from entitize.trainers import run_lock\n"
        "with run_lock(Path(sys.argv[1])):\n print('locked', flush=True); sys.stdin.read()"
    )
    run = tmp_path / "run"
    with ez.make_vec("Count", num_envs=2) as venv:
        trainer = made_in_python(run, venv)
        command = [sys.executable, "-c", program, str(run)]
        with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, text=True) as other:
            assert other.stdout is not None and other.stdout.readline() == "locked\n"
            for call in (trainer.train, lambda: made_in_python(run, venv)):
                with raises(RunLockedError, str(run), other.pid):
                    call()
            other.communicate("")
        trainer.train(progress=False)
        with run_lock(run):  # released
            pass


def test_two_trainers_do_not_mix_in_one_folder(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with ez.make_vec("Count", num_envs=2) as venv:
        first, second = made_in_python(run, venv), made_in_python(run, venv)
        first.callbacks.append(lambda trainer, metrics: made_in_python(run, venv) and None)
        with pytest.raises(RunLockedError):
            first.train(progress=False)
        with raises(RuntimeError, str(run), "resume=True"):
            second.train(progress=False)


def test_words_that_look_like_numbers_stay_words(tmp_path: Path) -> None:
    config = {"env": {"kwargs": {"map": "0E0", "names": ["1e5", "-2E+3", "e1"], "rate": 1e-5}}}
    run = RunFolder(tmp_path)
    run.write_config(config)
    assert read_yaml(tmp_path / "config.yaml") == config
    assert yaml.safe_load((tmp_path / "config.yaml").read_text()) == config
