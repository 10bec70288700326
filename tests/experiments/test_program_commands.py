"""Games with loops of their own at the command line."""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import entitize as ez
import numpy as np
import pytest
from entitize.adapters.programs import ListeningVectorEnv
from entitize.cli import decide
from entitize.envs import CategoricalMask
from entitize.experiments import read_run_config
from entitize.trainers import checkpoint_paths, step_of
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

import websocket_games
from facts import mentions
from processes import started
from waiting import PATIENCE
from websocket_games import SPACE, client, free_address

CHASE = Path(__file__).resolve().parent.parent / "chase.py"
Run = Callable[..., tuple[int, str, str]]
SMALL = (
    *("--env.num-envs", 4, "--net.d-model", 8, "--net.n-layer", 1),
    *("--ppo.total-timesteps", 64, "--ppo.num-steps", 8),
)


@pytest.fixture
def game(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a game in the current folder."""
    shutil.copy(CHASE, tmp_path / "chase_cli.py")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "chase_cli", raising=False)
    return "chase_cli:main"


def test_a_game_is_trained_evaluated_played_and_checked(entitize: Run, game: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    code, out, err = entitize("train", "--game", game, "--run", run, *SMALL)
    assert (code, err) == (0, "") and game in out
    config = read_run_config(run)
    assert (config.env.id, config.env.num_envs) == (game, 4)
    code, out, _ = entitize("eval", run, "--episodes", 4)
    assert code == 0 and game in out
    video = tmp_path / "video.gif"
    code, _, _ = entitize("play", run, "--max-steps", 3, "--out", video)
    assert code == 0 and video.is_file()
    code, out, _ = entitize("check", game, "--steps", 20)
    assert code == 0 and out.endswith("ok\n")
    code, out, _ = entitize("train", "--resume", run, "--ppo.total-timesteps", 96)
    assert code == 0 and "64" in out


def test_what_is_no_game_is_refused(entitize: Run, game: str) -> None:
    module = game.partition(":")[0]
    for name, fact in (
        (f"{module}:play", "ez.program"),
        ("MineSweeper", "ez.program"),
        (f"{module}:mian", "main"),
        ("nowhere:main", "nowhere"),
    ):
        code, _, err = entitize("train", "--game", name, *SMALL)
        assert code == 2 and fact in err, (name, err)
    code, _, err = entitize("train", "--game", game, "--env.id", "MineSweeper", *SMALL)
    assert code == 2 and "--env.id" in err


def test_a_game_that_fails_ends_the_command_with_its_name(entitize: Run, game: str, tmp_path: Path) -> None:
    (tmp_path / "broken_cli.py").write_text(
        "import entitize as ez\nfrom chase_cli import Cat, Mouse, Move, play\n\n"
        "@ez.program(entities=[Cat, Mouse], actions={'move': Move})\n"
        "def main(agent):\n    play(agent, agent.rng)\n    raise OSError('no disk')\n"
    )
    code, _, err = entitize("train", "--game", "broken_cli:main", "--run", tmp_path / "run", *SMALL)
    assert code == 2
    assert all(fact in err for fact in ("broken_cli:main", "no disk", "broken_cli.py:7", "game "))


# -- games that connect --------------------------------------------------------------------------------------

SPACES = {
    "entities": {"Cat": ["x"], "Mouse": ["x"]},
    "actions": {"move": {"kind": "Categorical", "choices": ["LEFT", "RIGHT"]}},
}


def connected(address: str, answers: list[str], token: str | None = None, name: Any = None) -> None:
    """Play episodes of three steps until the server closes."""
    hello = {"type": "hello", "protocol": 1, "spaces": SPACES, **(name or {})}
    if token is not None:
        hello["token"] = token
    observe = {"entities": {"Cat": [[0.5]], "Mouse": [[2]]}, "actions": {"move": {"actors": [0]}}}
    while True:
        with suppress(OSError):
            with suppress(ConnectionClosed), connect(f"ws://{address}", compression=None) as game:
                game.send(json.dumps(hello))
                answers.append(json.loads(game.recv())["type"])
                while True:
                    for score in range(3):
                        game.send(json.dumps({"type": "observe", **observe, "score": score}))
                        answers.append(json.loads(game.recv())["type"])
                    game.send(json.dumps({"type": "game_over", "score": 5}))
            return
        time.sleep(0.05)


@pytest.fixture
def address() -> str:
    return free_address()


def test_a_game_that_connects_is_trained_and_served(
    entitize: Run, tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENTITIZE_TOKEN", "")  # restored afterwards
    run = tmp_path / "run"
    answers: list[str] = []
    games = [threading.Thread(target=connected, args=(address, answers, "secret")) for _ in range(2)]
    for game in games:
        game.start()
    code, _, err = entitize("train", "--listen", address, "--token", "secret", "--run", run, *SMALL)
    for game in games:
        game.join()
    assert code == 0, err
    assert answers.count("act") >= 60 and set(answers) == {"hello", "act"}
    config = read_run_config(run)
    assert config.env.kwargs == {"address": address} and "secret" not in (run / "config.yaml").read_text()
    assert ez.load_agent(run).observation_space.entities == {"Cat": ("x",), "Mouse": ("x",)}

    command = [sys.executable, "-m", "entitize", "eval", str(run), "--episodes", "8", "--num-envs", "2"]
    games = [threading.Thread(target=connected, args=(address, [], "secret")) for _ in range(2)]
    with started(command) as process:
        games[0].start()
        assert process.stderr is not None
        told = iter(process.stderr.readline, "")
        assert any("1 of 2 lanes" in line and "--num-envs" in line for line in told)
        games[1].start()
        out, _ = process.communicate(timeout=PATIENCE)
    for game in games:
        game.join()
    assert process.returncode == 0 and "5.00" in out

    agent = ez.load_agent(run, seed=0)
    served: list[str] = []
    with ListeningVectorEnv("127.0.0.1:0", 2, agent.observation_space, token="secret") as venv:
        game = threading.Thread(target=connected, args=(venv.address, served, "secret"))
        game.start()
        decide(agent, venv, is_over=lambda: len(served) > 30)
    game.join()
    assert served.count("act") >= 30


def test_players_that_connect_train_against_past_versions(
    entitize: Run, tmp_path: Path, address: str
) -> None:
    run, config = tmp_path / "run", tmp_path / "duel.yaml"
    config.write_text("env: {kwargs: {players: 2}}\nopponents: {interval: 2}\n")
    words = ["--listen", address, "--config", config]
    names = [{"game": name, "player": player} for name in "ab" for player in (0, 1)]

    def with_players(*command: object) -> tuple[int, str, str]:
        games = [threading.Thread(target=connected, args=(address, [], None, name)) for name in names]
        for game in games:
            game.start()
        result = entitize(*command)
        for game in games:
            game.join()
        return result

    code, _, err = with_players("train", *words, "--run", run, *SMALL)
    assert code == 0, err
    assert read_run_config(run).env.kwargs == {"players": 2, "address": address}
    code, _, err = entitize("train", *words, *SMALL, "--env.num-envs", 3)
    assert code == 2 and "num_envs" in err and "2 players" in err
    code, out, err = with_players("eval", run, "--against", checkpoint_paths(run / "checkpoints")[0])
    assert code == 0 and "0.50" in out, "all of these games are drawn"
    code, out, err = with_players("eval", run, "--episodes", 3)
    assert code == 0 and "5.00" in out, err


@contextmanager
def listening(run: Path, address: str) -> Iterator[subprocess.Popen[str]]:
    """A trainer that waits for one game, and would train it for long."""
    command = [sys.executable, "-m", "entitize", "train", "--listen", address, "--run", str(run)]
    command += [*map(str, SMALL), "--env.num-envs", "1", "--ppo.total-timesteps", "1000000"]
    with started(command) as trainer:
        assert trainer.stderr is not None and address in trainer.stderr.readline()
        yield trainer


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_trainer_without_games_ends_at_the_first_signal(
    tmp_path: Path, address: str, number: signal.Signals
) -> None:
    run = tmp_path / "run"
    with listening(run, address) as trainer:
        trainer.send_signal(number)
        trainer.communicate(timeout=PATIENCE)
    assert trainer.returncode == 130 and not checkpoint_paths(run / "checkpoints")


@pytest.mark.parametrize("leaves_first", [True, False])
def test_a_trainer_whose_games_have_left_saves_what_it_has_learned(
    tmp_path: Path, address: str, leaves_first: bool
) -> None:
    run = tmp_path / "run"
    with listening(run, address) as trainer:
        game = client.Agent.connect(f"ws://{address}", SPACES)
        for step in range(20):  # two updates of 8 steps, and a part of the third
            game.act({"Cat": [[0.5]]}, {"move": {"actors": [0]}}, score=step)
        if leaves_first:
            game.close()
            time.sleep(0.5)
        trainer.send_signal(signal.SIGTERM)
        game.close()
        trainer.communicate(timeout=PATIENCE)
    assert trainer.returncode == 130
    assert step_of(checkpoint_paths(run / "checkpoints")[-1]) == 16


@pytest.mark.parametrize(("flags", "number"), [([], signal.SIGINT), (["--deterministic"], signal.SIGTERM)])
def test_a_served_agent_decides_as_in_python_until_it_is_interrupted(
    tmp_path: Path, flags: list[str], number: signal.Signals
) -> None:
    folder = ez.save_policy(ez.RogueNet(SPACE, SPACE.actions, d_model=8, n_layer=1), tmp_path / "policy")
    options = ["--listen", "127.0.0.1:0", "--token", "secret", "--seed", "3", *flags]
    steps = [{"Cat": [[x]], "Mouse": [[x, -x], [2 * x, 1.0]]} for x in np.linspace(-3, 3, 40).tolist()]
    with started([sys.executable, "-m", "entitize", "serve", str(folder), *options]) as server:
        assert server.stdout is not None
        url = server.stdout.readline().split()[-1]
        with pytest.raises(client.AgentError, match="token"):
            client.Agent.connect(url, websocket_games.SPACES, token="another")
        with client.Agent.connect(url, websocket_games.SPACES, token="secret") as served:
            actions = {"move": {"actors": [0]}}
            chosen = [served.act(step, actions, score=0)["move"]["labels"][0] for step in steps]
            server.send_signal(number)
            with pytest.raises(ConnectionClosed, match="1001"):
                served.act(steps[0], actions, score=0)
        _, errors = server.communicate(timeout=PATIENCE)
    refusal, *last = errors.splitlines()
    told = ["entitize: interrupted"] if number == signal.SIGINT else []
    assert (server.returncode, last) == (128 + number, told)
    assert re.search(mentions("token", "str"), refusal) and "another" not in refusal
    agent = ez.load_agent(folder, seed=3)
    mask = {"move": CategoricalMask(["cat"])}
    seen = [ez.Observation(step, actions=mask, ids={"Cat": ["cat"]}) for step in steps]
    expected = [agent.act(step, None, bool(flags))["move"] for step in seen]
    assert chosen == [action.labels[0] for action in expected]


def test_addresses_that_cannot_be_used_are_named(entitize: Run, tmp_path: Path, address: str) -> None:
    run = tmp_path / "run"
    for where, fact in (("7000", "HOST:PORT"), ("192.0.2.1:7000", "token")):
        code, _, err = entitize("train", "--listen", where, "--run", run, *SMALL)
        assert code == 2 and fact in err
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        used = f"127.0.0.1:{taken.getsockname()[1]}"
        code, _, err = entitize("train", "--listen", used, "--run", run, *SMALL)
        assert code == 2 and used in err
    code, _, err = entitize("serve", tmp_path / "none", "--listen", address)
    assert code == 2 and "none" in err
    code, _, err = entitize("train", "--env.id", "MineSweeper", "--token", "secret", "--run", run, *SMALL)
    assert code == 2 and "--token" in err and "--listen" in err
    code, _, err = entitize("train", "--listen", address, "--game", "chase:main", *SMALL)
    assert code == 2 and "--game" in err and "--listen" in err
