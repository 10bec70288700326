"""Games that connect by WebSocket: what they may not send, and who may not connect."""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from typing import Any

import entitize as ez
import pytest
from entitize.adapters.programs import Limits, ListeningVectorEnv
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from facts import raises
from websocket_games import OBSERVE, SPACE, SPACES, ask, hello, raw, training

CROWD = {"Cat": [[0]] * 1000}
NAMES = [str(number) for number in range(5000)]


def declaring(**spaces: Any) -> dict[str, Any]:
    return {"type": "hello", "protocol": 1, "spaces": {**SPACES, **spaces}}


def _has_ipv6() -> bool:
    with suppress(OSError), socket.socket(socket.AF_INET6) as probe:
        probe.bind(("::1", 0))
        return True
    return False


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
        (
            '{"type": "observe", "entities": {"NaN, \\"Infinity\\"": [[1, 2], [3, -Infinity]]}}',
            "-Infinity at character 68, in ",
        ),
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
        (declaring(globals=["time"]), "global_features"),
        (declaring(entities=["Cat"]), "entities: expected an object, got a list"),
        (
            declaring(actions={"a": {"kind": "Continuous", "low": -1, "high": 1}}),
            "'a': Continuous: low: expected a list of numbers, got -1",
        ),
        (
            declaring(actions={"a": {"kind": "Continuous", "low": [-1], "high": "1"}}),
            'high: expected a list of numbers, got "1"',
        ),
        (
            declaring(actions={"a": {"kind": "Categorical", "choices": "LR"}}),
            'choices: expected a list of names, got "LR"',
        ),
        (
            declaring(actions={"a": {"kind": "MultiCategorical", "components": [["k"]]}}),
            'components: expected a list of [name, choices], got [["k"]]',
        ),
        (declaring(actions={"turn": {"choices": ["L"]}}), "'turn': kind"),
        (declaring(actions={"turn": {"kind": "Categorical", "choises": ["L"]}}), "'choices'"),
        (declaring(actions={"turn": {"kind": "Categorical", "choices": ["L", "L"]}}), "'turn': Categorical"),
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


def test_ten_reasons_of_closed_connections_are_logged_once_each(caplog: pytest.LogCaptureFixture) -> None:
    with training() as trainer:
        for number in (0, 0, *range(1, 13)):
            with raw(trainer) as game:
                assert ask(game, {"type": f"dance {number}\x9b"})["fatal"]
        with hello(trainer) as game:
            assert ask(game, {**OBSERVE, "extra": 1})["type"] == "error"
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 10 and "further" in lines[-1], lines
    for number, line in enumerate(lines):
        assert f"dance {number}?" in line, "a control character could change what a terminal shows"


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


@pytest.mark.parametrize(
    "actions",
    [{"move": {"actors": [1]}}, {"move": {}}, {"aim": {"actors": [0], "actees": [2, 1]}}, {"aim": {}}],
)
def test_hidden_entities_cannot_act_or_be_selected(actions: Any) -> None:
    kinds = {
        "move": ez.Categorical(["LEFT", "RIGHT"]),
        "aim": ez.SelectEntity(),
        "go": ez.GlobalContinuous([0], [1]),
    }
    space = ez.EntitySpace({"Cat": ["x"], "Mouse": ["x"]}, ez.EntityActionSpace(kinds), hidden=True)
    seen = {"entities": {"Cat": [[0]], "Mouse": [[1], [2]]}, "visible": {"Mouse": [0, 1]}, "type": "observe"}
    with training(space=space) as trainer, hello(trainer) as game:
        answer = ask(game, {**seen, "actions": actions, "score": 1})
        assert answer["type"] == "error" and not answer["fatal"], "no network could choose"
        assert "hidden" in answer["message"] and f"action '{next(iter(actions))}'" in answer["message"]
        right = {"move": {"actors": [0, 2]}, "aim": {"actors": [2], "actees": [0]}, "go": {}}
        assert ask(game, {**seen, "actions": right, "score": 1})["type"] == "act"
