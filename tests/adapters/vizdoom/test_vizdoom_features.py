"""Entities and global features, compared with what the engine reports of the same state."""

import functools
import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import entitize as ez
import numpy as np
import pytest

pytest.importorskip("vizdoom")
import vizdoom

LENGTH, SPEED = 256.0, 16.0
WIDTH, HEIGHT = 160, 120


def played(scenario: str, steps: int = 25, **options: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Yield the batch, the engine's state and the engine of one lane at each step of random play."""
    with ez.make_vec(f"ViZDoom/{scenario}", 1, **options) as venv:
        batch, _ = venv.reset(seed=3)
        venv.action_space.seed(3)
        for _ in range(steps):
            game = venv.engines[0].game
            yield batch, game.get_state(), game
            batch, *_ = venv.step(venv.action_space.sample(mask=batch))


def named(batch: Any, space: Any) -> list[tuple[str, dict[str, float]]]:
    """Return the entities of the only lane but the player: type and features by name."""
    return [
        (name, dict(zip(space.entities[name], map(float, row), strict=True)))
        for name, rows in batch.entities.items()
        if name != "Player"
        for row in rows[0]
    ]


def ahead(game: Any, x: float, y: float) -> tuple[float, float]:
    """Return a vector of the map along the player's heading and to the left, by its definition."""
    angle = math.radians(game.get_game_variable(vizdoom.GameVariable.ANGLE))
    turned = complex(x, y) * complex(math.cos(angle), -math.sin(angle))
    return turned.real, turned.imag


@pytest.mark.parametrize("scenario", ["defend_the_line", "deadly_corridor", "health_gathering_supreme"])
def test_entities_are_the_labels_of_the_screen(scenario: str) -> None:
    space = ez.make_vec(f"ViZDoom/{scenario}").single_observation_space
    for batch, state, game in played(scenario):
        labels = {
            (round(label.object_position_x, 2), round(label.object_position_y, 2)): label
            for label in state.labels
            if label.object_category not in ("Self", "SFX", "Gibs", "Gore")
            and not label.object_name.endswith("Puff")
            and (state.labels_buffer == label.value).any()
        }
        found = {
            (round(row["x"] * LENGTH, 2), round(row["y"] * LENGTH, 2)): row for _, row in named(batch, space)
        }
        assert len(found) == len(labels)
        assert np.allclose(sorted(found), sorted(labels), atol=0.02)
        for key, label in zip(sorted(labels), [labels[key] for key in sorted(labels)], strict=True):
            row = found[min(found, key=lambda place: math.dist(place, key))]
            position = [game.get_game_variable(v) for v in POSITION]
            offset = label.object_position_x - position[0], label.object_position_y - position[1]
            forward, left = ahead(game, *offset)
            assert (row["forward"] * LENGTH, row["left"] * LENGTH) == pytest.approx((forward, left), abs=0.01)
            assert row["up"] * LENGTH == pytest.approx(label.object_position_z - position[2], abs=0.01)
            assert row["distance"] * LENGTH == pytest.approx(math.hypot(*offset), abs=0.01)
            assert row["bearing"] * math.pi == pytest.approx(math.atan2(left, forward), abs=1e-4)
            velocity = ahead(game, label.object_velocity_x, label.object_velocity_y)
            assert (row["velocity_forward"] * SPEED, row["velocity_left"] * SPEED) == pytest.approx(
                velocity, abs=1e-3
            )


POSITION = tuple(getattr(vizdoom.GameVariable, f"POSITION_{axis}") for axis in "XYZ")


def test_boxes_are_those_of_the_labels_pixels() -> None:
    """Of an object that nothing hides, the box is exactly that of its pixels; of others it contains them."""
    exact = 0
    space = ez.make_vec("ViZDoom/defend_the_line").single_observation_space
    for batch, state, _ in played("defend_the_line", 40):
        boxes = [
            (
                (row["screen_x"] + 1) * WIDTH / 2 - row["screen_width"] * WIDTH / 2,
                (1 - row["screen_y"]) * HEIGHT / 2 - row["screen_height"] * HEIGHT / 2,
                row["screen_width"] * WIDTH,
                row["screen_height"] * HEIGHT,
            )
            for name, row in named(batch, space)
            if name == "Monster"
        ]
        drawn = []
        for label in state.labels:
            if label.object_category == "Monster":
                ys, xs = np.nonzero(state.labels_buffer == label.value)
                if len(xs):
                    drawn.append((xs.min(), ys.min(), xs.max() + 1, ys.max() + 1))
        assert len(boxes) == len(drawn)
        for x0, y0, x1, y1 in drawn:
            around = [
                box
                for box in boxes
                if box[0] <= x0 + 1e-3
                and box[1] <= y0 + 1e-3
                and box[0] + box[2] >= x1 - 1e-3
                and box[1] + box[3] >= y1 - 1e-3
            ]
            assert around
            exact += any(box == pytest.approx((x0, y0, x1 - x0, y1 - y0), abs=1e-2) for box in around)
    assert exact > 20


def test_all_objects_are_at_their_places_and_those_of_the_screen_have_boxes() -> None:
    hidden = 0
    space = ez.make_vec("ViZDoom/defend_the_center", visible_only=False).single_observation_space
    for batch, state, _ in played("defend_the_center", visible_only=False):
        objects = sorted(
            (round(thing.position_x, 1), round(thing.position_y, 1))
            for thing in state.objects
            if thing.category in ("Monster", "Ammo", "Weapon")
        )
        rows = [row for name, row in named(batch, space) if name in ("Monster", "Ammo", "Weapon")]
        places = sorted((round(row["x"] * LENGTH, 1), round(row["y"] * LENGTH, 1)) for row in rows)
        assert len(places) == len(objects) and np.allclose(places, objects, atol=0.11)
        shown = {
            (round(label.object_position_x), round(label.object_position_y))
            for label in state.labels
            if label.object_category == "Monster" and (state.labels_buffer == label.value).any()
        }
        for row in rows:
            assert (row["on_screen"] == 1) == ((round(row["x"] * LENGTH), round(row["y"] * LENGTH)) in shown)
            assert row["on_screen"] == 1 or row["screen_width"] == row["screen_x"] == 0
            hidden += row["on_screen"] == 0
    assert hidden > 20  # of a level in which monsters come from all sides


def test_labels_have_the_positions_of_the_objects_with_their_ids() -> None:
    """The engine numbers both alike; `visible_only=False` relies on it."""
    for _, state, _ in played("deathmatch", 15, visible_only=False):
        places = {thing.id: (thing.name, thing.position_x, thing.position_y) for thing in state.objects}
        for label in state.labels:
            place = label.object_name, label.object_position_x, label.object_position_y
            assert places[label.object_id] == place


def test_the_player_and_the_global_features_are_the_engines_game_variables() -> None:
    variables = vizdoom.GameVariable
    space = ez.make_vec("ViZDoom/health_gathering", variables=["killcount"]).single_observation_space
    assert space.global_features[:2] == ("health", "armor") and "killcount" in space.global_features
    for batch, _, game in played("health_gathering", 40, variables=["killcount"]):
        row = dict(zip(space.entities["Player"], batch.entities["Player"][0][0].tolist(), strict=True))
        angle = math.radians(game.get_game_variable(variables.ANGLE))
        assert (row["heading_cosine"], row["heading_sine"]) == pytest.approx(
            (math.cos(angle), math.sin(angle)), abs=1e-5
        )
        position = [game.get_game_variable(v) / LENGTH for v in POSITION]
        assert [row["x"], row["y"], row["z"]] == pytest.approx(position, abs=1e-5)
        velocity = ahead(
            game,
            game.get_game_variable(variables.VELOCITY_X),
            game.get_game_variable(variables.VELOCITY_Y),
        )
        assert (row["velocity_forward"] * SPEED, row["velocity_left"] * SPEED) == pytest.approx(
            velocity, abs=1e-3
        )
        health = batch.globals[0, space.global_features.index("health")]
        assert health * 100 == pytest.approx(game.get_game_variable(variables.HEALTH))


def test_the_player_looks_up_and_down_and_jumps(tmp_path: Path) -> None:
    config = tmp_path / "jumping.cfg"
    shutil.copy(Path(vizdoom.scenarios_path) / "deathmatch.wad", tmp_path / "jumping.wad")
    config.write_text("doom_scenario_path = jumping.wad\navailable_buttons = { JUMP LOOK_UP_DOWN_DELTA }\n")
    features = ez.make_vec(f"ViZDoom/{config}").single_observation_space.entities["Player"]
    pitches, speeds = [], []
    for batch, _, game in played(str(config), 40, frame_skip=3):
        row = dict(zip(features, batch.entities["Player"][0][0].tolist(), strict=True))
        degrees = math.remainder(game.get_game_variable(vizdoom.GameVariable.PITCH), 360)
        assert row["pitch"] == pytest.approx(degrees / 90, abs=1e-5)
        up = game.get_game_variable(vizdoom.GameVariable.VELOCITY_Z)
        assert row["velocity_up"] == pytest.approx(up / SPEED, abs=1e-5)
        pitches.append(row["pitch"])
        speeds.append(row["velocity_up"])
    assert min(pitches) < 0 < max(pitches) and min(speeds) < 0 < max(speeds)


def test_monsters_look_where_the_engine_says() -> None:
    facing = 0
    space = ez.make_vec("ViZDoom/deadly_corridor", visible_only=False).single_observation_space
    for batch, state, game in played("deadly_corridor", visible_only=False):
        heading = game.get_game_variable(vizdoom.GameVariable.ANGLE)
        rows = {(round(row["x"] * LENGTH), round(row["y"] * LENGTH)): row for _, row in named(batch, space)}
        for thing in state.objects:
            if thing.category == "Monster":
                row = rows[round(thing.position_x), round(thing.position_y)]
                turned = math.radians(thing.angle - heading)
                assert (row["facing_cosine"], row["facing_sine"]) == pytest.approx(
                    (math.cos(turned), math.sin(turned)), abs=1e-4
                )
                assert row["velocity_up"] == pytest.approx(thing.velocity_z / SPEED, abs=1e-5)
                facing += abs(row["facing_sine"]) > 0.1
    assert facing > 20


def test_classes_are_one_hot_and_unknown_ones_have_no_feature() -> None:
    space = ez.make_vec("ViZDoom/deadly_corridor").single_observation_space
    seen = set()
    for batch, _, _ in played("deadly_corridor", 3):
        for name, row in named(batch, space):
            kinds = [feature for feature, value in row.items() if feature.startswith("is_") and value]
            seen.update((name, kind) for kind in kinds)
    assert {("Monster", "is_zombieman"), ("Monster", "is_shotgunguy"), ("Armor", "is_greenarmor")} <= seen
    types = list(ez.vizdoom.CATEGORIES)
    assert ez.vizdoom.classify("Cyborg7", "Monster") == (types.index("Monster"), -1)
    assert ez.vizdoom.classify("Thing", "A category of tomorrow") == (types.index("Other"), -1)


def test_effects_are_shown_on_request() -> None:
    space = ez.make_vec("ViZDoom/deadly_corridor", effects=True).single_observation_space
    rows = [e for batch, _, _ in played("deadly_corridor", 40, effects=True) for e in named(batch, space)]
    assert any(name == "Effect" for name, _ in rows)
    assert "Effect" not in ez.make_vec("ViZDoom/deadly_corridor").single_observation_space.entities


def test_walls_are_the_lines_near_the_player() -> None:
    options: dict[str, Any] = {"walls": True, "wall_distance": 500.0}
    space = ez.make_vec("ViZDoom/my_way_home", **options).single_observation_space
    for batch, state, game in played("my_way_home", 5, **options):
        x, y = (game.get_game_variable(v) for v in POSITION[:2])
        lines = set()
        for sector in state.sectors:
            for line in sector.lines:
                share = np.linspace(0, 1, 400)
                points = np.hypot(
                    line.x1 + share * (line.x2 - line.x1) - x, line.y1 + share * (line.y2 - line.y1) - y
                )
                if points.min() <= 500.0:
                    lines.add((line.x1, line.y1, line.x2, line.y2, float(line.is_blocking)))
        rows = [row for name, row in named(batch, space) if name == "Wall"]
        ends = ("x1", "y1", "x2", "y2")
        found = {(*(row[end] * LENGTH for end in ends), row["is_blocking"]) for row in rows}
        assert found == lines
        assert [row["distance"] for row in rows] == sorted(row["distance"] for row in rows)
        for row in rows:
            assert (row["forward1"] * LENGTH, row["left1"] * LENGTH) == pytest.approx(
                ahead(game, row["x1"] * LENGTH - x, row["y1"] * LENGTH - y), abs=0.02
            )


def test_a_finer_screen_shows_the_same_game() -> None:
    # Also those off the screen: a finer one may show a pixel of an object where a coarse one shows none.
    make = functools.partial(ez.make_vec, "ViZDoom/defend_the_line", visible_only=False)
    with make() as coarse, make(resolution="640x480") as fine, make(render_mode="rgb_array") as drawn:
        coarse.action_space.seed(5)
        envs = [coarse, fine, drawn]
        batches = [env.reset(seed=5)[0] for env in envs]
        for _ in range(15):
            assert drawn.render()[0].shape == (240, 320, 3)
            players = [batch.entities["Player"].values for batch in batches]
            assert (players[0] == players[1]).all() and (players[0] == players[2]).all()
            places = [batch.entities["Monster"][0][:, :2] for batch in batches]
            assert len(places[0]) and (places[0] == places[1]).all() and (places[0] == places[2]).all()
            action = coarse.action_space.sample(mask=batches[0])
            batches = [env.step(action)[0] for env in envs]
