"""Each view against a slow version of itself that goes through observations one number at a time."""

from functools import partial
from typing import Any

import entitize as ez
import numpy as np
import pytest
from entitize import views
from entitize.adapters.gymnasium.views import EntityEncoder, Scope, batches
from entitize.envs import ObservationError
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from facts import raises

SMALL = st.integers(0, 3)


def bind(view: views.View, space: spaces.Space) -> EntityEncoder:
    return view.bind(space, Scope("Test-v0", views.auto))


def encode(view: views.View, space: spaces.Space, observations: list) -> dict[str, list[list[list[float]]]]:
    """Per type and observation the rows, as lists."""
    encoder = bind(view, space)
    rows = encoder.encode(batches.stack(space, observations), len(observations))
    assert list(rows) == list(encoder.entities)
    for name, array in rows.items():
        assert array.dtype == np.float32 and len(array) == len(observations)
        assert array.inner_shape == (len(encoder.entities[name]),)
    return {name: [part.tolist() for part in array] for name, array in rows.items()}


def box(shape: tuple[int, ...], low: float = -10, high: float = 10, dtype: Any = np.float32) -> spaces.Box:
    return spaces.Box(low, high, shape, dtype)


tables = hnp.arrays(np.float32, st.tuples(st.integers(1, 4), st.integers(0, 5), st.just(4)), elements=SMALL)
grids = hnp.arrays(np.uint8, st.tuples(*[st.integers(1, 4)] * 4), elements=SMALL)


# -- Rows ---------------------------------------------------------------------------------------------------


@given(tables)
def test_rows_drop_the_absent_and_split_by_type(table):
    view = views.Rows(["here", "kind", "x", "y"], presence="here", type="kind", types=["A", "B", "C", "D"])
    expected: dict[str, list] = {name: [[] for _ in table] for name in "ABCD"}
    for step, rows in enumerate(table):
        for row in rows:
            if row[0] != 0:
                expected["ABCD"[int(row[1])]][step].append([row[2], row[3]])
    assert encode(view, box(table.shape[1:]), list(table)) == expected


@given(tables)
def test_rows_with_one_hot_types_an_observer_and_positions(table):
    view = views.Rows(["a", "b", "x", "y"], type=["a", "b"], first="self", index=True)
    expected: dict[str, list] = {name: [[] for _ in table] for name in ("self", "a", "b")}
    for step, rows in enumerate(table):
        for i, row in enumerate(rows):
            kind = "self" if i == 0 else "a" if row[0] else "b" if row[1] else None
            if kind is not None:
                expected[kind][step].append([row[2], row[3], i])
    space = box(table.shape[1:])
    assert bind(view, space).entities["self"] == ("x", "y", "row")
    assert encode(view, space, list(table)) == expected


@given(tables)
def test_flat_rows_and_sequences_are_tables_too(table):
    view = views.Rows(name="Unit", presence=lambda rows: rows.sum(1) > 4)
    expected = {"Unit": [[list(row) for row in rows if row.sum() > 4] for rows in table]}
    assert encode(view, box(table.shape[1:]), list(table)) == expected
    lengths = np.arange(len(table)) % (table.shape[1] + 1)
    ragged = [rows[:n] for rows, n in zip(table, lengths, strict=True)]
    expected = {"Unit": [[list(row) for row in rows if row.sum() > 4] for rows in ragged]}
    stacked = spaces.Sequence(box((4,)), stack=True)
    assert encode(view, stacked, ragged) == expected
    assert encode(view, spaces.Sequence(box((4,))), [tuple(rows) for rows in ragged]) == expected
    flat = views.Rows(columns=4, name="Unit")
    if table.shape[1]:
        wholes = {"Unit": [[list(row) for row in rows] for rows in table]}
        assert encode(flat, box((table.shape[1] * 4,)), [rows.reshape(-1) for rows in table]) == wholes


def test_type_ids_may_be_any_numbers_and_unknown_ones_are_named():
    view = views.Rows(["kind", "x"], type="kind", types={"Tree": 7, "Rock": -1})
    assert encode(view, box((3, 2)), [np.array([[7, 1], [-1, 2], [7, 3]], np.float32)]) == {
        "Tree": [[[1], [3]]],
        "Rock": [[[2]]],
    }
    with raises(ObservationError, 5.0, "column 'kind'", "{'Tree': 7, 'Rock': -1}"):
        encode(view, box((1, 2)), [np.array([[5, 1]], np.float32)])


# -- grids --------------------------------------------------------------------------------------------------


@given(grids, st.sampled_from(["hwc", "chw", "whc", "cwh"]))
def test_channels_make_an_entity_of_every_non_zero_cell(grid, layout):
    height, width, channels = (grid.shape[1 + layout.index(axis)] for axis in "hwc")
    names = [f"kind{c}" for c in range(channels)]
    expected: dict[str, list] = {name: [[] for _ in grid] for name in names}
    for step, one in enumerate(grid):
        plain = one.transpose([layout.index(axis) for axis in "hwc"])
        for c in range(channels):
            for y in range(height):
                for x in range(width):
                    if plain[y, x, c]:
                        expected[names[c]][step].append([x, y, plain[y, x, c]])
    space = box(grid.shape[1:], 0, 3, np.uint8)
    assert encode(views.Channels(names, layout=layout), space, list(grid)) == expected


@pytest.mark.parametrize(
    ("shape", "layout"),
    [
        ((2, 2, 5), "hwc"),  # 2048, chess: more planes than cells on a side
        ((5, 2, 2), "chw"),
        ((2, 5, 5), "chw"),
        ((5, 5, 2), "hwc"),
        ((2, 3, 5), "chw"),
        ((5, 3, 2), "hwc"),
        ((3, 3, 3), "hwc"),
        ((1, 1, 4), "chw"),
        ((4, 1, 1), "hwc"),
    ],
)
@pytest.mark.parametrize("view", [views.Channels, partial(views.Cells, ["a", "b"]), partial(views.Chunks, 1)])
def test_the_sides_of_a_square_board_are_not_its_channels(view, shape, layout):
    space = box(shape, 0, 1, np.uint8)
    seen = np.random.default_rng(0).integers(0, 2, (4, *shape), np.uint8)
    assert encode(view(), space, list(seen)) == encode(view(layout=layout), space, list(seen))


@given(hnp.arrays(np.bool_, (2, 3, 4, 3)))
def test_channels_of_bits_have_no_value_and_can_be_left_out(grid):
    view = views.Channels(["a", None, "c"], layout="hwc")
    space = spaces.MultiBinary((3, 4, 3))
    expected = {
        name: [[[x, y] for y in range(3) for x in range(4) if one[y, x, c]] for one in grid]
        for name, c in (("a", 0), ("c", 2))
    }
    assert encode(view, space, list(grid.astype(np.int8))) == expected


@given(hnp.arrays(np.int64, st.tuples(*[st.integers(1, 4)] * 3), elements=SMALL))
def test_cells_hold_objects_by_id(grid):
    view = views.Cells(["empty", "pawn", "wall", "king"], ignore=["empty", "wall"])
    expected: dict[str, list] = {"pawn": [[] for _ in grid], "king": [[] for _ in grid]}
    for step, one in enumerate(grid):
        for (y, x), number in np.ndenumerate(one):
            if number in (1, 3):
                expected["pawn" if number == 1 else "king"][step].append([x, y])
    assert encode(view, box(grid.shape[1:], 0, 3, np.int64), list(grid)) == expected


@given(
    hnp.arrays(
        np.uint8,
        st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(1, 4), st.just(3)),
        elements=SMALL,
    )
)
def test_cells_have_properties(grid):
    view = views.Cells(
        {"key": 3, "door": 1, "none": 0, "wall": 2},
        ignore=["none"],
        properties={"color": ["red", "green", "blue", "grey"], "state": None},
        name="Thing",
        layout="hwc",
    )
    space = box(grid.shape[1:], 0, 3, np.uint8)
    assert bind(view, space).entities["Thing"][:5] == ("x", "y", "is_key", "is_door", "is_wall")
    expected: list = [[] for _ in grid]
    for step, one in enumerate(grid):
        for y, x in np.ndindex(one.shape[:2]):
            number, color, state = (int(v) for v in one[y, x])
            if number != 0:
                kind = [float(number == i) for i in (3, 1, 2)]
                expected[step].append([x, y, *kind, *(float(color == i) for i in range(4)), state])
    assert encode(view, space, list(grid)) == {"Thing": expected}


@given(st.lists(st.lists(st.integers(-1, 2), min_size=6, max_size=6), min_size=1, max_size=3))
def test_cells_may_be_one_hot(boards):
    grid = np.array(boards).reshape(-1, 2, 3)
    one_hot = (grid[..., None] == np.arange(3)).astype(np.float32)
    with_health = np.concatenate([one_hot, grid[..., None]], -1).astype(np.float32)
    view = views.Cells(
        ["rock", "ant", "bee"], ignore=["rock"], one_hot=True, properties={"id": 3}, layout="hwc"
    )
    expected: dict[str, list] = {"ant": [[] for _ in grid], "bee": [[] for _ in grid]}
    for step, one in enumerate(grid):
        for (y, x), number in np.ndenumerate(one):
            if number > 0:
                row = [x, y, *(float(number == i) for i in range(3))]
                expected["ant" if number == 1 else "bee"][step].append(row)
    assert encode(view, box((2, 3, 4)), list(with_health)) == expected


def test_one_hot_channels_are_in_the_order_of_ids():
    grid = np.zeros((1, 2, 2), np.float32)
    grid[0, 0, 0] = grid[0, 1, 1] = 1  # id 0 at x = 0, id 1 at x = 1
    view = views.Cells({"bee": 1, "ant": 0}, one_hot=True, layout="hwc")
    assert encode(view, box((1, 2, 2)), [grid]) == {"bee": [[[1, 0]]], "ant": [[[0, 0]]]}
    table = np.array([[1, 0, 7], [0, 1, 8]], np.float32)
    rows = views.Rows(["a", "b", "x"], type=["a", "b"], types={"B": 1, "A": 0})
    assert encode(rows, box((2, 3)), [table]) == {"B": [[[8]]], "A": [[[7]]]}
    for wrong in (
        views.Cells({"bee": 2, "ant": 0}, one_hot=True, layout="hwc"),
        views.Rows(["a", "b", "x"], type=["a", "b"], types={"B": 2, "A": 0}),
    ):
        with raises(views.ViewError, "0 to 1", "{'", 2):
            bind(wrong, box((1, 2, 2)) if isinstance(wrong, views.Cells) else box((2, 3)))


def test_a_board_whose_ids_go_around_0_is_empty_at_0():
    board = np.array([[0, -1], [1, 0]])
    encoded = encode(views.auto(box((2, 2), -1, 1, np.int8)), box((2, 2), -1, 1, np.int8), [board])
    assert [cells for (cells,) in encoded.values()] == [[[1, 0, 1, 0], [0, 1, 0, 1]]]


def test_ids_that_no_object_has_are_named():
    view = views.Cells({"ant": 4, "bee": 6})
    for wrong in (3, 5, 7):
        with raises(ObservationError, "Test-v0", wrong, "{'ant': 4, 'bee': 6}"):
            encode(view, box((1, 1), 0, 9, np.int64), [np.array([[wrong]])])
    far = views.Cells({"bee": 2**40, "ant": -7, "wall": 0}, ignore=["wall"])
    grid = np.array([[-7, 0, 2**40]])
    assert encode(far, box((1, 3), -10, 2**41, np.int64), [grid]) == {"bee": [[[2, 0]]], "ant": [[[0, 0]]]}
    with raises(ObservationError, "object id 1"):
        encode(far, box((1, 3), -10, 2**41, np.int64), [grid + (grid == 0)])
    with raises(ObservationError, "color", 2):
        view = views.Cells(["a"], properties={"color": 2}, layout="hwc")
        encode(view, box((1, 1, 2), 0, 9, np.int64), [np.array([[[0, 2]]])])


@given(grids, st.integers(1, 3), st.booleans())
def test_chunks_cut_a_map_in_squares(grid, size, one_hot):
    view = views.Chunks(size, one_hot=4 if one_hot else None, name="Tile", layout="hwc")
    height, width, channels = grid.shape[1:]
    expected: list = [[] for _ in grid]
    for step, one in enumerate(grid):
        for top in range(0, height, size):
            for left in range(0, width, size):
                row: list[float] = [left, top]
                for y in range(top, top + size):
                    for x in range(left, left + size):
                        for c in range(channels):
                            inside = y < height and x < width
                            if one_hot:
                                row += [float(inside and one[y, x, c] == i) for i in range(4)]
                            else:
                                row.append(float(one[y, x, c]) if inside else 0.0)
                expected[step].append(row)
    assert encode(view, box(grid.shape[1:], 0, 3, np.uint8), list(grid)) == {"Tile": expected}


def test_a_height_field_and_stacked_frames_make_chunks():
    heights = np.arange(12, dtype=np.float32).reshape(3, 4)
    rows = encode(views.Chunks(2), box((3, 4)), [heights])["Chunk"][0]
    assert rows == [[0, 0, 0, 1, 4, 5], [2, 0, 2, 3, 6, 7], [0, 2, 8, 9, 0, 0], [2, 2, 10, 11, 0, 0]]
    frames = np.arange(2 * 2 * 3 * 4, dtype=np.float32).reshape(2, 2, 3, 4)  # two frames, (c, h, w) each
    row = encode(views.Chunks(4, layout="chw"), box((2, 2, 3, 4)), [frames])["Chunk"][0][0]
    assert row[2:6] == [frames[0, 0, 0, 0], frames[0, 1, 0, 0], frames[1, 0, 0, 0], frames[1, 1, 0, 0]]
    with raises(ObservationError, "cell 7", 0, 2):
        encode(views.Chunks(2, one_hot=3), box((1, 1)), [np.array([[7.0]], np.float32)])


# -- Vector, Items, Function --------------------------------------------------------------------------------


def test_a_vector_is_one_entity_or_several():
    numbers = np.arange(8, dtype=np.float32)
    assert encode(views.Vector(), box((8,)), [numbers, -numbers]) == {
        "Vector": [[numbers.tolist()], [(-numbers).tolist()]]
    }
    parts = {"Ball": ["x", "y"], "Paddle": 3, "End": slice(-2, None)}
    assert bind(views.Vector(parts), box((8,))).entities == {
        "Ball": ("x", "y"),
        "Paddle": ("x_2", "x_3", "x_4"),
        "End": ("x_6", "x_7"),
    }
    assert encode(views.Vector(parts), box((8,)), [numbers]) == {
        "Ball": [[[0, 1]]],
        "Paddle": [[[2, 3, 4]]],
        "End": [[[6, 7]]],
    }
    twice = views.Vector([("Ball", 2), ("Brick", 3), ("Brick", 3)])
    assert encode(twice, box((8,)), [numbers, numbers + 1]) == {
        "Ball": [[[0, 1]], [[1, 2]]],
        "Brick": [[[2, 3, 4], [5, 6, 7]], [[3, 4, 5], [6, 7, 8]]],
    }


def test_discrete_values_are_one_hot_and_many_are_binary():
    assert encode(views.Vector(), spaces.Discrete(3, start=-1), [1, -1]) == {
        "Vector": [[[0, 0, 1]], [[1, 0, 0]]]
    }
    several = spaces.MultiDiscrete([2, 3], start=[0, 5])
    assert bind(views.Vector(), several).entities["Vector"] == ("x_0=0", "x_0=1", "x_1=5", "x_1=6", "x_1=7")
    assert encode(views.Vector(), several, [np.array([1, 7])]) == {"Vector": [[[0, 1, 0, 0, 1]]]}
    many = spaces.Discrete(5000, start=10)
    rows = encode(views.Vector(), many, [10, 10 + 0b101, 5009])["Vector"]
    assert [int(sum(bit * 2**i for i, bit in enumerate(row[0]))) for row in rows] == [0, 0b101, 4999]
    with raises(ObservationError, "x", 3, 0, 2):
        encode(views.Vector(), spaces.Discrete(3), [3])


def test_functions_see_one_observation_or_all_of_them():
    def one(observation):
        return {"Big": observation[observation > 5][:, None]}

    view = views.Function(one, {"Big": ["size"], "Small": ["size"]})
    observations = [np.array([1, 7, 9], np.float32), np.array([1, 2, 3], np.float32)]
    expected = {"Big": [[[7], [9]], []], "Small": [[], []]}
    assert encode(view, box((3,)), observations) == expected

    def all_of_them(batch):
        from entitize import RaggedArray

        return {"Big": RaggedArray.from_lengths(batch[batch > 5][:, None], (batch > 5).sum(1))}

    assert (
        encode(
            views.Function(all_of_them, {"Big": ["size"], "Small": ["size"]}, batched=True),
            box((3,)),
            observations,
        )
        == expected
    )
    with raises(ObservationError, "type 'Huge'"):
        encode(views.Function(lambda _: {"Huge": []}, {"Big": ["size"]}), box((3,)), observations)
    with raises(ObservationError, "'Big'", "(1, 2)", "lane 0", "(n, 1)"):
        encode(views.Function(lambda _: {"Big": [[1, 2]]}, {"Big": ["size"]}), box((3,)), observations)
    with raises(ObservationError, "'Big'", "finite"):
        encode(views.Function(lambda _: {"Big": [[np.nan]]}, {"Big": ["size"]}), box((3,)), observations)
    for batched in (False, True):
        with raises(ObservationError, "NoneType", "dict"):
            encode(views.Function(lambda _: None, {"Big": ["size"]}, batched), box((3,)), observations)
    with raises(ObservationError, "'Big'", "(0, 2)", "lane 0", "(n, 1)"):
        function = views.Function(lambda _: {"Big": np.zeros((0, 2))}, {"Big": ["size"]})
        encode(function, box((3,)), observations)
    with raises(ObservationError, "'Big'", "ndarray", "RaggedArray"):
        encode(views.Function(lambda b: {"Big": b}, {"Big": ["size"]}, True), box((3,)), observations)
    with raises(ez.views.ViewError, "'math:nothing'"):
        bind(views.Function("math:nothing", {"Big": ["size"]}), box((3,)))


# -- what a view cannot read --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("view", "space", "facts"),
    [
        (views.Rows(), box((2, 3, 4), 0, 1, np.uint8), ["Rows", "table", "Channels()"]),
        (views.Rows(), box((6,)), [6, "columns="]),
        (views.Rows(columns=4), box((6,)), [6, "4 columns"]),
        (views.Rows(["a"]), box((2, 3)), [3, 1, "names", "['a']"]),
        (views.Rows(presence="here"), box((2, 3)), ["column 'here'"]),
        (views.Rows(type=3, types=["a"]), box((2, 3)), ["column 3", "3 columns"]),
        (views.Rows(type=0), box((2, 3)), ["type=0", "types="]),
        (views.Rows(type=[0, 1], types=["a"]), box((2, 3)), ["2 type columns", 1]),
        (views.Rows(type=0, types=["a", "a"]), box((2, 3)), ["type names", "['a', 'a']"]),
        (views.Rows(columns=2), box((2, 3)), ["3 columns", "columns=2"]),
        (views.Rows(columns=-2), box((6,)), ["row", "column", 1]),
        (views.Rows(), spaces.Discrete(3), ["Discrete(3)", "Rows", "Vector()"]),
        (
            views.Rows(),
            spaces.Sequence(spaces.Discrete(3)),
            ["Sequence", "Boxes", "Items()"],
        ),
        (views.Channels(), box((3,)), ["Channels", "grid", "Vector()"]),
        (views.Channels(["a"]), box((3, 3, 2)), ["2 channels", 1, "names"]),
        (views.Channels(["a", "a"]), box((3, 3, 2)), ["channel names"]),
        (views.Channels(layout="hw"), box((3, 3, 2)), ["layout", "'hw'"]),
        (views.Cells(["a"], ignore=["b"]), box((3, 3)), ["['b']", "['a']"]),
        (views.Cells({"a": 1, "b": 1}), box((3, 3)), ["object", "name", "id"]),
        (views.Cells(["a"], ignore=["a"]), box((3, 3)), ["every object", "ignored"]),
        (
            views.Cells(["a"], properties={"p": None}),
            box((3, 3, 3)),
            ["2 channels", 1],
        ),
        (views.Cells(["a", "b"], one_hot=True), box((3, 3)), ["channels", "2 one-hot objects"]),
        (views.Chunks(0), box((3, 3)), ["at least 1"]),
        (
            views.Vector(),
            spaces.Sequence(box((2,))),
            ["Vector", "Items()"],
        ),
        (views.Vector({"Ball": 4}), box((3,)), ["3 numbers", "part 'Ball'", 4, 0]),
        (views.Vector({"Ball": None}), box((3,)), ["part 'Ball'", "names", None]),  # type: ignore[dict-item]
        (views.Vector([("B", 1), ("B", 2)]), box((3,)), ["part 'B'", "2 numbers", 1]),
        (views.Vector(features=["a"]), box((3,)), ["3 numbers", 1, "names"]),
        (views.Vector(["a", "b", "c"]), box((3,)), ["parts", "pairs", "'a'", "features"]),
        (
            views.Items(),
            box((3,)),
            ["Items", "Dict", "Tuple", "Sequence", "Graph", "OneOf", "Vector()"],
        ),
        (
            views.Items({"b": None}),
            spaces.Dict(a=box((3,))),
            ["component 'b'", "['a']"],
        ),
        (views.Items({"a": None}), spaces.Dict(a=box((3,))), ["components"]),
        (
            views.Items({"a": views.Rows()}),
            spaces.Dict(a=spaces.Discrete(2)),
            ["observation_space['a']", "Discrete"],
        ),
        (views.Characters(), spaces.Discrete(2), ["Characters", "Text", "Vector()"]),
        (views.Words(["go"]), spaces.Discrete(2), ["Words", "texts"]),
    ],
)
def test_a_view_that_does_not_fit_names_the_place_and_what_would(view, space, facts):
    with raises(ez.views.ViewError, *facts) as caught:
        bind(view, space)
    assert str(caught.value).startswith("Test-v0: observation_space")


def test_two_parts_of_one_name_are_refused():
    space = spaces.Dict(a=box((2,)), b=box((2,)))
    view = views.Items({"a": views.Vector(name="Ball"), "b": views.Vector(name="Ball")})
    with raises(ez.views.ViewError, "['a']", "['b']", "entity type 'Ball'"):
        bind(view, space)


def test_observations_of_another_shape_or_without_sense_are_refused():
    encoder = bind(views.Rows(), box((3, 2)))
    with raises(ObservationError, "(3, 2)", "(2, 2)"):
        encoder.encode(np.zeros((1, 2, 2), np.float32), 1)
    broken = np.zeros((2, 3, 2), np.float32)
    broken[1, 2, 0] = np.nan
    with raises(ObservationError, "nan", "[2, 0]", "lane 1"):
        encoder.encode(broken, 2)


def test_a_view_shows_itself_as_the_call_that_makes_it():
    assert repr(views.Rows(["x", "y"], name="Car")) == "Rows(features=['x', 'y'], name='Car')"
    assert repr(views.Items()) == "Items()"


@pytest.mark.parametrize("answer", [np.bool_(True), np.ones((3, 2), bool)])
def test_a_presence_predicate_says_something_about_each_row(answer):
    encoder = bind(views.Rows(presence=lambda rows: answer), box((3, 2)))
    with raises(ObservationError, "predicate", "(3,)"):
        encoder.encode(np.zeros((1, 3, 2), np.float32), 1)


@pytest.mark.parametrize(
    ("view", "space"),
    [
        (views.Cells(["a", "b"]), box((1, 1))),
        (views.Cells(["a"], properties={"kind": 2}, layout="hwc"), box((1, 1, 2))),
        (views.Chunks(1, one_hot=2), box((1, 1))),
        (views.Vector(), spaces.MultiDiscrete([2])),
    ],
)
def test_ids_that_are_no_whole_numbers_are_refused(view, space):
    observation = np.zeros((1, *space.shape), np.float32)
    bind(view, space).encode(observation, 1)
    observation[..., -1] = 0.5
    with raises(ObservationError, 0.5):
        bind(view, space).encode(observation, 1)


def test_columns_without_rows_or_arrays():
    space = spaces.Dict(a=box((0,)), b=box((0, 2)))
    assert encode(views.Columns("Item"), space, [space.sample()] * 2) == {"Item": [[], []]}
    with raises(views.ViewError, "Columns", "equal length", "{}"):
        bind(views.Columns(), spaces.Dict())
