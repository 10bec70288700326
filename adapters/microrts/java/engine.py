"""Games of the real engine, stepped together.

The engine's own vector clients would do, but for what they do to a game: they start the next one before its
last state can be seen, keep a step counter that a reset does not clear, share reward objects, and write a
JSON text at every step that is never read. So this plays the engine's `GameState` as those clients do,
without them (`tests/adapters/test_microrts_engine.py` plays both side by side).
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .bot_adviser import BotAdviser
from .bots import find_generators, make_bot, may_hang
from .games import STATE, GameColumns, GameSetup
from .handles import GameLoop, Handles, what_was_raised
from .jvm import check_process, enter_java, start_engine
from .maps import Map
from .records import HEADER, UNIT, game_writer, mask_writer
from .rewards import REWARDS
from .tick import Tick, order_reader
from .watch import BotHungError, Watch

#: An order as the engine takes it: kind, move, harvest, return, produce, produced type, attacked cell.
ORDER_SIZE = 7
#: What the mask of a unit says about each choice of an order's components, side by side.
COMPONENT_SIZES = (6, 4, 4, 4, 4, 7, 49)
MASK_SIZE = sum(COMPONENT_SIZES)
#: The component of an order that aims an attack, at one of the cells within so many to each side.
ATTACK_COMPONENT, REACH = 6, 3

#: Goes through the games from the first to before the last.
Run = Callable[[int, int], None]

#: The count of ids and the generator that random bots share are the process's: one engine plays at a time.
_one_at_a_time = threading.RLock()
# A thread that came back from Java into an interpreter which is ending would abort the process.
atexit.register(_one_at_a_time.acquire, timeout=5)


@contextmanager
def _playing() -> Iterator[None]:
    check_process()  # a forked process may have copied a lock that no thread of it will release
    with _one_at_a_time:
        enter_java()
        yield


@dataclass(frozen=True)
class BotFailure:
    """A bot raised an exception or hangs; its game has not moved and can't continue."""

    game: int
    bot: str
    what: str  # "raised …" or "did not answer …"
    over: bool = False  # it failed when it was notified of the end of its game


class MicroRTSEngine:
    """Plays `games`: those between two lanes first, then those against bots. So are the lanes numbered.

    Args:
        games: on maps of any sizes.
        partial_observability: whether each player sees only what its units see.
        bot_timeout: seconds that a bot may take for a tick before its game is given up, see `watch`; None: it
            may take for ever. Then, and where no bot can hang, everything is played in the calling thread.
        search_iterations: how often naiveMCTSAI plays ahead for a tick; None: for 100 ms.

    Attributes:
        height, width: of a board that holds every game's map; on all maps a cell is y * width + x.
        records: int32, what `read` or `glance` has read of all games, see `records`.
        masks: int32 (games, height, width, MASK_SIZE): what `read` has read of the units that may be
            given orders; only ones are written, so the reader clears the rows that it has taken.
        orders: int32 (lanes, 1 + height * width, 1 + ORDER_SIZE): a lane's first row begins with how many
            orders it gives, each of which has one of the next rows: the cell of a unit of this lane that may
            be given one, and the order. Units that are given none wait for a tick. Rows behind
            them are not looked at.
        read_orders: Java's handle that reads a lane's orders, see `tick.order_reader`.
        rewards: float64 (lanes, 6), the raw rewards of the last step.
        columns: Java's objects of each game, such as `columns.states.array[game]`.
        watch: the threads on which bots that may hang are waited for; None: everything is played in the
            calling thread.
    """

    def __init__(
        self,
        games: Sequence[GameSetup],
        partial_observability: bool = False,
        bot_timeout: float | None = None,
        search_iterations: int | None = None,
    ) -> None:
        self.games = tuple(games)
        self.height = max(game.map.height for game in games)
        self.width = max(game.map.width for game in games)
        self._partial, self._bot_timeout = partial_observability, bot_timeout
        self._search_iterations = search_iterations
        self.num_selfplay = sum(game.bot is None for game in games)
        if any(game.bot is None for game in games[self.num_selfplay :]):
            raise ValueError("games: expected games between two lanes before those against bots")
        self.lane_game = np.array([g for g, game in enumerate(games) for _ in game.players])
        self.lane_player = np.array([player for game in games for player in game.players])
        self.num_lanes = len(self.lane_game)
        self._jpype = start_engine()
        self._handles = Handles(self._jpype)
        self.unit_types = self._jpype.JClass("rts.units.UnitTypeTable")()
        self._make_buffers()
        self.columns = GameColumns(self._handles, games, self.orders[0].size)
        self._prototypes: list[Any] = [game.bot and self._make_bot(game.bot) for game in games]
        self._generators = [find_generators(self._jpype, bot) if bot else [] for bot in self._prototypes]
        self._state, self._random = self._jpype.JClass(STATE), self._jpype.JClass("java.util.Random")
        self._starts: dict[str, Any] = {}
        self._first_ids: dict[str, int] = {}
        may_wait = any(game.bot and may_hang(game.bot, partial_observability) for game in games)
        self.watch = (
            Watch(self._handles, self.columns.progress, bot_timeout) if bot_timeout and may_wait else None
        )
        self._notify = self._make_notice()
        reading = self._make_reading(True)
        self._read_games = self._handles.runner(self._make_reading(False))
        self._read_all = self._handles.runner(reading)
        self._all_games, self._step_and_read = self._make_ticks(partial_observability, reading)

    # -- what is called at each step ------------------------------------------------------------------------

    def reset(self, games: Sequence[int], seeds: Sequence[int]) -> None:
        """Start the `games` anew, each with its seed.

        Raises:
            RuntimeError: a bot raised an exception instead of getting ready for a game.
        """
        columns = self.columns
        with _playing():
            for game, seed in zip(games, seeds, strict=True):
                board = self.games[game].map
                start = self._state(self._start_of(board).clone(), self.unit_types)
                for column in (columns.states, columns.views, columns.other_views):
                    column.array[game] = start
                columns.next_ids.array[game] = self._first_ids[board.name]
                columns.generators.array[game] = self._random(seed)
                if self.games[game].bot is not None:
                    columns.bots.array[game] = self._new_bot(game, seed)

    def _new_bot(self, game: int, seed: int) -> Any:
        try:
            bot = self._prototypes[game].clone()
            bot.reset()
        except self._jpype.JException as error:
            name = self.games[game].bot
            raise RuntimeError(f"MicroRTS: the bot {name} can't start a game: {error}") from error
        for field in self._generators[game]:
            field.set(bot, self._random(seed))
        return bot

    def step(self, playing: NDArray[np.bool_] | None = None) -> list[BotFailure]:
        """One tick of the games that are `playing` (games,) bool (None: all), with the orders in `orders`.

        Returns:
            the bots that raised an exception or hang.
        """
        failures: list[BotFailure] = []
        if playing is None:
            for play, first, last in self._all_games:
                failures += self._run(play, first, last)
        else:
            self.rewards[:] = 0.0
            edges = np.flatnonzero(np.diff(np.concatenate([[False], playing, [False]]).astype(np.int8)))
            for play, low, high in self._all_games:
                for first, last in edges.reshape(-1, 2).tolist():
                    failures += self._run(play, max(first, low), min(last, high))
        return self._without_rewards(failures)

    def play(self) -> list[BotFailure]:
        """A `step` of all games and a `read`: in one call of Java, where no bot is watched."""
        if self._step_and_read is None:
            failures = self.step()
            self.read()
            return failures
        try:
            with _playing():
                self._step_and_read()
            return []
        except self._jpype.JException as error:
            failures = [self._failure(error)]
        for play, first, last in self._all_games:
            failures += self._run(play, max(first, failures[0].game + 1), last)
        self.read()
        return self._without_rewards(failures)

    def _without_rewards(self, failures: list[BotFailure]) -> list[BotFailure]:
        for failure in failures:
            self.rewards[self.lane_game == failure.game] = 0.0
        return failures

    def notify_bot(self, game: int, winner: int) -> list[BotFailure]:
        """Notify the game's bot, if it has one, of the game's end; return its failure, if it fails."""
        if self.games[game].bot is None:
            return []
        self.columns.winners.array[game] = winner
        return [replace(failure, over=True) for failure in self._run(self._notify, game, game + 1)]

    def _run(self, play: Run, first: int, last: int) -> list[BotFailure]:
        """Go through the games from `first` to before `last`, stepping over those whose bots fail."""
        failures: list[BotFailure] = []
        while first < last:
            try:
                with _playing():
                    play(first, last)
                break
            except (BotHungError, self._jpype.JException) as error:
                failures.append(self._failure(error))
                first = failures[-1].game + 1
        return failures

    def _failure(self, error: Exception) -> BotFailure:
        """Return the failure of the game that is being played.

        Raises:
            RuntimeError: it has no bot that could have failed.
        """
        what = str(error) if isinstance(error, BotHungError) else f"raised {what_was_raised(error)}"
        game = int(self.columns.progress.array[0])
        name = self.games[game].bot
        if name is None:
            raise RuntimeError(f"MicroRTS: game {game} {what}") from error
        return BotFailure(game, name, what)

    def read(self) -> None:
        """Read all games into `records`, and what the lanes' units may be ordered into `masks`."""
        with _playing():
            self._read_all()

    def glance(self) -> None:
        """Read all games into `records`."""
        with _playing():
            self._read_games()

    def adviser(self, bot: str, game: int, player: int) -> BotAdviser:
        """Return a bot that says what `player` should do in `game`; see `BotAdviser`."""
        cells = self.height * self.width
        common = self._handles, self.columns, self._partial, cells
        return BotAdviser(*common, game, player, bot, self._make_bot(bot), self._bot_timeout)

    def close(self) -> None:
        """Forget the games, so that Java can free them."""
        self.columns.clear()

    def _make_bot(self, name: str) -> Any:
        return make_bot(self._jpype, name, self.unit_types, self._search_iterations)

    # -- set-up ---------------------------------------------------------------------------------------------

    def _make_buffers(self) -> None:
        height, width, count = self.height, self.width, len(self.games)
        cells = height * width
        make = self._handles.buffer
        self._record_buffer, self.records = make(np.int32, count * (len(HEADER) + cells * len(UNIT)))
        mask_buffer, self.masks = make(np.int32, count, height, width, MASK_SIZE)
        self._order_buffer, self.orders = make(np.int32, self.num_lanes, 1 + cells, 1 + ORDER_SIZE)
        self._reward_buffer, rewards = make(np.float64, self.num_lanes, len(REWARDS))
        self.rewards = rewards
        shaped = self._jpype.JClass("util.NDBuffer")
        ints = self._jpype.JArray(self._jpype.JInt)
        self._mask_buffer = shaped(mask_buffer, ints(list(self.masks.shape)))

    def _start_of(self, board: Map) -> Any:
        """The board before the first tick; the engine's clients parse the file again for each game."""
        if board.name not in self._starts:
            unit = self._jpype.JClass("rts.units.Unit")
            load = self._jpype.JClass("rts.PhysicalGameState").load
            self._starts[board.name] = start = load(str(board.path), self.unit_types)
            self._first_ids[board.name] = 1 + max((int(u.getID()) for u in start.getUnits()), default=0)
            unit.next_ID = max(int(unit.next_ID), self._first_ids[board.name])
        return self._starts[board.name]

    def _make_reading(self, with_masks: bool) -> Any:
        """() -> void: the reading of the games, and of the masks."""
        handles, loop = self._handles, GameLoop(self._handles)
        loop.call(handles.bind(game_writer(handles), 0, self._record_buffer), self.columns.states)
        if with_masks:
            masks = mask_writer(handles, self.unit_types, self._mask_buffer, 2 * REACH + 1)
            loop.call(masks, self.columns.states, None, self.columns.skipped)
        rewind = handles.method("java.nio.IntBuffer", "clear", "java.nio.IntBuffer")
        loop.finish(before=handles.dropping_result(handles.bind(rewind, 0, self._record_buffer)))
        return loop.over(0, len(self.games))

    def _make_ticks(
        self, partial_observability: bool, reading: Any
    ) -> tuple[list[tuple[Run, int, int]], Callable[[], None] | None]:
        """The ticks of games between two lanes, and of games against bots, where there are any.

        Args:
            reading: () -> void, what is read after them.

        Returns:
            what runs each and for which games; and, where no bot is watched, what does all of it.
        """
        handles, watch, between = self._handles, self.watch, self.num_selfplay
        row_size = 1 + ORDER_SIZE
        self.read_orders = order_reader(handles, self.unit_types, self._order_buffer, row_size, self.width)
        read, rewards = self.read_orders, self._reward_buffer
        tick = Tick(handles, self.columns, read, rewards, partial_observability, watch)
        spans = [(0, between), (between, len(self.games))]
        loops = [(tick.loop(last == between), first, last) for first, last in spans if first < last]
        ticks = [
            (loop.run if last == between else self._watched(loop), first, last) for loop, first, last in loops
        ]
        if watch is not None:
            return ticks, None
        whole = handles.sequence(*(loop.over(first, last) for loop, first, last in loops), reading)
        return ticks, handles.runner(whole)

    def _watched(self, loop: GameLoop) -> Run:
        return self.watch.watched(loop) if self.watch else loop.run

    def _make_notice(self) -> Run:
        """Return what notifies bots of the end of their games."""
        handles, loop = self._handles, GameLoop(self._handles)
        loop.call(handles.bind(self.columns.progress.set, 0, 0), None)
        notify = handles.method("ai.core.AI", "gameOver", "void", "int")
        loop.call(
            self.watch.guarded(notify) if self.watch else notify, self.columns.bots, self.columns.winners
        )
        loop.finish()
        return self._watched(loop)
