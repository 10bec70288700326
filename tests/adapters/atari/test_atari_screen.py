"""Entities of Atari's games against the screen of the emulator: there are objects where regions of their
colours are, to a pixel or two (`Look.tolerance`), and nowhere else.
"""

from __future__ import annotations

from typing import Any

import entitize as ez
import numpy as np
import pytest

pytest.importorskip("ale_py")

from atari_screen import LOOKS, Box, differences

#: Pixels that count as 1 in positions and sizes, and pixels per step in velocities.
LENGTH, SPEED = 100, 10
STEPS = 300


def boxes(venv: Any, batch: Any, game: str) -> dict[str, list[Box]]:
    """Return the boxes of a lane's entities by type, from their features."""
    found: dict[str, list[Box]] = {}
    for name, look in LOOKS[game].items():
        features = venv.single_observation_space.entities[name]
        found[name] = []
        for row in batch.entities[name][0]:
            values = dict(zip(features, (row * LENGTH).tolist(), strict=True))
            width, height = look.size or (round(values["width"]), round(values["height"]))
            left, top = values["x"] - width / 2, values["y"] - height / 2
            found[name].append((round(left), round(top), width, height))
    return found


def play(venv: Any, steps: int) -> Any:
    """Yield batch, rewards, terminated and info, of steps with random actions that are held for a while."""
    batch, info = venv.reset(seed=5)
    venv.action_space.seed(5)
    yield batch, np.zeros(1), np.zeros(1, bool), info
    for step in range(steps):
        if step % 6 == 0:
            action = venv.action_space.sample(mask=batch)
        batch, rewards, terminated, _, info = venv.step(action)
        yield batch, rewards, terminated, info


@pytest.mark.parametrize("game", LOOKS)
def test_entities_are_what_the_screen_shows(game: str) -> None:
    seen = dict.fromkeys(LOOKS[game], 0)
    with ez.make_vec(f"Atari/{game}", frameskip=(2, 5)) as venv:
        assert {*LOOKS[game]} == {*venv.single_observation_space.entities}
        for step, (batch, *_) in enumerate(play(venv, STEPS)):
            if not step:
                continue  # the first frame still has other colours
            found = boxes(venv, batch, game)
            screen = venv.consoles[0].ale.getScreen()
            assert not differences(screen, LOOKS[game], found), f"step {step}"
            for name in found:
                seen[name] += len(found[name])
    assert all(seen.values()), seen


@pytest.mark.parametrize("game", ez.atari.GAMES)
def test_velocities_are_differences(game: str) -> None:
    with ez.make_vec(f"Atari/{game}") as venv:
        spaces = venv.single_observation_space.entities
        single = [kind.name for kind in venv.game.types if kind.most == 1 and kind.moves]
        before: dict[str, Any] = {}
        moved = 0
        for batch, _, terminated, _ in play(venv, 120):
            for name in single:
                rows = batch.entities[name][0]
                if not len(rows):
                    before.pop(name, None)
                    continue
                now = dict(zip(spaces[name], rows[0].tolist(), strict=True))
                last = before.get(name)
                for axis in "xy":
                    velocity = now[f"velocity_{axis}"] * SPEED / LENGTH
                    step = 0.0 if last is None or terminated[0] else now[axis] - last[axis]
                    assert velocity == pytest.approx(step, abs=1e-5) or (velocity == 0 and abs(step) > 0.4)
                    moved += velocity != 0
                before[name] = now
        assert moved > 20 or not single


@pytest.mark.parametrize("game", ez.atari.GAMES)
def test_score_and_lives_are_those_of_the_emulator(game: str) -> None:
    """The score that a game shows is the sum of its rewards; where both players score, of the difference."""
    with ez.make_vec(f"Atari/{game}", frameskip=3) as venv:
        status = venv.game.status
        total = 0.0
        for batch, rewards, terminated, info in play(venv, 600):
            total = 0.0 if terminated[0] else total + rewards[0]
            shown = dict(zip(status, (batch.globals[0] * [*status.values()]).tolist(), strict=True))
            if "score" in shown:
                assert shown["score"] - shown.get("enemy_score", 0) == pytest.approx(total, abs=0.01)
            if "lives" in shown:
                assert shown["lives"] == pytest.approx(info["lives"][0], abs=1e-3)
