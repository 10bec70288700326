"""Bots that hang: the engine's player over a socket, whose server is silent, and one that searches on."""

from __future__ import annotations

import _thread
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import entitize as ez
import gymnasium
import numpy as np
import pytest
from entitize.adapters.microrts.java import BotFailure, GameSetup, MicroRTSEngine, may_hang, start_engine

from facts import raises, warns
from waiting import wait_until

BOARD = "basesWorkers8x8"


class SlowServer:
    """Answers what the engine's `SocketAI` asks, but orders and the end of the game only once it may."""

    def __init__(self) -> None:
        self.may_answer = threading.Event()
        self.asked = threading.Event()
        self.when_asked: Callable[[], None] = lambda: None
        self._socket = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        connection, _ = self._socket.accept()
        with connection, connection.makefile("rw") as lines:
            print("welcome", file=lines, flush=True)
            for line in lines:
                is_order = line.startswith("getAction")
                if is_order:
                    next(lines)  # the board
                if is_order or line.startswith("gameOver"):
                    self.asked.set()
                    self.when_asked()
                    self.may_answer.wait()
                print("[]" if is_order else "ack", file=lines, flush=True)

    def bot(self, engine: MicroRTSEngine) -> Any:
        jpype: Any = start_engine()
        port = self._socket.getsockname()[1]
        kind = jpype.JClass("ai.socket.SocketAI")
        return kind(100, 0, "127.0.0.1", port, kind.LANGUAGE_JSON, engine.unit_types)

    def close(self) -> None:
        self.may_answer.set()
        self._socket.close()


@pytest.fixture
def no_trust(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any bot may hang, so that one that does can take the place of a quick one."""
    monkeypatch.setattr("entitize.adapters.microrts.java.engine.may_hang", lambda name, partial: True)


@pytest.fixture
def server(no_trust: None) -> Iterator[SlowServer]:
    server = SlowServer()
    yield server
    server.close()


def records(engine: MicroRTSEngine) -> np.ndarray:
    engine.records[:] = 0
    engine.read()
    return engine.records.copy()


def wait_until_busy(engine: MicroRTSEngine, count: int) -> None:
    """Until `count` of the engine's threads are busy: the one of the last step is so a moment longer."""
    wait_until(lambda: engine.watch is not None and engine.watch.busy_threads == count)


def wait_until_idle(engine: MicroRTSEngine) -> None:
    """Until all of the engine's threads have come back."""
    wait_until(lambda: not (engine.watch and engine.watch.busy_threads))


def test_a_bot_that_hangs_ends_its_game_alone(server: SlowServer) -> None:
    bots = ["workerRushAI", "passiveAI", "randomBiasedAI", "lightRushAI"]

    def make(bot_timeout: float | None) -> ez.microrts.MicroRTSVectorEnv:
        return ez.microrts.MicroRTSVectorEnv(BOARD, 6, selfplay=2, opponents=bots, bot_timeout=bot_timeout)

    others = [0, 1, 2, 4, 5]  # lanes
    with make(1.0) as env, make(None) as undisturbed:
        env.reset(seed=3)
        undisturbed.reset(seed=3)
        engine, statics = env.engine, start_engine().JClass("rts.units.Unit")

        def step_both() -> tuple[Any, ...]:
            ours, theirs = env.step({}), undisturbed.step({})
            assert ours[0].gather(np.array(others)).equals(theirs[0].gather(np.array(others)))
            for k in (1, 2, 3):
                assert np.array_equal(ours[k][others], theirs[k][others])
            return ours

        for _ in range(30):
            step_both()
        engine.columns.bots.array[2] = server.bot(engine)
        with warns(UserWarning, "env 3", "passiveAI", "1 s"):
            batch, rewards, terminated, truncated, info = step_both()
        assert server.asked.is_set()
        assert truncated.tolist() == [False, False, False, True, False, False] and not terminated.any()
        assert info["outcome"][3] == "draw" and info["_outcome"].tolist() == truncated.tolist()
        assert info["bot_error"].tolist() == [
            *[None] * 3,
            "the bot passiveAI did not answer within 1 s",
            None,
            None,
        ]
        assert not rewards[3] and info["final_obs"].globals[0, 0] == np.float32(30 / 2000)
        assert batch.globals[3, 0] == 0
        for step in range(1, 20):  # the lane's next game, while the thread still waits
            batch = step_both()[0]
            assert batch.globals[3, 0] == np.float32(step / 2000)

        before = records(engine), int(statics.next_ID), [*engine.columns.orders_b.array]
        wait_until_busy(engine, 1)
        server.may_answer.set()
        wait_until_idle(engine)
        after = records(engine), int(statics.next_ID), [*engine.columns.orders_b.array]
        assert np.array_equal(before[0], after[0]) and before[1] == after[1]
        assert all(one is other or one.equals(other) for one, other in zip(before[2], after[2], strict=True))
        for _ in range(30):
            step_both()


def test_two_bots_may_hang_in_one_step(no_trust: None) -> None:
    servers = [SlowServer(), SlowServer()]
    with ez.microrts.MicroRTSVectorEnv(
        BOARD, 3, opponents="workerRushAI", bot_timeout=0.5, frame_skip=2
    ) as env:
        env.reset(seed=0)
        for lane, server in zip((0, 2), servers, strict=True):
            env.engine.columns.bots.array[lane] = server.bot(env.engine)
        with warns(UserWarning, "did not answer") as warned:
            batch, _, _, truncated, _ = env.step({})
        assert len(warned) == 2 and truncated.tolist() == [True, False, True]
        assert batch.globals[:, 0].tolist() == [0, np.float32(2 / 2000), 0]
        assert not env.step({})[3].any()
    for server in servers:
        server.close()


def test_a_bot_that_hangs_when_told_of_the_end_takes_nothing_back(
    server: SlowServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ez.microrts.MicroRTSVectorEnv(BOARD, 1, opponents="passiveAI", bot_timeout=0.5) as env:
        env.reset(seed=0)
        state = env.engine.columns.states.array[0]
        for unit in [unit for unit in state.getUnits() if unit.getPlayer() == 1]:
            state.removeUnit(unit)
        env.engine.columns.bots.array[0] = server.bot(env.engine)
        server.may_answer.set()
        notify_bot = env.engine.notify_bot

        def tell(game: int, winner: int) -> list[BotFailure]:
            server.may_answer.clear()  # it has answered when it was asked for orders
            return notify_bot(game, winner)

        monkeypatch.setattr(env.engine, "notify_bot", tell)
        with warns(UserWarning, "passiveAI", "0.5 s"):
            _, rewards, terminated, _, info = env.step({})
        assert terminated[0] and info["outcome"][0] == "win" and rewards[0] == 10
        assert "passiveAI" in info["bot_error"][0]


def test_ctrl_c_reaches_a_step_that_waits_for_a_bot(server: SlowServer) -> None:
    with ez.microrts.MicroRTSVectorEnv(BOARD, 2, opponents="workerRushAI", bot_timeout=600) as env:
        env.reset(seed=0)
        env.engine.columns.bots.array[0] = server.bot(env.engine)
        server.when_asked = _thread.interrupt_main
        with pytest.raises(KeyboardInterrupt):
            env.step({})
        with pytest.raises(gymnasium.error.ResetNeeded):
            env.step({})
        env.reset(seed=0)
        server.may_answer.set()
        wait_until_idle(env.engine)
        assert env.step({})[0].globals[:, 0].tolist() == [np.float32(1 / 2000)] * 2


def test_bots_whose_loops_end_are_not_watched() -> None:
    known = [name for name in ez.microrts.BOTS if not may_hang(name, True)]
    assert [name for name in ez.microrts.BOTS if not may_hang(name, False)] == [*known, "mayari"]
    board = ez.microrts.find_map(BOARD)

    def is_watched(bots: list[str | None], partial: bool = False) -> bool:
        engine = MicroRTSEngine([GameSetup(board, bot) for bot in bots], partial, bot_timeout=1.0)
        return engine.watch is not None

    assert not is_watched([None, *known]) and not is_watched([None], True)
    assert not is_watched(["mayari"]) and is_watched(["mayari"], True)
    assert is_watched([None, "coacAI", "rojo"])


def test_without_a_watch_everything_is_played_in_the_calling_thread() -> None:
    engine = MicroRTSEngine([GameSetup(ez.microrts.find_map(BOARD), "workerRushAI")])
    assert engine.watch is None
    engine.reset([0], [0])
    assert engine.step() == []
    engine.columns.bots.array[0] = None
    (failure,) = engine.step()
    assert failure.bot == "workerRushAI" and failure.what.startswith("raised java.lang.NullPointerException")


@pytest.mark.parametrize("timeout", [None, 60.0])
def test_an_exception_that_an_interface_does_not_declare_is_told_by_its_name(
    timeout: float | None, server: SlowServer
) -> None:
    engine = MicroRTSEngine([GameSetup(ez.microrts.find_map(BOARD), "passiveAI")], bot_timeout=timeout)
    bot = server.bot(engine)
    pipe = bot.getClass().getDeclaredField("in_pipe")
    pipe.setAccessible(True)
    pipe.get(bot).close()
    engine.columns.bots.array[0] = bot
    (failure,) = engine.notify_bot(0, 1)
    assert failure.over and failure.what.startswith("raised java.io.IOException"), failure.what


@pytest.mark.parametrize("timeout", [0, -1.0, float("nan"), float("inf"), True, "60"])
def test_a_bad_timeout_is_told(timeout: Any) -> None:
    with raises(ValueError, "bot_timeout", repr(timeout)):
        ez.microrts.MicroRTSVectorEnv(BOARD, 1, bot_timeout=timeout)


def test_a_process_ends_while_a_bot_searches_on() -> None:
    script = """
import warnings
import entitize as ez
env = ez.make_vec("MicroRTS/basesWorkers8x8", 2, opponents=["naiveMCTSAI", "passiveAI"], bot_timeout=1)
env.reset(seed=0)
env.engine.columns.bots.array[0].setTimeBudget(2_000_000_000)  # milliseconds
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    truncated = env.step({})[3]
print(truncated, [str(warning.message) for warning in caught])
assert not env.step({})[3].any()
env.close()
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert (done.returncode, done.stderr) == (0, ""), done
    assert done.stdout.startswith("[ True False] ['MicroRTS env 0: the bot naiveMCTSAI did not answer"), done
