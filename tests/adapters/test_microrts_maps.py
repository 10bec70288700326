"""Maps of different sizes in one `MicroRTSVectorEnv`, and maps in files of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import entitize as ez
import numpy as np
import pytest
from entitize.adapters.microrts import find_map
from entitize.ragged import concatenate

from facts import raises

MAPS = ["basesWorkers16x16", "NoWhereToRun9x8", "EightBasesWorkers16x12", "basesWorkers8x8Obstacle"]


def make(maps: list[str], **options: Any) -> ez.microrts.MicroRTSVectorEnv:
    """Return one lane for each of `maps`, against a bot that gathers, builds and attacks."""
    venv = ez.make_vec("MicroRTS/basesWorkers8x8", len(maps), opponents="workerRushAI", maps=maps, **options)
    assert isinstance(venv, ez.microrts.MicroRTSVectorEnv)
    return venv


@pytest.mark.parametrize(
    "options",
    [
        {"side": 1, "perspective": "player"},
        {"side": 1, "perspective": "player", "targets": "entities", "features": "planes29"},
        {"partial_observability": True, "frame_skip": 3, "mask_reserved": False},
    ],
)
def test_games_on_several_sizes_are_those_of_each_map_alone(options: dict[str, Any]) -> None:
    options = {"max_steps": 150, **options}
    alone = [make([name], **options) for name in MAPS]
    moved = np.zeros(len(MAPS), bool)
    with make(MAPS, **options) as together:
        seen = together.reset(seed=[3, 4, 5, 6])[0]
        expected = []
        for lane, venv in enumerate(alone):
            expected.append(venv.reset(seed=3 + lane)[0])
            venv.action_space.seed(lane)
        for _ in range(200):
            assert all(seen.gather(np.array([lane])).equals(expected[lane]) for lane in range(len(MAPS)))
            given = [
                venv.action_space.sample(mask=batch) for venv, batch in zip(alone, expected, strict=True)
            ]
            steps = [venv.step(actions) for venv, actions in zip(alone, given, strict=True)]
            actions = {name: concatenate([parts[name] for parts in given]) for name in given[0]}
            seen, rewards, terminated, truncated, info = together.step(actions)
            expected = [step[0] for step in steps]
            assert rewards.tolist() == [float(step[1][0]) for step in steps]
            assert terminated.tolist() == [bool(step[2][0]) for step in steps]
            assert truncated.tolist() == [bool(step[3][0]) for step in steps]
            moved |= info["raw_rewards"].any(1)
    for venv in alone:
        venv.close()
    assert moved.all()


def test_selfplay_processes_and_pictures_take_several_sizes() -> None:
    maps = MAPS[:2]
    options: dict[str, Any] = {"maps": maps, "selfplay": 4, "render_mode": "rgb_array", "max_steps": 40}
    with (
        ez.make_vec("MicroRTS/basesWorkers8x8", 4, **options) as venv,
        ez.make_vec("MicroRTS/basesWorkers8x8", 4, num_workers=2, **options) as shared,
    ):
        batch, other = venv.reset(seed=1)[0], shared.reset(seed=1)[0]
        venv.action_space.seed(1)
        for _ in range(50):
            assert batch.equals(other)
            actions = venv.action_space.sample(mask=batch)
            batch, other = venv.step(actions)[0], shared.step(actions)[0]
        frames = venv.render()
        assert frames is not None
        assert [frame.shape for frame in frames] == [(384, 384, 3)] * 2 + [(192, 216, 3)] * 2


def test_bots_that_play_lanes_order_units_on_every_size(tmp_path: Path) -> None:
    def orders(maps: list[str]) -> np.ndarray:
        with make(maps, side=1, perspective="player", max_steps=150) as venv:
            players = ez.microrts.BotPlayers(venv, ["lightRushAI"])
            folder = ez.record(venv, players, tmp_path / "-".join(maps), steps=200, seed=1)
            assert ez.datasets.replay(ez.datasets.EntityDataset(folder), venv) is None
        return np.array([players.num_orders, players.num_refused])

    alone = [orders([name]) for name in MAPS]
    assert all(given > 0 for given, _ in alone)
    assert np.array_equal(orders(MAPS), np.sum(alone, axis=0))


def test_a_map_in_a_file_is_played_as_one_that_has_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "map.xml").write_bytes(find_map(MAPS[1]).path.read_bytes())
    monkeypatch.chdir(tmp_path)
    with (
        make([MAPS[1]]) as named,
        ez.make_vec("MicroRTS/mine/map.xml", 1, opponents="workerRushAI") as own,
        ez.make_vec("MicroRTS/mine/map.xml", 2, opponents="workerRushAI", num_workers=2) as workers,
    ):
        batch = named.reset(seed=1)[0]
        assert batch.equals(own.reset(seed=1)[0])
        assert batch.equals(workers.reset(seed=1)[0].gather(np.array([1])))
        assert np.array_equal(named.step({})[1], own.step({})[1])


@pytest.mark.parametrize(
    ("old", "new", "facts"),
    [
        ('type="Base"', 'type="Castle"', ["unit 4", "type", "Base", "'Castle'"]),
        ('player="0" x="1"', 'player="2" x="1"', ["unit", "player", "-1", "0", "1", "'2'"]),
        ('x="7" y="6"', 'x="9" y="6"', ["unit", "x, y", "9x8", "9, 6"]),
        ('x="7" y="6"', 'x="-1" y="6"', ["unit", "x, y", "9x8", "-1, 6"]),
        ('x="7" y="6"', 'x="4" y="0"', ["unit", "cell", "4, 0"]),
        ("<terrain>0", "<terrain>", ["terrain", "9x8", 71]),
        ("<terrain>0", "<terrain>2", ["terrain", "9x8", 72]),
        ('<rts.Player ID="1"', '<rts.Player ID="2"', ["players", 0, 1]),
        ('width="9"', 'size="9"', ["width, height", "None, 8"]),
        ('width="9"', 'width="0"', ["width, height", "0, 8"]),
        ("<terrain>", "<", ["no XML"]),
    ],
)
def test_what_is_wrong_in_a_file_is_told(tmp_path: Path, old: str, new: str, facts: list[object]) -> None:
    text = find_map(MAPS[1]).path.read_text()
    assert old in text
    path = tmp_path / "map.xml"
    path.write_text(text.replace(old, new))
    with raises(ValueError, f"'{path}'", *facts):
        make([str(path)])


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with raises(ValueError, "none.xml", "No such file"):
        make([str(tmp_path / "none.xml")])
