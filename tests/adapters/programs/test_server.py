"""Games that connect by WebSocket: how they play, come and go, and how their training ends."""

from __future__ import annotations

import gc
import json
import shutil
import socket
import subprocess
import sys
import threading
import time
from base64 import b64encode
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import entitize as ez
import pytest
from entitize.adapters.programs import Limits, ListeningVectorEnv, protocol
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect
from websockets.sync.server import Server

from facts import raises
from waiting import wait_until
from websocket_games import (
    CHECKOUT,
    OBSERVE,
    SPACE,
    SPACES,
    ask,
    back,
    client,
    hello,
    play,
    raw,
    training,
)


def test_the_python_client_plays_episodes() -> None:
    with training() as trainer:
        with client.Agent.connect(f"ws://{trainer.venv.address}", SPACES) as agent:
            assert agent.spaces["entities"] == SPACES["entities"] and agent.lane in (0, 1)
            scores = [play(agent) for _ in range(3)]
            with raises(client.AgentError, "Dog"):
                agent.act({"Dog": [[0.0]]}, {"move": {"actors": [0]}}, score=0)
            with raises(ValueError, "JSON"):
                agent.act({"Cat": [[float("nan")]]}, {"move": {"actors": [0]}}, score=0)
            agent.act({"Cat": [[0.0]]}, {"move": {"actors": [0]}}, score=0)
            agent.game_over(score="much")
            with raises(client.AgentError, "much"):
                agent.act({"Cat": [[0.0]]}, {"move": {"actors": [0]}}, score=0)
        assert trainer.total(0) == sum(scores) and trainer.total(1) == 3


def test_the_first_game_declares_the_spaces_and_others_must_agree() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    answers: list[Any] = []

    def first() -> None:
        while True:
            with suppress(OSError), connect(f"ws://{address}", compression=None) as game:
                answers.append(ask(game, {"type": "hello", "protocol": 1, "spaces": SPACES}))
                break

    games = [threading.Thread(target=first) for _ in range(30)]
    for game in games:
        game.start()
    with ListeningVectorEnv(address, 30) as venv:
        assert venv.single_observation_space == SPACE
        for game in games:
            game.join()
        assert len(answers) == 30
        assert answers[0]["spaces"]["entities"] == SPACES["entities"]
        other = {**SPACES, "entities": {"Dog": ["x"]}}
        with raises(client.AgentError, "Cat"):
            client.Agent.connect(f"ws://{address}", other)
        with raises(ValueError, address):
            ListeningVectorEnv(address, 2, SPACE)


def test_a_lost_connection_truncates_its_episode_and_may_come_back() -> None:
    with training(num_envs=1) as trainer:
        with hello(trainer) as game:
            ask(game)
        with back(trainer) as agent:
            play(agent)
            agent.act({"Cat": [[0.0]]}, {"move": {"actors": [0]}}, score=0)
        wait_until(lambda: trainer.total(1) == 1)
        assert trainer.total(2) >= 1


def test_evaluations_and_recordings_begin_with_whole_episodes(tmp_path: Path) -> None:
    lengths = {0: 25, 1: 10}

    def main() -> None:
        with suppress(client.AgentError, ConnectionClosed), client.Agent.connect(url, SPACES) as agent:
            while True:
                for step in range(lengths[agent.lane]):
                    agent.act({"Cat": [[step]]}, {"move": {"actors": [0]}}, score=step)
                agent.game_over(score=lengths[agent.lane])

    with ListeningVectorEnv("127.0.0.1:0", 2, SPACE) as venv:
        url = f"ws://{venv.address}"
        games = [threading.Thread(target=main) for _ in lengths]
        for game in games:
            game.start()
        player = ez.evaluation.RandomActor(SPACE.actions)
        for _ in range(3):
            results = ez.evaluate(player, venv, episodes=6)
            assert results.lengths.tolist() == [25, 25, 25, 10, 10, 10]
            assert results.returns.tolist() == results.lengths.tolist()
        ez.record(venv, player, tmp_path / "plays", episodes=4)
    for game in games:
        game.join()
    plays = ez.datasets.EntityDataset(tmp_path / "plays")
    kept = [plays.gather(episode.rows) for episode in plays.episodes if episode.is_complete]
    assert sorted(int(part.reward.sum()) for part in kept) == [10, 10, 25, 25]
    for part in kept:
        assert part.observations.entities["Cat"].values[0, 0] == 0, "it begins with the first question"


def test_there_are_as_many_games_as_lanes() -> None:
    with training(num_envs=1) as trainer, hello(trainer) as game:
        ask(game)
        with raises(client.AgentError, "lane", 1):
            client.Agent.connect(f"ws://{trainer.venv.address}")


def test_the_answers_of_every_kind_of_action() -> None:
    kinds = {"kind": ["wait", "move"], "move": ["north", "south"]}
    actions = {
        "turn": ez.Categorical(["left"]),
        "speed": ez.GlobalCategorical(["fast"]),
        "order": ez.MultiCategorical(kinds, {"move": ["move"]}),
        "target": ez.SelectEntity(),
        "push": ez.Continuous([-1, float("-inf")], [1, float("inf")]),
        "wind": ez.GlobalContinuous([0], [1]),
    }
    space = ez.EntitySpace(SPACES["entities"], ez.EntityActionSpace(actions))  # type: ignore[arg-type]
    both = [False, True, True, False]  # of kind and move
    masks = {"order": {"actors": [0], "mask": [both]}, "target": {"actors": [0], "actees": [1]}}
    for name in ("turn", "push"):
        masks[name] = {"actors": [0]}
    with training(space=space) as trainer, raw(trainer) as game:
        declared = ask(game, {"type": "hello", "protocol": 1})["spaces"]["actions"]
        answer = ask(game, {**OBSERVE, "actions": {**masks, "speed": {}, "wind": {}}})["actions"]
    assert declared["push"]["low"] == [-1, "-inf"] and declared["push"]["high"] == [1, "inf"]
    assert answer["turn"] == {"actors": [0], "choices": [0], "labels": ["left"]}
    assert answer["speed"] == {"choice": 0, "label": "fast"}
    labels = [{"kind": "move", "move": "north"}]
    assert answer["order"] == {"actors": [0], "choices": [[1, 0]], "labels": labels}
    assert answer["target"] == {"actors": [0], "actees": [1]}
    assert answer["push"]["actors"] == [0] and len(answer["push"]["values"][0]) == 2
    assert list(answer["wind"]) == ["values"] and 0 <= answer["wind"]["values"][0] <= 1


def test_a_game_that_leaves_before_its_hello_is_answered_leaves_its_lane(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with training(num_envs=1) as trainer:
        with raw(trainer) as game:
            text = protocol.hello_message

            def late(*arguments: Any) -> str:
                monkeypatch.setattr(protocol, "hello_message", text)
                game.close()
                return text(*arguments)

            monkeypatch.setattr(protocol, "hello_message", late)
            game.send(json.dumps({"type": "hello", "protocol": 1}))
            with pytest.raises(ConnectionClosed):
                game.recv(5)
        with back(trainer) as agent:
            play(agent)


def test_a_silent_game_is_disconnected() -> None:
    with training(num_envs=1, limits=Limits(silence=0.1)) as trainer, hello(trainer) as game:
        assert json.loads(game.recv(5))["fatal"]


def test_an_environment_that_is_forgotten_closes_its_connections() -> None:
    venv = ListeningVectorEnv("127.0.0.1:0", 1, SPACE)
    with connect(f"ws://{venv.address}", compression=None) as game:
        ask(game, {"type": "hello", "protocol": 1})
        del venv
        gc.collect()
        with pytest.raises(ConnectionClosed):
            game.recv(5)


def test_a_server_that_ends_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = threading.Event()

    accept_all = Server.serve_forever

    def accept(server: Server) -> None:
        broken.wait()
        server.socket.close()
        accept_all(server)

    monkeypatch.setattr(Server, "serve_forever", accept)
    with ListeningVectorEnv("127.0.0.1:0", 1, SPACE) as venv:
        threading.Timer(0.1, broken.set).start()
        with raises(ez.WorkerError, venv.address):
            venv.reset()
    with raises(ez.WorkerError, "127.0.0.1"):
        ListeningVectorEnv("127.0.0.1:0", 1)
    with raises(ValueError, "open files"):
        ListeningVectorEnv("127.0.0.1:0", 10**9, SPACE)


def test_sockets_that_send_nothing_are_bounded() -> None:
    with training(num_envs=1) as trainer, ExitStack() as stack:
        host, port = trainer.venv.address.split(":")
        silent = [stack.enter_context(socket.create_connection((host, int(port)))) for _ in range(40)]
        silent[-1].settimeout(60)
        assert silent[-1].recv(1) == b""
        stack.close()
        with back(trainer) as agent:
            play(agent)


def test_a_game_that_never_reads_does_not_hold_the_end_of_training() -> None:
    large = ez.EntitySpace(
        SPACES["entities"],  # type: ignore[arg-type]
        ez.EntityActionSpace({"move": ez.Categorical([f"{number:04000}" for number in range(4000)])}),
    )
    venv = ListeningVectorEnv("127.0.0.1:0", 1, large, limits=Limits(sending=0.2))
    host, port = venv.address.split(":")
    with socket.create_connection((host, int(port))) as game:
        game.sendall(
            b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + b64encode(bytes(16)) + b"\r\n\r\n"
        )
        assert b" 101 " in game.recv(4096)
        message = b'{"type": "hello", "protocol": 1}'  # is answered by 16 MB
        game.sendall(bytes([0x81, 0x80 | len(message), 0, 0, 0, 0]) + message)
        assert game.recv(1)
        began = time.monotonic()
        venv.close()
        assert time.monotonic() - began < 60


def test_the_end_of_training_closes_the_connections() -> None:
    venv = ListeningVectorEnv("127.0.0.1:0", 1, SPACE)
    with connect(f"ws://{venv.address}", compression=None) as game:
        ask(game, {"type": "hello", "protocol": 1})
        game.send(json.dumps(OBSERVE))
        time.sleep(0.1)  # so that it waits for an answer
        venv.close()
        with pytest.raises(ConnectionClosed) as closed:
            game.recv(5)
    assert closed.value.rcvd is not None and closed.value.rcvd.code == 1001


def test_a_process_ends_although_its_environment_is_open() -> None:
    program = (
        "import sys, entitize as ez; from entitize.adapters.programs import ListeningVectorEnv\n"
        "space = ez.EntitySpace({}, ez.EntityActionSpace({'move': ez.GlobalCategorical(2)}))\n"
        "venv = ListeningVectorEnv('127.0.0.1:0', 2, space)\n"
        "print(venv.address, flush=True); sys.stdin.read()"
    )
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen([sys.executable, "-c", program], text=True, **pipes) as process:
        assert process.stdout is not None
        with connect(f"ws://{process.stdout.readline().strip()}", compression=None) as game:
            assert ask(game, {"type": "hello", "protocol": 1})["type"] == "hello"
            _, errors = process.communicate(timeout=30)
            with pytest.raises(ConnectionClosed):
                game.recv(10)
    assert process.returncode == 0 and not errors, errors


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node")
def test_the_javascript_client_plays_episodes(tmp_path: Path) -> None:
    script = tmp_path / "game.mjs"
    script.write_text(
        f"import {{ Agent, AgentError }} from {json.dumps(str(CHECKOUT / 'web' / 'entitize.js'))};\n"
        f"const spaces = {json.dumps(SPACES)};\n"
        """
const agent = await Agent.connect(process.argv[2], { spaces });
let total = 0;
for (let episode = 0; episode < 3; episode++) {
  let x = 0;
  for (let step = 0; step < 4; step++) {
    const actions = await agent.act({
      entities: { Cat: [[x]], Mouse: [[3, 4]] }, actions: { move: { actors: [0] } }, score: x });
    x += actions.move.labels[0] === "RIGHT" ? 1 : -1;
  }
  agent.gameOver({ score: x });
  total += x;
}
let refused = "";
try { await agent.act({ entities: { Dog: [[1]] }, actions: {} }); } catch (error) { refused = error.message; }
const [Cat, actors] = [[new Float32Array([0])], new Uint8Array([0])];
await agent.act({ entities: { Cat }, actions: { move: { actors } }, score: 0 });
let circle = {};
circle.circle = circle;
try { await agent.act(circle); } catch (error) { refused += error.message; }
await agent.act({ entities: { Cat: [[0]] }, actions: { move: { actors: [0] } }, score: 0 });
agent.close();
console.log(JSON.stringify({ total, refused, lane: agent.lane }));
"""
    )
    flags = ["--experimental-websocket"] if _node_version() < 22 else []
    with training() as trainer:
        url = f"ws://{trainer.venv.address}"
        result = subprocess.run(
            ["node", *flags, "--no-warnings", str(script), url], capture_output=True, text=True, timeout=60
        )
        assert result.returncode == 0, result.stderr
        said = json.loads(result.stdout)
        wait_until(lambda: trainer.total(1) == 3)
        assert trainer.total(0) == said["total"] and "Dog" in said["refused"]
        assert "circular" in said["refused"]


def _node_version() -> int:
    return int(subprocess.run(["node", "--version"], capture_output=True, text=True).stdout[1:].split(".")[0])
