"""`MessageFile`: what was played in a game of any language, as a program that plays it again.

docs/protocol.md describes the file: the messages of a game, one per line, with what it has chosen by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...envs.actions import ActionSpace
from ...envs.batch.entity_batch import EntityBatch
from ...ragged import RaggedArray
from . import protocol
from .game import Program
from .protocol import Limits, ProtocolError, short
from .training_agent import TrainingAgent


class MessageFile(Program):
    """Plays the episodes of a file again, and `choose` what was chosen.

        play = MessageFile("plays.jsonl")
        ez.record(ProgramVectorEnv(play), play.choose, "plays", episodes=play.num_episodes)

    Attributes:
        num_episodes: an episode that was not over at the end of the file counts, too, as a truncated one.
        line: the number of the line whose question was asked last.

    Raises:
        OSError: the file can't be read.
        ProtocolError: a line is no message, or the first one does not declare the spaces; it is named. `main`
            raises one where a message is not of the spaces.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        with self.path.open(encoding="utf-8", errors="replace") as file:
            lines = [(number, text) for number, text in enumerate(file, 1) if text.strip()]
        self._messages = [(number, self._read(number, text)) for number, text in lines]
        if not self._messages or self._messages[0][1]["type"] != "hello":
            raise ProtocolError(f"{self.path}: expected a hello with the spaces as the first line, got none")
        self.line, hello = self._messages[0]
        self.observation_space = self._in_line(protocol.read_spaces, hello.get("spaces"))
        self.action_space = self.observation_space.actions
        self.main = self._play
        kinds = [message["type"] for _, message in self._messages]
        # Each begins with a question behind anything else.
        self.num_episodes = sum(a != "observe" == b for a, b in pairwise(kinds))
        if not self.num_episodes:
            raise ProtocolError(f"{self.path}: expected messages of type observe, got none")
        self._chosen: Mapping[str, Any] = {}

    @property
    def name(self) -> str:
        return str(self.path)

    def _read(self, number: int, text: str) -> dict[str, Any]:
        self.line = number
        message = self._in_line(protocol.read_message, text)
        if message["type"] == "observe":
            chosen = message.pop("chosen", None)
            if not isinstance(chosen, dict):
                raise self._error(f"chosen: expected an object by action, got {short(chosen)}")
            self._in_line(protocol.check_fields, message)
            return {**message, "chosen": chosen}
        self._in_line(protocol.check_fields, message)
        return message

    def _in_line(self, read: Any, *arguments: Any) -> Any:
        try:
            return read(*arguments)
        except Exception as error:  # a file is untrusted: it can hold anything
            raise self._error(str(error)) from error

    def _error(self, problem: str) -> ProtocolError:
        return ProtocolError(f"{self.path}: line {self.line}: {problem}")

    def _play(self, agent: TrainingAgent) -> None:
        space, limits = self.observation_space, Limits()
        for number, message in self._messages:
            self.line = number
            if message["type"] == "hello":
                if message.get("spaces") is not None:
                    names = "the first hello", "this one"
                    self._in_line(protocol.check_same_spaces, space, message["spaces"], *names)
                agent.game_over(truncated=True)
            else:
                self._chosen = message.get("chosen", self._chosen)
                self._in_line(protocol.carry_out, agent, message, limits)
        agent.game_over(truncated=True)

    def choose(self, batch: EntityBatch, rng: np.random.Generator) -> dict[str, RaggedArray]:
        """Return what was chosen at the question at hand.

        Raises:
            ProtocolError: it is none of the actors' actions; the line is named.
        """
        for name in self._chosen:
            if name not in self.action_space.spaces:
                known = ", ".join(self.action_space.spaces)
                raise self._error(f"chosen: expected actions of {known}, got {short(name)}")
        actions = {}
        for name, action in self.action_space.items():
            actors = batch.actions[name].actors
            try:
                values = _values(action, self._chosen.get(name, {}), actors.values)
                actions[name] = actors.with_values(values)
            except (TypeError, ValueError, KeyError) as error:
                raise self._error(f"chosen: action {name!r}: {error}") from None
        return actions


def _values(action: ActionSpace, given: Any, actors: NDArray[np.int64]) -> NDArray[Any]:
    """Return the choices of the actors (A, …) in one of the forms in which a trainer answers.

    Raises:
        TypeError, ValueError, KeyError: they are none.
    """
    if not isinstance(given, dict):
        raise TypeError(f"expected an object, got {short(given)}")
    asked = actors.tolist()
    if not action.is_global and given.get("actors", asked) != asked:
        raise ValueError(f"actors: expected those of the observation, {asked}, got {short(given['actors'])}")
    if not len(actors):
        # Of a global action even an empty list would be read as one item.
        extra = [part for name, part in given.items() if name != "actors" and part != []]
        if extra:
            raise ValueError(f"expected nothing, as it has no actors at this step, got {short(extra[0])}")
        return np.zeros((0, *action.item_shape), action.dtype)
    chosen = action.from_author(given)
    if len(chosen) != len(actors):
        raise ValueError(f"expected one of each of {len(actors)} actors, got {len(chosen)}")
    values = np.array(chosen)
    if values.dtype.kind not in ("biuf" if action.is_continuous else "iu"):
        raise TypeError(f"expected numbers, got {short(chosen)}")
    return values.astype(action.dtype).reshape(len(actors), *action.item_shape)
