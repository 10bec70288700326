"""Chunks of bricks and pills against the bricks and pills that the same game has as entities."""

from __future__ import annotations

import entitize as ez
import numpy as np
import pytest

pytest.importorskip("ale_py")

from facts import raises

#: Type, middle of the first place in pixels, distance to the next place, places per chunk (rows, columns),
#: and how far places are off such a grid: the right half of the maze is four pixels further.
GRIDS = {
    "Breakout": ("Brick", (12, 60), (8, 6), (6, 3), 0.0),
    "MsPacman": ("Pill", (10, 8), (8, 12), (7, 3), 4.0),
}


@pytest.mark.parametrize("game", GRIDS)
def test_chunks_have_a_cell_for_each_object(game: str) -> None:
    kind, (x, y), (dx, dy), (rows, columns), off = GRIDS[game]
    with ez.make_vec(f"Atari/{game}", 2) as venv, ez.make_vec(f"Atari/{game}", 2, chunks=True) as chunked:
        names = chunked.single_observation_space.entities[f"{kind}Chunk"]
        assert names[2:] == tuple(f"cell_{row}_{column}" for row in range(rows) for column in range(columns))
        batch, _ = venv.reset(seed=3)
        chunks, _ = chunked.reset(seed=3)
        venv.action_space.seed(3)
        counts = set()
        for step in range(400):
            for lane in range(2):
                wanted = set()
                for place in 100 * batch.entities[kind][lane][:, :2]:
                    left = place[0] - off * (place[0] > 80)
                    wanted.add((round((left - x) / dx), round((place[1] - y) / dy)))
                found = set()
                for middle_x, middle_y, *cells in chunks.entities[f"{kind}Chunk"][lane]:
                    assert any(cells)
                    width, height = dx * columns, dy * rows
                    across = round((100 * middle_x - x + dx / 2 - width / 2) / width)
                    down = round((100 * middle_y - y + dy / 2 - height / 2) / height)
                    assert 100 * middle_x == pytest.approx(x - dx / 2 + width * (across + 0.5), abs=4)
                    assert 100 * middle_y == pytest.approx(y - dy / 2 + height * (down + 0.5), abs=6)
                    for cell in np.flatnonzero(cells).tolist():
                        found.add((across * columns + cell % columns, down * rows + cell // columns))
                assert found == wanted
                counts.add(len(found))
            if step % 4 == 0:
                action = venv.action_space.sample(mask=batch)
            batch, *results, _ = venv.step(action)
            chunks, *others, _ = chunked.step(action)
            np.testing.assert_equal(others, results)
        assert len(counts) > 2


def test_other_entities_and_games_stay_as_they_are() -> None:
    for game, kinds in (("Breakout", ("Player", "Ball")), ("Pong", ("Player", "Enemy", "Ball"))):
        with ez.make_vec(f"Atari/{game}") as venv, ez.make_vec(f"Atari/{game}", chunks=True) as chunked:
            batches = [env.reset(seed=1)[0] for env in (venv, chunked)]
            venv.action_space.seed(1)
            for _ in range(100):
                for kind in kinds:
                    rows, others = (batch.entities[kind] for batch in batches)
                    np.testing.assert_array_equal(others.values, rows.values)
                np.testing.assert_array_equal(batches[1].globals, batches[0].globals)
                action = venv.action_space.sample(mask=batches[0])
                batches = [env.step(action)[0] for env in (venv, chunked)]


def test_a_saved_state_is_of_chunks_or_of_objects() -> None:
    with ez.make_vec("Atari/Breakout") as venv, ez.make_vec("Atari/Breakout", chunks=True) as chunked:
        chunked.reset(seed=1)
        state = chunked.get_state()
        with raises(ValueError, "before"):
            venv.reset(seed=1)
            venv.set_state(state)
        restored = chunked.set_state(state)
        assert len(restored.entities["BrickChunk"][0]) == 6


def test_an_option_that_is_no_flag_is_named() -> None:
    with raises((TypeError, ValueError), "chunks", 3):
        ez.make_vec("Atari/Breakout", chunks=3)
