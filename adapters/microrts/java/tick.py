"""One tick of a game, put together from method handles: orders, the engine's cycle, rewards."""

from __future__ import annotations

from typing import Any

from .games import ACTION, STATE, GameColumns
from .handles import GameLoop, Handles, JavaArray
from .rewards import REWARDS
from .watch import Watch


class Tick:
    """Makes loops of ticks.

    Args:
        handles: of the engine.
        columns: of the games.
        read_orders: (int player, GameState, int start) -> PlayerAction, see `order_reader`.
        rewards: the buffer into which the lanes' rewards are written.
        partial_observability: whether each player sees only what its units see.
        watch: over the bots; None: nobody watches.
    """

    def __init__(
        self,
        handles: Handles,
        columns: GameColumns,
        read_orders: Any,
        rewards: Any,
        partial_observability: bool,
        watch: Watch | None,
    ) -> None:
        self._handles, self._columns = handles, columns
        self._read_orders, self._reward_buffer = read_orders, rewards
        self._partial, self._watch = partial_observability, watch

    def loop(self, selfplay: bool) -> GameLoop:
        """The tick of games between two lanes, or of games against bots."""
        handles, columns, loop = self._handles, self._columns, GameLoop(self._handles)
        loop.call(handles.bind(columns.progress.set, 0, 0), None)
        # Ids are counted for the whole process, and the order in which orders are carried out depends on
        # them: with a count of its own, a game goes the same way whatever else is played beside it. So it
        # does with a generator of its own in the place of the one that random bots share.
        get_id, set_id = handles.static_field("rts.units.Unit", "next_ID", "long")
        loop.call(set_id, columns.next_ids)
        loop.call(handles.hidden_static_setter("util.Sampler", "generator"), columns.generators)
        if self._partial:
            seen = handles.constructor("rts.PartiallyObservableGameState", STATE, "int")
            loop.call(seen, columns.states, columns.sides, out=columns.views)
            loop.call(seen, columns.states, columns.others, out=columns.other_views)
        self._add_orders(loop, selfplay)
        self._add_trace(loop)
        sides = [(columns.sides, columns.others), (columns.others, columns.sides)][: 2 if selfplay else 1]
        judges = [self._reward_function(name) for name in REWARDS.values()]
        cycle = handles.method(STATE, "cycle", "boolean")
        put = handles.method("java.nio.DoubleBuffer", "put", "java.nio.DoubleBuffer", "int", "double")
        for k, judge in enumerate(judges):
            if k:  # what was ordered counts on the board before the tick, winning after it
                for index, side in enumerate(sides):
                    self._add_reward(loop, judge, put, side, index, k)
        loop.call(cycle, columns.states)
        for index, side in enumerate(sides):
            self._add_reward(loop, judges[0], put, side, index, 0)
        loop.call(get_id, out=columns.next_ids)
        loop.finish()
        return loop

    def _add_orders(self, loop: GameLoop, selfplay: bool) -> None:
        """Both players' orders are read or thought out, and issued; those that can't be are dropped.

        Both come before either is issued, so that no player goes first.
        """
        handles, columns = self._handles, self._columns
        think = handles.method("ai.core.AI", "getAction", ACTION, "int", STATE)
        think = self._watch.guarded(think) if self._watch else think
        issue = handles.dropping_result(handles.method(STATE, "issueSafe", "boolean", ACTION))
        is_empty = handles.ignoring(handles.method(ACTION, "isEmpty", "boolean"), 0, STATE)
        issue = handles.when(is_empty, handles.methods.empty(issue.type()), issue)
        read = self._read_orders
        loop.call(read, columns.sides, columns.views, columns.order_starts, out=columns.orders_a)
        if selfplay:
            starts = columns.second_order_starts
            loop.call(read, columns.others, columns.other_views, starts, out=columns.orders_b)
        else:
            loop.call(think, columns.bots, columns.others, columns.other_views, out=columns.orders_b)
        loop.call(issue, columns.states, columns.orders_a)
        loop.call(issue, columns.states, columns.orders_b)

    def _add_trace(self, loop: GameLoop) -> None:
        """Add the trace that the rewards read: the board and the issued actions."""
        handles, columns = self._handles, self._columns
        board = handles.method(STATE, "getPhysicalGameState", "rts.PhysicalGameState")
        make = handles.constructor("rts.TraceEntry", "rts.PhysicalGameState", "int")
        make = handles.filtered(make, 0, board, handles.method(STATE, "getTime", "int"))
        add = handles.method("rts.TraceEntry", "addPlayerAction", "void", ACTION)
        loop.call(make, columns.states, columns.states, out=columns.traces)
        loop.call(add, columns.traces, columns.orders_a)
        loop.call(add, columns.traces, columns.orders_b)

    def _reward_function(self, name: str) -> Any:
        return self._handles.jpype.JClass(f"ai.rewardfunction.{name}RewardFunction")()

    def _add_reward(
        self, loop: GameLoop, judge: Any, put: Any, side: tuple[JavaArray, JavaArray], index: int, k: int
    ) -> None:
        """Reward `k` for the game's lane `index`, whose player and opponent are `side`."""
        handles, columns, kind = self._handles, self._columns, "ai.rewardfunction.RewardFunctionInterface"
        compute = handles.method(kind, "computeReward", "void", "int", "int", "rts.TraceEntry", STATE)
        loop.call(handles.bind(compute, 0, judge), *side, columns.traces, columns.states)
        reward = handles.bind(handles.method(kind, "getReward", "double"), 0, judge)
        place = JavaArray(handles, "int", [(lane + index) * len(REWARDS) + k for lane in columns.first_lane])
        store = handles.collected(handles.bind(put, 0, self._reward_buffer), 1, reward)  # (int)
        loop.call(store, place)
