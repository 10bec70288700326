"""Games that ask: questions per second from threads and over the WebSocket.

    python benchmarks/questions.py [--quick] [--json PATH] [--seconds S]

Each game asks again at once, with 5 entities of 4 features and one categorical action of 4 choices. RogueNet
(d_model 16, 2 layers) decides, without learning. The peer is an `EntityEnv` with the same observations and
the same network, in one process without questions; most of its step is a part of ours.

Rows count questions per second of processor time of the trainer's process (all its threads; the connected
games are another process), which is nearly blind to what other programs do. Seconds of wall clock are
printed as well.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from typing import Any

import entitize as ez
import numpy as np
from entitize.adapters.programs import ListeningVectorEnv
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from rows import Row, script_parser, write_rows

GAMES = (1, 16, 64)


@ez.entity
class Unit:
    x: float
    y: float
    hp: float
    side: float


class Move(Enum):
    UP = 0
    DOWN = 1
    LEFT = 2
    RIGHT = 3


UNITS = [Unit(0.1 * i, 0.2 * i, 1.0, float(i % 2)) for i in range(5)]


@ez.program(entities=[Unit], actions={"move": Move})
def main(agent: Any) -> None:
    while True:
        agent.act(ez.Obs(UNITS[0], UNITS[1:], score=0.0), Move)


class Peer(ez.EntityEnv):
    """The same observations from an environment that is stepped."""

    def __init__(self) -> None:
        self.observation_space, self.action_space = main.observation_space, main.action_space

    def _observe_units(self) -> ez.Obs:
        return ez.Obs(UNITS, actions={"move": UNITS[:1]})

    def _reset(self, options: dict[str, Any]) -> ez.Obs:
        return self._observe_units()

    def _step(self, actions: dict[str, Any]) -> Any:
        return self._observe_units(), 0.0, False, False, {}


def connected_games(address: str, count: int) -> None:
    """Ask from `count` threads of this process until the server closes."""
    message = {
        "type": "observe",
        "entities": {"Unit": [[unit.x, unit.y, unit.hp, unit.side] for unit in UNITS]},
        "actions": {"move": {"actors": [0]}},
        "score": 0,
    }

    def ask() -> None:
        with suppress(ConnectionClosed), connect(f"ws://{address}", compression=None) as game:
            game.send(json.dumps({"type": "hello", "protocol": 1}))
            game.recv()
            while True:
                game.send(json.dumps(message))
                json.loads(game.recv())

    threads = [threading.Thread(target=ask) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@contextmanager
def listening(count: int) -> Iterator[ez.EntityVectorEnv]:
    """An environment to which another process has connected `count` games."""
    venv = ListeningVectorEnv("127.0.0.1:0", count, main.observation_space, max_wait=1.0)
    clients = multiprocessing.get_context("spawn").Process(target=connected_games, args=(venv.address, count))
    clients.start()
    with venv:
        yield venv
    clients.join()


def questions_per_second(policy: Any, venv: ez.EntityVectorEnv, seconds: float) -> tuple[float, float]:
    """Decide for `seconds` after warming up; return questions per second of processor time, of wall clock."""
    rng = np.random.default_rng(0)
    batch, _ = venv.reset(seed=0)
    for limit in (0.3 * seconds, seconds):
        decided, wall, processor = 0, time.perf_counter(), time.process_time()
        while time.perf_counter() - wall < limit:
            batch, *_ = venv.step(policy.act(batch, rng).actions)
            decided += batch.actions["move"].actors.num_items
    return decided / (time.process_time() - processor), decided / (time.perf_counter() - wall)


def measure(count: int, seconds: float) -> list[Row]:
    """The rows of `count` games."""
    policy = ez.RogueNet(main.observation_space, main.action_space, d_model=16, n_layer=2).eval()
    sources = {
        "environment": lambda: ez.vector.ListVectorEnv([Peer] * count),
        "threads": lambda: ez.make_vec(main, count),
        "WebSocket": lambda: listening(count),
    }
    rates = {}
    for name, source in sources.items():
        with source() as venv:
            rates[name], wall = questions_per_second(policy, venv, seconds)
        print(
            f"{count:3} games, {name:12} {rates[name]:8,.0f} per processor second, {wall:8,.0f} per second",
            flush=True,
        )
    peer = rates.pop("environment")
    return [
        Row(f"{count} games, {name}", rate, peer, "EntityEnv", "1/s", kind="floor")
        for name, rate in rates.items()
    ]


if __name__ == "__main__":
    parser = script_parser(__doc__, quick="one second for each case", json=True)
    parser.add_argument("--seconds", type=float, default=5.0)
    chosen = parser.parse_args()
    print(f"load of the machine at the start: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    rows = [row for count in GAMES for row in measure(count, 1.0 if chosen.quick else chosen.seconds)]
    if chosen.json:
        write_rows(chosen.json, rows)
