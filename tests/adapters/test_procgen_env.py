"""Procgen's Gymnasium face."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import entitize
import entitize as ez
import gymnasium
import numpy as np
import pytest
from entitize.ragged import RaggedArray
from gymnasium.utils.env_checker import check_env, data_equivalence

from facts import raises

NOOP, RIGHT = ez.procgen.ACTIONS.index("noop"), ez.procgen.ACTIONS.index("right")


def arrays_of(observation, path=""):
    """{path: array} of an observation."""
    if isinstance(observation, np.ndarray):
        return {path: observation}
    return {p: a for name, part in observation.items() for p, a in arrays_of(part, f"{path}/{name}").items()}


def assert_same_observation(one, other):
    one, other = arrays_of(one), arrays_of(other)
    assert one.keys() == other.keys()
    for path, array in one.items():
        np.testing.assert_array_equal(array, other[path])


def assert_different_observation(one, other):
    one, other = arrays_of(one), arrays_of(other)
    assert any(not np.array_equal(array, other[path]) for path, array in one.items())


def act(choice):
    return {"act": np.array([choice])}


def test_every_game_is_registered_and_passes_gymnasiums_checks(game):
    env = gymnasium.make(f"entitize/Procgen-{game}-v0")
    check_env(env.unwrapped, skip_render_check=True)
    env.reset(seed=1)
    env.action_space.seed(1)
    env.step(env.action_space.sample())
    env.close()


def test_gymnasium_makes_the_native_vector_environment():
    venv = gymnasium.make_vec("entitize/Procgen-coinrun-v0", num_envs=3, features="reference")
    assert isinstance(venv, ez.procgen.ProcgenVectorEnv)
    assert venv.num_envs == 3 and venv.single_observation_space.entities["Player"][-1] == "air_control"
    venv.close()


def test_registering_does_not_load_numba_nor_the_engine():
    code = (
        "import sys, gymnasium, entitize; assert 'entitize/Procgen-maze-v0' in gymnasium.registry;"
        "assert not {'numba', 'procgen', 'torch', 'cffi'} & set(sys.modules)"
    )
    folder = entitize.__path__[0].rsplit("/", 1)[0]
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": folder})


def test_observations_are_the_lanes_of_the_vector_environment():
    env, venv = ez.procgen.ProcgenEnv("bossfight"), ez.procgen.ProcgenVectorEnv("bossfight", 1)
    observation, info = env.reset(seed=4)
    batch, infos = venv.reset(seed=4)
    for _ in range(50):
        for name, rows in batch.entities.items():
            np.testing.assert_array_equal(observation["entities"][name], rows[0])
        np.testing.assert_array_equal(observation["globals"], batch.globals[0])
        assert info["level_seed"] == infos["level_seed"][0]
        observation, reward, terminated, truncated, info = env.step(act(RIGHT))
        batch, rewards, terminations, truncations, infos = venv.step(
            {"act": batch.actions["act"].actors.with_values(np.array([RIGHT]))}
        )
        assert (reward, terminated, truncated) == (rewards[0], terminations[0], truncations[0])
        if terminated:
            break
    env.close()
    venv.close()


def test_the_last_step_repeats_the_observation_before_it_and_reset_hands_out_the_next_level():
    env = ez.procgen.ProcgenEnv("maze", num_levels=0)
    observation, info = env.reset(seed=2)
    first_level = info["level_seed"]
    for step in range(1, 501):
        before = observation
        observation, reward, terminated, truncated, info = env.step(act(NOOP))
        assert not terminated and reward == 0
        assert truncated == (step == 500)
    assert_same_observation(observation, before)
    assert info == {"level_seed": first_level, "level_complete": False}
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(act(NOOP))
    next_level, info = env.reset()
    assert info["level_seed"] != first_level
    assert_different_observation(next_level, observation)

    # The next level is the one that the engine had started: a vector environment is in it already.
    venv = ez.procgen.ProcgenVectorEnv("maze", 1)
    venv.reset(seed=2)
    for _ in range(500):
        batch, *_, infos = venv.step({"act": RaggedArray.from_arrays([[NOOP]])})
    np.testing.assert_array_equal(batch.entities["Player"][0], next_level["entities"]["Player"])
    assert infos["level_seed"][0] == info["level_seed"]
    env.close()
    venv.close()


def test_a_level_that_follows_within_an_episode_has_its_own_seed():
    env = ez.procgen.ProcgenEnv("maze", use_sequential_levels=True)
    venv = ez.procgen.ProcgenVectorEnv("maze", 1, use_sequential_levels=True)
    completed = 0
    for seed in range(1, 9):
        env.reset(seed=seed)
        venv.reset(seed=seed)
        rng = np.random.default_rng(seed)
        for _ in range(100):
            choice = int(rng.choice([1, 3, 5, 7]))  # left, down, up, right
            observation, _, terminated, _, info = env.step(act(choice))
            batch, *_, infos = venv.step({"act": RaggedArray.from_arrays([[choice]])})
            assert not terminated
            assert info["level_seed"] == infos["level_seed"][0]
            np.testing.assert_array_equal(observation["entities"]["Player"], batch.entities["Player"][0])
            completed += info["level_complete"]
    assert completed
    env.close()
    venv.close()


def test_a_completed_level_ends_the_episode_with_its_own_seed():
    env = ez.procgen.ProcgenEnv("maze", num_levels=1, start_level=0)
    rng = np.random.default_rng(0)
    env.reset(seed=0)
    for _ in range(5):
        terminated = truncated = False
        while not (terminated or truncated):
            _, reward, terminated, truncated, info = env.step(act(rng.choice([1, 3, 5, 7])))
            assert info["level_seed"] == 0 and info["level_complete"] == (reward > 0) == terminated
        _, info = env.reset()
        assert not info["level_complete"]
    env.close()


def test_reset_in_the_middle_of_an_episode_starts_another_one():
    env = ez.procgen.ProcgenEnv("coinrun")
    first, info = env.reset(seed=3)
    env.step(act(RIGHT))
    second, other_info = env.reset()
    assert info["level_seed"] != other_info["level_seed"]
    again, same_info = env.reset(seed=3)
    assert same_info["level_seed"] == info["level_seed"]
    assert_same_observation(first, again)
    assert_different_observation(first, second)
    env.close()


def test_observations_are_fresh():
    env = ez.procgen.ProcgenEnv("coinrun")
    observation, _ = env.reset(seed=3)
    kept = {path: array.copy() for path, array in arrays_of(observation).items()}
    for array in arrays_of(observation).values():
        array[...] = 0
    again, _ = env.reset(seed=3)
    for path, array in arrays_of(again).items():
        np.testing.assert_array_equal(array, kept[path])
    env.close()


def test_no_action_does_nothing():
    env, other = ez.procgen.ProcgenEnv("starpilot"), ez.procgen.ProcgenEnv("starpilot")
    env.reset(seed=3)
    other.reset(seed=3)
    for nothing in ({}, {"act": np.zeros(0, np.int64)}):
        assert_same_observation(env.step(nothing)[0], other.step(act(NOOP))[0])
    env.close()
    other.close()


def test_frames_are_512_pixels_wide():
    env = ez.procgen.ProcgenEnv("caveflyer", render_mode="rgb_array")
    env.reset(seed=1)
    frame = env.render()
    assert frame.shape == (512, 512, 3) and frame.dtype == np.uint8 and frame.std() > 5
    env.step(act(RIGHT))
    assert not np.array_equal(env.render(), frame)
    env.close()


def test_the_window_shows_every_step(monkeypatch):
    import pygame

    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setattr("entitize.envs.window.sleep", lambda seconds: None)
    env = ez.procgen.ProcgenEnv("coinrun", render_mode="human")
    still = ez.procgen.ProcgenEnv("coinrun", render_mode="rgb_array")
    for one in (env, still):
        one.reset(seed=1)
    for _ in range(3):
        for one in (env, still):
            one.step(act(RIGHT))
        shown = pygame.surfarray.array3d(pygame.display.get_surface()).swapaxes(0, 1)
        np.testing.assert_array_equal(shown, still.render())
    assert env.render() is None
    pygame.event.post(pygame.event.Event(pygame.QUIT))
    env.step(act(RIGHT))  # the user has closed the window
    assert pygame.display.get_surface() is None
    env.step(act(RIGHT))
    env.close()
    still.close()


def test_without_a_display_the_window_says_so(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "no such driver")
    with raises(RuntimeError, "'human'", "display", "'rgb_array'"):
        ez.procgen.ProcgenEnv("coinrun", render_mode="human")


def test_a_wrong_render_mode_is_named():
    with raises(ValueError, "render_mode", "'rgb_array'", "'human'", "'ansi'"):
        ez.procgen.ProcgenEnv("coinrun", render_mode="ansi")
    env = ez.procgen.ProcgenEnv("coinrun")
    with raises(ValueError, "render_mode"):
        env.render()
    env.close()


def test_a_seed_of_the_constructor_is_that_of_the_first_reset():
    env, other = ez.procgen.ProcgenEnv("maze", seed=3), ez.procgen.ProcgenEnv("maze")
    observation, info = env.reset()
    expected, other_info = other.reset(seed=3)
    assert info == other_info
    assert_same_observation(observation, expected)
    env.close()
    other.close()


def played(env, steps):
    """What the env returns, over the ends of episodes."""
    results = []
    for move in np.random.default_rng(7).integers(15, size=steps):
        observation, *rest = env.step({"act": np.array([move])})
        results += [observation, rest]
        if rest[1] or rest[2]:
            results += env.reset()
    return results


@pytest.mark.parametrize("options", [{}, {"features": "pixels"}, {"render_mode": "rgb_array"}])
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_a_copy_goes_on_by_itself_from_the_same_state(options, copied):
    env = ez.procgen.ProcgenEnv("coinrun", **options)
    fresh = copied(env)
    assert data_equivalence(fresh.reset(seed=2), env.reset(seed=2))
    played(env, 30)
    twin = copied(env)
    expected = played(env, 150)
    assert data_equivalence(played(twin, 150), expected)
    for one in (env, fresh, twin):
        one.close()


def test_a_copy_of_a_window_draws_in_the_same_one(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    env = ez.procgen.ProcgenEnv("maze", render_mode="human")
    env.reset(seed=1)
    twin = copy.deepcopy(env)
    twin.step({"act": np.array([NOOP])})
    twin.close()
    env.close()
