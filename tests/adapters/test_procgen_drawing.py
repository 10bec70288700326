"""Steps without drawing: states are the same, and who looks at frames gets them."""

from __future__ import annotations

import copy
import gc
import multiprocessing
import threading
from typing import Any

import entitize as ez
import numpy as np
import pytest
from entitize.adapters.procgen.drawing import draw_from_now_on, stop_drawing, undrawn


def played(game: str, steps: int, **options: Any) -> tuple[ez.procgen.ProcgenVectorEnv, list[bytes]]:
    """A game after random play from one seed, and the states on the way."""
    venv = ez.procgen.ProcgenVectorEnv(game, 4, seed=3, num_threads=1, **options)
    batch, _ = venv.reset()
    assert venv.engine is not None
    buffer = venv.engine.states
    venv.action_space.seed(5)
    states = []
    for _ in range(steps):
        batch = venv.step(venv.action_space.sample(mask=batch))[0]
        ends = buffer.starts + buffer.lengths
        states += [buffer.data[a:b].tobytes() for a, b in zip(buffer.starts, ends, strict=True)]
    return venv, states


@pytest.fixture
def nobody_looks() -> None:
    """Environments of earlier tests that were left open are gone."""
    gc.collect()


def all_choose(action: int, lanes: int) -> dict[str, ez.RaggedArray]:
    return {"act": ez.RaggedArray(np.full(lanes, action), np.arange(lanes + 1))}


def frames(venv: ez.procgen.ProcgenVectorEnv) -> np.ndarray:
    """What the engine drew last."""
    assert venv.engine is not None
    return venv.engine.observe()[1].copy()


@pytest.mark.usefixtures("nobody_looks")
@pytest.mark.parametrize("game", ez.procgen.GAMES)
@pytest.mark.parametrize("mode", ["easy", "hard"])
def test_states_are_those_of_games_that_are_drawn(
    game: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    venv, states = played(game, 60, distribution_mode=mode)
    venv.close()
    monkeypatch.setenv("ENTITIZE_UNDRAWN_STEPS", "0")
    drawn, expected = played(game, 60, distribution_mode=mode)
    drawn.close()
    assert states == expected


@pytest.mark.usefixtures("nobody_looks")
@pytest.mark.parametrize("engine_threads", [0, 2])
def test_nothing_is_drawn_unless_it_is_switched_off(
    engine_threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    venv, _ = played("coinrun", 1, engine_threads=engine_threads)
    first = frames(venv)
    changes = []
    for variable in ("1", "0"):
        monkeypatch.setenv("ENTITIZE_UNDRAWN_STEPS", variable)
        for _ in range(20):
            venv.step(all_choose(7, lanes=4))  # right: the camera moves
        changes.append((frames(venv) != first).any())
    venv.close()
    assert changes == [False, True]


@pytest.mark.parametrize("options", [{"features": "pixels"}, {"render_mode": "rgb_array"}])
def test_who_looks_at_frames_gets_them_beside_others(options: dict[str, Any]) -> None:
    def seen(with_other: bool) -> list[np.ndarray]:
        venv = ez.procgen.ProcgenVectorEnv("coinrun", 2, seed=1, **options)
        venv.reset()
        other = ez.procgen.ProcgenVectorEnv("maze", 2, seed=2)
        other.reset()
        pictures = []
        for step in range(10):
            actions = all_choose(7, lanes=2)
            if with_other:
                other.step(actions)
            venv.step(actions)
            if step == 5:
                again = copy.deepcopy(venv)  # has an engine of its own, and looks at it too
                venv.close()
                venv = again
            pictures.append(frames(venv))
        venv.close()
        other.close()
        return pictures

    alone, beside = seen(False), seen(True)
    np.testing.assert_array_equal(alone, beside)
    assert len({picture.tobytes() for picture in alone}) > 5


@pytest.mark.usefixtures("nobody_looks")
def test_all_engines_draw_while_one_is_looked_at() -> None:
    shown = ez.procgen.ProcgenVectorEnv("maze", 1, seed=1, features="pixels")
    hidden, _ = played("coinrun", 1)
    shown.reset()
    with undrawn() as is_undrawn:
        assert not is_undrawn
    shown.close()
    with undrawn() as outer, undrawn() as inner:  # two environments in two threads
        assert outer and inner
    hidden.close()


@pytest.mark.usefixtures("nobody_looks")
def test_who_wants_frames_waits_for_steps_without_them() -> None:
    class Looker:
        pass

    looker, started, done = Looker(), threading.Event(), threading.Event()

    def look() -> None:
        started.set()
        draw_from_now_on(looker)
        done.set()

    thread = threading.Thread(target=look)
    with undrawn():
        thread.start()
        started.wait()
        assert not done.wait(0.05)
    assert done.wait(60)
    thread.join()
    with undrawn() as is_undrawn:
        assert not is_undrawn
    stop_drawing(looker)
    with undrawn() as is_undrawn:
        assert is_undrawn


@pytest.mark.usefixtures("nobody_looks")
def test_a_process_that_is_forked_during_a_step_draws() -> None:
    hidden, _ = played("coinrun", 1)

    def look() -> None:
        venv = ez.procgen.ProcgenVectorEnv("coinrun", 1, seed=1, features="pixels")
        venv.reset()
        first = frames(venv)
        for _ in range(10):
            venv.step(all_choose(7, lanes=1))
        assert (frames(venv) != first).any()
        venv.close()

    process = multiprocessing.get_context("fork").Process(target=look)
    started, done = threading.Event(), threading.Event()

    def step() -> None:
        with undrawn():
            started.set()
            done.wait(60)

    thread = threading.Thread(target=step)
    thread.start()
    started.wait()
    process.start()
    process.join(60)
    done.set()
    thread.join()
    hidden.close()
    assert process.exitcode == 0
