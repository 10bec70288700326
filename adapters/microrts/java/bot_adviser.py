"""`BotAdviser`: the orders that a bot would give in a game that it does not play."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .bots import find_generators, may_hang
from .games import GameColumns
from .handles import Handles
from .jvm import enter_java
from .records import ORDER, order_writer


class BotAdviser:
    """A bot that is asked for the orders of one player of a game; the caller gives them.

    It draws from generators of its own, so that the game goes the same way without it. A bot that may hang
    is asked on a thread of its own, which stays with it if it does.

    Args:
        columns: of the games.
        partial: whether the bot sees only what its units see.
        num_cells: as many as the board has, or more.
        game: the index of the game.
        player: 0 or 1.
        name: the bot's.
        prototype: a Java player, of which each game gets a clone.
        timeout: seconds that a bot that may hang may take for an answer; None: it may take for ever.

    Attributes:
        bot: the Java player of the present game; None before the first.
    """

    def __init__(
        self,
        handles: Handles,
        columns: GameColumns,
        partial: bool,
        num_cells: int,
        game: int,
        player: int,
        name: str,
        prototype: Any,
        timeout: float | None,
    ) -> None:
        jpype = handles.jpype
        self.name, self.game, self._player, self._partial = name, game, player, partial
        self._columns = columns
        self._error, self._random = jpype.JException, jpype.JClass("java.util.Random")
        self._unit, self._view = (
            jpype.JClass("rts.units.Unit"),
            jpype.JClass("rts.PartiallyObservableGameState"),
        )
        self._sampler = jpype.JClass("util.Sampler").class_.getDeclaredField("generator")
        self._sampler.setAccessible(True)
        self._prototype = prototype
        self._generators = find_generators(jpype, prototype)
        self._timeout = timeout if may_hang(name, partial) else None
        self.bot: Any = None
        self._shared_generator: Any = None
        buffer, self._orders = handles.buffer(np.int32, 1 + num_cells * len(ORDER))
        self._writer = order_writer(handles, buffer)

    def start(self, seed: int) -> None:
        """Get ready for a new game."""
        enter_java()
        self.bot = self._prototype.clone()
        self.bot.reset()
        for field in self._generators:
            field.set(self.bot, self._random(seed))
        self._shared_generator = self._random(seed)

    def orders(self) -> NDArray[np.int32]:
        """Return the bot's orders in the game as it is now, rows `ORDER` (n, 7).

        Raises:
            RuntimeError: it raised an exception, or did not answer in time.
        """
        enter_java()
        state = self._columns.states.array[self.game]
        self._unit.next_ID = self._columns.next_ids.array[self.game]
        self._sampler.set(None, self._shared_generator)
        try:
            seen = self._view(state, self._player) if self._partial else state
            self._writer.accept(self._answer(seen))
        except self._error as error:
            raise RuntimeError(f"MicroRTS: the bot {self.name} raised {error}") from error
        count = int(self._orders[0])
        return self._orders[1 : 1 + count * len(ORDER)].reshape(count, len(ORDER)).copy()

    def _answer(self, seen: Any) -> Any:
        """Return the bot's orders in the state `seen`, as the engine has them."""
        if self._timeout is None:
            return self.bot.getAction(self._player, seen)
        answers: list[Any] = []
        errors: list[BaseException] = []

        def think() -> None:
            try:
                answers.append(self.bot.getAction(self._player, seen))
            except BaseException as error:  # raised below
                errors.append(error)

        thread = threading.Thread(target=think, daemon=True)  # no process waits for it at its end
        thread.start()
        thread.join(self._timeout)
        if thread.is_alive():
            raise RuntimeError(
                f"MicroRTS: the bot {self.name} did not answer within {self._timeout:g} s (bot_timeout)"
            )
        if errors:
            raise errors[0]
        return answers[0]
