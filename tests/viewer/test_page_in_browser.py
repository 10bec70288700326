"""The page in a real Chromium, opened from disk."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path

import entitize as ez
import numpy as np
import pytest
from entitize.viewer import Recording, record_episodes, write_page
from PIL import Image

from browser import Browser, chromium


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.fixture
def record(net_for) -> Callable[..., Recording]:
    def play(name: str, max_steps: int = 20, **options: object) -> Recording:
        with ez.make_vec(name, **options) as venv:
            return record_episodes(net_for(venv), venv, max_steps=max_steps, seed=4)

    return play


def shown(browser: Browser, path: Path) -> Browser:
    """Open a page and wait until it is drawn."""
    browser.errors()  # of the page before
    browser.open(path).wait("document.body.dataset.ready")
    return browser


def pixels(browser: Browser) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(browser.screenshot())).convert("RGB")).astype(int)


def centre(browser: Browser, entity: str) -> list[float]:
    """Where the scene shows an entity, in the window."""
    script = """const box = document.getElementById("scene").getBoundingClientRect();
        const place = places.find((place) => nameOf(place.entity) === arguments[0]);
        return [box.left + place.x, box.top + place.y];"""
    return browser.run(script, entity)


TEXT = "return document.getElementById(arguments[0]).textContent"


def test_the_page_answers_pointer_slider_and_keys(browser: Browser, record, tmp_path: Path) -> None:
    recording = record("MineSweeper", num_envs=1)
    write_page(tmp_path / "page.html", recording, title="Mines & robots")
    page = shown(browser, tmp_path / "page.html")
    assert page.run("return document.title") == "Mines & robots"
    first = pixels(page)
    assert len(np.unique(first.reshape(-1, 3), axis=0)) > 30
    assert page.run(TEXT, "chosen") == "Robot 0"

    page.move(*centre(page, "Mine 1"))
    assert page.run(TEXT, "chosen") == "Mine 1"
    assert np.abs(pixels(page) - first).sum() > 10_000
    page.move(5, 5)
    assert page.run(TEXT, "chosen") == "Robot 0"

    page.run("const s = document.getElementById('slider'); s.value = 2; s.oninput()")
    assert "step 2" in page.run(TEXT, "clock")
    page.press("\ue014")  # right
    assert "step 3" in page.run(TEXT, "clock")
    page.press("\ue011")  # Home
    assert "step 0" in page.run(TEXT, "clock")
    page.press(" ")
    page.wait("state.step >= 2")
    page.press(" ")
    page.press("n")
    assert page.run(TEXT, "chosen") != "Robot 0"
    assert page.errors() == []


def test_the_picture_of_procgen_lies_below_its_entities(browser: Browser, record, tmp_path: Path) -> None:
    write_page(tmp_path / "page.html", record("Procgen/coinrun", 3, num_envs=1, render_mode="rgb_array"))
    page = shown(browser, tmp_path / "page.html")
    page.wait("[...pictures.values()].every((image) => image.complete)")
    with_frame = pixels(page)
    page.run("document.getElementById('background').click()")
    assert np.abs(pixels(page) - with_frame).sum() > 1_000_000
    assert page.errors() == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("CherryPick", "Player 0"),  # selects entities, and has no positions: a table
        ("CartPole-v1", "whole step"),  # a global action
        ("Pendulum-v1", "whole step"),  # a continuous one
        ("TreasureHunt", "whole step"),
        ("Count", "Player 0"),
        ("MaskedBandit", "whole step"),
        ("MultiSnake/lanes", "Head 0"),
    ],
)
def test_every_kind_of_environment_is_drawn(
    browser: Browser, name: str, expected: str, record, tmp_path: Path
) -> None:
    recording = record(name, 4, num_envs=2 if name.endswith("lanes") else 1)
    write_page(tmp_path / "page.html", recording)
    page = shown(browser, tmp_path / "page.html")
    assert page.run(TEXT, "chosen") == expected
    positions = any(page.run("return data.types.map((type) => type.position)"))
    assert (page.run("return document.getElementById('scene').clientHeight") > 100) is positions
    if not positions:
        assert page.run("return document.querySelectorAll('#table tbody tr').length") > 0
    for lane in range(len(recording.lanes)):
        page.run("const l = document.getElementById('lane'); l.value = arguments[0]; l.onchange()", lane)
        page.run("go(data.steps.length - 1)")
    assert len(page.run("return [...document.querySelectorAll('#right .bar')].map((b) => b.textContent)")) > 0
    assert page.errors() == []


def test_a_policy_without_attention_says_so(browser: Browser, tmp_path: Path) -> None:
    with ez.make_vec("MineSweeper", num_envs=1) as venv:
        actor = ez.evaluation.RandomActor(venv.single_action_space)
        write_page(tmp_path / "page.html", record_episodes(actor, venv, seed=1))
    page = shown(browser, tmp_path / "page.html")
    assert "RandomActor" in page.run(TEXT, "without")
    assert page.errors() == []


def test_hostile_names_do_not_run(browser: Browser, net_for, tmp_path: Path) -> None:
    evil = "</script><img src=x onerror='document.title=1'><b>{{data}}"
    space = ez.EntitySpace(
        {evil: [evil, "x", "y"]}, ez.EntityActionSpace({evil: ez.Categorical([evil, "b"])}), [evil]
    )
    with ez.vector.ListVectorEnv([lambda: _Named(space, evil)]) as venv:
        recording = record_episodes(net_for(venv), venv, max_steps=2, seed=0)
    write_page(tmp_path / "page.html", recording, title=evil)
    page = shown(browser, tmp_path / "page.html")
    page.run("document.getElementById('tables').open = true")
    page.wait("document.querySelector('#table td')")
    assert page.run("return document.title") == evil
    assert (
        page.run(
            "return document.querySelectorAll('#left img:not(#frame), #right img, #table img, b').length"
        )
        == 0
    )
    assert evil in page.run(TEXT, "right") and evil in page.run(TEXT, "table")
    assert page.errors() == []


class _Named(ez.EntityEnv):
    """One entity, and names of a hostile environment."""

    def __init__(self, space: ez.EntitySpace, name: str) -> None:
        self.observation_space, self.action_space, self._name = space, space.actions, name

    def _reset(self, options: object = None) -> ez.Observation:
        return self._look()

    def _step(self, actions: object) -> tuple[ez.Observation, float, bool, bool, dict]:
        return self._look(), 1.0, False, False, {}

    def _look(self) -> ez.Observation:
        return ez.Observation(
            entities={self._name: [[1.0, 2.0, 3.0]]},
            globals=[0.5],
            actions={self._name: ez.actions.CategoricalMask(actor_types=[self._name])},
        )


def test_a_long_page_is_drawn(browser: Browser, record, tmp_path: Path) -> None:
    write_page(tmp_path / "page.html", record("CherryPick", num_envs=1, max_steps=1))
    page = shown(browser, tmp_path / "page.html")
    page.run("data.steps = Array(150000).fill(data.steps[0]); bounds.length = 0; go(149999);")
    assert "step 0" in page.run(TEXT, "clock")
