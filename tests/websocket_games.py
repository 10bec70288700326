"""Games that connect by WebSocket, for tests, and a trainer that plays with them at random."""

from __future__ import annotations

import importlib.util
import json
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import entitize as ez
import gymnasium
import numpy as np
from entitize.adapters.programs import ListeningVectorEnv
from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.sync.client import ClientConnection, connect

from waiting import PATIENCE

CHECKOUT = Path(__file__).resolve().parents[1]
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


def load_client() -> Any:
    """The Python client, which is no part of the package."""
    spec = importlib.util.spec_from_file_location("entitize_client", CHECKOUT / "web" / "entitize_client.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["entitize_client"] = module
    spec.loader.exec_module(module)
    return module


client = load_client()


def free_address() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


def always(choice: int) -> Any:
    """A player that always makes this choice."""

    def play(batch: ez.EntityBatch, rng: np.random.Generator) -> dict[str, ez.RaggedArray]:
        actors = batch.actions["move"].actors
        return {"move": actors.with_values(np.full(actors.num_items, choice, np.int64))}

    return play


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
        self._thread.join(PATIENCE)
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
    answer: dict[str, Any] = json.loads(game.recv(PATIENCE))
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
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return client.Agent.connect(f"ws://{trainer.venv.address}")
        except (client.AgentError, ConnectionClosed, InvalidHandshake, OSError):  # too many connections
            assert time.monotonic() < end
            time.sleep(0.01)
