"""Episodes, actions, options, saved states and errors of Atari's environments, with the real emulator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import entitize as ez
import gymnasium
import numpy as np
import pytest

pytest.importorskip("ale_py")
import ale_py

from facts import raises

gymnasium.register_envs(ale_py)


def history(venv: Any, seed: Any, steps: int = 40) -> list[Any]:
    """Return all that a vector environment gives when random actions are played."""
    batch, info = venv.reset(seed=seed)
    venv.action_space.seed(7)
    parts: list[Any] = []
    for _ in range(steps):
        parts.append((contents(batch), info["lives"], info["frame_number"]))
        batch, *rest, info = venv.step(venv.action_space.sample(mask=batch))
        parts.append(tuple(rest))
    return parts


def contents(batch: Any) -> Any:
    return {name: (rows.values, rows.offsets) for name, rows in batch.entities.items()}, batch.globals


@pytest.mark.parametrize("game", ez.atari.GAMES)
def test_each_game_plays(game: str) -> None:
    with ez.make_vec(f"Atari/{game}", 2) as venv:
        batch, _ = venv.reset(seed=1)
        for _ in range(10):
            assert batch in venv.observation_space
            batch, *_ = venv.step(venv.action_space.sample(mask=batch))


@pytest.mark.parametrize(
    ("game", "options"),
    [
        ("Pong", {}),
        ("Breakout", {"frameskip": (2, 5), "full_action_space": True, "max_num_frames_per_episode": 300}),
        ("Freeway", {"mode": 1, "difficulty": 1, "repeat_action_probability": 0.5}),
        ("Skiing", {"full_action_space": True}),  # it has nine
    ],
)
def test_the_game_is_that_of_gymnasium_with_the_same_seed(game: str, options: dict[str, Any]) -> None:
    """Rewards, ends, lives and the memory are those of "ALE/<game>-v5"."""
    reference = gymnasium.make(f"ALE/{game}-v5", obs_type="ram", **options)
    reference.action_space.seed(1)
    env = ez.make(f"Atari/{game}", **options)
    assert env.action_space["act"].choices == tuple(reference.unwrapped.get_action_meanings())
    _, info = reference.reset(seed=4)
    env.reset(seed=4)
    ends = 0
    for _ in range(200):
        action = reference.action_space.sample()
        ram, *expected, info = reference.step(action)
        _, *outcome, ours = env.step({"act": [action]})
        assert outcome == expected
        assert {name: ours[name] for name in info} == info
        assert (env.unwrapped._venv.ram[0] == ram).all()
        if expected[1] or expected[2]:
            ends += 1
            reference.reset()
            env.reset()
    assert ends or "max_num_frames_per_episode" not in options
    env.close()
    reference.close()


def test_the_same_seed_plays_the_same_episodes() -> None:
    with ez.make_vec("Atari/Breakout", 2, noop_max=30) as venv:
        first = history(venv, 11)
        np.testing.assert_equal(history(venv, 11), first)
        with pytest.raises(AssertionError):
            np.testing.assert_equal(history(venv, 12), first)


@pytest.mark.full
def test_lanes_and_workers_play_what_they_play_alone() -> None:
    with ez.make_vec("Atari/Breakout", 2, noop_max=9) as venv:
        both = history(venv, 5)
    with ez.make_vec("Atari/Breakout", 2, num_workers=2, noop_max=9) as venv:
        np.testing.assert_equal(history(venv, 5), both)


def test_time_limits_truncate_and_show_the_last_observation() -> None:
    with ez.make_vec("Atari/Freeway", 2, max_num_frames_per_episode=40) as venv:
        venv.reset(seed=1)
        steps = [venv.step({}) for _ in range(20)]
    truncated = np.array([step[3] for step in steps])
    assert not np.array([step[2] for step in steps]).any()
    assert np.flatnonzero(truncated[:, 0]).tolist() == [9, 19]  # 4 frames each
    info = steps[9][4]
    assert info["_final_obs"].all() and (info["episode_frame_number"] == 0).all()
    last, first = (batch.entities["Car"][0] for batch in (info["final_obs"], steps[9][0]))
    assert last.shape != first.shape or (last != first).any()


def test_without_a_time_limit_the_same_game_is_played() -> None:
    probability = np.float32(0.25)
    limited = ez.make_vec("Atari/Pong", 2)
    unlimited = ez.make_vec(
        "Atari/Pong", 2, max_num_frames_per_episode=None, repeat_action_probability=probability
    )
    rng = np.random.default_rng(0)
    with limited, unlimited:
        seen = [venv.reset(seed=3)[0] for venv in (limited, unlimited)]
        for _ in range(30):
            np.testing.assert_equal(contents(seen[0]), contents(seen[1]))
            actions = ez.actions.sample_actions(limited.single_action_space, seen[0], rng)
            seen = [venv.step(actions)[0] for venv in (limited, unlimited)]


def test_nothing_moves_at_the_first_step_of_an_episode() -> None:
    """The pace is the way since the step before, which was of another episode."""
    with ez.make_vec("Atari/Boxing", 2, max_num_frames_per_episode=60) as venv:
        batch, _ = venv.reset(seed=3)
        venv.action_space.seed(3)
        moved, first = 0.0, True
        for _ in range(60):
            for name, features in venv.single_observation_space.entities.items():
                columns = [column for column, feature in enumerate(features) if "velocity" in feature]
                paces = np.abs(batch.entities[name].values[:, columns])
                assert not first or not paces.any()
                moved += paces.sum()
            batch, _, terminated, truncated, _ = venv.step(venv.action_space.sample(mask=batch))
            first = bool((terminated | truncated).all())
        assert moved


def test_a_lost_life_can_end_the_episode() -> None:
    """The next episode goes on with the game, until there are no lives left."""
    fire = ez.make_vec("Atari/Breakout").single_action_space["act"].choices.index("FIRE")
    with ez.make_vec("Atari/Breakout", terminal_on_life_loss=True, frameskip=16) as venv:
        batch, _ = venv.reset(seed=3)
        lives, frames = [], []
        for _ in range(200):
            action = venv.action_space.sample(mask=batch)
            action["act"].values[:] = fire
            batch, _, terminated, _, info = venv.step(action)
            if terminated[0]:
                lives.append(int(info["lives"][0]))
                frames.append(int(info["episode_frame_number"][0]))
    assert lives[:6] == [4, 3, 2, 1, 5, 4]
    assert 0 < frames[0] < frames[1] < frames[2] < frames[3] and frames[4] == 0


def test_a_single_environment_goes_on_with_the_next_life() -> None:
    env = ez.make("Atari/Breakout", terminal_on_life_loss=True, frameskip=16)
    env.reset(seed=3)
    fire = env.action_space["act"].choices.index("FIRE")
    while not env.step({"act": [fire]})[2]:
        pass
    _, info = env.reset()
    assert info["lives"] == 4
    _, info = env.reset(seed=3)
    assert info["lives"] == 5 and info["episode_frame_number"] == 0
    env.close()


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("noop_max", [0, 30])
def test_a_saved_state_goes_on_alike(noop_max: int, seed: int) -> None:
    options: dict[str, Any] = {"frameskip": (4, 7), "max_num_frames_per_episode": 200, "noop_max": noop_max}
    with ez.make_vec("Atari/Pong", 2, **options) as venv, ez.make_vec("Atari/Pong", 2, **options) as other:
        batch, _ = venv.reset(seed=seed)
        venv.action_space.seed(seed)
        for _ in range(30):
            batch, *_ = venv.step(venv.action_space.sample(mask=batch))
        state = venv.get_state()
        for again in (venv, other):
            actions = []
            restored = again.set_state(state)
            np.testing.assert_equal(contents(restored), contents(batch))
            again.action_space.seed(3)
            for _ in range(60):
                restored, *rest = again.step(again.action_space.sample(mask=restored))
                actions.append((contents(restored), *rest[:3]))
            if again is venv:
                first = actions
        np.testing.assert_equal(actions, first)


def test_a_restored_state_with_fewer_lives_ends_no_episode() -> None:
    options: dict[str, Any] = {"terminal_on_life_loss": True, "frameskip": 16}
    with ez.make_vec("Atari/Breakout", **options) as venv, ez.make_vec("Atari/Breakout", **options) as other:
        batch, _ = venv.reset(seed=3)
        fire = venv.single_action_space["act"].choices.index("FIRE")
        action = venv.action_space.sample(mask=batch)
        action["act"].values[:] = fire
        ended = False
        while not ended:
            *_, terminated, _, info = venv.step(action)
            ended = bool(terminated[0])
        assert info["lives"][0] == 4
        state = venv.get_state()
        other.reset(seed=0)  # five lives
        other.set_state(state)
        for again in (venv, other):
            *_, terminated, _, info = again.step(action)
            assert not terminated[0] and info["lives"][0] == 4


def test_a_damaged_state_is_refused() -> None:
    with ez.make_vec("Atari/Pong", 2) as venv, ez.make_vec("Atari/Breakout", 2) as other:
        venv.reset(seed=1)
        state = venv.get_state()
        with raises(ValueError, "before"):
            venv.set_state({**state, "before": state["before"][:1]})
        with raises(ValueError, "emulators"):
            venv.set_state({**state, "emulators": state["emulators"][:-1]})
        with raises(ValueError, "emulators"):
            venv.set_state({**state, "emulators": np.zeros_like(state["emulators"])})
        venv.set_state(state)
        other.reset(seed=1)
        with raises(ValueError, "before"):
            other.set_state(state)


def test_frames_are_the_screen() -> None:
    with ez.make_vec("Atari/Pong", 2, render_mode="rgb_array") as venv:
        venv.reset(seed=1)
        frames = venv.render()
        assert [frame.shape for frame in frames] == [(210, 160, 3)] * 2 and frames[0].dtype == np.uint8
        assert (frames[0] == venv.consoles[0].ale.getScreenRGB()).all()
        assert venv.camera(0) == pytest.approx((0, 2.1, 1.6, -2.1))


def test_frames_of_a_restored_state_are_a_frame_later() -> None:
    with ez.make_vec("Atari/Pong", frameskip=1, repeat_action_probability=0, render_mode="rgb_array") as venv:
        venv.reset(seed=1)
        for _ in range(90):
            venv.step({})
        state = venv.get_state()
        venv.step({})
        next_frame = venv.render()[0]
        for _ in range(30):
            batch, *_ = venv.step({})
        assert (venv.render()[0] != next_frame).any()
        venv.set_state(state)
        assert (venv.render()[0] == next_frame).all()
        for _ in range(31):
            again, *_ = venv.step({})
        np.testing.assert_equal(contents(again), contents(batch))


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({"frameskip": 0}, ("frameskip", 0)),
        ({"frameskip": (4, 2)}, ("frameskip", 4, 2)),
        ({"frameskip": (4,)}, ("frameskip", 4)),
        ({"frame_skip": 2}, ("frame_skip", "frameskip")),
        ({"num_worker": 2}, ("'num_worker'", "'num_workers'")),
        ({"repeat_action_probability": 2}, ("repeat_action_probability", 2)),
        ({"mode": 7}, ("mode", 7, 0, 1)),
        ({"difficulty": 9}, ("difficulty", 9, 3)),
        ({"full_action_space": 1}, ("full_action_space", 1)),
        ({"max_num_frames_per_episode": 0}, ("max_num_frames_per_episode", 0)),
        ({"noop_max": -1}, ("noop_max", -1)),
        ({"render_mode": "ascii"}, ("render_mode", "ascii")),
    ],
)
def test_an_option_out_of_range_is_named(options: dict[str, Any], facts: tuple[Any, ...]) -> None:
    with raises((ValueError, TypeError), *facts):
        ez.make_vec("Atari/Pong", 1, **options)


def test_numpys_whole_numbers_are_taken() -> None:
    two = np.int64(2)
    with ez.make_vec("Atari/Pong", 1, frameskip=(two, np.int32(3)), noop_max=two, seed=two) as venv:
        assert venv.options == ez.atari.AtariOptions(frameskip=(2, 3), noop_max=2)  # type: ignore[attr-defined]
        venv.reset()


def test_a_game_without_a_table_lists_those_with_one() -> None:
    with raises(ValueError, "Pnog", "'Pong'", *ez.atari.GAMES):
        ez.make_vec("Atari/Pnog")


def test_the_documentation_lists_each_game_with_its_entities() -> None:
    page = (Path(__file__).parents[3] / "docs/atari.md").read_text()
    for name in ez.atari.GAMES:
        row = next(line for line in page.splitlines() if line.startswith(f"| `{name}` |"))
        game = ez.atari.find_game(name)
        assert all(kind.name in row for kind in game.types) and all(key in row for key in game.status)
