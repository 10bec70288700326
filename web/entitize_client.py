"""A game's side of Entitize's WebSocket protocol (docs/protocol.md), in one file.

    pip install websockets

    with Agent.connect("ws://127.0.0.1:7000", spaces=SPACES) as agent:
        while not game.is_over:
            answer = agent.act(
                entities={"Player": [[x, y]], "Enemy": [[1, 2], [3, 4]]},
                actions={"move": {"actors": [0]}},
                score=game.score,
            )
            game.move(answer["move"]["labels"][0])
        agent.game_over(score=game.score)

It does not need Entitize. Python games on the same machine are simpler with `ez.program` (docs/programs.md).
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import Any, Self

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

PROTOCOL = 1


class AgentError(RuntimeError):
    """The trainer could not use a message."""


class Agent:
    """Decides for one game; the trainer or the trained agent is at the other end of the connection.

    Attributes:
        spaces: entity types and actions, as the trainer knows them.
        lane: the number of this game; of several players, that of this one.
    """

    def __init__(self, connection: ClientConnection, hello: dict[str, Any], stack: ExitStack) -> None:
        self.spaces: dict[str, Any] = hello["spaces"]
        self.lane: int = hello["lane"]
        self._connection = connection
        self._stack = stack

    @classmethod
    def connect(
        cls,
        url: str,
        spaces: dict[str, Any] | None = None,
        token: str | None = None,
        game: str | None = None,
        player: int | None = None,
    ) -> Self:
        """Connect to `url`, "ws://HOST:PORT".

        Args:
            spaces: what the game asks; a trainer without spaces takes them from its first game.
            token: the trainer's, if it has one.
            game, player: the name of the game, and 0, 1, …, where several players of a game are trained.

        Raises:
            AgentError: the trainer refused; it says why.
            OSError: nothing listens at `url`.
        """
        hello = {"type": "hello", "protocol": PROTOCOL, "spaces": spaces, "token": token}
        hello |= {"game": game, "player": player}
        with ExitStack() as stack:  # closes the connection if anything fails
            connection = stack.enter_context(connect(url, compression=None))
            connection.send(json.dumps({name: value for name, value in hello.items() if value is not None}))
            return cls(connection, _answer(connection, "hello"), stack.pop_all())

    def act(
        self, entities: dict[str, Any], actions: dict[str, Any], **observation: Any
    ) -> dict[str, dict[str, Any]]:
        """Ask for the actions of one step.

        Args:
            entities: per entity type a list of rows of numbers.
            actions: per action the actors (entity indices) and a mask: {"move": {"actors": [0]}}.
            observation: globals, visible; score, or reward.

        Returns:
            per action the `actors` with their `choices` and `labels` (`actees`, `values`).

        Raises:
            AgentError: the observation is not of the spaces; the episode can go on with another one.
            ValueError: a number is infinite or NaN.
            websockets.exceptions.ConnectionClosed: training is over.
        """
        self._send({"type": "observe", "entities": entities, "actions": actions, **observation})
        return _answer(self._connection, "act")["actions"]

    def game_over(self, **result: Any) -> None:
        """End the episode: score or reward, truncated, and perhaps the last observation (as for `act`).

        There is no answer: if it is wrong, the next call raises the AgentError, and the connection is closed.
        """
        self._send({"type": "game_over", **result})

    def _send(self, message: dict[str, Any]) -> None:
        text = json.dumps(message, allow_nan=False)
        try:
            self._connection.send(text)
        except ConnectionClosed:
            _answer(self._connection, "act")  # raises the error that was sent before the end
            raise

    def close(self) -> None:
        """Close the connection; an episode that is not over is truncated."""
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _answer(connection: ClientConnection, expected: str) -> dict[str, Any]:
    answer = json.loads(connection.recv())
    if answer["type"] != expected:
        raise AgentError(answer.get("message", f"expected {expected}, got {answer['type']}"))
    return answer
