"""What lanes observe of Griddly's games, compared with the engine's own report of its state."""

import importlib.util
from typing import Any

import entitize as ez
import numpy as np
import pytest

if importlib.util.find_spec("griddly") is None:  # importing it would import gym
    pytest.skip("needs griddly", allow_module_level=True)

from entitize.adapters.griddly.library import find_game
from entitize.adapters.griddly.rules import AvatarWindow, Rules, read_rules

GAMES = ez.griddly.game_names()
DIRECTIONS = {"NONE": (0, -1), "UP": (0, -1), "RIGHT": (1, 0), "DOWN": (0, 1), "LEFT": (-1, 0)}


def expected(rules: Rules, state: dict[str, Any], player: int) -> dict[str, list[list[float]]]:
    """Return what `player` observes of a state, computed object by object: type -> features."""
    objects = [
        item for item in state["Objects"] if item["Name"] in rules.objects
    ]  # and the engine's "_empty"
    avatar = next((o for o in objects if o["Name"] == rules.avatar and o["PlayerId"] == player), None)
    found: dict[str, list[list[float]]] = {name: [] for name in rules.objects}
    if rules.window is not None and avatar is None:
        return found
    for item in objects:
        place: tuple[float, ...] = (*item["Location"], *DIRECTIONS[item["Orientation"]])
        if rules.window is not None:
            seen = seen_from(avatar, place, rules.window)
            if seen is None:
                continue
            place = seen
        if not rules.turns:
            assert item["Orientation"] == "NONE"
            place = place[:2]
        owner = item["PlayerId"]
        owners = [owner == player]
        if rules.num_players > 1:
            owners.append(owner not in (0, player))
        if rules.num_players > 2:
            turn = list(range(player, rules.num_players + 1)) + list(range(1, player))
            owners.append(turn.index(owner) + 1 if owner else 0)
        variables = [item["Variables"][name] for name in rules.objects[item["Name"]]]
        found[item["Name"]].append([*place, *map(float, owners), *variables])
    return found


def seen_from(avatar: Any, place: tuple[float, ...], window: AvatarWindow) -> tuple[float, ...] | None:
    """Return a place (x, y, direction) as the avatar sees it, or None where its window ends before it."""
    x, y, dx, dy = place[0] - avatar["Location"][0], place[1] - avatar["Location"][1], place[2], place[3]
    turns = {"NONE": 0, "UP": 0, "RIGHT": 1, "DOWN": 2, "LEFT": 3}[avatar["Orientation"]]
    for _ in range(turns * window.is_rotated):  # a quarter turn to the left
        x, y, dx, dy = y, -x, dy, -dx
    left, top = window.offset_x + window.width // 2, window.offset_y + window.height // 2
    if not (-left <= x < window.width - left and -top <= y < window.height - top):
        return None
    return x, -y, dx, -dy


def check_lanes(venv: Any, batch: Any) -> None:
    """Compare all lanes with the states of their games."""
    rules = venv.rules
    for lane in range(venv.num_envs):
        number, player = divmod(lane, rules.num_players)
        state = venv.games[number].process.get_state()
        wanted = expected(rules, state, player + 1)
        for name, rows in wanted.items():
            got = batch.entities[name][lane]
            order = np.lexsort((got[:, 0], got[:, 1]))
            wanted_rows = np.array(sorted(rows, key=lambda row: (row[1], row[0])), np.float32)
            assert got[order].tolist() == wanted_rows.reshape(got.shape).tolist(), (name, lane)
        values = [state["GlobalVariables"][name] for name in rules.variables]
        assert batch.globals[lane].tolist() == [value[(player + 1) % len(value)] for value in values]


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


def test_entities_come_in_the_order_of_their_cells() -> None:
    """The engine's own order differs between processes."""
    with ez.make_vec("Griddly/Sokoban") as venv:
        batch, _ = venv.reset(seed=1)
        for rows in batch.entities.values():
            assert rows[0].tolist() == sorted(rows[0].tolist(), key=lambda row: (row[1], row[0]))


@pytest.mark.parametrize("name", ["Clusters", "Zelda", "GriddlyRTS", "Robot-Tag-4v4"])
def test_masks_are_what_the_engine_allows(name: str) -> None:
    rules = read_rules(find_game(name))
    with ez.make_vec(f"Griddly/{name}", rules.num_players, partial_observability=False) as venv:
        batch, _ = venv.reset(seed=1)
        venv.action_space.seed(1)
        labels = venv.single_action_space["action"].choices
        names = list(dict.fromkeys(label.partition(":")[0] for label in labels[1:]))
        commands = [None] + [
            (name, label) for name in names for label in labels if label.startswith(f"{name}:")
        ]
        for _ in range(30):
            process = venv.games[0].process
            for lane in range(venv.num_envs):
                cells = {tuple(cell) for cell in process.get_available_actions(lane + 1)}
                mask = batch.actions["action"]
                places = [place(batch, lane, index) for index in mask.actors[lane]]
                wanted = {}
                for cell in cells:
                    answer = process.get_available_action_ids(list(cell), names)
                    allowed = [(name, key) for name, keys in answer.items() for key in sorted(keys)]
                    if allowed or rules.avatar:
                        wanted[cell] = allowed
                assert set(places) == set(wanted)
                for cell, row in zip(places, mask.mask[lane], strict=True):
                    assert row[0]
                    got = [commands[choice] for choice in np.flatnonzero(row) if choice]
                    assert sorted({name for name, _ in got}) == sorted({name for name, _ in wanted[cell]})
                    assert len(got) == len(wanted[cell])
            batch, *_ = venv.step(venv.action_space.sample(mask=batch))


def place(batch: Any, lane: int, index: int) -> tuple[int, int]:
    """Return the cell of an entity, of a game without a window."""
    for rows in batch.entities.values():
        if index < len(rows[lane]):
            return int(rows[lane][index][0]), int(rows[lane][index][1])
        index -= len(rows[lane])
    raise IndexError(index)


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
