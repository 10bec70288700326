"""`MicroRTSEnv` over the real engine, and the windows of it and of the vector environment."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import entitize as ez
import gymnasium
import numpy as np
import pytest
from entitize.envs import unbatch_observation

from facts import raises, warns

BOARD = "basesWorkers8x8"
WAIT: dict[str, Any] = {}


def make(**options: Any) -> ez.microrts.MicroRTSEnv:
    env = gymnasium.make("entitize/MicroRTS-v0", **{"opponent": "workerRushAI", **options})
    assert isinstance(env.unwrapped, ez.microrts.MicroRTSEnv)
    return env.unwrapped


def assert_same(one: Any, other: Any) -> None:
    """Two observations are equal, dtypes and all."""
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert list(one) == list(other)
        for name in one:
            assert_same(one[name], other[name])
    else:
        assert one.dtype == other.dtype and np.array_equal(one, other)


def test_the_checker_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setattr("entitize.envs.window.sleep", lambda seconds: None)
    env = gymnasium.make("entitize/MicroRTS-v0", map="basesWorkers8x8Obstacle", opponent="randomBiasedAI")
    ez.check_entity_env(env.unwrapped)
    env.close()


def test_registering_it_loads_nothing() -> None:
    code = (
        "import sys, entitize, gymnasium\n"
        "spec = gymnasium.spec('entitize/MicroRTS-v0')\n"
        "heavy = {'jpype', 'numba', 'torch', 'pygame', 'entitize.adapters.microrts.env'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "assert spec.vector_entry_point == 'entitize.adapters.microrts:make_vec'"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=100)


@pytest.mark.parametrize("make_vec", [gymnasium.make_vec, ez.make_vec])
def test_many_are_one_vector_environment(make_vec: Any) -> None:
    venv = make_vec("entitize/MicroRTS-v0", num_envs=3, map="basesWorkers10x10", opponents="passiveAI")
    assert isinstance(venv.unwrapped, ez.microrts.MicroRTSVectorEnv) and venv.num_envs == 3
    assert venv.unwrapped.games[0].map.name == "basesWorkers10x10"
    venv.close()


@pytest.mark.parametrize("side", [0, 1])
def test_it_plays_as_the_only_lane_of_a_vector_environment(side: int) -> None:
    """Three games, the later ones without a seed."""
    options: dict[str, Any] = {"side": side, "max_steps": 40}
    env = make(opponent="randomBiasedAI", **options)
    venv = ez.microrts.MicroRTSVectorEnv(BOARD, 1, opponents="randomBiasedAI", **options)
    space = venv.single_observation_space
    batch, _ = venv.reset(seed=8)
    observation, info = env.reset(seed=8)
    venv.action_space.seed(8)
    for _ in range(3):
        assert_same(observation, unbatch_observation(space, batch, 0))
        assert list(info) == ["raw_rewards"] and info["raw_rewards"].tolist() == [0] * 6
        for step in range(1, 41):
            orders = venv.action_space.sample(mask=batch)
            batch, rewards, terminated, truncated, infos = venv.step(orders)
            observation, reward, is_over, is_cut, info = env.step({"order": orders["order"][0]})
            last = infos["final_obs"] if step == 40 else batch
            assert_same(observation, unbatch_observation(space, last, 0))
            assert (reward, is_over, is_cut) == (rewards[0], terminated[0], truncated[0])
            assert info["raw_rewards"].tolist() == infos["raw_rewards"][0].tolist()
        assert is_cut and info["outcome"] == "draw" and set(info) == {"raw_rewards", "outcome"}
        observation, info = env.reset()
    env.close()
    venv.close()


def test_the_first_game_is_that_of_the_first_lane() -> None:
    env = make(opponent="randomBiasedAI")
    venv = ez.microrts.MicroRTSVectorEnv(BOARD, 3, opponents=["randomBiasedAI", "passiveAI", "randomAI"])
    batch, _ = venv.reset(seed=5)
    observation, _ = env.reset(seed=5)
    for _ in range(80):
        assert_same(observation, unbatch_observation(venv.single_observation_space, batch, 0))
        batch, observation = venv.step({})[0], env.step(WAIT)[0]
    env.close()
    venv.close()


def test_the_first_reset_without_a_seed_takes_that_of_the_environment() -> None:
    seeded, other = make(opponent="randomBiasedAI", seed=5), make(opponent="randomBiasedAI")
    observation, expected = seeded.reset()[0], other.reset(seed=5)[0]
    for _ in range(80):
        assert_same(observation, expected)
        observation, expected = seeded.step(WAIT)[0], other.step(WAIT)[0]
    seeded.close()
    other.close()


def test_a_lost_game_shows_its_last_state_until_the_reset() -> None:
    env = make(render_mode="rgb_array")
    first, _ = env.reset(seed=0)
    start = env.render()
    for _ in range(600):
        observation, reward, terminated, truncated, info = env.step(WAIT)
        if terminated or truncated:
            break
    assert terminated and not truncated and reward == -10 and info["outcome"] == "loss"
    assert len(observation["entities"]["Own"]) == 0 and len(observation["actions"]["order"]["actors"]) == 0
    frame = env.render()
    assert frame is not None and start is not None and frame.shape == (192, 192, 3)
    is_blue = (frame == (70, 130, 255)).all(2)
    assert not is_blue.any() and not np.array_equal(frame, start)
    with raises(gymnasium.error.ResetNeeded, "MicroRTSEnv", "reset()"):
        env.step(WAIT)
    again, _ = env.reset(seed=0)
    assert_same(first, again)
    env.close()
    with pytest.raises(gymnasium.error.ClosedEnvironmentError):
        env.step(WAIT)


def test_a_bot_that_raises_ends_the_game_and_is_told() -> None:
    env = make()
    env.reset(seed=0)
    env.engine.columns.bots.array[0] = None  # Java raises where it is called
    with warns(UserWarning, "workerRushAI", "raised"):
        _, _, terminated, truncated, info = env.step(WAIT)
    assert truncated and not terminated and info["outcome"] == "draw" and "workerRushAI" in info["bot_error"]
    env.reset()
    assert "bot_error" not in env.step(WAIT)[4]
    env.close()


def test_wrong_orders_are_told_and_leave_the_game_as_it_is() -> None:
    env = make()
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(WAIT)
    observation, _ = env.reset(seed=0)
    count = len(observation["actions"]["order"]["actors"])
    rows = np.zeros((count, 7), np.int64)
    rows[0] = [5, 0, 0, 0, 0, 0, 24]  # attack itself
    with raises(ez.ActionError, "action 'order'"):
        env.step({"order": rows})
    assert env.step({"order": np.zeros((count, 7), np.int64)})[0]["globals"][0] == np.float32(1 / 2000)
    env.close()


def test_bad_options_are_told() -> None:
    with raises(ValueError, "side", 0, 1, "'both'"):
        make(side="both")
    with raises(ValueError, "side", 0, 1, 1.0):
        make(side=1.0)
    with raises(TypeError, "'opponents'", "'opponent'"):
        make(opponents="coacAI")
    with raises(TypeError, "'selfplay'"):
        make(selfplay=0)
    with raises(ValueError, "bot", "'coacAi'", "'coacAI'"):
        make(opponent="coacAi")
    with raises(ValueError, "render_mode", "'rgb_array'", "'human'", "'ansi'"):
        ez.microrts.MicroRTSEnv(render_mode="ansi")
    plain = make()
    with raises(ValueError, "render_mode"):
        plain.render()
    plain.close()


# -- windows ------------------------------------------------------------------------------------------------


@pytest.fixture
def pygame(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """pygame without a screen."""
    import pygame

    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    yield pygame
    pygame.display.quit()


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that windows would have slept; the clock stands still."""
    slept: list[float] = []
    monkeypatch.setattr("entitize.envs.window.sleep", slept.append)
    monkeypatch.setattr("entitize.envs.window.monotonic", lambda: 100.0)
    return slept


def shown(pygame: Any) -> np.ndarray:
    """What the window shows (height, width, 3)."""
    return pygame.surfarray.array3d(pygame.display.get_surface()).swapaxes(0, 1)


def enlarged(frame: np.ndarray) -> np.ndarray:
    return frame.repeat(4, 0).repeat(4, 1)


def test_a_window_shows_every_state(pygame: Any, naps: list[float]) -> None:
    env, painted = make(render_mode="human", max_steps=12), make(render_mode="rgb_array", max_steps=12)
    for one in (env, painted):
        one.reset(seed=1)
    frames = [shown(pygame)]
    assert env.render() is None and np.array_equal(frames[0], enlarged(painted.render()))
    for _ in range(12):
        env.step(WAIT)
        painted.step(WAIT)
        frames.append(shown(pygame))
        assert np.array_equal(frames[-1], enlarged(painted.render()))  # the last one too
    assert not np.array_equal(frames[0], frames[-1])
    assert naps[0] == 0 and naps[1:] == pytest.approx([1 / 15] * 12)
    env.close()
    assert not pygame.display.get_init()
    painted.close()


def test_a_vector_environments_window_shows_the_first_lane(pygame: Any, naps: list[float]) -> None:
    maps = [BOARD, "FourBasesWorkers8x8"]
    options: dict[str, Any] = {"opponents": "passiveAI", "maps": maps, "max_steps": 3}
    with (
        ez.make_vec(f"MicroRTS/{BOARD}", 2, render_mode="human", **options) as env,
        ez.make_vec(f"MicroRTS/{BOARD}", 2, render_mode="rgb_array", **options) as painted,
    ):
        for one in (env, painted):
            one.reset(seed=1)
        for _ in range(5):
            env.step({})
            painted.step({})
            frames = painted.render()
            assert frames is not None and np.array_equal(shown(pygame), enlarged(frames[0]))
            assert env.render() is None
    assert not pygame.display.get_init()


def test_a_closed_window_stays_closed_and_the_games_go_on(pygame: Any, naps: list[float]) -> None:
    env = make(render_mode="human")
    env.reset(seed=1)
    pygame.event.post(pygame.event.Event(pygame.QUIT))
    env.step(WAIT)
    assert not pygame.display.get_init()
    count = len(naps)
    assert env.step(WAIT)[0]["globals"][0] == np.float32(2 / 2000)
    env.reset()
    assert len(naps) == count and not pygame.display.get_init()
    env.close()


def test_an_environment_that_closes_leaves_the_others_theirs(pygame: Any, naps: list[float]) -> None:
    one, other = make(render_mode="human"), make(render_mode="human", map="basesWorkers16x16")
    one.reset(seed=1)
    other.reset(seed=1)
    assert shown(pygame).shape == (768, 768, 3)
    one.close()
    other.step(WAIT)
    assert shown(pygame).shape == (768, 768, 3)
    other.close()


def test_without_pygame_or_a_display_a_window_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "no such driver")
    with raises(RuntimeError, "display", "render_mode='rgb_array'"):
        make(render_mode="human")
    monkeypatch.setitem(sys.modules, "pygame", None)
    with raises(gymnasium.error.DependencyNotInstalled, "pip install pygame-ce"):
        ez.microrts.MicroRTSVectorEnv(render_mode="human")
