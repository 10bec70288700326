"""What lanes observe of Griddly's games, compared with the engine's own report of its state."""

import importlib.util
from typing import Any

import entitize as ez
import numpy as np
import pytest

if importlib.util.find_spec("griddly") is None:  # importing it would import gym
    pytest.skip("needs griddly", allow_module_level=True)

from entitize.adapters.griddly.library import find_game
from entitize.adapters.griddly.rules import read_rules

from griddly_reports import check_lanes, place

GAMES = ez.griddly.game_names()


def play(name: str, steps: int, **options: Any) -> None:
    with ez.make_vec(f"Griddly/{name}", 2 * read_rules(find_game(name)).num_players, **options) as venv:
        batch, _ = venv.reset(seed=3)
        venv.action_space.seed(3)
        check_lanes(venv, batch)
        for _ in range(steps):
            batch, *_ = venv.step(venv.action_space.sample(mask=batch))
            check_lanes(venv, batch)


@pytest.mark.parametrize("name", GAMES)
def test_entities_are_the_objects_of_the_state(name: str) -> None:
    play(name, 40, level=None, max_steps=15)


def test_boards_can_hold_more_objects_than_cells() -> None:
    row = "w h/b h/b h/b h/b w\n"
    level = "w w w w w w\n" + 4 * row + "w A h/b h/b h/b w\nw w w w w w"
    play("Sokoban---2", 40, level=level)
    with ez.make_vec("Griddly/Sokoban---2", 16, level=level) as venv:
        batch, _ = venv.reset(seed=1)
        assert batch.num_entities == 16 * (22 + 1 + 2 * 19)
        check_lanes(venv, batch)


def test_entities_come_in_the_order_of_their_cells() -> None:
    """The engine's own order differs between processes."""
    with ez.make_vec("Griddly/Sokoban") as venv:
        batch, _ = venv.reset(seed=1)
        for rows in batch.entities.values():
            assert rows[0].tolist() == sorted(rows[0].tolist(), key=lambda row: (row[1], row[0]))


def test_masked_choices_change_nothing() -> None:
    with ez.make_vec("Griddly/Clusters") as venv:
        batch, _ = venv.reset(seed=1)
        game = venv.games[0]
        masked_steps = 0
        rng = np.random.default_rng(0)
        for _ in range(150):
            before = game.process.get_state()["Objects"]
            masked = np.flatnonzero(~batch.actions["action"].mask[0][0])
            if len(masked):
                masked_steps += 1
                game.players[0].step_multi(np.array([[0, masked[0]]], np.int32), True)
                assert game.process.get_state()["Objects"] == before
            choices = np.flatnonzero(batch.actions["action"].mask[0][0])
            batch, *_ = venv.step(one(rng.choice(choices)))
        assert masked_steps > 10


def one(choice: int) -> dict[str, Any]:
    return {"action": ez.ragged.RaggedArray(np.array([choice]), np.array([0, 1]))}


def test_types_can_be_left_out() -> None:
    with ez.make_vec("Griddly/Clusters") as whole, ez.make_vec("Griddly/Clusters", exclude=["wall"]) as part:
        first, second = whole.reset(seed=1)[0], part.reset(seed=1)[0]
        assert "wall" in first.entities and "wall" not in second.entities
        assert (first.entities["red_box"][0] == second.entities["red_box"][0]).all()
        assert place(second, 0, second.actions["action"].actors[0][0]) == (9, 8)


def test_without_masks_all_choices_are_allowed() -> None:
    with ez.make_vec("Griddly/Bait", masks=False) as venv:
        batch, _ = venv.reset(seed=1)
        assert batch.actions["action"].mask[0].all()
    with ez.make_vec("Griddly/Bait") as venv:
        batch, _ = venv.reset(seed=1)
        assert not batch.actions["action"].mask[0].all()


def test_windows_can_be_opened() -> None:
    with ez.make_vec("Griddly/Partially-Observable-Zelda", partial_observability=False) as venv:
        batch, _ = venv.reset(seed=1)
        assert venv.single_observation_space.entities["avatar"][:2] == ("x", "y")
        assert len(batch.entities["wall"][0]) == 40
