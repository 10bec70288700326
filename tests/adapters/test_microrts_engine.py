"""The engine as we drive it, side by side with its own shared-memory client."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from xml.etree import ElementTree

import entitize as ez
import numpy as np
import pytest
from entitize.adapters.microrts.java import (
    HEADER,
    MASK_SIZE,
    ORDER_SIZE,
    UNIT,
    GameSetup,
    MicroRTSEngine,
    engine_folder,
    start_engine,
)

from facts import raises

BOARD = "basesWorkers8x8"
NUM_STEPS = 400


def random_orders(masks: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Legal orders (n, 7) under masks (n, 78), each component at random among what it allows."""
    draws = rng.random(masks.shape) * (masks > 0)
    ends = np.cumsum([6, 4, 4, 4, 4, 7, 49])
    return np.stack([part.argmax(1) for part in np.split(draws, ends[:-1], 1)], 1)


class Reference:
    """The engine's own client for one game: one against `bot`, or (with none) between two lanes."""

    def __init__(self, name: str, bot: str | None, players: tuple[int, ...]) -> None:
        jpype: Any = start_engine()
        self.players, self.jpype = players, jpype
        lanes, board = len(players), ez.microrts.find_map(name)
        units = ElementTree.parse(board.path).iter("rts.units.Unit")
        self.first_new_id = 1 + max(int(unit.attrib["ID"]) for unit in units)
        arrays = []
        for shape in (
            (lanes, board.height, board.width, 27),
            (lanes, board.height, board.width, MASK_SIZE),
            (lanes, board.height * board.width, ORDER_SIZE),
        ):
            memory = bytearray(4 * int(np.prod(shape)))
            buffer = jpype.nio.convertToDirectBuffer(memory)
            order = jpype.JClass("java.nio.ByteOrder").nativeOrder()
            arrays.append((buffer.order(order).asIntBuffer(), np.frombuffer(memory, np.int32).reshape(shape)))
        (planes, self.planes), (masks, self.masks), (orders, self.orders) = arrays
        judge = jpype.JClass("ai.rewardfunction.RewardFunctionInterface")
        judges = [
            jpype.JClass(f"ai.rewardfunction.{name}RewardFunction")() for name in ez.microrts.REWARDS.values()
        ]
        kinds = jpype.JClass("rts.units.UnitTypeTable")()
        bots = [] if bot is None else [jpype.JClass(bot)(kinds)]
        self.client = jpype.JClass("tests.JNIGridnetSharedMemVecClient")(
            lanes - len(bots),
            len(bots),
            10_000,
            jpype.JArray(judge)(judges),
            str(engine_folder()),
            str(board.path.relative_to(engine_folder())),
            jpype.JArray(jpype.JClass("ai.core.AI"))(bots),
            kinds,
            False,
            planes,
            masks,
            orders,
            0,
        )
        self.sides = jpype.JArray(jpype.JInt)(list(players))

    def reset(self) -> None:
        self.client.reset(self.sides)
        self.jpype.JClass("rts.units.Unit").next_ID = self.first_new_id

    def read_masks(self) -> np.ndarray:
        self.client.getMasks(self.players[0])
        return self.masks.copy()

    def step(self, orders: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        self.orders[:] = orders
        answer = self.client.gameStep(self.sides)
        return np.array(answer.reward), np.array(answer.done)[:, 0]


def play_reference(name: str, bot: str | None, players: tuple[int, ...]) -> list[tuple[np.ndarray, ...]]:
    """What the reference gave at each step of one game of random orders: masks, orders, planes, rewards."""
    reference, rng = Reference(name, bot, players), np.random.default_rng(5)
    reference.reset()
    played = []
    for step in range(NUM_STEPS):
        masks = reference.read_masks()
        orders = np.zeros_like(reference.orders)
        flat = masks.reshape(len(players), -1, MASK_SIZE)
        ready = flat[:, :, 0] > 0
        if step % 4:
            orders[ready] = random_orders(flat[ready], rng)
        rewards, done = reference.step(orders)
        played.append((masks, orders, reference.planes.copy(), rewards))
        if done.any():
            break
    return played


def planes_of(observer: ez.microrts.Observer, width: int, height: int) -> np.ndarray:
    """The entities' planes, put on the boards of all lanes."""
    batch = observer.observe()
    boards = np.zeros((len(batch), height, width, 27))
    boards[..., [0, 5, 10, 13, 21]] = 1  # what the planes say of an empty cell
    for rows in batch.entities.values():
        x, y = rows.values[:, 0].astype(int), rows.values[:, 1].astype(int)
        boards[rows.sequence_indices(), y, x] = rows.values[:, 2:]
    return boards


@pytest.mark.parametrize(
    ("name", "bot", "java_class", "players"),
    [
        (BOARD, "lightRushAI", "ai.abstraction.LightRush", (0,)),
        (BOARD, "workerRushAI", "ai.abstraction.WorkerRush", (1,)),
        (BOARD, None, None, (0, 1)),
        ("melee14x12Mixed18", "lightRushAI", "ai.abstraction.LightRush", (0,)),
    ],
)
def test_a_game_goes_as_with_the_engines_own_client(
    name: str, bot: str | None, java_class: str | None, players: tuple[int, ...]
) -> None:
    played = play_reference(name, java_class, players)
    assert len(played) > 60
    board = ez.microrts.find_map(name)
    engine = MicroRTSEngine([GameSetup(board, bot, players[0])])
    observer = ez.microrts.Observer(engine, ez.microrts.Options("planes", mask_reserved=False))
    engine.reset([0], [0])
    for step, (masks, orders, planes, rewards) in enumerate(played):
        # Both players' units are on one board here, on one board each there.
        engine.read()
        assert np.array_equal(engine.masks[0], masks.max(0)), step
        engine.masks[:] = 0
        engine.orders[:] = 1  # what stands behind a lane's last order is not looked at
        for lane, ready in enumerate(masks.reshape(*orders.shape[:2], -1)[:, :, 0] > 0):
            cells = np.flatnonzero(ready) if step % 4 else ready[:0]  # no orders are waiting
            engine.orders[lane, 0, 0] = len(cells)
            engine.orders[lane, 1 : 1 + len(cells)] = np.column_stack([cells, orders[lane, cells]])
        assert engine.step() == []
        assert np.array_equal(engine.rewards, rewards), step
        if step < len(played) - 1:  # the client's last board is the next game's
            assert np.array_equal(planes_of(observer, board.width, board.height), planes), step


def test_games_are_the_same_whatever_is_played_beside_them() -> None:
    board = ez.microrts.find_map(BOARD)

    def records(games: list[GameSetup]) -> list[np.ndarray]:
        engine = MicroRTSEngine(games)
        engine.reset(range(len(games)), [7] * len(games))
        seen = []
        for _ in range(300):
            engine.step()
            engine.read()
            count = engine.records[HEADER.index("count")]
            seen.append(engine.records[: len(HEADER) + count * len(UNIT)].copy())
        return seen

    alone = records([GameSetup(board, "randomBiasedAI")])
    beside = records(
        [
            GameSetup(board, "randomBiasedAI"),
            GameSetup(board, "randomAI"),
            GameSetup(board, "lightRushAI"),
        ]
    )
    assert all(np.array_equal(one, other) for one, other in zip(alone, beside, strict=True))


def test_games_are_the_same_whatever_is_played_in_other_threads() -> None:
    board = ez.microrts.find_map(BOARD)
    both = threading.Barrier(2)

    def records(seed: int, together: bool) -> np.ndarray:
        engine = MicroRTSEngine([GameSetup(board, "randomBiasedAI")] * 10)
        engine.reset(range(10), range(seed, seed + 10))
        if together:
            both.wait()
        seen = []
        for _ in range(100):
            engine.step()
            engine.records[:] = 0
            engine.read()
            seen.append(engine.records.copy())
        return np.array(seen)

    with ThreadPoolExecutor(2) as pool:
        for seed, played in zip((1, 50), pool.map(records, (1, 50), (True, True)), strict=True):
            assert np.array_equal(played, records(seed, together=False))


def test_only_the_games_that_are_playing_move() -> None:
    board = ez.microrts.find_map(BOARD)
    games = [GameSetup(board, None), *(GameSetup(board, "passiveAI") for _ in range(4))]
    engine = MicroRTSEngine(games)
    observer = ez.microrts.Observer(engine, ez.microrts.Options())
    engine.reset(range(5), range(5))
    for playing in ([True] * 5, [False, True, True, False, True], [True, False, False, False, False]):
        engine.step(np.array(playing))
    observer.observe()
    assert observer.time.tolist() == [2, 2, 2, 1, 2]


def test_games_between_lanes_must_come_first() -> None:
    board = ez.microrts.find_map(BOARD)
    with raises(ValueError, "two lanes", "bots"):
        MicroRTSEngine([GameSetup(board, "passiveAI"), GameSetup(board, None)])


def test_a_search_is_counted_where_it_is_asked_for() -> None:
    """By the engine's own count, for a bot that plays and for one that advises."""
    setup = GameSetup(ez.microrts.find_map("basesWorkers8x8"), "naiveMCTSAI")
    engine = MicroRTSEngine([setup], search_iterations=7)
    engine.reset([0], [0])
    adviser = engine.adviser("naiveMCTSAI", 0, 0)
    adviser.start(0)
    for _ in range(5):
        adviser.orders()
        assert engine.step() == []
    bot = engine.columns.bots.array[0]
    for searcher in (bot, adviser.bot):
        assert "runs per cycle: 7.0," in str(searcher.statisticsString())
