from __future__ import annotations

import entitize as ez
import numpy as np
import pytest
from entitize import RaggedArray, make_vec
from entitize.cli import COLOURS, FRAME_HEIGHT, Camera, HasCamera, make_visible, record_video
from entitize.experiments import EnvConfig, with_lanes
from PIL import ImageColor

from drone_field import Field


def after_some_steps(game: str, **options: object) -> tuple[dict[str, float], Camera, dict[str, float]]:
    """The player's features, the camera, and numbers of the engine's state after the same ten steps."""
    with make_vec(f"Procgen/{game}", num_envs=1, render_mode="rgb_array", **options) as venv:
        assert isinstance(venv, HasCamera)
        batch, _ = venv.reset(seed=5)
        for step in range(10):
            batch = venv.step({"act": RaggedArray.from_arrays([[step % 9]], dtype=np.int64)})[0]
        names = venv.single_observation_space.entities["Player"]
        player = dict(zip(names, batch.entities["Player"][0][0], strict=True))
        states = venv.states  # type: ignore[attr-defined]
        engine = {name: float(states[name][0]) for name in ("unit", "view_dim", "x_off", "y_off")}
        return player, Camera(*venv.camera(0)), engine


@pytest.mark.parametrize(
    "game", [game for game in ez.procgen.GAMES if game != "plunder"]
)  # its player's y is no feature
def test_the_camera_shows_the_player_where_the_engine_draws_it(game: str) -> None:
    raw, camera, engine = after_some_steps(game, features="reference")
    size = engine["unit"] * engine["view_dim"]
    column = raw["x"] * engine["unit"] - engine["x_off"]
    row = (engine["view_dim"] - raw["y"]) * engine["unit"] + engine["y_off"]
    views = [(raw, camera), after_some_steps(game)[:2], after_some_steps(game, visible_only=True)[:2]]
    for player, view in views:
        seen = view.pixels(np.array([player["x"]]), np.array([player["y"]]), (1, 1))[0]
        assert seen == pytest.approx((column / size, row / size), abs=1e-4)


def test_a_recording_shows_every_step_of_the_episodes() -> None:
    venv = make_visible(EnvConfig("Procgen/bigfish", 7))
    with venv:
        assert venv.num_envs == 1
        actor = ez.evaluation.RandomActor(venv.single_action_space)
        frames, returns, is_cut = record_video(actor, venv, episodes=2, max_steps=10_000, seed=1)
        short, _, is_short = record_video(actor, venv, episodes=2, max_steps=7, seed=1)
    assert len(returns) == 2
    assert all(frame.shape[0] == FRAME_HEIGHT for frame in frames)
    assert len(short) == 7 < len(frames) and is_short and not is_cut
    assert all(map(np.array_equal, frames, short))


def test_an_episode_that_was_not_begun_has_no_return() -> None:
    with ez.make_vec("Count", num_envs=1) as venv:  # whose episodes have one step
        actor = ez.evaluation.RandomActor(venv.single_action_space)
        for steps in (1, 2, 3):
            frames, returns, is_cut = record_video(actor, venv, episodes=5, max_steps=steps, seed=0)
            assert len(returns) == len(frames) == steps and not is_cut


def test_a_lane_that_waits_for_its_game_to_end_has_begun_no_episode() -> None:
    with ez.make_vec("MultiSnake/lanes", num_envs=4, num_snakes=4, max_steps=15) as venv:
        actor = ez.evaluation.RandomActor(venv.single_action_space)
        for steps in range(1, 30):
            frames, returns, is_cut = record_video(actor, venv, episodes=2, max_steps=steps, seed=2)
            recording = ez.viewer.record_episodes(actor, venv, episodes=99, max_steps=len(frames), seed=2)
            assert returns == pytest.approx(recording.returns[0])
            last = recording.steps[-1][0]
            assert is_cut == (last.active and not last.ended)


def test_an_environment_without_frames_is_drawn_all_the_same() -> None:
    with make_visible(EnvConfig("MineSweeper", 3)) as venv:
        frames, returns, is_cut = record_video(
            ez.evaluation.RandomActor(venv.single_action_space), venv, episodes=1, max_steps=20, seed=1
        )
    assert len(returns) == 1 and not is_cut
    assert len({frame.tobytes() for frame in frames}) == len(frames)


@pytest.mark.parametrize("opponents", [{"lightRushAI": 0, "workerRushAI": 3}, ["workerRushAI"] * 3])
def test_a_lane_of_microrts_is_drawn_over_its_picture(opponents: object) -> None:
    kwargs = {"opponents": opponents, "selfplay": 2, "max_steps": 30}
    with make_visible(EnvConfig("MicroRTS/basesWorkers8x8", 5, kwargs)) as venv:
        assert isinstance(venv, ez.microrts.MicroRTSVectorEnv) and isinstance(venv, HasCamera)
        assert venv.num_envs == 1 and venv.games[0].bot == "workerRushAI"
        venv.reset(seed=0)
        camera = Camera(*venv.camera(0))
        for x, y in [(0, 0), (7, 0), (3, 6)]:
            centre = camera.pixels(np.array([x]), np.array([y]), (192, 192))[0]
            assert centre.tolist() == [24 * x + 12, 24 * y + 12]
        frames, returns, is_cut = record_video(
            ez.evaluation.RandomActor(venv.single_action_space), venv, 2, 100, seed=1
        )
    assert len(returns) == 2 and len(frames) == 60 and not is_cut
    base = frames[0][64 : 2 * 64, 2 * 64 : 3 * 64]  # at (2, 1): enlarged as it is painted, a ring in it
    assert (base[32, 32] == (225, 225, 225)).all() and (base[10, 10] == (70, 130, 255)).all()
    ring = np.array(ImageColor.getrgb(COLOURS[0]))
    assert (base[20:44, 20:44] == ring).all(2).any()


def test_in_self_play_the_lane_plays_the_default_bot() -> None:
    single = with_lanes(
        EnvConfig("entitize/MicroRTS-v0", 4, {"selfplay": 4, "num_workers": 2, "max_steps": 9}), 1
    )
    assert single == EnvConfig("entitize/MicroRTS-v0", 1, {"selfplay": 0, "num_workers": 0, "max_steps": 9})


def test_a_game_that_says_nothing_about_pictures_is_watched_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Field, "metadata", {})
    with make_visible(EnvConfig("drone_field:Field")) as venv:
        assert venv.num_envs == 1 and venv.render_mode is None
