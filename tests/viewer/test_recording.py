"""`record_episodes` and `write_page`: the page holds what was played, and what the network computed."""

from __future__ import annotations

import base64
import html
import io
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import entitize as ez
import numpy as np
import pytest
from entitize.ragged import RaggedArray
from entitize.viewer import Decision, Recording, record_episodes, recording_of_dataset, write_page
from entitize.viewer.page import page_data
from PIL import Image

from facts import raises

ReadPage = Callable[[Path], dict[str, Any]]


def attention_of(given: dict[str, Any], layers: int, heads: int) -> np.ndarray:
    """The weights of a step on the page, (layers, heads, n, n), 0 where they were left out."""
    n = len(given["rows"])
    pairs = np.frombuffer(base64.b64decode(given["pairs"]), f"<u{given['bytes']}")
    pairs = pairs.reshape(layers, heads, n, given["k"], 2).astype(np.int64)
    weights = np.zeros((layers, heads, n, n))
    np.put_along_axis(weights, pairs[..., 0], pairs[..., 1] / 255, -1)
    return weights


def test_the_page_holds_the_recorded_steps(net_for, read_page: ReadPage, tmp_path: Path) -> None:
    with ez.make_vec("MineSweeper", num_envs=1) as venv:
        net = net_for(venv)
        recording = record_episodes(net, venv, episodes=2, seed=4)
        space = venv.single_observation_space
    assert write_page(tmp_path / "page.html", recording, title="Mines") == len(recording.steps) > 4
    page = read_page(tmp_path / "page.html")
    assert [kind["name"] for kind in page["types"]] == [*space.entities, "whole step"]
    assert page["types"][0]["position"] == [0, 1] and page["types"][2]["position"] is None
    assert {step[0]["episode"] for step in page["steps"]} == {0, 1}
    assert page["attention"] == [2, 2]
    for (decision,), (shown,) in zip(recording.steps, page["steps"], strict=True):
        batch = decision.observation
        for rows, written in zip(batch.entities.values(), shown["entities"], strict=True):
            np.testing.assert_allclose(np.reshape(written, rows.values.shape), rows.values, rtol=1e-4)
        assert shown["value"] == pytest.approx(net.value(batch)[0], rel=1e-3, abs=1e-5)
        assert shown["reward"] == decision.reward and shown["ended"] == decision.ended
        explained = net.explain(batch)
        weights = attention_of(shown["attention"], 2, 2)
        np.testing.assert_allclose(weights, np.stack(explained.attention), atol=0.003)
        np.testing.assert_allclose(weights.sum(-1), 1, atol=0.04)
        for action, (name, distribution) in zip(
            shown["actions"], explained.distributions.items(), strict=True
        ):
            assert action["actors"] == batch.actions[name].actors.values.tolist()
            assert action["chosen"] == decision.actions[name].tolist()
            written = [[0 if p is None else p for p in row] for row in action["distribution"]]
            np.testing.assert_allclose(np.reshape(written, distribution.shape), distribution, atol=1e-4)
            mask = batch.actions[name].mask.values.reshape(distribution.shape)
            masked = [[p is None for p in row] for row in action["distribution"]]
            assert np.array_equal(np.reshape(masked, mask.shape), ~mask)


def test_a_recording_is_the_play_of_the_policy(net_for) -> None:
    with ez.make_vec("MineSweeper", num_envs=1) as venv:
        net = net_for(venv)
        recording = record_episodes(net, venv, episodes=3, seed=11)
        rng = np.random.default_rng(11)
        batch, _ = venv.reset(seed=11)
        for (decision,) in recording.steps:
            assert decision.observation.equals(batch)
            acted = net.act(batch, rng)
            for name, chosen in acted.actions.items():
                np.testing.assert_array_equal(decision.actions[name], chosen.values)
            batch, rewards, terminated, truncated, _ = venv.step(acted.actions)
            assert decision.reward == rewards[0] and decision.ended == (terminated | truncated)[0]
    assert sum(decision.ended for (decision,) in recording.steps) == 3 == len(recording.returns[0])
    total = sum(decision.reward for (decision,) in recording.steps)
    assert sum(recording.returns[0]) == pytest.approx(total)


@pytest.mark.parametrize(
    "name", [*ez.games.GAMES, "MultiSnake/lanes", "CartPole-v1", "Pendulum-v1", "Procgen/maze"]
)
def test_every_kind_of_environment_gives_a_page(
    name: str, net_for, read_page: ReadPage, tmp_path: Path
) -> None:
    with ez.make_vec(name, num_envs=2 if name.endswith("lanes") else 1) as venv:
        recording = record_episodes(net_for(venv), venv, max_steps=6, seed=1)
        lanes = venv.num_envs
    write_page(tmp_path / "page.html", recording)
    page = read_page(tmp_path / "page.html")
    assert len(page["lanes"]) == lanes and all(len(step) == lanes for step in page["steps"])
    assert len(page["steps"]) == len(recording.steps) >= 1
    assert page["explains"] and page["attention"] == [2, 2]


@pytest.mark.parametrize("mode", ["lanes", "team"])
def test_agents_of_pettingzoo(mode: Any, net_for, read_page: ReadPage, tmp_path: Path) -> None:
    game = pytest.importorskip("mpe2.simple_spread_v3").parallel_env(max_cycles=5)
    made = ez.from_pettingzoo(game, mode)
    venv = made if mode == "lanes" else ez.vector.ListVectorEnv([lambda: made])
    with venv:
        recording = record_episodes(net_for(venv), venv, max_steps=20, seed=0)
    write_page(tmp_path / "page.html", recording)
    page = read_page(tmp_path / "page.html")
    assert page["lanes"] == (["agent_0", "agent_1", "agent_2"] if mode == "lanes" else ["lane 0"])
    assert len(page["steps"]) == 5 and all(step[0]["ended"] for step in page["steps"][-1:])


def test_frames_are_kept_once_and_small(net_for, read_page: ReadPage, tmp_path: Path) -> None:
    with ez.make_vec("Procgen/coinrun", num_envs=1, render_mode="rgb_array") as venv:
        recording = record_episodes(net_for(venv), venv, max_steps=3, seed=1)
        camera = venv.camera(0)
    still = [[step[0]] for step in recording.steps[:1] * 3]
    write_page(tmp_path / "page.html", Recording(recording.space, ("lane 0",), still))
    page = read_page(tmp_path / "page.html")
    assert len(page["frames"]) == 1 and [step[0]["frame"] for step in page["steps"]] == [0, 0, 0]
    kind, _, file = page["frames"][0].partition(",")
    assert re.fullmatch(r"data:image/(png|jpeg);base64", kind)
    assert Image.open(io.BytesIO(base64.b64decode(file))).size == (320, 320)
    assert page["steps"][0][0]["camera"][2:] == pytest.approx(camera[2:], rel=1e-4)


class Painted(ez.games.MineSweeper):
    """A game that renders what the test says."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"]}
    frame: Any = None

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__()
        self.render_mode = render_mode

    def render(self) -> Any:
        return self.frame


@pytest.mark.parametrize("shape", [(40, 30), (40, 30, 4), (700, 800), (700, 800, 4)])
def test_grey_and_transparent_frames_are_kept(shape: tuple[int, ...], net_for, monkeypatch) -> None:
    monkeypatch.setattr(Painted, "frame", np.full(shape, 200, np.uint8))
    with ez.vector.ListVectorEnv([lambda: Painted("rgb_array")]) as venv:
        frame = record_episodes(net_for(venv), venv, max_steps=1, seed=1).steps[0][0].frame
    assert frame is not None
    picture = Image.open(io.BytesIO(frame))
    assert max(picture.size) == min(max(shape[:2]), 320)
    assert picture.convert("RGB").getpixel((5, 5)) == (200, 200, 200)


@pytest.mark.parametrize("frame", [np.zeros((40, 30, 3)), np.zeros((40, 30, 1), np.uint8), None])
def test_a_frame_that_is_no_picture_is_refused(frame: Any, net_for, monkeypatch) -> None:
    monkeypatch.setattr(Painted, "frame", frame)
    with (
        ez.vector.ListVectorEnv([lambda: Painted("rgb_array")]) as venv,
        pytest.raises(ez.ObservationError, match=r"render.*uint8"),
    ):
        record_episodes(net_for(venv), venv, max_steps=1, seed=1)


def test_a_policy_without_a_network_is_shown_all_the_same(read_page: ReadPage, tmp_path: Path) -> None:
    with ez.make_vec("MineSweeper", num_envs=1) as venv:
        actor = ez.evaluation.RandomActor(venv.single_action_space)
        write_page(tmp_path / "page.html", record_episodes(actor, venv, seed=1))
    page = read_page(tmp_path / "page.html")
    assert page["policy"] == "RandomActor" and page["attention"] == [0, 0] and not page["explains"]
    assert all(step[0]["value"] is None and step[0]["attention"] is None for step in page["steps"])


def test_recorded_play_becomes_a_page(net_for, read_page: ReadPage, tmp_path: Path) -> None:
    with ez.make_vec("MineSweeper", num_envs=2) as venv:
        net = net_for(venv)
        ez.record(venv, net, tmp_path / "plays", episodes=2, seed=5)
    dataset = ez.datasets.EntityDataset(tmp_path / "plays")
    for policy in (None, net):
        recording = recording_of_dataset(dataset, 1, policy)
        assert recording.returns == [[pytest.approx(dataset.episodes[1].total_reward)]]
        write_page(tmp_path / "page.html", recording)
        page = read_page(tmp_path / "page.html")
        assert page["attention"] == ([0, 0] if policy is None else [2, 2])
        assert page["steps"][-1][0]["ended"]


def many_entities(count: int) -> tuple[ez.EntitySpace, ez.EntityBatch]:
    space = ez.EntitySpace(
        {"Unit": ["x", "y"]}, ez.EntityActionSpace({"go": ez.Categorical(["stay", "leave"])})
    )
    rng = np.random.default_rng(0)
    units = RaggedArray.from_arrays([rng.random((count, 2)).astype(np.float32)])
    actors = RaggedArray.from_arrays([np.arange(count)])
    mask = ez.batch.ActionMask(actors, actors.with_values(np.ones((count, 2), bool)))
    return space, ez.EntityBatch({"Unit": units}, np.zeros((1, 0), np.float32), {"go": mask})


@pytest.mark.parametrize("count", [1, 40, 200, 300])
def test_attention_of_many_entities_stays_small(count: int) -> None:
    from entitize.viewer import Decision
    from entitize.viewer.attention import LEAST_WEIGHTS, WEIGHTS_PER_STEP, without_small_weights
    from entitize.viewer.page import page_data

    space, batch = many_entities(count)
    net = ez.RogueNet(space, space.actions, d_model=16, n_layer=2, n_head=2, engine="torch")
    explained = net.explain(batch)
    chosen = {"go": np.zeros(count, np.int64)}
    decision = Decision(batch, chosen, 0.0, 0.0, explained, 0, 0)
    page = page_data(Recording(space, ("lane 0",), [[decision]]))
    smaller = replace(decision, explanation=without_small_weights(explained))
    assert page == page_data(Recording(space, ("lane 0",), [[smaller]]))
    shown = page["steps"][0][0]["attention"]
    assert len(shown["pairs"]) <= 4 / 3 * 2 * 4 * 2 * max(WEIGHTS_PER_STEP, LEAST_WEIGHTS * count) + 4
    kept = attention_of(shown, 2, 2)
    whole = np.stack(explained.attention)
    largest = np.sort(whole, -1)[..., -shown["k"] :].sum(-1)
    np.testing.assert_allclose(kept.sum(-1), largest, atol=shown["k"] * 0.5 / 255 + 1e-6)
    found = np.stack(smaller.explanation.attention)  # type: ignore[union-attr]
    np.testing.assert_allclose(found, np.where(kept > 0, whole, found), atol=1e-7)
    np.testing.assert_allclose(found.sum(-1), largest, rtol=1e-5)


def test_a_negative_seed_is_refused(net_for) -> None:
    with ez.make_vec("CherryPick") as venv, raises(ValueError, "seed", -1):
        record_episodes(net_for(venv), venv, seed=-1)


@pytest.mark.parametrize("limit", ["episodes", "max_steps"])
def test_limits_of_a_recording_are_checked(limit: str, net_for) -> None:
    with ez.make_vec("CherryPick") as venv:
        for wrong, kind in ((0, ValueError), ("x", TypeError)):
            with raises(kind, limit, wrong):
                record_episodes(net_for(venv), venv, **{limit: wrong})


def test_pictures_of_steps_that_are_left_out_are_not_in_the_page(net_for) -> None:
    with ez.make_vec("MineSweeper", num_envs=1) as venv:
        recording = record_episodes(net_for(venv), venv, max_steps=20, seed=4)
    for number, (decision,) in enumerate(recording.steps):
        picture = np.random.default_rng(number).bytes(3000)
        recording.steps[number] = [replace(decision, frame=b"\x89PNG" + picture)]
    page = page_data(recording, max_megabytes=0.03)
    assert 0 < len(page["frames"]) == len(page["steps"]) < 20


def test_steps_beyond_the_limit_are_left_out(net_for, tmp_path: Path) -> None:
    with ez.make_vec("MineSweeper", num_envs=1) as venv:
        recording = record_episodes(net_for(venv), venv, episodes=3, max_steps=40, seed=4)
    whole = write_page(tmp_path / "whole.html", recording)
    cut = write_page(tmp_path / "cut.html", recording, max_megabytes=0.003)
    assert 0 < cut < whole == len(recording.steps)
    with raises(ValueError, 0.00001):
        write_page(tmp_path / "none.html", recording, max_megabytes=0.00001)


def test_the_data_of_a_page_are_as_large_as_its_limit_says(net_for, tmp_path: Path) -> None:
    actions = ez.EntityActionSpace({"move": ez.Categorical(4)})

    class Noise(ez.EntityEnv):
        action_space = actions
        observation_space = ez.EntitySpace({"Unit": ["x", "y", "hp", "speed"]}, actions)

        def _reset(self, options: Any) -> ez.Observation:
            seen = self.np_random.normal(size=(30, 4))
            return ez.Observation({"Unit": seen}, actions={"move": ez.actions.CategoricalMask()})

        def _step(self, chosen: Any) -> Any:
            return self._reset({}), 0.0, False, False, {}

    with ez.vector.ListVectorEnv([Noise]) as venv:
        recording = record_episodes(net_for(venv), venv, max_steps=60, seed=1)
    write_page(tmp_path / "empty.html", Recording(recording.space, recording.lanes))
    program = (tmp_path / "empty.html").stat().st_size
    assert 0 < write_page(tmp_path / "cut.html", recording, max_megabytes=0.2) < 60
    assert 150_000 < (tmp_path / "cut.html").stat().st_size - program < 201_000


def test_hostile_names_stay_text(net_for, read_page: ReadPage, tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)>{{data}}"
    space = ez.EntitySpace(
        {evil: [evil, "x", "y"]}, ez.EntityActionSpace({evil: ez.Categorical([evil, "b"])})
    )
    write_page(tmp_path / "page.html", Recording(space, (evil,)), title=evil)
    text = (tmp_path / "page.html").read_text()
    assert "<img src" not in text and "<script>alert" not in text
    assert f"<title>{html.escape(evil)}</title>" in text
    assert text.count("</script>") == 2
    assert read_page(tmp_path / "page.html")["types"][0]["name"] == evil


def test_the_features_of_positions_can_be_named(net_for, read_page: ReadPage, tmp_path: Path) -> None:
    with ez.make_vec("CartPole-v1", num_envs=1) as venv:
        recording = record_episodes(net_for(venv), venv, max_steps=2, seed=1)
    write_page(tmp_path / "page.html", recording, position=("position", "angle"))
    assert read_page(tmp_path / "page.html")["types"][0]["position"] == [0, 2]
    with raises(ValueError, "position", "angel", "angular_velocity"):
        write_page(tmp_path / "page.html", recording, position=("position", "angel"))


def test_an_environment_of_frames_alone_has_nothing_to_show(tmp_path: Path) -> None:
    space = ez.EntitySpace({}, ez.EntityActionSpace({"go": ez.actions.GlobalCategorical(2)}), frame=(8, 8, 3))
    with raises(ValueError, "entities"):
        write_page(tmp_path / "page.html", Recording(space, ("lane 0",)))


def test_lanes_of_one_game_end_by_themselves(net_for) -> None:
    with ez.make_vec("MultiSnake/lanes", num_envs=4, num_snakes=4, max_steps=15) as venv:
        recording = record_episodes(net_for(venv), venv, episodes=2, max_steps=500, seed=2)
    assert len(recording.steps) < 500
    for lane in range(4):
        decisions = [step[lane] for step in recording.steps]
        assert sum(decision.ended for decision in decisions) >= 2 and len(recording.returns[lane]) >= 2
        for episode in (0, 1):
            active = [d for d in decisions if d.episode == episode and d.active]
            assert [d.step for d in active] == list(range(len(active)))
            assert active[-1].ended and not any(d.ended for d in active[:-1])
        played = {d.episode for d in decisions if d.active}
        assert len(recording.returns[lane]) == len(played)
        idle = [d for d in decisions if not d.active]
        assert all(len(d.actions["move"]) == 0 for d in idle)


def test_a_lane_that_waits_is_shown_as_waiting(tmp_path: Path) -> None:
    with ez.make_vec("MultiSnake/lanes", num_envs=4, num_snakes=4, max_steps=15) as venv:
        dataset = ez.datasets.EntityDataset(ez.record(venv, None, tmp_path / "plays", steps=40, seed=2))
    inactive, final = (dataset.column(name).astype(bool) for name in ("inactive", "final"))
    waited = 0
    for place, episode in enumerate(dataset.episodes):
        rows = episode.rows[~final[episode.rows]]
        shown = [decision.active for (decision,) in recording_of_dataset(dataset, place).steps]
        assert shown == (~inactive[rows]).tolist()
        waited += shown.count(False)
    assert waited


def test_the_page_says_which_entities_are_hidden() -> None:
    actions = ez.EntityActionSpace({"go": ez.Categorical(["stay", "leave"])})
    space = ez.EntitySpace({"Unit": ["x", "y"], "Mine": ["x", "y"]}, actions, hidden=True)
    units, mines = (RaggedArray.from_arrays([np.zeros((count, 2), np.float32)]) for count in (2, 3))
    nobody = RaggedArray.from_arrays([[]], dtype=np.int64)
    mask = ez.batch.ActionMask(nobody, RaggedArray.from_arrays([np.zeros((0, 2), bool)]))
    seen = {
        "Unit": units.with_values(np.array([True, True])),
        "Mine": mines.with_values(np.array([True, False, False])),
    }
    batch = ez.EntityBatch({"Unit": units, "Mine": mines}, np.zeros((1, 0), np.float32), {"go": mask}, seen)
    decision = Decision(batch, {"go": np.zeros(0, np.int64)}, 0.0, None, None, 0, 0)
    page = page_data(Recording(space, ("lane 0",), [[decision]]))
    assert page["steps"][0][0]["hidden"] == [3, 4]
