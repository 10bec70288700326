"""Maps cut into chunks: every cell is where it belongs, in every game."""

from __future__ import annotations

import entitize as ez
import numpy as np
import pytest
from entitize.adapters.procgen.reference import reference_tiles

WITH_TILES = sorted(name for name, game in ez.procgen.GAMES.items() if game.tiles)


def tile_names(tiles):
    return {number: tile.name for tile in tiles for number in tile.ids}


def player_cell(state):
    player = state["entities"][0]
    return int(np.floor(player["x"])), int(np.floor(player["y"]))


def window(centre, size, chunk=5, chunks=5):
    """The cells along one axis that the centred window covers."""
    if size <= chunk * chunks:
        return range(size)
    reach = chunk * chunks // 2
    return range(max(0, centre - reach), min(size, centre + reach + 1))


def check_state(cells, state, names, columns, rows):
    """Each emitted cell is right, and each cell of the window is there or space."""
    grid = state["grid"]
    for (x, y), tile in cells.items():
        inside = 0 <= x < state["grid_width"] and 0 <= y < state["grid_height"]
        assert tile == (names[grid[y, x]] if inside else None)
    for y in rows:
        for x in columns:
            assert (x, y) in cells or names[grid[y, x]] == "space"


@pytest.mark.parametrize("mode", ["easy", "hard"])
@pytest.mark.parametrize("game", WITH_TILES)
def test_the_window_is_complete_and_right_and_has_the_players_own_cell(
    game, mode, dumps_of, slow_decode, cells_in
):
    dumps = dumps_of(game, mode, num_snapshots=14, lanes=6, steps_between=20)  # 90 states
    decoder = ez.procgen.StateDecoder(game, mode)
    chunks = decoder.decode_dumps(dumps).batch.entities["Tiles"]
    names = tile_names(ez.procgen.GAMES[game].tiles)
    for index, dump in enumerate(dumps):
        state = slow_decode(dump)
        x, y = player_cell(state)
        cells = cells_in(decoder, chunks[index])
        assert cells.get((x, y), "space") == names[state["grid"][y, x]]
        if index % 6 == 0:
            columns, rows = window(x, state["grid_width"]), window(y, state["grid_height"])
            check_state(cells, state, names, columns, rows)


@pytest.mark.parametrize("mode", ["easy", "hard"])
@pytest.mark.parametrize("game", WITH_TILES)
def test_without_skipping_space_the_players_cell_is_the_middle_of_the_middle_chunk(
    game, mode, dumps_of, slow_decode
):
    dumps = dumps_of(game, mode, num_snapshots=14, lanes=6, steps_between=20)
    decoder = ez.procgen.StateDecoder(game, mode, ez.procgen.ViewOptions(skip_space=False))
    names = tile_names(ez.procgen.GAMES[game].tiles)
    columns = decoder.tile_names
    chunks = decoder.decode_dumps(dumps).batch.entities["Tiles"]
    for index, dump in enumerate(dumps):
        state = slow_decode(dump)
        x, y = player_cell(state)
        rows = chunks[index]
        # The chunk whose centre is less than a cell away from the player holds it in its middle cell.
        (own,) = np.flatnonzero((np.abs(rows[:, 2:4]) < 0.06).all(1))
        middle = rows[own, 4:].reshape(5, 5, len(columns))[2, 2]
        assert columns[int(middle.argmax())] == names[state["grid"][y, x]] and middle.sum() == 1


@pytest.mark.parametrize("mode", ["easy", "hard"])
@pytest.mark.parametrize(
    ("game", "options"),
    [
        *((game, options) for game in WITH_TILES for options in ({}, {"visible_only": True})),
        *((game, {"features": "reference"}) for game in WITH_TILES if reference_tiles(game)),
    ],
    ids=str,
)
def test_player_tiles_are_the_cells_around_the_player(game, mode, options, dumps_of, slow_decode):
    visible_only = "visible_only" in options
    plain, wide = (
        ez.procgen.StateDecoder(game, mode, ez.procgen.ViewOptions(**options, player_tiles=size))
        for size in (0, 4)
    )
    tiles = reference_tiles(game) if "features" in options else ez.procgen.GAMES[game].tiles
    names = {n: (tile.pixels if visible_only else "") or tile.name for tile in tiles for n in tile.ids}
    dumps = dumps_of(game, mode, num_snapshots=14, lanes=6, steps_between=20)
    without, batch = plain.decode_dumps(dumps).batch, wide.decode_dumps(dumps).batch
    own = len(plain.observation_space.entities["Player"])
    columns = list(wide.observation_space.entities["Player"])[own:]
    for name in without.entities:
        expected, got = without.entities[name].values, batch.entities[name].values
        np.testing.assert_array_equal(expected, got[:, :own] if name == "Player" else got)
    for index, dump in enumerate(dumps):
        state = slow_decode(dump)
        cell_x, cell_y = player_cell(state)
        expected = dict.fromkeys(columns, 0.0)
        expected["in_cell_x"] = state["entities"][0]["x"] - cell_x
        expected["in_cell_y"] = state["entities"][0]["y"] - cell_y
        half = state["visibility"] / 2 if visible_only else np.inf
        for dx in range(-4, 5):
            for dy in range(-4, 5):
                x, y = cell_x + dx, cell_y + dy
                inside = 0 <= x < state["grid_width"] and 0 <= y < state["grid_height"]
                off_x, off_y = abs(x + 0.5 - state["center_x"]), abs(y + 0.5 - state["center_y"])
                if inside and max(off_x, off_y) < half + 0.5:
                    expected[f"{names[state['grid'][y, x]]}_{dx}_{dy}"] = 1.0
        np.testing.assert_allclose(
            batch.entities["Player"][index][0, own:], list(expected.values()), atol=1e-6
        )


@pytest.mark.parametrize(
    ("game", "mode", "shape"),
    [
        ("climber", "easy", (64, 16)),
        ("climber", "hard", (64, 20)),
        ("maze", "memory", (31, 31)),
        ("caveflyer", "memory", (60, 60)),
        ("heist", "easy", (9, 9)),
        ("chaser", "extreme", (19, 19)),
        ("ninja", "easy", (64, 64)),
        ("jumper", "memory", (45, 45)),
    ],
)
@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("chunk_size", [3, 5, 8])
def test_the_whole_map_has_each_cell_once(
    game, mode, shape, centred, chunk_size, dumps_of, slow_decode, cells_in
):
    options = ez.procgen.ViewOptions(whole_map=True, centred=centred, chunk_size=chunk_size, skip_space=False)
    decoder = ez.procgen.StateDecoder(game, mode, options)
    dumps = dumps_of(game, mode)[::17]
    chunks = decoder.decode_dumps(dumps).batch.entities["Tiles"]
    for index, dump in enumerate(dumps):
        state = slow_decode(dump)
        assert state["grid"].shape == shape
        cells = cells_in(decoder, chunks[index])
        inside = {(x, y) for y in range(shape[0]) for x in range(shape[1])}
        assert inside <= set(cells)
        check_state(cells, state, tile_names(ez.procgen.GAMES[game].tiles), range(shape[1]), range(shape[0]))


@pytest.mark.parametrize("mode", ["easy", "hard"])
@pytest.mark.parametrize("game", [game for game in WITH_TILES if game != "leaper"])
def test_reference_chunks_are_complete_and_hold_the_player(game, mode, dumps_of, slow_decode, cells_in):
    decoder = ez.procgen.StateDecoder(game, mode, ez.procgen.ViewOptions("reference"))
    assert decoder.chunk_size == (4 if game == "chaser" else 5)
    dumps = dumps_of(game, mode)
    chunks = decoder.decode_dumps(dumps).batch.entities["Tiles"]
    names = tile_names(reference_tiles(game))
    for index, dump in enumerate(dumps):
        state = slow_decode(dump)
        width, height = state["grid_width"], state["grid_height"]
        cells = cells_in(decoder, chunks[index], scale=1)
        assert player_cell(state) in cells
        assert len(chunks[index]) == np.prod(
            [min(-(-size // decoder.chunk_size), 5) for size in (width, height)]
        )
        check_state(cells, state, names, (), ())


def test_the_reference_has_no_tiles_in_leaper():
    assert (
        "Tiles"
        not in ez.procgen.StateDecoder(
            "leaper", "easy", ez.procgen.ViewOptions("reference")
        ).observation_space.entities
    )


@pytest.mark.parametrize("window_size", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("centred", [True, False])
def test_windows_of_any_size_are_right_at_the_edges_of_the_map(
    window_size, centred, dumps_of, slow_decode, cells_in
):
    options = ez.procgen.ViewOptions(window=window_size, chunk_size=4, centred=centred, skip_space=False)
    decoder = ez.procgen.StateDecoder("coinrun", "hard", options)
    dumps = dumps_of("coinrun", "hard")
    chunks = decoder.decode_dumps(dumps).batch.entities["Tiles"]
    names = tile_names(ez.procgen.GAMES["coinrun"].tiles)
    for index, dump in enumerate(dumps):
        state = slow_decode(dump)
        cells = cells_in(decoder, chunks[index])
        assert player_cell(state) in cells
        check_state(cells, state, names, (), ())
        if not centred:
            assert len(chunks[index]) == window_size**2


def test_chunks_of_nothing_but_space_are_left_out(dumps_of):
    dumps = dumps_of("coinrun", "easy")
    few, all_of_them = (
        ez.procgen.StateDecoder("coinrun", "easy", ez.procgen.ViewOptions(skip_space=skip))
        .decode_dumps(dumps)
        .batch.entities["Tiles"]
        for skip in (True, False)
    )
    one_hots = all_of_them.values[:, 4:].reshape(-1, 25, 4)
    is_space = one_hots[:, :, 0].sum(1) == one_hots.sum((1, 2))
    assert 0 < is_space.sum() < len(is_space)
    np.testing.assert_array_equal(few.values, all_of_them.values[~is_space])


def test_positions_of_chunks_are_centres_absolute_and_seen_from_the_player(dumps_of, slow_decode):
    dumps = dumps_of("jumper", "easy")
    batch = ez.procgen.StateDecoder("jumper").decode_dumps(dumps).batch
    for index, dump in enumerate(dumps):
        player = slow_decode(dump)["entities"][0]
        rows = batch.entities["Tiles"][index]
        seen = rows[:, :2] - np.array([player["x"], player["y"]]) * 0.1
        np.testing.assert_allclose(rows[:, 2:4], seen, atol=1e-5)
