"""Episodes, actions, options and errors of ViZDoom's environments, with the real engine."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import entitize as ez
import gymnasium
import numpy as np
import pytest

pytest.importorskip("vizdoom")
import vizdoom

from facts import raises

SCENARIOS = [path.stem for path in sorted(Path(vizdoom.scenarios_path).glob("*.cfg"))]
#: Their data is not free: the package does not contain it.
WITHOUT_DATA = ("doom", "doom2")


def children() -> set[int]:
    """Return the processes that this one has started."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid() and fields[0] != "Z":
            found.add(int(entry.parent.name))
    return found


def history(venv: Any, seed: Any, steps: int = 60) -> list[Any]:
    """Return all that a vector environment gives when random actions are played."""
    batch, info = venv.reset(seed=seed)
    venv.action_space.seed(7)
    parts = []
    for _ in range(steps):
        values = {name: (rows.values, rows.offsets) for name, rows in batch.entities.items()}
        parts.append((values, batch.globals, info["episode_seed"]))
        batch, *rest, info = venv.step(venv.action_space.sample(mask=batch))
        parts.append(tuple(rest))
    return parts


@pytest.mark.parametrize("scenario", [name for name in SCENARIOS if name not in WITHOUT_DATA])
def test_each_scenario_of_the_package_plays(scenario: str) -> None:
    with ez.make_vec(f"ViZDoom/{scenario}") as venv:
        batch, _ = venv.reset(seed=1)
        for _ in range(4):
            assert batch in venv.observation_space
            batch, *_ = venv.step(venv.action_space.sample(mask=batch))


@pytest.mark.parametrize("scenario", WITHOUT_DATA)
def test_a_scenario_without_its_data_names_the_option(scenario: str) -> None:
    with ez.make_vec(f"ViZDoom/{scenario}") as venv, raises(ValueError, f"{scenario}.wad", "iwad"):
        venv.reset()
    with raises(ValueError, "iwad", "nowhere.wad"):
        ez.make_vec(f"ViZDoom/{scenario}", iwad="nowhere.wad")


def test_a_level_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with ez.make_vec("ViZDoom/basic", map="map99") as venv, raises(ValueError, "map", "'map99'", "map02"):
        venv.reset()
    with ez.make_vec("ViZDoom/basic", map="MAP02") as venv:  # of the game's data, not of the scenario
        venv.reset()
    first_game = str(Path(vizdoom.__file__).parent / "freedoom1.wad")
    with ez.make_vec("ViZDoom/doom", iwad=first_game, map="map01") as venv, raises(ValueError, "e1m1"):
        venv.reset()


def test_level_and_skill_reach_the_engine() -> None:
    with ez.make_vec("ViZDoom/basic", map="map02", skill=5) as venv:
        venv.reset(seed=1)
        game = venv.engines[0].game  # type: ignore[attr-defined]
        assert (game.get_doom_map().lower(), game.get_doom_skill()) == ("map02", 5)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("map", 3),
        ("resolution", 160),
        ("game_args", None),
        ("iwad", 3),
        ("variables", [3]),
        ("variables", None),
    ],
)
def test_an_option_of_another_type_is_named(option: str, value: Any) -> None:
    with raises(TypeError, option, repr(value)):
        ez.make_vec("ViZDoom/basic", **{option: value})


def test_a_scenario_that_was_edited_is_read_again(tmp_path: Path) -> None:
    path, text = tmp_path / "mine.cfg", (Path(vizdoom.scenarios_path) / "basic.cfg").read_text()
    path.write_text(text)
    before = ez.make_vec(f"ViZDoom/{path}").single_action_space
    path.write_text(text.replace("MOVE_LEFT", "MOVE_FORWARD"))
    assert ez.make_vec(f"ViZDoom/{path}").single_action_space != before


@pytest.mark.parametrize("end", ["", "del venv"])
def test_engines_that_are_not_closed_end_silently(end: str) -> None:
    program = f"import entitize as ez\nvenv = ez.make_vec('ViZDoom/basic')\nvenv.reset(seed=1)\n{end}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv")
def test_engines_end_with_a_process_that_is_killed() -> None:
    program = (
        "import os, signal, entitize as ez\n"
        "venv = ez.make_vec('ViZDoom/basic', 2, num_threads=2)\n"
        "venv.reset(seed=1)\n"
        "venv.step(venv.action_space.sample())\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    # The engines hold the pipe open: this returns once they have ended.
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, timeout=60)
    assert done.returncode == -signal.SIGKILL


def test_the_same_seed_plays_the_same_episodes() -> None:
    with ez.make_vec("ViZDoom/basic", 2) as venv, ez.make_vec("ViZDoom/basic", 2) as another:
        first = history(venv, 11)
        for other in (history(venv, 11), history(another, 11)):
            np.testing.assert_equal(other, first)
        others = history(another, 12)
        with pytest.raises(AssertionError):  # also without the seed, which is last
            np.testing.assert_equal([part[:-1] for part in others], [part[:-1] for part in first])


def test_threads_and_workers_change_nothing() -> None:
    with ez.make_vec("ViZDoom/basic", 3, num_threads=1) as venv:
        first = history(venv, 5, 20)
    with ez.make_vec("ViZDoom/basic", 3, num_workers=2) as venv:
        np.testing.assert_equal(history(venv, 5, 20), first)


def test_lanes_play_what_they_play_alone() -> None:
    with ez.make_vec("ViZDoom/basic", 2) as venv:
        batch, _ = venv.reset(seed=[3, 9])
        pair = [batch.entities["Monster"][lane] for lane in (0, 1)]
    for lane, seed in enumerate((3, 9)):
        env = gymnasium.make("entitize/ViZDoom-v0", scenario="basic")
        observation, _ = env.reset(seed=seed)
        assert (observation["entities"]["Monster"] == pair[lane]).all()
        env.close()


def test_episodes_are_those_of_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another engine with the episode's seed and the same buttons gives the same rewards and end."""
    monkeypatch.chdir(tmp_path)  # where the other engine writes its files
    with ez.make_vec("ViZDoom/basic", 1, frame_skip=3) as venv:
        game = vizdoom.DoomGame()
        game.load_config(str(Path(vizdoom.scenarios_path) / "basic.cfg"))
        game.set_window_visible(False)
        game.init()
        batch, info = venv.reset(seed=2)
        venv.action_space.seed(2)
        ends = 0
        game.set_seed(int(info["episode_seed"][0]))
        game.new_episode()
        for _ in range(150):
            action = venv.action_space.sample(mask=batch)
            strafe, attack = action["buttons"].values[0]
            batch, rewards, terminated, truncated, info = venv.step(action)
            reward = game.make_action([strafe == 1, strafe == 2, attack == 1], 3)
            assert rewards[0] == reward
            assert (terminated[0] or truncated[0]) == game.is_episode_finished()
            assert truncated[0] == (game.is_episode_finished() and game.is_episode_timeout_reached())
            if game.is_episode_finished():
                ends += 1
                game.set_seed(int(info["episode_seed"][0]))
                game.new_episode()
        assert ends
        game.close()


def test_time_limits_truncate() -> None:
    with ez.make_vec("ViZDoom/basic", 2, timeout=40) as venv:
        venv.reset(seed=1)
        steps = [venv.step({}) for _ in range(20)]
    truncated = np.array([step[3] for step in steps])
    assert not np.array([step[2] for step in steps]).any()
    assert np.flatnonzero(truncated[:, 0]).tolist() == [9, 19]  # 4 tics each


def test_a_kill_terminates() -> None:
    """In `predict_position` nothing but a hit ends an episode; in `basic` the only monster's death does."""
    with ez.make_vec("ViZDoom/basic", 4) as venv:
        batch, _ = venv.reset(seed=1)
        venv.action_space.seed(1)
        for _ in range(200):
            batch, rewards, terminated, truncated, _ = venv.step(venv.action_space.sample(mask=batch))
            assert not (terminated & truncated).any()
            if terminated.any():
                break
        assert (rewards[terminated] > 90).all() and terminated.any()


def test_the_single_environment_repeats_the_last_observation_at_the_end() -> None:
    env = ez.make("ViZDoom/basic", timeout=8)
    assert env.unwrapped.spec is not None
    env.reset(seed=4)
    before, _, terminated, truncated, _ = env.step({})
    assert not terminated and not truncated
    last, _, _, truncated, _ = env.step({})
    assert truncated and (last["globals"] == before["globals"]).all()
    with raises(gymnasium.error.ResetNeeded, "step"):
        env.unwrapped.step({})
    env.reset()
    env.close()


# -- actions -------------------------------------------------------------------------------------------------


def test_buttons_that_exclude_each_other_are_one_choice() -> None:
    space = ez.make_vec("ViZDoom/deathmatch").single_action_space
    components = space["buttons"].components
    assert components["walk"] == ("none", "move_backward", "move_forward")
    assert components["attack"] == ("none", "attack")
    assert len(components["weapon"]) == 9
    assert space["deltas"].size == 3
    assert "deltas" not in ez.make_vec("ViZDoom/deathmatch", deltas=False).single_action_space
    single = ez.make_vec("ViZDoom/deadly_corridor", actions="single").single_action_space["buttons"]
    assert single.choices[:2] == ("none", "move_left") and len(single.choices) == 8


def test_actions_press_the_buttons() -> None:
    with ez.make_vec("ViZDoom/deathmatch") as venv:
        batch, _ = venv.reset(seed=1)
        names = [button.name for button in venv.engines[0].game.get_available_buttons()]
        for _ in range(5):
            action = venv.action_space.sample(mask=batch)
            batch, *_ = venv.step(action)
            last = dict(zip(names, venv.engines[0].game.get_last_action(), strict=True))
            space = venv.single_action_space
            labels = space["buttons"].labels(action["buttons"].values[0])
            pressed = {label.upper() for label in labels.values() if label != "none"}
            deltas = [name for name in names if name.endswith("DELTA")]
            assert {name for name, value in last.items() if value and name not in deltas} == pressed
            assert [last[name] for name in deltas] == pytest.approx(action["deltas"].values[0], abs=1e-4)


def test_turning_by_deltas_turns() -> None:
    with ez.make_vec("ViZDoom/deathmatch", frame_skip=1) as venv:
        batch, _ = venv.reset(seed=1)
        action = venv.action_space.sample(mask=batch)
        action["buttons"].values[:] = 0
        action["deltas"].values[:] = [[0, 5, 0]]
        for _ in range(10):  # the engine holds the player still during the first tics
            venv.step(action)
        before = venv.engines[0].game.get_game_variable(vizdoom.GameVariable.ANGLE)
        venv.step(action)
        after = venv.engines[0].game.get_game_variable(vizdoom.GameVariable.ANGLE)
        assert (before - after) % 360 == pytest.approx(5, abs=0.5)


# -- engines -------------------------------------------------------------------------------------------------


def test_close_ends_the_engines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    before = children()
    venv = ez.make_vec("ViZDoom/basic", 3)
    venv.reset(seed=1)
    assert len(children() - before) == 3
    venv.close()
    assert not children() - before
    assert not list(tmp_path.iterdir())  # the engine writes into the folder where it works


def test_an_engine_that_dies_names_its_lane() -> None:
    with ez.make_vec("ViZDoom/basic", 2) as venv:
        before = children()
        venv.reset(seed=1)
        engines = sorted(children() - before)
        os.kill(engines[0], signal.SIGKILL)
        with raises(ez.WorkerError, "env ", "basic", "step") as caught:
            for _ in range(3):
                venv.step({})
        assert caught.value.env_indices in ((0,), (1,))
        assert not children() & set(engines)
        with raises(gymnasium.error.ClosedEnvironmentError, "closed"):
            venv.step({})


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_does_not_end_the_engines(number: signal.Signals) -> None:
    """Both are sent to all processes of a group; a training that they stop finishes its update."""
    with ez.make_vec("ViZDoom/basic", 2) as venv:
        before = children()
        venv.reset(seed=1)
        for engine in children() - before:
            os.kill(engine, number)
        for _ in range(20):
            venv.step({})


def test_frames_are_the_screen() -> None:
    with ez.make_vec("ViZDoom/basic", 2, render_mode="rgb_array") as venv:
        venv.reset(seed=1)
        frames = venv.render()
        assert [frame.shape for frame in frames] == [(240, 320, 3)] * 2
        assert (frames[0] != frames[1]).any() and frames[0].dtype == np.uint8
        screen = venv.engines[0].game.get_state().screen_buffer
        assert (frames[0] == screen).all()


# -- errors --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({"frame_skip": 0}, ("frame_skip", 0)),
        ({"frame_skp": 2}, ("frame_skp", "frame_skip")),
        ({"num_thread": 2}, ("num_thread", "num_threads")),
        ({"seed": -1}, ("seed", -1)),
        ({"skill": 6}, ("skill", 6)),
        ({"actions": "all"}, ("actions", "all", "groups")),
        ({"walls": 1}, ("walls", 1)),
        ({"wall_distance": -1}, ("wall_distance", -1)),
        ({"variables": ["HEALHT"]}, ("variables", "HEALHT", "HEALTH")),
        ({"variables": "HEALTH"}, ("variables", "HEALTH")),
        ({"resolution": "100x100"}, ("resolution", "100x100", "160x120")),
        ({"render_mode": "ascii"}, ("render_mode", "ascii")),
        ({"num_threads": 0}, ("num_threads", 0)),
    ],
)
def test_an_option_out_of_range_is_named(options: dict[str, Any], facts: tuple[Any, ...]) -> None:
    with raises((ValueError, TypeError), *facts):
        ez.make_vec("ViZDoom/basic", 1, **options)


def test_an_unknown_scenario_suggests_names(tmp_path: Path) -> None:
    with raises(ValueError, "bassic", "'basic'"):
        ez.make_vec("ViZDoom/bassic")
    with raises(ValueError, "none.cfg"):
        ez.make_vec("ViZDoom/none.cfg")
    empty = tmp_path / "empty.cfg"
    empty.write_text("doom_scenario_path = nowhere.wad\n")
    with raises(ValueError, "empty.cfg"):
        ez.make_vec(f"ViZDoom/{empty}")


def test_a_configuration_file_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.cfg"
    shutil.copy(Path(vizdoom.scenarios_path) / "basic.wad", tmp_path / "mine.wad")
    path.write_text("doom_scenario_path = mine.wad\navailable_buttons = { ATTACK }\nepisode_timeout = 20\n")
    with ez.make_vec(f"ViZDoom/{path}") as venv:
        batch, _ = venv.reset(seed=1)
        assert venv.single_action_space["buttons"].choices == ("none", "attack")
        venv.step(venv.action_space.sample(mask=batch))
