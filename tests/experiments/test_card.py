"""`entitize card`: folders for model hubs, which everything that reads runs reads as well."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import entitize as ez
import numpy as np
import pytest
import torch
import yaml
from entitize.cli import judge, main
from entitize.experiments import RANDOM, OpponentsConfig, read_run_config, write_card
from entitize.policies import CheckpointError
from entitize.trainers import EpisodeResults

RESULTS = Path(__file__).parents[2] / "experiments" / "results"

Command = Callable[..., tuple[int, str, str]]


def front_matter(card: Path) -> dict:
    head, text = card.read_text().removeprefix("---\n").split("---\n", 1)
    assert text.startswith("\n# ")
    return yaml.safe_load(head)


@pytest.mark.parametrize(
    ("name", "env", "flags"),
    [
        ("procgen_25m/runs/bigfish/roguenet/0", "Procgen/bigfish", ()),
        ("microrts_8x8", "MicroRTS/basesWorkers8x8", ()),
    ],
)
def test_a_kept_agent_gets_a_card(
    name: str, env: str, flags: tuple[str, ...], tmp_path: Path, entitize: Command
) -> None:
    run, out = RESULTS / name, tmp_path / "an-agent"
    code, told, error = entitize("card", run, "--out", out, "--episodes", 4, *flags)
    assert code == 0, error
    assert sorted(file.name for file in out.iterdir()) == [
        *("README.md", "checkpoint.json", "config.yaml", "policy.safetensors")
    ]
    # Its weights are those of the run, and it decides as the run does.
    original, shared = ez.load_policy(run), ez.load_policy(out)
    for key, tensor in original.state_dict().items():
        assert torch.equal(tensor, shared.state_dict()[key]), key
    config = yaml.safe_load((out / "config.yaml").read_text())
    venv = ez.make_vec(
        env, num_envs=2, **{**config["env"]["kwargs"], "opponents": None} if "Micro" in env else {}
    )
    batch, _ = venv.reset(seed=1)
    choices = [
        agent.act(batch, np.random.default_rng(0)).actions
        for agent in (ez.load_agent(run), ez.load_agent(out))
    ]
    assert all(choices[0][action] == choices[1][action] for action in choices[0])
    # The card says what was measured, in the terms of model hubs.
    front = front_matter(out / "README.md")
    assert front["library_name"] == "entitize" and "license" not in front
    assert "reinforcement-learning" in front["tags"]
    (model,) = front["model-index"]
    (result,) = model["results"]
    assert model["name"] == "an-agent" and result["dataset"]["type"] == env
    metric = result["metrics"][0]
    card = (out / "README.md").read_text()
    assert metric["type"] == "mean_reward" and f"| an-agent | {metric['value']:.2f} | " in card
    assert f"{metric['value']:.2f}" in told and "4 episodes" in metric["name"]
    step = json.loads((out / "checkpoint.json").read_text())["step"]
    assert f"{step:,}" in card and ez.__version__ in card
    assert ("coacAI" in card.split("## Training")[0]) == ("microrts" in name)


def test_a_card_that_fails_leaves_a_folder_that_can_be_used(
    trained: Path, tmp_path: Path, entitize: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "card"

    def fail(folder: Path) -> None:
        raise CheckpointError("the disk is gone")

    with monkeypatch.context() as broken:
        broken.setattr("entitize.experiments.card.load_policy", fail)
        code, _, error = entitize("card", trained, "--out", out, "--episodes", 2)
        assert code == 2 and "the disk is gone" in error and not any(out.iterdir())
    code, _, error = entitize("card", trained, "--out", out, "--episodes", 2)
    assert code == 0, error


def test_the_folder_is_read_by_the_commands(trained: Path, tmp_path: Path, entitize: Command) -> None:
    out = tmp_path / "mines"
    flags = ["--license", "apache-2.0", "--title", "My|agent"]
    code, _, error = entitize("card", trained, "--out", out, *flags)
    assert code == 0, error
    front = front_matter(out / "README.md")
    assert front["license"] == "apache-2.0" and front["model-index"][0]["name"] == "My|agent"
    (row,) = re.findall(r"^\| My\\\|agent .*$", (out / "README.md").read_text(), re.M)
    assert len(re.split(r"(?<!\\)\|", row)) == 6  # four cells
    digest = json.loads((out / "checkpoint.json").read_text())["sha256"]["policy.safetensors"]
    assert hashlib.sha256((out / "policy.safetensors").read_bytes()).hexdigest() == digest
    for words in (
        ["eval", out, "--episodes", 2],
        ["play", out, "--max-steps", 3, "--out", tmp_path / "play.gif"],
        [
            *("train", "--init-from", out, "--run", tmp_path / "second"),  # in the game of the card
            *("--env.num-envs", 2, "--ppo.num-steps", 4, "--ppo.total-timesteps", 8),
        ],
        ["card", out, "--out", tmp_path / "again", "--episodes", 2],
    ):
        code, _, error = entitize(*words)
        assert code == 0, error
    code, _, error = entitize("card", trained, "--out", out)
    assert code == 2 and str(out) in error
    (out / "policy.safetensors").write_bytes(b"broken")
    code, _, error = entitize("eval", out, "--episodes", 2)
    assert code == 2 and "policy.safetensors" in error


@pytest.mark.parametrize(
    "change",
    [
        {"id": "os:system", "kwargs": {"command": "touch TOUCHED"}},
        {"id": "CartPole-v1", "view": {"view": "Function", "function": "os:system"}},
        {"id": "a_module:Game-v0"},
        {"id": "MineSweeper", "kwargs": {"anything": ["os:system"]}},
    ],
)
def test_a_card_runs_no_code_that_it_names(
    change: dict[str, object], trained: Path, tmp_path: Path, entitize: Command
) -> None:
    out, touched = tmp_path / "card", tmp_path / "touched"
    code, _, error = entitize("card", trained, "--out", out, "--episodes", 2)
    assert code == 0, error
    config = yaml.safe_load((out / "config.yaml").read_text())
    text = json.dumps({**config, "env": {"num_envs": 2, **change}})
    (out / "config.yaml").write_text(text.replace("TOUCHED", str(touched)))
    for words in (
        ["eval", out, "--episodes", 2],
        ["play", out, "--out", tmp_path / "play.gif"],
        ["record", out, "--out", tmp_path / "plays"],
        ["card", out, "--out", tmp_path / "again"],
        ["info", out],
    ):
        code, _, error = entitize(*words)
        assert code == 2 and "--env.id" in error and ":" in error.split("anything:")[1], error
    assert not touched.exists()


def test_the_environment_of_a_card_can_be_confirmed(tmp_path: Path, entitize: Command) -> None:
    name, run, out = "entitize.envs.games.count:Count", tmp_path / "run", tmp_path / "a card"
    small = ["--env.num-envs", 2, "--ppo.num-steps", 4, "--ppo.total-timesteps", 8, "--net.d-model", 8]
    for words in (
        ["train", "--env.id", name, "--run", run, *small],
        ["card", run, "--out", out, "--episodes", 2],  # a run of one's own
        ["eval", out, "--episodes", 2, "--env.id", name],
    ):
        code, _, error = entitize(*words)
        assert code == 0, error
    assert f"entitize play 'a card' --env.id {name}" in (out / "README.md").read_text()
    code, _, error = entitize("eval", out, "--episodes", 2)
    assert code == 2 and repr(name) in error
    config = out / "config.yaml"
    config.write_text(config.read_text().replace(name, "os:system; reboot"))
    code, _, error = entitize("eval", out, "--episodes", 2)
    assert code == 2 and "--env.id 'os:system; reboot'" in error


@pytest.mark.parametrize("flags", [["--resume"], ["--config", "mine_sweeper", "--run"]])
def test_no_run_goes_on_in_the_folder_of_a_card(
    flags: list[str], trained: Path, tmp_path: Path, entitize: Command
) -> None:
    out = tmp_path / "a card"
    code, _, error = entitize("card", trained, "--out", out, "--episodes", 2)
    assert code == 0, error
    code, _, error = entitize("train", *flags, out, "--ppo.total-timesteps", 48)
    assert code == 2 and f"--init-from '{out}'" in error
    assert not (out / "checkpoints").exists() and not (out / "metrics.jsonl").exists()


def test_games_of_other_weights_are_left_out(
    tmp_path: Path, entitize: Command, caplog: pytest.LogCaptureFixture
) -> None:
    run = tmp_path / "run"
    shutil.copytree(RESULTS / "microrts_8x8", run)
    results = run / "eval_microrts" / "results.jsonl"
    text = results.read_text()
    results.write_text(text.replace("SHA-256 f10a", "SHA-256 0000", 1))
    assert results.read_text() != text
    code, _, error = entitize("card", run, "--out", tmp_path / "card", "--episodes", 2)
    assert code == 0, error
    assert "Games against bots" not in (tmp_path / "card" / "README.md").read_text()
    assert "table.md" in caplog.text


def test_the_weights_of_a_card_are_those_that_were_evaluated(
    trained: Path, tmp_path: Path, entitize: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, out = tmp_path / "run", tmp_path / "card"
    shutil.copytree(trained, run)

    def judged(*arguments: object) -> dict[str, EpisodeResults]:
        results = judge(*arguments)  # type: ignore[arg-type]
        assert main(["train", "--resume", str(run), "--ppo.total-timesteps", "64"]) == 0
        return results

    monkeypatch.setattr("entitize.cli.card.judge", judged)
    code, _, error = entitize("card", run, "--out", out, "--episodes", 2)
    assert code == 0, error
    assert json.loads((out / "checkpoint.json").read_text())["step"] == 32
    assert len(list((run / "checkpoints").iterdir())) == 2


def test_a_card_of_this_folder_and_of_strange_files(
    trained: Path, tmp_path: Path, entitize: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, out, secret = tmp_path / "run", tmp_path / "mines", tmp_path / "secret.txt"
    shutil.copytree(trained, run)
    secret.write_text("hidden")
    (run / "eval_microrts").mkdir()
    (run / "eval_microrts" / "table.md").symlink_to(secret)
    (run / "run.json").write_text('{"parts": [7]}')
    out.mkdir()
    monkeypatch.chdir(out)
    code, _, error = entitize("card", run, "--out", ".", "--episodes", 2)
    assert code == 0, error
    card = (out / "README.md").read_text()
    assert "hidden" not in card and 'ez.load_agent("mines")' in card
    code, _, error = entitize("card", run, "--out", tmp_path / "b", "--title", RANDOM)
    assert code == 2 and "--title" in error and RANDOM in error


def test_the_protocol_has_all_options_of_the_evaluation(
    trained: Path, tmp_path: Path, entitize: Command
) -> None:
    run, out = tmp_path / "run", tmp_path / "card"
    shutil.copytree(trained, run)
    config = yaml.safe_load((run / "config.yaml").read_text())
    config["eval"] |= {"kwargs": {"nmines": 4}, "vary": {"nrobots": [1, 2]}}
    (run / "config.yaml").write_text(json.dumps(config))
    code, _, error = entitize("card", run, "--out", out, "--episodes", 2, "--kwargs", "width=7")
    assert code == 0, error
    evaluation = (out / "README.md").read_text().split("## Evaluation")[1].split("## Training")[0]
    assert "nmines=4" in evaluation and "width=7" in evaluation
    written = yaml.safe_load((out / "config.yaml").read_text())["eval"]
    assert written["kwargs"] == {"nmines": 4, "width": 7} and not written["vary"]


def test_a_card_has_no_paths_of_the_machine(trained: Path, tmp_path: Path) -> None:
    config = read_run_config(trained)
    opponents = OpponentsConfig(checkpoints=("/home/me/secret/run",))
    env = replace(config.env, kwargs={"address": "10.1.2.3:7000", "nmines": 4})
    config = replace(config, opponents=opponents, env=env, init_from="/home/me/secret/start")
    results = {"it": EpisodeResults(np.ones(4), np.ones(4, np.int64), np.arange(4), np.arange(4))}
    checkpoint = next((trained / "checkpoints").iterdir())
    write_card(trained, checkpoint, tmp_path / "card", config, results, "Played.", "it", None)
    for name in ("README.md", "config.yaml", "checkpoint.json"):
        text = (tmp_path / "card" / name).read_text()
        assert "secret" not in text and "10.1.2.3" not in text
    assert read_run_config(tmp_path / "card").env.kwargs == {"nmines": 4}


def test_a_card_says_how_the_agent_was_trained(trained: Path, tmp_path: Path, entitize: Command) -> None:
    def card(run: Path, *words: object) -> str:
        out = tmp_path / f"card of {run.name}"
        code, _, error = entitize("card", run, "--out", out, "--episodes", 2, *words)
        assert code == 0, error
        return (out / "README.md").read_text()

    second, plays, clone = (tmp_path / name for name in ("second", "plays", "clone"))
    small = ["--env.num-envs", 2, "--ppo.num-steps", 4, "--ppo.total-timesteps", 8]
    for words in (
        ["train", "--env.id", "MineSweeper", "--run", second, "--init-from", trained, *small],
        ["record", trained, "--steps", 20, "--out", plays],
        ["clone", plays, "--run", clone, "--net.d-model", 8, "--cloning.epochs", 1, "--cloning.gamma", 0.5],
    ):
        code, _, error = entitize(*words)
        assert code == 0, error
    assert "network of another run" not in card(trained)
    assert "network of another run" in card(second)
    text = card(clone)
    assert "cloned from recorded play" in text and "trained with Entitize for" not in text
    stored = json.loads((tmp_path / "card of clone" / "checkpoint.json").read_text())
    assert stored["cloning"]["gamma"] == 0.5
    # Evaluated elsewhere: trained where it was.
    text = card(clone.rename(tmp_path / "elsewhere"), "--env.id", "entitize/MineSweeper-v0")
    assert "for MineSweeper," in text
    assert "In entitize/MineSweeper-v0, not the environment of the training" in text
