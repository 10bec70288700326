"""Runs of games that connect: commands know the spaces from the checkpoint, before a game is there."""

from __future__ import annotations

import json
import re
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import entitize as ez
import pytest
from entitize.adapters.programs import ListeningVectorEnv, listen
from entitize.cli import main
from entitize.experiments import read_run_config, saying_that_no_game_is_there, stored_space
from entitize.experiments.environments import LISTEN
from entitize.trainers import checkpoint_paths
from rich.console import Console
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from facts import mentions, raises
from waiting import PATIENCE, wait_until
from websocket_games import SPACE, SPACES, client, free_address, play

Run = Callable[..., tuple[int, str, str]]
SMALL = (
    *("--env.num-envs", "1", "--net.d-model", "8", "--net.n-layer", "1"),
    *("--ppo.total-timesteps", "16", "--ppo.num-steps", "8", "--ppo.minibatch-size", "8"),
)
WITHOUT_GAMES = "entitize.experiments.training.saying_that_no_game_is_there"


@pytest.fixture(autouse=True)
def no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ENTITIZE_TOKEN", raising=False)


def connected(address: str, spaces: Any) -> Any:
    """Connect as soon as something listens."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return client.Agent.connect(f"ws://{address}", spaces)
        except OSError:
            assert time.monotonic() < end
            time.sleep(0.02)


def play_on(address: str, spaces: Any = SPACES) -> None:
    """Play until the trainer ends."""
    with suppress(client.AgentError, ConnectionClosed), connected(address, spaces) as agent:
        while True:
            play(agent)


@pytest.fixture(scope="module")
def trained_by_games(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of two updates in a game that connected; tests leave it as it is."""
    run, address = tmp_path_factory.mktemp("runs") / "run", free_address()
    game = threading.Thread(target=play_on, args=(address,))
    game.start()
    assert main(["train", "--listen", address, "--run", str(run), *SMALL]) == 0
    game.join(PATIENCE)
    return run


@pytest.fixture
def run(trained_by_games: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained_by_games, tmp_path / "run"))


@pytest.mark.parametrize("command", ["train", "eval"])
def test_games_must_have_the_spaces_of_the_checkpoint_or_leave_them_out(
    entitize: Run,
    run: Path,
    command: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(WITHOUT_GAMES, partial(saying_that_no_game_is_there, seconds=0.2))
    address = read_run_config(run).env.kwargs["address"]
    refused: list[str] = []

    def games() -> None:
        try:
            connected(address, {**SPACES, "entities": {"Cat": ["x"], "Dog": ["x"]}})
        except client.AgentError as error:
            refused.append(str(error))
        time.sleep(1)  # without a game
        play_on(address, None)

    thread = threading.Thread(target=games)
    thread.start()
    words = {
        "train": ("train", "--resume", run, "--ppo.total-timesteps", 32),
        "eval": ("eval", run, "--episodes", 2, "--num-envs", 1),
    }
    code, out, err = entitize(*words[command])
    thread.join(PATIENCE)
    assert code == 0, err
    facts = ("entity type 'Mouse'", "['x', 'y'] in the agent", "absent in the game")
    assert re.search(mentions(*facts), refused[0])
    assert re.search(mentions(*facts), caplog.text), "the side of the trainer says it, too"
    assert f"listening on ws://{address}" in caplog.text and "declares the spaces" not in caplog.text
    if command == "train":
        assert "resumed at step 16" in out and out.count("no game is connected") == 1


def test_info_describes_a_run_without_its_games(entitize: Run, run: Path) -> None:
    code, out, err = entitize("info", run)
    assert code == 0 and read_run_config(run).env.kwargs["address"] in out, err
    _, of_checkpoint, _ = entitize("info", checkpoint_paths(run / "checkpoints")[-1])
    title, network = out.split("\n\n", 1)
    assert network == of_checkpoint.split("\n\n", 1)[1] and "Mouse (2): x, y" in network, title


def test_a_run_that_went_on_in_an_extended_game_has_the_spaces_of_that_game(
    entitize: Run, run: Path, tmp_path: Path
) -> None:
    extended, address = tmp_path / "extended", free_address()
    spaces = {**SPACES, "entities": {"Dog": ["x"], **SPACES["entities"]}}
    game = threading.Thread(target=play_on, args=(address, spaces))
    game.start()
    words = ("--init-from", run, "--listen", address, "--run", extended)
    code, out, err = entitize("train", *words, *SMALL[:2], *SMALL[6:])
    game.join(PATIENCE)
    assert code == 0 and re.search(mentions("left out", "entity type 'Dog'"), out), err
    reads = stored_space(read_run_config(extended), extended)["space"]
    assert list(reads.entities) == list(spaces["entities"])
    assert ez.load_agent(extended).reads == reads, "what `serve` expects of games"


def test_a_folder_with_a_run_is_noticed_before_environments_are_made(entitize: Run, run: Path) -> None:
    for words in (["--listen", free_address()], ["--env.id", "nowhere:make"]):
        code, _, err = entitize("train", *words, "--run", run, *SMALL)
        assert code == 2 and str(run) in err and "--resume" in err, err


def test_some_runs_leave_the_spaces_to_the_first_game(run: Path) -> None:
    config = read_run_config(run)
    assert stored_space(config, run) == {"space": SPACE}
    assert stored_space(config, checkpoint_paths(run / "checkpoints")[0]) == {"space": SPACE}
    assert stored_space(replace(config, init_from="elsewhere"), run) == {"space": SPACE}
    assert stored_space(replace(config, env=replace(config.env, id="MineSweeper")), run) == {}
    shutil.rmtree(run / "checkpoints")
    assert stored_space(config, run) == {}


def test_it_is_said_each_time_that_no_game_is_connected() -> None:
    output = StringIO()

    def count() -> int:
        return output.getvalue().count("no game is connected")

    with (
        ListeningVectorEnv("127.0.0.1:0", 1, SPACE) as venv,
        saying_that_no_game_is_there(LISTEN, venv, Console(file=output), 0.1),
    ):
        wait_until(lambda: count() == 1)
        with client.Agent.connect(f"ws://{venv.address}"):
            time.sleep(0.3)
            assert count() == 1
        wait_until(lambda: count() == 2)
        assert venv.address in output.getvalue()


def last_message(venv: ListeningVectorEnv) -> Any:
    """What a game gets that says nothing after its hello."""
    with connect(f"ws://{venv.address}", compression=None) as game:
        game.send(json.dumps({"type": "hello", "protocol": 1}))
        game.recv(PATIENCE)
        return json.loads(game.recv(PATIENCE))


def test_the_longest_silence_of_a_game_can_be_chosen(
    entitize: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = ez.save_policy(ez.RogueNet(SPACE, SPACE.actions, d_model=8, n_layer=1), tmp_path / "policy")
    answers: list[Any] = []

    def decide(agent: Any, venv: ListeningVectorEnv, deterministic: bool) -> None:
        answers.append(last_message(venv))

    monkeypatch.setattr("entitize.cli.serve.decide", decide)
    code, _, err = entitize("serve", folder, "--listen", "127.0.0.1:0", "--silence", 0.25)
    assert code == 0 and answers[0]["fatal"] and "0.25" in answers[0]["message"], err
    with listen(1, "127.0.0.1:0", space=SPACE, silence=0.5) as venv:
        assert "0.5" in last_message(venv)["message"]
    code, _, err = entitize("serve", folder, "--listen", "127.0.0.1:0", "--silence", 0)
    assert code == 2 and "--silence" in err
    with raises(ValueError, "silence", -1):
        listen(1, "127.0.0.1:0", space=SPACE, silence=-1)


def test_a_misspelt_option_of_games_that_connect_names_the_nearest(entitize: Run, tmp_path: Path) -> None:
    words = ["--listen", free_address(), "--run", tmp_path / "run", *SMALL]
    code, _, err = entitize("train", *words, "--env.kwargs", "max_wiat=1")
    assert code == 2 and re.search(mentions("'max_wiat'", "'max_wait'"), err), err
