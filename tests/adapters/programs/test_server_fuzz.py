"""No message of a game that connects by WebSocket ends the trainer."""

from __future__ import annotations

import json
import os
import random
from contextlib import suppress
from typing import Any

from entitize.adapters.programs import Limits
from websockets.exceptions import ConnectionClosed

from websocket_games import OBSERVE, ask, hello, training


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
