"""Games that connect by WebSocket: what they may send, and that nothing they send ends the trainer."""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import entitize as ez
import gymnasium
import numpy as np
import pytest
from entitize.adapters.programs import ListeningVectorEnv, protocol
from entitize.adapters.programs.protocol import Limits
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.sync.server import Server

from facts import raises

CHECKOUT = Path(__file__).resolve().parents[3]
MOVE = {"kind": "Categorical", "choices": ["LEFT", "RIGHT"]}
SPACES = {"entities": {"Cat": ["x"], "Mouse": ["x", "y"]}, "actions": {"move": MOVE}}
SPACE = ez.EntitySpace(
    SPACES["entities"],
    ez.EntityActionSpace({"move": ez.Categorical(["LEFT", "RIGHT"])}),  # type: ignore[arg-type]
)
OBSERVE = {
    "type": "observe",
    "entities": {"Cat": [[0.5]], "Mouse": [[1, 2], [3, 4]]},
    "actions": {"move": {"actors": [0]}},
    "score": 1.0,
}
CROWD = {"Cat": [[0]] * 1000}
NAMES = [str(number) for number in range(5000)]


def declaring(**spaces: Any) -> dict[str, Any]:
    return {"type": "hello", "protocol": 1, "spaces": {**SPACES, **spaces}}


def _has_ipv6() -> bool:
    with suppress(OSError), socket.socket(socket.AF_INET6) as probe:
        probe.bind(("::1", 0))
        return True
    return False


def load_client() -> Any:
    """The Python client, which is no part of the package."""
    spec = importlib.util.spec_from_file_location("entitize_client", CHECKOUT / "web" / "entitize_client.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["entitize_client"] = module
    spec.loader.exec_module(module)
    return module


client = load_client()


@pytest.fixture(autouse=True)
def no_thread_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("ENTITIZE_TOKEN", raising=False)
    before = set(threading.enumerate())
    yield
    end = time.monotonic() + 5
    while set(threading.enumerate()) - before:
        assert time.monotonic() < end, threading.enumerate()
        time.sleep(0.01)


class Trainer:
    """Steps an environment with random actions in a thread of its own, as a trainer would."""

    def __init__(self, venv: ListeningVectorEnv) -> None:
        self.venv, self.error = venv, None
        self.steps: list[tuple[Any, ...]] = []  # rewards, terminated, truncated, inactive
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        rng, space = np.random.default_rng(0), self.venv.single_observation_space
        try:
            batch, info = self.venv.reset(seed=0)
            while True:
                actions = ez.actions.sample_actions(self.venv.single_action_space, batch, rng)
                batch, rewards, terminated, truncated, info = self.venv.step(actions)
                assert space.contains(ez.envs.unbatch_observation(space, batch, 0))  # type: ignore[attr-defined]
                self.steps.append((rewards, terminated, truncated, info.get("inactive")))
        except gymnasium.error.ClosedEnvironmentError:
            pass
        except BaseException as error:
            self.error = error

    def end(self) -> None:
        self.venv.close()  # ends the step that waits for questions
        self._thread.join(10)
        assert not self._thread.is_alive() and self.error is None, self.error

    def total(self, column: int) -> float:
        return float(sum(step[column].sum() for step in self.steps))


@contextmanager
def training(num_envs: int = 2, space: ez.EntitySpace = SPACE, **options: Any) -> Iterator[Trainer]:
    """A trainer that listens, and that is well at the end."""
    venv = ListeningVectorEnv("127.0.0.1:0", num_envs, space, **{"max_wait": 0.02, **options})
    trainer = Trainer(venv)
    try:
        yield trainer
    finally:
        trainer.end()


def raw(trainer: Trainer, **options: Any) -> Any:
    return connect(f"ws://{trainer.venv.address}", compression=None, **options)


@contextmanager
def hello(trainer: Trainer, token: str | None = None) -> Iterator[ClientConnection]:
    with raw(trainer) as game:
        answer = ask(game, {"type": "hello", "protocol": 1, **({} if token is None else {"token": token})})
        assert answer["type"] == "hello", answer
        yield game


def ask(game: ClientConnection, message: Any = OBSERVE) -> dict[str, Any]:
    game.send(message if isinstance(message, str) else json.dumps(message))
    answer: dict[str, Any] = json.loads(game.recv(10))
    return answer


def play(agent: Any, steps: int = 4) -> float:
    """One episode with the Python client: its score."""
    x = 0.0
    for _ in range(steps):
        answer = agent.act({"Cat": [[x]], "Mouse": [[3, 4]]}, {"move": {"actors": [0]}}, score=x)
        x += 1 if answer["move"]["labels"] == ["RIGHT"] else -1
    agent.game_over(score=x)
    return x


def back(trainer: Trainer) -> Any:
    """Connect as soon as a lane is free."""
    end = time.monotonic() + 10
    while True:
        try:
            return client.Agent.connect(f"ws://{trainer.venv.address}")
        except (client.AgentError, InvalidHandshake):
            assert time.monotonic() < end
            time.sleep(0.01)


def wait_for(condition: Callable[[], bool], seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


# -- playing -------------------------------------------------------------------------------------------------


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
        wait_for(lambda: trainer.total(1) == 1)
        assert trainer.total(2) >= 1


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
        silent[-1].settimeout(5)
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
        assert time.monotonic() - began < 5


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
        wait_for(lambda: trainer.total(1) == 3)
        assert trainer.total(0) == said["total"] and "Dog" in said["refused"]


def _node_version() -> int:
    return int(subprocess.run(["node", "--version"], capture_output=True, text=True).stdout[1:].split(".")[0])


# -- what is refused -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "fact"),
    [
        ({**OBSERVE, "extra": 1}, "extra"),
        ({**OBSERVE, "entities": []}, "entities"),
        ({**OBSERVE, "entities": {"Dog": [[1]]}}, "Dog"),
        ({**OBSERVE, "entities": {"Cat": [[1, 2]]}}, "Cat"),
        ({**OBSERVE, "entities": {"Cat": [["1"]]}}, "Cat"),
        ({**OBSERVE, "entities": {"Cat": [[1], [2, 3]]}}, "Cat"),
        ({**OBSERVE, "entities": {"Cat": [[1e30]]}}, "Cat"),
        ({**OBSERVE, "entities": {"Cat": [[10**400]]}}, "Cat"),
        ({**OBSERVE, "entities": {"Cat": [[1]] * 1001}}, 1001),
        ({**OBSERVE, "globals": [1]}, "globals"),
        ({**OBSERVE, "actions": {"jump": {}}}, "jump"),
        ({**OBSERVE, "actions": {"move": {"actors": [9]}}}, 9),
        ({**OBSERVE, "actions": {"move": {"actors": [[0]]}}}, "move"),
        ({**OBSERVE, "actions": {"move": {"actors": [0], "mask": [[False, False]]}}}, "move"),
        ({**OBSERVE, "actions": {"move": {"actees": [0]}}}, "actees"),
        ({**OBSERVE, "score": "much"}, "score"),
        ({**OBSERVE, "score": 1e300}, "score"),
        ({**OBSERVE, "score": None}, "score"),
        ({**OBSERVE, "reward": 1}, "reward"),
        ({**OBSERVE, "visible": {"Cat": [1]}}, "visible"),
        # in an array of texts each would be as long as the longest
        ({**OBSERVE, "entities": {"Cat": ["x" * 700_000] + [""] * 70_000}}, "Cat"),
        ({**OBSERVE, "actions": {"move": {"mask": [["x" * 700_000] + [""] * 70_000]}}}, "mask"),
        ({**OBSERVE, "visible": {"Cat": ["x" * 700_000] + [""] * 70_000}}, "Cat"),
        ({**OBSERVE, "entities": CROWD, "actions": {"move": {"actor_types": ["Cat"] * 100_000}}}, "Cat"),
    ],
    ids=lambda value: str(value)[:80],
)
def test_a_wrong_question_gets_an_error_and_the_game_can_go_on(message: Any, fact: object) -> None:
    with training() as trainer, hello(trainer) as game:
        answer = ask(game, message)
        assert answer["type"] == "error" and not answer["fatal"] and str(fact) in answer["message"], answer
        assert ask(game)["type"] == "act"


@pytest.mark.parametrize(
    ("message", "fact"),
    [
        ("{", "JSON"),
        ("[" * 100_000, "JSON"),
        ("[]", "object"),
        ('{"type": "observe", "score": NaN}', "NaN"),
        ({"type": "dance"}, "dance"),
        ({"type": "hello", "protocol": 1}, "hello"),
        ({"type": "game_over", "truncated": 3}, "truncated"),
        ({"type": "game_over", "score": "much"}, "score"),
        ({"type": "game_over", "extra": 1}, "extra"),
    ],
    ids=str,
)
def test_any_other_wrong_message_ends_the_connection(message: Any, fact: object) -> None:
    """Its error would be read as the answer to the next question."""
    with training() as trainer, hello(trainer) as game:
        assert ask(game)["type"] == "act"
        answer = ask(game, message)
        assert answer["type"] == "error" and answer["fatal"] and str(fact) in answer["message"], answer
        with pytest.raises(ConnectionClosed):
            game.recv(5)


@pytest.mark.parametrize(
    ("message", "fact"),
    [
        (OBSERVE, "hello"),
        ({"type": "hello"}, "1"),
        ({"type": "hello", "protocol": 2}, "2"),
        ({"type": "hello", "protocol": 1, "spaces": {"entities": {}}}, "spaces"),
        ({"type": "hello", "protocol": 1, "spaces": 3}, "spaces"),
        ({"type": "hello", "protocol": 1, "spaces": {**SPACES, "hidden": True}}, "hidden"),
        (
            {
                "type": "hello",
                "protocol": 1,
                "spaces": {**SPACES, "actions": {"a": {"kind": "Categorical", "choices": 10**9}}},
            },
            "choices",
        ),
        (declaring(frame=[100_000, 100_000, 4]), "frame"),
        (declaring(actions={"a": {"kind": "Categorical", "choices": NAMES}}), 5000),
        (declaring(actions={"a": {"kind": "MultiCategorical", "components": [["k", NAMES]]}}), 5000),
        (
            declaring(
                actions={"a": {"kind": "MultiCategorical", "components": [[n, ["x"]] for n in NAMES[:99]]}}
            ),
            99,
        ),
        (declaring(actions={"a": {"kind": "Continuous", "low": [0] * 5000, "high": [1] * 5000}}), 5000),
        (declaring(entities={"x" * 700: ["x"]}), 700),
    ],
    ids=lambda value: str(value)[:80],
)
def test_a_wrong_hello_ends_the_connection(message: Any, fact: object) -> None:
    with training() as trainer, raw(trainer) as game:
        answer = ask(game, message)
        assert answer["type"] == "error" and answer["fatal"] and str(fact) in answer["message"], answer
        with pytest.raises(ConnectionClosed):
            game.recv(5)


def test_messages_are_bounded_in_size_number_and_errors() -> None:
    with training(limits=Limits(message_bytes=5000, messages_per_second=50, errors=5)) as trainer:
        with hello(trainer) as game, pytest.raises(ConnectionClosed):
            ask(game, " " * 6000)
        with hello(trainer) as game:
            wrong = {**OBSERVE, "extra": 1}
            assert [ask(game, wrong)["fatal"] for _ in range(5)] == [False] * 4 + [True]
        with hello(trainer) as game, suppress(ConnectionClosed):
            for _ in range(60):
                game.send(json.dumps({"type": "game_over"}))
            answer = json.loads(game.recv(5))
            assert answer["fatal"] and "50" in answer["message"]
        with hello(trainer) as game:
            assert ask(game)["type"] == "act"


def test_a_token_is_asked_for_and_web_pages_of_others_are_refused() -> None:
    with training(token="secret") as trainer:
        for token, shown in ((None, "none"), ("guess", "str"), ("\ud800", "str"), (3, "int")):
            with raw(trainer) as game:
                answer = ask(game, {"type": "hello", "protocol": 1, "token": token})
                assert answer["fatal"] and shown in answer["message"] and "secret" not in answer["message"]
                with pytest.raises(ConnectionClosed) as closed:
                    game.recv(5)
                assert closed.value.rcvd is not None and closed.value.rcvd.code == 1008
        with hello(trainer, "secret") as game:
            assert ask(game)["type"] == "act"
    with training(token="None") as trainer, raw(trainer) as game:
        assert ask(game, {"type": "hello", "protocol": 1})["fatal"]
    with training() as trainer:
        with pytest.raises(InvalidStatus), raw(trainer, origin="https://example.com"):
            pass
        with raw(trainer, origin="http://localhost:8000"):
            pass


@pytest.mark.skipif(not _has_ipv6(), reason="needs IPv6")
def test_addresses_of_version_6_can_be_used() -> None:
    with ListeningVectorEnv("[::1]:0", 1, SPACE) as venv:
        assert venv.address.startswith("[::1]:")
        with connect(f"ws://{venv.address}", compression=None) as game:
            assert ask(game, {"type": "hello", "protocol": 1})["type"] == "hello"


def test_addresses_that_cannot_be_used_are_refused() -> None:
    for address, fact in (("7000", "HOST:PORT"), ("127.0.0.1:99999", "99999"), ("192.0.2.1:0", "token")):
        with raises(ValueError, fact):
            ListeningVectorEnv(address, 1, SPACE)
    with raises(ValueError, "192.0.2.1"):
        ListeningVectorEnv("192.0.2.1:0", 1, SPACE, token="secret")


# -- fuzzing -------------------------------------------------------------------------------------------------


def damaged(rng: random.Random) -> str | bytes:
    """A message, most often changed at random: its text, or a value somewhere in it."""
    base = rng.choice([OBSERVE, OBSERVE, {"type": "game_over", "score": 1}, {"type": "hello", "protocol": 1}])
    message = json.loads(json.dumps(base))
    if rng.random() < 0.2:
        return json.dumps(message)
    if rng.random() < 0.5:
        return _damaged_text(json.dumps(message), rng)
    place, key = message, rng.choice([*message, "new"])
    while isinstance(place.get(key), dict) and place[key] and rng.random() < 0.7:
        place, key = place[key], rng.choice([*place[key], "new"])
    values: list[Any] = [None, True, -1, 1e308, 10**30, "x", "", [], {}, [[]], [[1]], [None], [[1, 2], [3]]]
    values += [
        {"actors": [0, 0]},
        {"actors": [-1]},
        {"actor_types": ["Mouse"]},
        {"mask": [[1, 1]]},
        [0.5] * 99,
    ]
    place[key] = rng.choice(values)
    return json.dumps(message)


def _damaged_text(text: str, rng: random.Random) -> str | bytes:
    start, stop = sorted(rng.randrange(len(text) + 1) for _ in range(2))
    middle = rng.choice(["", text[start:stop] * 3, "\x00", '"', "[" * 2000, "é\ud7ff", "NaN", "1" * 5000])
    changed = text[:start] + middle + text[stop:]
    return changed.encode() if rng.random() < 0.1 else changed


def _type(message: str | bytes) -> Any:
    with suppress(ValueError, TypeError, KeyError, RecursionError):
        return None if isinstance(message, bytes) else json.loads(message)["type"]


def test_no_message_ends_the_trainer() -> None:
    """ENTITIZE_FUZZ: how many messages."""
    count, rng = int(os.environ.get("ENTITIZE_FUZZ", 200)), random.Random(0)
    kinds: dict[str, int] = {}
    sent = 0
    with training(num_envs=2, limits=Limits(silence=5.0, messages_per_second=1e9)) as trainer:
        while sent < count:
            with hello(trainer) as game:
                while sent < count:
                    sent += 1
                    message = damaged(rng)
                    game.send(message)
                    if _type(message) == "game_over":  # has no answer if it is right
                        with suppress(ConnectionClosed):
                            game.send(json.dumps(OBSERVE))
                    answer = json.loads(game.recv(20))
                    kinds[answer["type"]] = kinds.get(answer["type"], 0) + 1
                    if answer["type"] == "error":
                        assert answer["fatal"] or _type(message) == "observe"
                    if answer.get("fatal"):
                        break
            assert trainer.error is None, trainer.error
        with hello(trainer) as game:
            assert ask(game)["type"] == "act"
    assert kinds["error"] > kinds["act"] > 0
