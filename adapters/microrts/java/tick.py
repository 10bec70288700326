"""One tick of a game, put together from method handles: orders, the engine's cycle, rewards."""

from __future__ import annotations

from typing import Any

from .games import ACTION, STATE, GameColumns
from .handles import GameLoop, Handles, JavaArray
from .rewards import REWARDS
from .watch import Watch

_BOARD = "rts.PhysicalGameState"
_BUFFER = "java.nio.IntBuffer"
_UNIT = "rts.units.Unit"
_UNIT_ACTION = "rts.UnitAction"
_USAGE = "rts.ResourceUsage"
_TABLE = "rts.units.UnitTypeTable"


class Tick:
    """Makes loops of ticks.

    Args:
        handles: of the engine.
        columns: of the games.
        read_orders: (int player, GameState, int start) -> PlayerAction, see `order_reader`.
        rewards: the buffer into which the lanes' rewards are written.
        partial_observability: whether each player sees only what its units see.
        watch: over the bots; None: they are not watched.
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


def order_reader(handles: Handles, unit_types: Any, orders: Any, row_size: int, width: int) -> Any:
    """(int player, GameState, int start) -> PlayerAction: the orders that stand in a buffer from `start` on.

    The engine's own reader asks for every cell of the board what is there, twice for each game between two
    lanes; this one takes a list of those who are ordered something, and does for them what that one does.

    What does not fit the present actions or an earlier order is left out, and units without an order
    wait for a tick. Nothing else is checked: in each cell there must be a unit of the player that may be
    given an order.

    Args:
        orders: an IntBuffer of rows: the first says how many follow, each of these a cell and an order.
        row_size: of how many ints a row is.
        width: of the widest map: a cell is y * width + x.
    """
    row = handles.jpype.JArray(handles.jpype.JInt)(row_size)
    read_row = handles.dropping_result(
        handles.bind(handles.method(_BUFFER, "get", _BUFFER, "int[]"), 0, orders)
    )
    read_row = read_row.bindTo(row)  # () -> void: the next row of the buffer into `row`
    # () -> int: the number of orders while the first row is there, then the cell of each.
    first = handles.bind(handles.methods.arrayElementGetter(handles.java_class("int[]")).bindTo(row), 0, 0)
    take = handles.sequence(
        handles.ignoring(read_row, 0, STATE, ACTION), _order_taker(handles, unit_types, row, first, width)
    )
    take_all = handles.methods.countedLoop(
        handles.ignoring(first, 0, STATE, ACTION), None, handles.ignoring(take, 0, "int")
    )
    # (action, state): what is used up already; only orders have to fit to that.
    claim = handles.filtered(
        handles.method(ACTION, "setResourceUsage", "void", _USAGE),
        1,
        handles.method(STATE, "getResourceUsage", _USAGE),
    )
    any_order = handles.collected(handles.bind(handles.differ(), 1, 0), 0, first)  # () -> boolean
    take_all = handles.when(
        handles.ignoring(any_order, 0, STATE, ACTION),
        handles.sequence(handles.reordered(claim, [1, 0], STATE, ACTION), take_all),
    )
    seek = handles.dropping_result(
        handles.bind(handles.method(_BUFFER, "position", _BUFFER, "int"), 0, orders)
    )
    wait = handles.bind(handles.method(ACTION, "fillWithNones", "void", STATE, "int", "int"), 3, 1)
    types = (ACTION, "int", STATE, "int")  # (action, player, state, start)
    fill = handles.sequence(
        handles.reordered(seek, [3], *types),
        handles.ignoring(read_row, 0, *types),
        handles.reordered(take_all, [2, 0], *types),
        handles.reordered(wait, [0, 2, 1], *types),
    )
    result = handles.ignoring(handles.methods.identity(handles.java_class(ACTION)), 1, *types[1:])
    return handles.collected(handles.given(result, fill), 0, handles.constructor(ACTION))


def _order_taker(handles: Handles, unit_types: Any, row: Any, cell: Any, width: int) -> Any:
    """(GameState, PlayerAction) -> void: adds the order in `row`, where it fits to those that are there.

    Args:
        cell: () -> int, the row's first number.
    """
    board = handles.method(STATE, "getPhysicalGameState", _BOARD)
    unit_at = handles.method(_BOARD, "getUnitAt", _UNIT, "int", "int")
    for operation in ("floorDiv", "floorMod"):  # y, then x before it
        divide = handles.bind(handles.static("java.lang.Math", operation, "int", "int", "int"), 1, width)
        position = 2 if operation == "floorDiv" else 1
        unit_at = handles.collected(unit_at, position, handles.collected(divide, 0, cell))
    unit_at = handles.filtered(unit_at, 0, board)  # (state) -> unit

    read = handles.static(
        _UNIT_ACTION, "fromActionArrayWithOffset", _UNIT_ACTION, "int[]", _TABLE, STATE, _UNIT, "int", "int"
    )
    reach = 2 * int(unit_types.getMaxAttackRange()) + 1
    read = handles.bind(handles.bind(read, 4, reach, 1), 0, row, unit_types)  # (state, unit) -> order
    usage = handles.method(_UNIT_ACTION, "resourceUsage", _USAGE, _UNIT, _BOARD)
    usage = handles.filtered(usage, 2, board)  # (order, unit, state) -> usage

    used = handles.method(ACTION, "getResourceUsage", _USAGE)
    fits = handles.filtered(handles.method(_USAGE, "consistentWith", "boolean", _USAGE, STATE), 1, used)
    merge = handles.filtered(handles.method(_USAGE, "merge", "void", _USAGE), 0, used)
    add = handles.method(ACTION, "addUnitAction", "void", _UNIT, _UNIT_ACTION)
    types = (_USAGE, _UNIT_ACTION, _UNIT, STATE, ACTION)
    take = handles.when(
        handles.reordered(fits, [0, 4, 3], *types),
        handles.sequence(handles.reordered(merge, [4, 0], *types), handles.reordered(add, [4, 2, 1], *types)),
    )
    take = handles.given(take, usage)  # (order, unit, state, action)
    take = handles.given(take, handles.reordered(read, [1, 0], _UNIT, STATE))  # (unit, state, action)
    return handles.given(take, unit_at)
