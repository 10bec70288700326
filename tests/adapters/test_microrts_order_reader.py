"""Orders as our reader hands them to the engine, beside what the engine's own reader makes of them."""

from __future__ import annotations

from typing import Any

import entitize as ez
import numpy as np
import pytest
from entitize.adapters.microrts.java import ORDER_SIZE, start_engine


class BothReaders:
    """The engine's reader takes orders at their cells of the board, (lanes, height * width, 7)."""

    def __init__(self, env: ez.microrts.MicroRTSVectorEnv) -> None:
        self.engine, self.partial = env.engine, env.options.partial_observability
        self.jpype: Any = start_engine()
        board = self.engine.games[0].map
        shape = self.engine.num_lanes, board.height * board.width, ORDER_SIZE
        memory = bytearray(4 * int(np.prod(shape)))
        self.board = np.frombuffer(memory, np.int32).reshape(shape)
        buffer = self.jpype.nio.convertToDirectBuffer(memory)
        buffer = buffer.order(self.jpype.JClass("java.nio.ByteOrder").nativeOrder()).asIntBuffer()
        sizes = self.jpype.JArray(self.jpype.JInt)(list(shape))
        self.buffer = self.jpype.JClass("util.NDBuffer")(buffer, sizes)
        self.theirs = self.jpype.JClass("ai.jni.JNIAI")(100, 0, self.engine.unit_types)
        self.seen = 0

    def compare(self) -> None:
        """What both read of each lane, before the orders are carried out."""
        engine, columns = self.engine, self.engine.columns
        self.board[:] = 0
        for lane, rows in enumerate(engine.orders):
            given = rows[1 : 1 + rows[0, 0]]
            self.board[lane, given[:, 0]] = given[:, 1:]
        for lane, (game, player) in enumerate(zip(engine.lane_game, engine.lane_player, strict=True)):
            state = columns.states.array[int(game)]
            if self.partial:
                state = self.jpype.JClass("rts.PartiallyObservableGameState")(state, int(player))
            theirs = self.theirs.getActionFromBuffer(int(player), state, lane, self.buffer)
            integer = self.jpype.JClass("java.lang.Integer")
            start = integer(lane * engine.orders[0].size)
            arguments = self.jpype.JArray(self.jpype.JObject)([integer(int(player)), state, start])
            ours = engine.read_orders.invokeWithArguments(arguments)
            assert self.told(ours) == self.told(theirs), lane
            self.seen += len(self.told(ours))

    @staticmethod
    def told(action: Any) -> list[tuple[int, str]]:
        """Each unit and its order; how long a unit waits says nothing, as all wait for one tick."""
        orders = [(int(pair.m_a.getID()), str(pair.m_b)) for pair in action.getActions()]
        return [(unit, "wait" if order.startswith("wait") else order) for unit, order in orders]


@pytest.mark.parametrize(
    "options",
    [
        {"opponents": "workerRushAI", "mask_reserved": False},
        {"opponents": "POLightRush", "partial_observability": True},
        {"opponents": "workerRushAI", "targets": "entities", "perspective": "player"},
    ],
)
def test_both_readers_read_the_same(options: dict[str, Any]) -> None:
    # Many units on a board that is no square: their orders get into each other's way.
    env = ez.make_vec("MicroRTS/melee14x12Mixed18", 3, selfplay=2, side=1, max_steps=60, **options)
    assert isinstance(env, ez.microrts.MicroRTSVectorEnv)
    both, play, rng = BothReaders(env), env.engine.play, np.random.default_rng(1)

    def compared() -> Any:
        both.compare()
        return play()

    env.engine.play = compared  # type: ignore[method-assign]
    env.action_space.seed(2)
    batch, _ = env.reset(seed=3)
    for _ in range(70):
        actions = env.action_space.sample(mask=batch)
        for lane in np.flatnonzero(rng.random(3) < 0.2):  # who orders nothing
            lengths = np.ones(3, bool)
            lengths[lane] = False
            for name, given in actions.items():
                kept = lengths[given.sequence_indices()]
                actions[name] = ez.RaggedArray.from_lengths(given.values[kept], given.lengths * lengths)
        batch = env.step(actions)[0]
    assert both.seen > 300
