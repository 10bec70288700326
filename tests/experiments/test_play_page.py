"""`entitize play RUN --html`: the page of a run, and what can't be done."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path

import entitize as ez
import pytest
from entitize.cli import make_visible
from entitize.experiments import EnvConfig

from facts import mentions

Command = Callable[..., tuple[int, str, str]]


def steps_of(page: Path) -> list:
    (packed,) = re.findall(r'<script id="data" type="text/plain">([\w+/=]*)</script>', page.read_text())
    return json.loads(gzip.decompress(base64.b64decode(packed)))["steps"]


def test_a_page_shows_the_episodes_of_a_run(trained: Path, entitize: Command, tmp_path: Path) -> None:
    page = tmp_path / "new folder" / "page.html"
    code, out, error = entitize("play", trained, "--html", page, "--episodes", 2, "--seed", 3)
    assert code == 0, error
    steps = steps_of(page)
    assert re.search(mentions(page, len(steps), "returns"), out)
    assert {step[0]["episode"] for step in steps} == {0, 1}
    assert all(step[0]["attention"] for step in steps)
    again = tmp_path / "again.html"
    assert entitize("play", trained, "--html", again, "--episodes", 2, "--seed", 3, "--random")[0] == 0
    assert not any(step[0]["attention"] for step in steps_of(again))
    assert not (trained / "play.mp4").exists()


def test_max_steps_end_the_page(trained: Path, entitize: Command, tmp_path: Path) -> None:
    code, _, error = entitize("play", trained, "--html", tmp_path / "page.html", "--max-steps", 2)
    assert code == 0, error
    assert len(steps_of(tmp_path / "page.html")) == 2


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        (["--html", "."], ["--html", "folder"]),
        (["--html", "page.mp4"], ["--html", ".html", "page.mp4"]),
        (["--html", "below/a_file/page.html"], ["--html", "page.html"]),
        (["--html", "page.html", "--out", "play.mp4"], ["--html", "--out"]),
        (["--position", "x", "y"], ["--position", "--html"]),
        (["--html", "page.html", "--position", "x", "z"], ["position", "z", "cooldown"]),
        (["--html", "page.html", "--max-steps", "0"], ["--max-steps", 1, 0]),
    ],
)
def test_what_cannot_be_a_page_is_refused_before_playing(
    words: list[str], facts: list[object], trained: Path, entitize: Command, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "a_file").write_text("")
    code, out, error = entitize("play", trained, *words)
    assert code == 2 and out == ""
    assert re.search(mentions(*facts), error)
    assert not (tmp_path / "page.html").exists()


def test_a_run_without_a_checkpoint(trained: Path, entitize: Command, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.yaml").write_bytes((trained / "config.yaml").read_bytes())
    code, _, error = entitize("play", run, "--html", tmp_path / "page.html")
    assert code == 2 and re.search(mentions("checkpoint", run), error)
    assert not (tmp_path / "page.html").exists()


def test_frames_alone_are_nothing_to_show(trained: Path, entitize: Command, tmp_path: Path) -> None:
    words = ("--random", "--env.id", "Procgen/coinrun", "--kwargs", "features=pixels")
    code, _, error = entitize("play", trained, "--html", tmp_path / "page.html", *words)
    assert code == 2 and re.search(mentions("Procgen/coinrun", "entities"), error)


def test_all_agents_of_one_game_are_played() -> None:
    with make_visible(EnvConfig("MultiSnake/lanes", 8, {"num_snakes": 4})) as venv:
        assert venv.num_envs == 4 and venv.render_mode == "rgb_array"
    with make_visible(EnvConfig("MultiSnake", 8)) as venv:
        assert isinstance(venv, ez.EntityVectorEnv) and venv.num_envs == 1


def test_a_run_of_lanes_that_meet_is_played(entitize: Command, tmp_path: Path) -> None:
    run = tmp_path / "snakes"
    small = ("--net.d-model", 8, "--net.n-layer", 1, "--ppo.num-steps", 4, "--ppo.minibatch-size", 8)
    words = ("--env.id", "MultiSnake/lanes", "--env.num-envs", 4, "--ppo.total-timesteps", 16)
    code, _, error = entitize("train", "--run", run, *words, *small)
    assert code == 0, error
    code, _, error = entitize("play", run, "--html", tmp_path / "page.html", "--max-steps", 5)
    assert code == 0, error
    assert {len(step) for step in steps_of(tmp_path / "page.html")} == {2}
    code, _, error = entitize("play", run, "--out", tmp_path / "play.gif", "--max-steps", 5)
    assert code == 0, error
