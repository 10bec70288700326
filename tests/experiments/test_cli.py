from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import entitize as ez
import gymnasium
import pytest
from entitize.cli import COMMANDS
from entitize.experiments import CONFIGS, TrainConfig, read_config, read_run_config
from entitize.policies import RogueNetConfig
from entitize.ragged.compiled import cache_folder
from entitize.trainers import read_origin
from PIL import Image

from facts import mentions, raises

Run = Callable[..., tuple[int, str, str]]


def steps(run: Path) -> list[int]:
    return [json.loads(line)["step"] for line in (run / "metrics.jsonl").read_text().splitlines()]


# -- the command itself --------------------------------------------------------------------------------------


def test_an_output_that_cannot_hold_a_character_gets_a_substitute() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "entitize", "train", "--help"],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert done.returncode == 0 and b"--ppo.learning-rate" in done.stdout, done.stderr


def test_help_names_every_command(entitize: Run) -> None:
    for words in ([], ["--help"]):
        code, out, _ = entitize(*words)
        assert code == 0
        assert all(f"  {command} " in out for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(entitize: Run, command: str) -> None:
    code, out, _ = entitize(command, "--help")
    assert code == 0
    usage, _, rest = out.partition("\n\n")
    assert usage.startswith(f"usage: entitize {command}")
    first, _, rest = rest.partition("Example: ")
    verbs = ("Train", "Play", "Write", "Check", "Run", "Print", "Record", "Compile", "Decide", "Search")
    assert first.split()[0] in verbs, "it says what it does"
    assert rest.startswith("entitize ")


def test_progress_can_be_full_or_none(entitize: Run, small: tuple[str, ...], tmp_path: Path) -> None:
    flags = ("train", *small, "--ppo.total-timesteps", 16)
    code, out, _ = entitize(*flags, "--run", tmp_path / "full", "--progress", "full")
    assert code == 0 and "value loss" in out and "clip fraction" in out and "inference" in out
    code, out, _ = entitize(*flags, "--run", tmp_path / "none", "--progress", "none")
    assert code == 0 and "samples/s" not in out


def test_the_version_is_told(entitize: Run) -> None:
    assert entitize("--version") == (0, f"{ez.__version__}\n", "")


def test_help_loads_nothing_heavy() -> None:
    program = "import sys; from entitize.cli import main; main([]); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True).returncode == 0


def test_a_mistake_ends_the_process_with_code_2_and_without_a_traceback() -> None:
    result = subprocess.run([sys.executable, "-m", "entitize", "trian"], capture_output=True, text=True)
    assert result.returncode == 2
    assert result.stderr == "entitize: unknown command 'trian'; did you mean 'train'?\n"


def test_a_wrong_variable_of_the_process_is_told_at_once(
    entitize: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENTITIZE_UNDRAWN_STEPS", "off")
    code, out, err = entitize("info")
    assert code == 2 and not out
    assert re.search(mentions("ENTITIZE_UNDRAWN_STEPS", "0 or 1", "off"), err)


def test_a_missing_run_folder_is_named(entitize: Run, tmp_path: Path) -> None:
    error = f"entitize: {tmp_path / 'missing'}: expected a run folder, got no folder\n"
    assert entitize("eval", tmp_path / "missing") == (2, "", error)


@pytest.mark.parametrize(
    ("run", "message"), [("file", "is not a folder"), ("file/below", "can't be written: ")]
)
def test_a_run_folder_that_cannot_be_made_is_told(
    entitize: Run, small: tuple[str, ...], tmp_path: Path, run: str, message: str
) -> None:
    (tmp_path / "file").touch()
    code, _, err = entitize("train", *small, "--run", tmp_path / run)
    assert code == 2
    assert err.startswith(f"entitize: {tmp_path / run} {message}")


def test_a_device_that_torch_lacks_leaves_no_folder(
    entitize: Run, small: tuple[str, ...], tmp_path: Path
) -> None:
    for flag, value in (("--ppo.device", "cuda:99"), ("--ppo.precision", "tf32")):
        code, _, err = entitize("train", *small, flag, value, "--run", tmp_path / "run")
        assert code == 2 and err.startswith(f"entitize: {flag[6:]}='{value}'")
        assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "words",
    [("eval",), ("report",), ("info",), ("train", "--config"), ("train", "--env.id=MultiSnake", "--run")],
)
def test_a_name_that_is_too_long_is_told(entitize: Run, words: tuple[str, ...]) -> None:
    code, _, err = entitize(*words, "n" * 300)
    assert code == 2 and err.startswith("entitize: ") and "too long" in err and "n" * 300 in err


@pytest.mark.parametrize("name", ["x[/y]z", "[lr=0.01]"])
def test_a_name_is_no_markup(
    entitize: Run, small: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = entitize("train", *small, "--run", name, "--ppo.total-timesteps", 16)
    assert (code, err) == (0, "")
    assert f"in {name}\n" in out and f"in {name}/checkpoints\n" in out


# -- warm-up -------------------------------------------------------------------------------------------------


def test_warming_up_trains_for_an_update_and_leaves_no_run(
    entitize: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = entitize("warm-up", "MineSweeper", "--net.n-layer", 1)
    assert (code, err) == (0, "")
    assert out.startswith("MineSweeper: ") and str(cache_folder()) in out
    assert list(tmp_path.iterdir()) == []


def test_warming_up_an_unknown_environment_is_refused(entitize: Run) -> None:
    code, _, err = entitize("warm-up", "MineSweeperr")
    assert code == 2 and "MineSweeperr" in err


# -- train ---------------------------------------------------------------------------------------------------


def test_training_leaves_a_run_folder(trained: Path) -> None:
    assert steps(trained) == [16, 32]
    assert [path.name for path in (trained / "checkpoints").iterdir()] == ["step_000000000032"]
    assert list(trained.glob("events.out.tfevents.*"))


def test_the_resolved_configuration_is_in_the_run_folder(trained: Path) -> None:
    config = read_run_config(trained)
    shipped = read_config(TrainConfig, CONFIGS / "mine_sweeper.yaml")
    assert config.ppo.total_timesteps == 32  # a flag
    assert (
        config.ppo.learning_rate == shipped.ppo.learning_rate != TrainConfig().ppo.learning_rate
    )  # the file
    assert config.ppo.gamma == TrainConfig().ppo.gamma  # a default


def test_progress_is_told_in_plain_lines(entitize: Run, small: tuple[str, ...], tmp_path: Path) -> None:
    code, out, err = entitize("train", *small, "--run", tmp_path / "run", "--ppo.total-timesteps", 48)
    assert (code, err) == (0, "")
    assert "48/48 steps" in out and "samples/s" in out and "entropy" in out and "ETA 0:00" in out
    assert "\x1b" not in out


class Burning(ez.EntityEnv):
    """Fails in its third step."""

    def __init__(self) -> None:
        self.action_space = ez.EntityActionSpace({"Go": ez.GlobalCategorical(2)})
        self.observation_space = ez.EntitySpace({}, self.action_space, ["time"])

    def _reset(self, options: dict[str, Any]) -> ez.Observation:
        self.time = 0
        return ez.Observation(globals=[0], actions={"Go": ez.actions.GlobalCategoricalMask()})

    def _step(self, actions: dict[str, Any]) -> tuple[ez.Observation, float, bool, bool, dict[str, Any]]:
        self.time += 1
        if self.time == 3:
            raise RuntimeError("the board is on fire")
        return (
            ez.Observation(globals=[0], actions={"Go": ez.actions.GlobalCategoricalMask()}),
            0.0,
            False,
            False,
            {},
        )


def test_an_environment_that_fails_ends_training_with_a_sentence(
    entitize: Run, small: tuple[str, ...], tmp_path: Path
) -> None:
    gymnasium.register("Burning-v0", Burning)
    try:
        code, _, error = entitize("train", *small, "--env.id", "Burning-v0", "--run", tmp_path / "my run")
    finally:
        del gymnasium.registry["Burning-v0"]
    assert code == 2
    assert re.search(mentions("Burning", "RuntimeError", "the board is on fire"), error)
    assert re.search(mentions("raised at", "test_cli.py", "_step"), error)
    assert re.search(mentions(f"`entitize train --resume '{tmp_path / 'my run'}'`", 0), error)


def test_a_time_limit_stops_training(entitize: Run, small: tuple[str, ...], tmp_path: Path) -> None:
    code, out, _ = entitize("train", *small, "--run", tmp_path / "run", "--max-minutes", "1e-9")
    assert code == 0
    assert steps(tmp_path / "run") == [16]
    assert "16 steps in" in out


def test_a_run_goes_on_where_it_was(entitize: Run, trained: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    code, out, err = entitize("train", "--resume", run, "--ppo.total-timesteps", 64)
    assert (code, err) == (0, "")
    assert re.search(mentions("resumed", 32), out)
    assert steps(run) == [16, 32, 48, 64]
    assert read_run_config(run).ppo.total_timesteps == 64
    assert "max_steps" not in out
    code, out, _ = entitize(
        "train", "--resume", run, "--ppo.total-timesteps", 80, "--env.kwargs", "max_steps=50"
    )
    assert code == 0 and re.search(mentions("max_steps not set", "max_steps=50", "--init-from"), out)


def test_a_run_whose_configuration_cannot_be_written_is_told(
    entitize: Run, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    whole = Path.replace

    def replace(path: Path, target: Path) -> Path:
        if target == run / "config.yaml":
            raise PermissionError(13, "Permission denied", str(target))
        return whole(path, target)

    monkeypatch.setattr(Path, "replace", replace)
    code, _, err = entitize("train", "--resume", run, "--ppo.total-timesteps", 64)
    assert code == 2
    assert re.search(mentions(f"{run} can't be written", "config.yaml"), err)


def test_a_run_has_no_fewer_steps_than_it_took(entitize: Run, trained: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    code, _, err = entitize("train", "--resume", run, "--ppo.total-timesteps", 16)
    assert code == 2
    assert re.search(mentions("total-timesteps", 32, 16), err)
    assert read_run_config(run) == read_run_config(trained)


def test_a_run_without_a_checkpoint_is_told(entitize: Run, trained: Path, tmp_path: Path) -> None:
    shutil.copy(trained / "config.yaml", tmp_path)
    code, _, err = entitize("eval", tmp_path)
    assert code == 2 and re.search(mentions(f"run {tmp_path}", "no checkpoint"), err)
    with raises(ez.policies.CheckpointError, tmp_path / "other", "checkpoint.json"):
        (tmp_path / "other").mkdir()
        ez.load_agent(tmp_path / "other")


def test_a_run_without_its_checkpoints_is_not_started_again(
    entitize: Run, trained: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    shutil.rmtree(run / "checkpoints")
    code, _, err = entitize("train", "--resume", run)
    assert code == 2
    assert re.search(mentions(str(run / "checkpoints"), 32), err)
    assert steps(run) == [16, 32]


def test_a_corrupt_origin_does_not_keep_a_run_from_going_on(
    entitize: Run, trained: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    (run / "run.json").write_text("{")
    code, _, _ = entitize("train", "--resume", run, "--ppo.total-timesteps", 48)
    assert code == 0
    assert (run / "run.json.unreadable").read_text() == "{"
    assert [part.from_step for part in read_origin(run)] == [32]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_training_after_the_update_with_a_checkpoint(
    entitize: Run, small: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    collect = ez.PPO.collect

    def interrupted(self: ez.PPO) -> Any:
        signal.raise_signal(number)
        return collect(self)

    monkeypatch.setattr(ez.PPO, "collect", interrupted)
    run = tmp_path / "my run"
    code, out, _ = entitize("train", *small, "--run", run, "--ppo.total-timesteps", 64)
    assert code == 130
    assert re.search(mentions(f"`entitize train --resume '{run}'`", 16), out)
    assert steps(run) == [16]
    assert (run / "checkpoints" / "step_000000000016").is_dir()
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == handlers


def test_no_episodes_are_refused(entitize: Run, trained: Path) -> None:
    code, _, err = entitize("eval", trained, "--episodes", 0)
    assert code == 2
    assert re.search(mentions("--episodes", 0), err)


def test_the_package_runs_as_a_module() -> None:
    command = [sys.executable, "-m", "entitize", "--version"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == ez.__version__


def test_options_may_be_given_by_several_flags(entitize: Run, small: tuple[str, ...], tmp_path: Path) -> None:
    words = ("--env.kwargs", "nmines=2", "--env.kwargs", "nrobots=1", "max_steps=9")
    length = ("--ppo.total-timesteps", 16)
    code, _, err = entitize("train", *small, *length, *words, "--run", tmp_path / "run")
    assert code == 0, err
    assert read_run_config(tmp_path / "run").env.kwargs == {"nmines": 2, "nrobots": 1, "max_steps": 9}


def test_another_environment_has_none_of_the_options_of_evaluation(
    entitize: Run, small: tuple[str, ...], tmp_path: Path
) -> None:
    run, length = tmp_path / "run[lr=0.1]", ("--ppo.total-timesteps", 16)
    code, _, err = entitize("train", *small, *length, "--eval.kwargs", "unknown=2", "--run", run)
    assert code == 0, err
    other = "entitize.envs.games.mine_sweeper:MineSweeper"
    code, out, err = entitize("eval", run, "--env.id", other, "--episodes", 2)
    assert (code, err) == (0, "") and "run[lr=0.1]" in out


def test_a_finished_run_is_not_written_over(
    entitize: Run, small: tuple[str, ...], trained: Path, tmp_path: Path
) -> None:
    run = tmp_path / "my run"
    shutil.copytree(trained, run)
    code, _, err = entitize("train", *small, "--run", run, "--ppo.total-timesteps", 16)
    assert code == 2
    assert re.search(mentions(str(run), f"--resume '{run}'", "--run"), err)
    assert (run / "config.yaml").read_text() == (trained / "config.yaml").read_text()


def test_options_of_the_environment_add_to_those_of_the_file(entitize: Run, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    text = (CONFIGS / "mine_sweeper.yaml").read_text()
    file.write_text(text + "eval:\n  kwargs: {first: 1, second: 2}\n")
    words = ("--ppo.num-steps", 4, "--ppo.total-timesteps", 8, "--env.num-envs", 2)
    code, _, err = entitize(
        "train", "--config", file, "--run", tmp_path / "run", *words, "--eval.kwargs", "second=x", "third=0.5"
    )
    assert (code, err) == (0, "")
    assert read_run_config(tmp_path / "run").eval.kwargs == {"first": 1, "second": "x", "third": 0.5}


def test_flags_change_a_section_that_the_file_has(
    entitize: Run, small: tuple[str, ...], tmp_path: Path
) -> None:
    file, run = tmp_path / "waves.yaml", tmp_path / "run"
    file.write_text("net: {fourier: {features: [x, y], wavelengths: [2, 4]}}\nenv: {id: MineSweeper}\n")
    words = [*small, "--run", run, "--ppo.total-timesteps", 16, "--config", file]
    code, _, err = entitize("train", *words, "--net.fourier.wavelengths", "3", "0.5")
    assert (code, err) == (0, "")
    expected = RogueNetConfig(d_model=8, n_layer=1, fourier={"features": ["x", "y"], "wavelengths": [3, 0.5]})
    assert read_run_config(run).net == expected
    assert ez.load_policy(run).settings == expected
    code, _, err = entitize("train", *words, "--run", tmp_path / "other", "--net.fourier.features", "z")
    assert code == 2 and re.search(mentions("fourier", "'z'"), err)


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        (["--config", "nothing"], ["nothing", "demo"]),
        (["--config", "procgn"], ["configuration", "'procgn'", "'procgen'"]),
        (["--env.id", "Procgen/bigfsh"], ["'Procgen/bigfsh'", "'Procgen/bigfish'"]),
        (["--env.id", "Nonsense"], ["'Nonsense'", "'module:function'"]),
        (["--env.kwargs", "speed=3"], ["MineSweeper", "speed"]),
        (["--env.view", "view=Rows"], ["MineSweeper", "view"]),
        (["--net.d-model", "15"], ["n_head", 2, "d_model", 15]),
        (["--ppo.gamma", "2"], ["gamma", 0, 1, 2.0]),
        (["--env.num-envs", "0"], ["num_envs", 0]),
        (["--config", "demo", "--resume", "x"], ["--resume", "--config"]),
        (["--run", "y", "--resume", "x"], ["run folder", "x"]),
        (["--run", ""], ["--run", "empty"]),
        (["--run", "runs/\udcff"], ["--run", "UTF-8"]),
        (["--eval.seed", "-3"], ["seed", "-3"]),
        (["--env.kwargs", "speed"], ["'speed'", "name=value"]),
        (["--env.kwargs", "speed=[1"], ["--env.kwargs", "YAML", "'[1'"]),
        (["--ppo.learning-rat", "1"], ["--ppo.learning-rate"]),
        (["--ppo.n_steps=3"], ["--ppo.n_steps", "--ppo.num-steps"]),
        (["--net.hidden-size", "3"], ["--net.hidden-size", "--net.d-model"]),
        (["--ppo.num-layers", "3"], ["--ppo.num-layers", "--net.n-layer"]),
        (["--net.lr", "3"], ["--net.lr", "--ppo.learning-rate"]),
        (["--ppo.gamma", "high"], ["'high'"]),
    ],
)
def test_a_wrong_flag_is_one_clear_error(
    entitize: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], facts: list[object]
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = entitize("train", "--env.id", "MineSweeper", *words)
    assert code == 2
    assert re.search(mentions(*facts), " ".join(err.replace("│", " ").split())), err
    assert not list(tmp_path.iterdir())


def test_a_wrong_key_in_the_file_is_told(entitize: Run, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("ppo: {learning_rat: 0.1}")
    code, _, err = entitize("train", "--config", tmp_path / "a.yaml")
    assert code == 2
    assert (
        err
        == f"entitize: {tmp_path}/a.yaml: unknown key 'ppo.learning_rat'; did you mean 'ppo.learning_rate'?\n"
    )


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_configurations_that_come_along_are_read(path: Path) -> None:
    assert isinstance(read_config(TrainConfig, path), TrainConfig)


# -- eval, play, info ----------------------------------------------------------------------------------------


def test_evaluation_compares_with_the_random_policy(entitize: Run, trained: Path) -> None:
    code, out, err = entitize("eval", trained, "--random", "--episodes", 4)
    assert (code, err) == (0, "")
    rows = [line.split("│") for line in out.splitlines() if "…" in line]
    assert [row[1].strip() for row in rows] == ["random policy", "trained"]
    for row in rows:
        mean = float(row[2])
        low, high = map(float, row[3].split("…"))
        assert low <= mean <= high
        assert int(row[4]) == 4


def test_evaluation_with_the_same_seed_is_the_same(entitize: Run, trained: Path) -> None:
    first, again, other = (entitize("eval", trained, "--seed", seed)[1] for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_play_writes_a_video(entitize: Run, trained: Path, tmp_path: Path) -> None:
    code, out, err = entitize("play", trained, "--out", tmp_path / "a.gif", "--max-steps", 5, "--fps", 4)
    assert (code, err) == (0, "")
    assert "a.gif: " in out
    with Image.open(tmp_path / "a.gif") as image:
        assert image.n_frames >= 1 and image.info["duration"] % 250 == 0  # equal frames are one that lasts
        assert image.height == 512


def test_play_refuses_another_kind_of_file(entitize: Run, trained: Path, tmp_path: Path) -> None:
    code, _, err = entitize("play", trained, "--out", tmp_path / "a.webm")
    assert code == 2
    assert "an .mp4 or a .gif file, got a.webm" in err


def test_info_tells_versions(entitize: Run) -> None:
    code, out, _ = entitize("info")
    assert code == 0
    assert f"entitize {ez.__version__}" in out
    assert "torch 2." in out


def test_info_tells_what_an_environment_shows_and_a_network_costs(entitize: Run) -> None:
    code, out, _ = entitize("info", "MineSweeper", "--net.d-model", 32)
    assert code == 0
    assert "  Mine (2): x, y\n  Robot (2): x, y\n  Orbital Cannon (1): cooldown\n" in out
    assert "  Move: Categorical(" in out
    assert re.search(r"parameters\n .*total +\d\d,\d\d\d\n.*IMPALA", out, re.DOTALL)
    assert re.search(r"multiply-adds per step with [\d.]+ Mine, [\d.]+ Robot, 1 Orbital Cannon", out)


def test_info_of_a_path_that_is_no_run_says_so(entitize: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "none", tmp_path / "empty"):
        code, _, err = entitize("info", path)
        assert code == 2
        assert re.search(mentions(path, "run folder", "config.yaml", "environment"), err)
    code, _, err = entitize("info", "MineSweeper", "--kwargs", "nmine=2")
    assert code == 2 and "run folder" not in err


def test_info_tells_about_a_run(entitize: Run, trained: Path) -> None:
    code, out, _ = entitize("info", "--run", trained)
    assert code == 0
    assert "MineSweeper" in out and "parameters" in out


@pytest.mark.parametrize("command", ["eval", "play"])
def test_a_damaged_checkpoint_is_told(entitize: Run, trained: Path, tmp_path: Path, command: str) -> None:
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    weights = run / "checkpoints" / "step_000000000032" / "policy.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4])
    code, _, err = entitize(command, run)
    assert code == 2
    assert "policy.safetensors can't be used" in err


@pytest.mark.parametrize("command", ["eval", "play"])
def test_what_is_no_run_is_told(entitize: Run, tmp_path: Path, command: str) -> None:
    code, _, err = entitize(command, tmp_path)
    assert (code, err) == (
        2,
        f"entitize: {tmp_path}: expected a run folder, got a folder without config.yaml\n",
    )


def test_a_network_that_was_saved_alone_plays_in_a_named_environment(entitize: Run, tmp_path: Path) -> None:
    venv = ez.make_vec("Xor", num_envs=2)
    net = ez.RogueNet(venv.single_observation_space, venv.single_action_space, d_model=8, n_layer=1)
    ez.save_policy(net, tmp_path / "net")
    ez.sb3.export_policy(ez.sb3.PPO(ez.sb3.make_vec(venv), network=net, n_steps=2), tmp_path / "sb3")
    outputs = set()
    for name in ("net", "sb3"):
        code, out, _ = entitize("eval", tmp_path / name, "--env.id", "Xor", "--episodes", 16)
        assert code == 0
        outputs.add(out.replace("sb3", "net"))
        code, _, err = entitize("eval", tmp_path / name)
        assert code == 2 and "--env.id" in err
        code, out, _ = entitize("info", tmp_path / name)
        assert code == 0 and "Bit (1): value" in out
        code, _, err = entitize("card", tmp_path / name, "--env.id", "Xor", "--out", tmp_path / "card")
        assert code == 2 and "config.yaml" in err
    assert len(outputs) == 1, "the same weights play the same episodes"


def test_an_empty_configuration_is_told(entitize: Run, trained: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    (run / "config.yaml").write_text("")
    for command in (("eval", run), ("train", "--resume", run)):
        code, _, err = entitize(*command)
        assert code == 2 and "config.yaml is empty" in err


def test_a_checkpoint_that_is_missing_is_told(entitize: Run, trained: Path) -> None:
    code, _, err = entitize("eval", trained, "--checkpoint", trained / "checkpoints" / "step_000000000033")
    newest = sorted(path.name for path in (trained / "checkpoints").iterdir())[-1]
    assert code == 2 and newest in err and "resume" not in err
