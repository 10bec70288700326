"""`BotPlayers`: bots of μRTS as players of lanes, to record what they do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from ...envs import EntityBatch, MultiCategorical
from ...ragged import RaggedArray
from .java.bots import check_bot
from .java.engine import ATTACK_COMPONENT, ORDER_SIZE, REACH
from .java.records import ACTIONS
from .vector_env import MicroRTSVectorEnv

_MOVE, _PRODUCE, _ATTACK = (ACTIONS.index(name) for name in ("move", "produce", "attack"))
_PRODUCED = 5  # a component of an order


class BotPlayers:
    """Chooses the actions of all lanes as bots of the engine do; `ez.record` takes it in place of a policy.

        venv = ez.make_vec("MicroRTS/basesWorkers8x8", num_envs=8, opponents="coacAI", side="both")
        ez.record(venv, BotPlayers(venv, ["mayari"]), "plays", episodes=100)

    In lanes that play each other (`selfplay`) two bots meet, and the orders of both are recorded. A bot in a
    lane is asked at every step. So its units never wait longer than one step, while the same bot as
    an opponent may let a unit wait for ten ticks. An order that the masks forbid becomes waiting.

    Args:
        venv: the games, in this process.
        bots: the names of the bots, which the lanes take in turns.

    Attributes:
        bots: the bot of each lane.
        num_orders, num_refused: how many orders were given, and how many of them the masks forbade.

    Raises:
        TypeError: `venv` is another environment, or has workers.
        ValueError: there is no such bot, or units choose entities (`targets="entities"`).
    """

    def __init__(self, venv: MicroRTSVectorEnv, bots: Sequence[str]) -> None:
        if not isinstance(venv, MicroRTSVectorEnv):
            raise TypeError(f"BotPlayers: expected a MicroRTSVectorEnv without workers, got {venv!r}")
        if venv.options.targets != "cells":
            raise ValueError(f"BotPlayers: targets: expected 'cells', got {venv.options.targets!r}")
        if isinstance(bots, str) or not bots:
            raise ValueError(f"BotPlayers: bots: expected a list of names, got {bots!r}")
        names = [check_bot(name) for name in bots]
        self.bots = [names[lane % len(names)] for lane in range(venv.num_envs)]
        self.num_orders = self.num_refused = 0
        self._observer = venv.observer
        engine, self._space = venv.engine, cast(MultiCategorical, venv.single_action_space["order"])
        places = zip(self.bots, engine.lane_game.tolist(), engine.lane_player.tolist(), strict=True)
        self._advisers = [engine.adviser(*place) for place in places]
        self._width = engine.width
        self._started = False

    def __call__(self, batch: EntityBatch, rng: np.random.Generator) -> dict[str, RaggedArray]:
        """Return the orders for `batch`, which `venv` has just returned; `rng` seeds the bots of new games.

        Raises:
            RuntimeError: a bot raised an exception, or did not answer within `bot_timeout` of `venv`.
        """
        actors, observer = batch.actions["order"].actors, self._observer
        orders = np.zeros((actors.num_items, ORDER_SIZE), np.int64)
        for lane, adviser in enumerate(self._advisers):
            if observer.time[adviser.game] == 0 or not self._started:
                adviser.start(int(rng.integers(1 << 62)))
            part = slice(int(actors.offsets[lane]), int(actors.offsets[lane + 1]))
            self._place(adviser.orders(), observer.cells[part], orders[part])
        self._started = True
        allowed = self._space.legal(orders, observer.masks).all(1)
        self.num_orders += int((orders[:, 0] > 0).sum())
        self.num_refused += int((~allowed).sum())
        orders[~allowed] = 0
        chosen = actors.with_values(orders)
        if observer.perspective is not None:
            chosen = observer.perspective.turn_orders(chosen)  # also what a kind does not use
            chosen = chosen.with_values(np.where(self._space.used[orders[:, 0]], chosen.values, 0))
        return {"order": chosen}

    def _place(self, given: NDArray[np.int32], cells: NDArray[np.int64], out: NDArray[np.int64]) -> None:
        """Write a lane's orders (n, 7), rows of `records.ORDER`, for its actors at `cells` (A,)."""
        places = {cell: index for index, cell in enumerate(cells.tolist())}
        for x, y, kind, direction, target_x, target_y, produced in given.tolist():
            place = places.get(y * self._width + x)
            if place is None:
                continue
            out[place, 0] = kind
            if _MOVE <= kind <= _PRODUCE:
                out[place, kind] = direction
            if kind == _PRODUCE:
                out[place, _PRODUCED] = produced
            elif kind == _ATTACK:
                dx, dy = target_x - x + REACH, target_y - y + REACH
                out[place, ATTACK_COMPONENT] = dy * (2 * REACH + 1) + dx
