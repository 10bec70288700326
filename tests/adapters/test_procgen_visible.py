"""visible_only: what the pixels show, and nothing else; and no random generator in any observation."""

from __future__ import annotations

import re

import entitize as ez
import numpy as np
import pytest

CENTRED = [
    ("caveflyer", "easy"),
    ("climber", "hard"),
    ("coinrun", "easy"),
    ("coinrun", "hard"),
    ("fruitbot", "easy"),
    ("jumper", "easy"),
    ("ninja", "hard"),
    *((game, "memory") for game in ("caveflyer", "dodgeball", "heist", "jumper", "maze", "miner")),
]


def view_of(state):
    """left, right, bottom, top in cells."""
    half = state["visibility"] / 2
    x, y = state["center_x"], state["center_y"]
    return x - half, x + half, y - half, y + half


def is_in_view(entity, state):
    left, right, bottom, top = view_of(state)
    x, y, rx, ry = (entity[name] for name in ("x", "y", "rx", "ry"))
    return x + rx > left and x - rx < right and y + ry > bottom and y - ry < top


@pytest.mark.parametrize(("game", "mode"), CENTRED)
def test_entities_out_of_view_are_left_out(game, mode, dumps_of, slow_decode, is_in_sight):
    dumps = dumps_of(game, mode)
    table = ez.procgen.GAMES[game]
    batch = (
        ez.procgen.StateDecoder(game, mode, ez.procgen.ViewOptions(visible_only=True))
        .decode_dumps(dumps)
        .batch
    )
    left_out = 0
    for index, dump in enumerate(dumps):
        state = slow_decode(dump)
        for kind in table.types[1:]:
            here = [entity for entity in state["entities"] if entity["type"] in kind.ids]
            tracked = kind.tracked and mode != "memory"
            seen = [
                e for e in here if tracked or (is_in_view(e, state) and is_in_sight(e, state, table.sight))
            ]
            assert len(batch.entities[kind.name][index]) == len(seen)
            left_out += len(here) - len(seen)
    assert left_out > 0 or len(table.types) == 1


@pytest.mark.parametrize(("game", "mode"), [pair for pair in CENTRED if ez.procgen.GAMES[pair[0]].tiles])
@pytest.mark.parametrize("features", ["default", "reference"])
def test_tiles_out_of_view_are_in_no_column(game, mode, features, dumps_of, slow_decode, cells_in):
    dumps = dumps_of(game, mode)[::4]
    decoder = ez.procgen.StateDecoder(
        game, mode, ez.procgen.ViewOptions(features, visible_only=True, skip_space=False)
    )
    full = ez.procgen.StateDecoder(
        game, mode, ez.procgen.ViewOptions(features, skip_space=False, whole_map=True)
    )
    batch, whole = decoder.decode_dumps(dumps).batch, full.decode_dumps(dumps).batch
    unseen = 0
    for index, dump in enumerate(dumps):
        state = slow_decode(dump)
        left, right, bottom, top = view_of(state)
        scale, origin = (
            (1, (0, 0)) if features == "reference" else (0.1, (state["center_x"], state["center_y"]))
        )
        rows = batch.entities["Tiles"][index].copy()
        rows[:, 0] += np.float32(origin[0] * scale)
        rows[:, 1] += np.float32(origin[1] * scale)
        cells, everything = (
            cells_in(decoder, rows, scale),
            cells_in(full, whole.entities["Tiles"][index], scale),
        )
        drawn_as = {"enemy_barrier": "space", "moving_boulder": "boulder", "moving_diamond": "diamond"}
        for (x, y), tile in everything.items():
            if x + 1 > left and x < right and y + 1 > bottom and y < top:
                assert tile is None or cells[x, y] == drawn_as.get(tile, tile)
            else:
                assert cells.get((x, y)) is None
                unseen += tile is not None
    assert unseen > 0


def test_hidden_numbers_are_left_out(game):
    shown = ez.procgen.StateDecoder(game, "easy", ez.procgen.ViewOptions(visible_only=True)).observation_space
    everything = ez.procgen.StateDecoder(game).observation_space
    table = ez.procgen.GAMES[game]
    for kind in table.types:
        hidden = {f.name for f in kind.features if f.hidden}
        assert set(everything.entities[kind.name]) - set(shown.entities[kind.name]) == hidden
    assert set(everything.global_features) - set(shown.global_features) == {
        f.name for f in table.globals if f.hidden
    }


def test_positions_are_counted_from_the_centre_of_the_view(game, dumps_of, slow_decode):
    dumps = dumps_of(game, "easy")
    decoder = ez.procgen.StateDecoder(game, "easy", ez.procgen.ViewOptions(visible_only=True))
    players = decoder.decode_dumps(dumps).batch.entities["Player"].values
    for row, dump in zip(players, dumps, strict=True):
        state = slow_decode(dump)
        assert row[0] == pytest.approx((state["entities"][0]["x"] - state["center_x"]) * 0.1, abs=1e-5)


def test_shields_that_are_down_are_not_seen(dumps_of, slow_decode):
    dumps = dumps_of("bossfight", "easy", num_snapshots=14, lanes=6, steps_between=7)
    for visible_only in (False, True):
        options = ez.procgen.ViewOptions("reference", visible_only=visible_only)
        batch = ez.procgen.StateDecoder("bossfight", "easy", options).decode_dumps(dumps).batch
        up = [slow_decode(dump)["shields_are_up"] for dump in dumps]
        assert set(up) == {0, 1}
        expected = up if visible_only else [1] * len(up)
        assert batch.entities["Shields"].lengths.tolist() == expected


def test_keys_that_are_not_held_are_not_on_the_ring(dumps_of, slow_decode):
    dumps = dumps_of("heist", "hard", num_snapshots=12, lanes=6, steps_between=7)
    options = ez.procgen.ViewOptions("reference", visible_only=True)
    lengths = (
        ez.procgen.StateDecoder("heist", "hard", options)
        .decode_dumps(dumps)
        .batch.entities["KeyOnRing"]
        .lengths
    )
    held = [sum(slow_decode(dump)["has_keys"]) for dump in dumps]
    assert lengths.tolist() == held and max(held) > 0


def test_barriers_that_turn_enemies_round_are_space_to_the_eye(dumps_of, slow_decode):
    dumps = dumps_of("coinrun", "hard")
    assert any((slow_decode(dump)["grid"] == 19).any() for dump in dumps)
    for options in (
        ez.procgen.ViewOptions(),
        ez.procgen.ViewOptions(visible_only=True),
        ez.procgen.ViewOptions("reference", visible_only=True),
    ):
        assert "enemy_barrier" not in ez.procgen.StateDecoder("coinrun", "hard", options).tile_names
    assert (
        "enemy_barrier"
        in ez.procgen.StateDecoder("coinrun", "hard", ez.procgen.ViewOptions("reference")).tile_names
    )


def test_spawners_are_never_entities(dumps_of, slow_decode):
    dumps = dumps_of("starpilot", "hard")
    batch = (
        ez.procgen.StateDecoder("starpilot", "hard", ez.procgen.ViewOptions("reference"))
        .decode_dumps(dumps)
        .batch
    )
    assert any(slow_decode(dump)["spawners"] for dump in dumps)
    expected = [len(slow_decode(dump)["entities"]) for dump in dumps]
    assert np.diff(batch.entity_offsets).tolist() == expected


@pytest.mark.parametrize(
    "options",
    [
        ez.procgen.ViewOptions(),
        ez.procgen.ViewOptions("reference"),
        ez.procgen.ViewOptions(visible_only=True),
    ],
)
def test_no_random_generator_shows_in_an_observation(game, options, dumps_of, slow_decode):
    dumps = dumps_of(game, "easy")[-6:]
    others = []
    for dump in dumps:
        for _, text in slow_decode(dump)["generators"]:
            if text:
                dump = dump.replace(text, re.sub(rb"\d", b"7", text))
        others.append(dump)
    assert sum(a != b for a, b in zip(dumps, others, strict=True)) == len(dumps)
    decoder = ez.procgen.StateDecoder(game, "easy", options)
    batch, other = decoder.decode_dumps(dumps).batch, decoder.decode_dumps(others).batch
    for name, rows in batch.entities.items():
        assert rows == other.entities[name]
    np.testing.assert_array_equal(batch.globals, other.globals)


def test_what_is_drawn_at_random_within_a_step_is_no_default_feature():
    names = {f.slot for game in ez.procgen.GAMES.values() for f in game.globals}
    names |= {f.slot for game in ez.procgen.GAMES.values() for kind in game.types for f in kind.features}
    assert not {name for name in names if "rand" in name}
