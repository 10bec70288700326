"""A default view for every space, alone and nested."""

import entitize as ez
import numpy as np
import pytest
from entitize import ObservationError, views
from entitize.adapters.gymnasium.views import Scope, batches
from gymnasium import spaces
from gymnasium.spaces import (
    Box,
    Dict,
    Discrete,
    Graph,
    GraphInstance,
    MultiBinary,
    MultiDiscrete,
    OneOf,
    Text,
    Tuple,
)
from gymnasium.vector.utils import concatenate, create_empty_array

from facts import raises

SCOPE = Scope("Test-v0", views.auto)
PLANE = Box(-1, 1, (2,), np.float32)
UNIT = Dict(position=PLANE, kind=Discrete(3))

EVERY_SPACE = {
    "number": Box(-1, 1, (), np.float64),
    "vector": Box(-1, 1, (5,), np.float32),
    "table": Box(-1, 1, (3, 4), np.float32),
    "height field": Box(-1, 1, (20, 70), np.float32),
    "board of ids": Box(0, 6, (5, 5), np.int64),
    "picture": Box(0, 255, (16, 16, 3), np.uint8),
    "grey picture": Box(0, 255, (16, 16), np.uint8),
    "stacked pictures": Box(0, 255, (2, 16, 16, 3), np.uint8),
    "bit planes": Box(0, 1, (6, 6, 4), bool),
    "discrete": Discrete(7, start=-2),
    "big discrete": Discrete(100_000),
    "multi-discrete": MultiDiscrete([2, 3, 4], start=[0, 1, 2]),
    "multi-discrete board": MultiDiscrete(np.full((3, 3), 3)),
    "unsigned discrete": Discrete(5, dtype=np.uint8),
    "unsigned multi-discrete": MultiDiscrete([3, 4], dtype=np.uint64),
    "sequence of unsigned discrete": spaces.Sequence(Discrete(4, dtype=np.uint16)),
    "multi-binary": MultiBinary(4),
    "multi-binary grid": MultiBinary((3, 4)),
    "text": Text(6),
    "dict": Dict(a=PLANE, b=Discrete(2), c=Dict(d=Box(0, 255, (8, 8, 3), np.uint8))),
    "tuple": Tuple((Discrete(3), PLANE, Tuple((Discrete(2), Discrete(2))))),
    "sequence": spaces.Sequence(PLANE),
    "stacked sequence": spaces.Sequence(PLANE, stack=True),
    "sequence of discrete": spaces.Sequence(Discrete(4), stack=True),
    "sequence of dicts": spaces.Sequence(UNIT),
    "stacked sequence of dicts": spaces.Sequence(UNIT, stack=True),
    "sequence of texts": spaces.Sequence(Text(5)),
    "stacked sequence of texts": spaces.Sequence(Text(5), stack=True),
    "sequence of sequences": spaces.Sequence(spaces.Sequence(PLANE, stack=True), stack=True),
    "sequence of pictures": spaces.Sequence(Box(0, 255, (8, 8, 3), np.uint8), stack=True),
    "graph": Graph(PLANE, Discrete(3)),
    "graph without edges": Graph(Discrete(5), None),
    "graph of dicts": Graph(UNIT, UNIT),
    "one of": OneOf((PLANE, Discrete(3), spaces.Sequence(PLANE))),
    "all together": Dict(
        units=spaces.Sequence(UNIT),
        map=Box(0, 1, (4, 4, 2), bool),
        roads=Graph(PLANE, PLANE),
        clock=Discrete(3),
    ),
}


def samples(space: spaces.Space, count: int) -> list:
    space.seed(3)
    return [space.sample() for _ in range(count)]


@pytest.mark.parametrize("name", EVERY_SPACE)
def test_every_space_has_a_view_that_reads_its_samples(name):
    space = EVERY_SPACE[name]
    encoder = views.auto(space).bind(space, SCOPE)
    observations = samples(space, 5)
    rows = encoder.encode(batches.stack(space, observations), 5)
    assert set(rows) == set(encoder.entities)
    for kind, features in encoder.entities.items():
        assert rows[kind].values.shape[1] == len(features) == len(set(features))
        assert rows[kind].dtype == np.float32 and len(rows[kind]) == 5
    assert sum(array.num_items for array in rows.values()) > 0
    for lane, observation in enumerate(observations):  # a batch is nothing but its lanes
        alone = encoder.encode(batches.stack(space, [observation]), 1)
        for kind in rows:
            np.testing.assert_array_equal(alone[kind].values, rows[kind][lane])


@pytest.mark.parametrize("name", EVERY_SPACE)
def test_batches_have_the_layout_of_gymnasium(name):
    space = EVERY_SPACE[name]
    observations = samples(space, 4)
    batch = batches.stack(space, observations)
    theirs = concatenate(space, observations, create_empty_array(space, 4))
    assert_same(batch, theirs)
    assert batches.size(space, batch) == 4
    assert_same(
        batches.join(space, [batches.stack(space, observations[:1]), batches.stack(space, observations[1:])]),
        batch,
    )
    assert_same(
        batches.select(space, batch, np.array([3, 1])),
        batches.stack(space, [observations[3], observations[1]]),
    )
    assert_same(batches.pick(space, batch, 2), observations[2])
    assert batches.size(space, batches.stack(space, [])) == 0


def assert_same(one: object, other: object) -> None:
    if isinstance(one, dict):
        assert isinstance(other, dict) and one.keys() == other.keys()
        for key in one:
            assert_same(one[key], other[key])
    elif isinstance(one, tuple):
        assert isinstance(other, tuple) and len(one) == len(other)
        for mine, theirs in zip(one, other, strict=True):
            assert_same(mine, theirs)
    else:
        np.testing.assert_array_equal(one, other)  # type: ignore[arg-type]


def test_defaults_are_the_views_one_would_choose():
    chosen = {name: type(views.auto(space)).__name__ for name, space in EVERY_SPACE.items()}
    assert chosen["vector"] == chosen["discrete"] == chosen["multi-binary"] == "Vector"
    assert chosen["table"] == "Rows" and views.auto(EVERY_SPACE["table"]) == views.Rows(index=True)
    assert chosen["height field"] == chosen["picture"] == chosen["grey picture"] == "Chunks"
    assert chosen["bit planes"] == chosen["multi-binary grid"] == "Channels"
    assert chosen["board of ids"] == chosen["multi-discrete board"] == "Cells"
    assert chosen["graph"] == chosen["sequence"] == chosen["one of"] == chosen["dict"] == "Items"
    assert chosen["text"] == "Characters"


def test_a_space_of_somebody_else_needs_a_declared_view():
    class Strange(spaces.Space):
        def __repr__(self) -> str:
            return "Strange()"

    with raises(ez.views.ViewError, "Strange()", "Function"):
        views.auto(Strange())
    view = views.Function(lambda thing: {"Thing": [[thing]]}, {"Thing": ["size"]})
    assert view.bind(Strange(), SCOPE).encode((3, 4), 2)["Thing"].values.tolist() == [[3], [4]]


def test_graphs_become_nodes_and_edges_that_know_their_ends():
    space = Graph(PLANE, Discrete(2))
    graphs = (
        GraphInstance(
            np.array([[1, 2], [3, 4]], np.float32), np.array([1, 0, 1]), np.array([[0, 1], [1, 0], [1, 1]])
        ),
        GraphInstance(np.array([[5, 6]], np.float32), None, None),
    )
    encoder = views.Items().bind(space, SCOPE)
    assert encoder.entities == {
        "Node": ("node", "x_0", "x_1"),
        "Edge": ("source", "target", "x=0", "x=1"),
    }
    rows = encoder.encode(graphs, 2)
    assert [part.tolist() for part in rows["Node"]] == [[[0, 1, 2], [1, 3, 4]], [[0, 5, 6]]]
    assert [part.tolist() for part in rows["Edge"]] == [[[0, 1, 0, 1], [1, 0, 1, 0], [1, 1, 0, 1]], []]
    without = views.Items({"edges": None}).bind(space, SCOPE)
    assert list(without.entities) == ["Node"] and list(without.encode(graphs, 2)) == ["Node"]
    with raises(ez.views.ViewError, "'nodes'"):
        views.Items({"nodes": None}).bind(space, SCOPE)
    assert encoder.encode((), 0)["Edge"].values.shape == (0, 4)


@pytest.mark.parametrize("link", [[0, 2], [-1, 0]])
def test_edges_to_nodes_that_are_not_there_are_refused(link):
    """The second graph has fewer nodes than the first."""
    space = spaces.Dict(roads=Graph(PLANE, Discrete(2)))
    nodes, edge = np.zeros((3, 2), np.float32), np.array([1])
    graphs = GraphInstance(nodes, edge, np.array([[0, 2]])), GraphInstance(nodes[:2], edge, np.array([link]))
    encoder = views.Items().bind(space, SCOPE)
    with raises(ObservationError, "observation_space['roads']", "edge_links", "2 nodes", str(link)):
        encoder.encode({"roads": graphs}, 2)


def test_lists_in_lists_carry_their_item():
    space = spaces.Sequence(spaces.Sequence(PLANE, stack=True))
    encoder = views.auto(space).bind(space, SCOPE)
    (features,) = encoder.entities.values()
    assert features == ("item", "item_0", "item_1")
    pair = np.array([[1, 2], [3, 4]], np.float32)
    rows = encoder.encode((((pair[:1]), pair), ()), 2)
    assert [part.tolist() for part in rows["item"]] == [[[0, 1, 2], [1, 1, 2], [1, 3, 4]], []]


def test_paths_reach_into_nested_spaces():
    space = Dict(
        world=Dict(
            units=spaces.Sequence(Dict(at=PLANE, life=Discrete(2))), map=Box(0, 255, (4, 4), np.uint8)
        ),
        rest=Tuple((Discrete(2), PLANE)),
    )
    view = views.Items(
        {
            "world/map": views.Chunks(2, name="Tile"),
            "world/units/item": views.Vector(name="Unit"),
            "rest/0": None,
            "rest/1": views.Vector(name="Wind", features=["east", "north"]),
        }
    )
    encoder = view.bind(space, SCOPE)
    assert list(encoder.entities) == ["Unit", "Tile", "Wind"]
    assert encoder.entities["Wind"] == ("east", "north")
    rows = encoder.encode(batches.stack(space, samples(space, 3)), 3)
    assert rows["Tile"].lengths.tolist() == [4, 4, 4] and rows["Wind"].lengths.tolist() == [1, 1, 1]


def test_texts_are_characters_or_words():
    text = Text(8, charset="abc")
    encoder = views.Characters().bind(text, SCOPE)
    index = encoder.entities["Character"].index("is_'b'")
    rows = encoder.encode(("ab", ""), 2)["Character"]
    assert (
        rows.lengths.tolist() == [2, 0]
        and rows.values[1, index] == 1
        and rows.values[:, 0].tolist() == [0, 1]
    )
    words = views.Words(["go", "to", "the", "red"], name="Word").bind(text, SCOPE)
    assert words.encode(("Go to the red.",), 1)["Word"].values.tolist() == [
        [i, *(float(i == j) for j in range(4))] for i in range(4)
    ]
    with raises(ObservationError, "'blue'", "vocabulary"):
        words.encode(("go to the blue",), 1)


def test_alternatives_show_the_one_that_is_there():
    space = OneOf((PLANE, spaces.Sequence(PLANE, stack=True)))
    encoder = views.auto(space).bind(space, SCOPE)
    pair = np.array([[1, 2], [3, 4]], np.float32)
    rows = encoder.encode(((1, pair), (0, pair[0]), (1, pair[:0])), 3)
    assert rows["part_0"].lengths.tolist() == [0, 1, 0]
    assert [part.tolist() for part in rows["part_1"]] == [[[1, 2], [3, 4]], [], []]
    for index in (2, -1):
        with raises(ObservationError, "observation_space", "from 0 to 1", index):
            encoder.encode(((0, pair[0]), (index, 1)), 2)
