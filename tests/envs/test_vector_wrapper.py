"""`EntityVectorWrapper`: what it passes on to the environments that it wraps."""

from __future__ import annotations

from typing import Any

import entitize as ez
import numpy as np
import pytest
from entitize.viewer.scene import camera_of

from facts import raises


class Same(ez.vector.EntityVectorWrapper):
    """Passes everything on."""

    def _reset(self, seeds: Any, options: Any) -> Any:
        return self.venv.reset(seed=seeds, options=options)

    def _step(self, actions: Any) -> Any:
        return self.venv.step(actions)


class Painted(Same):
    """Shows frames of its own."""

    def _render(self) -> Any:
        return [np.zeros((4, 4, 3), np.uint8)] * self.num_envs


def test_options_that_are_no_dict_leave_it_usable() -> None:
    with Same(ez.make_vec("MineSweeper", num_envs=2)) as venv:
        wrong: Any = [{}, {}]
        with raises(TypeError, "Same", "options", "a dict", "list"):
            venv.reset(seed=0, options=wrong)
        venv.reset(seed=0)
        venv.step(venv.action_space.sample())


def features(batch: ez.EntityBatch) -> list[Any]:
    return [rows.values.tolist() for rows in batch.entities.values()]


@pytest.mark.parametrize("name", ["Procgen/bigfish", "MineSweeper", "MultiSnake/lanes"])
@pytest.mark.parametrize("seed", [None, 4])
def test_a_wrapper_starts_the_episodes_of_its_environment(name: str, seed: int | None) -> None:
    with ez.make_vec(name, num_envs=2, seed=3) as plain, Same(ez.make_vec(name, num_envs=2, seed=3)) as same:
        assert features(same.reset(seed=seed)[0]) == features(plain.reset(seed=seed)[0])
        for _ in range(3):
            actions = plain.action_space.sample()
            assert features(same.step(actions)[0]) == features(plain.step(actions)[0])


def test_a_seed_that_the_environment_does_not_take_changes_nothing() -> None:
    with Same(ez.make_vec("Procgen/bigfish", num_envs=2)) as venv:
        venv.reset(seed=1)
        with raises(ValueError, "seed", "[1, 2]"):
            venv.reset(seed=[1, 2])
        venv.step(venv.action_space.sample())
    with Same(ez.make_vec("MineSweeper", num_envs=2)) as venv:
        venv.reset(seed=[5, 6])
        with raises(ValueError, "seed", "3"):
            venv.reset(seed=[1, 2, 3])
        venv.step(venv.action_space.sample())


def test_a_wrapper_has_the_camera_of_the_frames_that_it_passes_on() -> None:
    options: Any = {"num_envs": 1, "render_mode": "rgb_array"}
    with ez.make_vec("Procgen/bigfish", **options) as venv:
        venv.reset(seed=1)
        found = camera_of(Same(Same(venv)))
        assert found is not None and found.camera(0) == venv.camera(0)
        assert camera_of(venv) is venv
        assert camera_of(Painted(venv)) is None
    with Same(ez.make_vec("MineSweeper", num_envs=1)) as plain:
        assert camera_of(plain) is None
