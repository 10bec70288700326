"""Authors' own classes as entities."""

from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import entitize as ez
import numpy as np
import pytest
from entitize import (
    ActionError,
    Categorical,
    EntityEnv,
    GlobalCategorical,
    Obs,
    ObservationError,
    Scale,
    SelectEntity,
    check_entity_env,
    declare,
    entity,
)
from entitize.envs import CategoricalMask, GlobalCategoricalMask, SelectEntityMask

from facts import raises


class Terrain(Enum):
    SAND = "sand"
    ROCK = "rock"


class Rank(IntEnum):
    LOW = 1
    HIGH = 2


class Point(NamedTuple):
    x: float
    y: float


@dataclass
class Engine:
    power: float
    on: bool
    _serial: str = ""


@entity
class Everything:
    number: float
    count: int
    flag: bool
    kind: Literal["scout", "miner", 3, 0, False]
    terrain: Terrain
    rank: Rank
    place: Point
    pair: tuple[int, Literal["a", "b"]]
    engine: Engine
    target: Point | None
    hp: Annotated[int, Scale(1 / 100)]
    size: Annotated[tuple[float, float], Scale(10)]
    _name: str = "secret"
    limit: ClassVar[int] = 5


def an_entity(**changes: Any) -> Everything:
    values: dict[str, Any] = {
        "number": 1.5,
        "count": 2,
        "flag": True,
        "kind": "miner",
        "terrain": Terrain.ROCK,
        "rank": Rank.HIGH,
        "place": Point(3, 4),
        "pair": (5, "b"),
        "engine": Engine(6, False),
        "target": None,
        "hp": 50,
        "size": (0.1, 0.2),
    }
    return Everything(**{**values, **changes})


FEATURES = {
    "number": 1.5,
    "count": 2,
    "flag": 1,
    "kind=scout": 0,
    "kind=miner": 1,
    "kind=3": 0,
    "kind=0": 0,
    "kind=False": 0,
    "terrain=SAND": 0,
    "terrain=ROCK": 1,
    "rank=LOW": 0,
    "rank=HIGH": 1,
    "place.x": 3,
    "place.y": 4,
    "pair_0": 5,
    "pair_1=a": 0,
    "pair_1=b": 1,
    "engine.power": 6,
    "engine.on": 0,
    "target?": 0,
    "target.x": 0,
    "target.y": 0,
    "hp": 0.5,
    "size_0": 1,
    "size_1": 2,
}


def test_annotations_become_features():
    schema = ez.entities.schema_of(Everything)
    assert schema.name == "Everything" and schema.features == tuple(FEATURES)
    rows = schema.rows([an_entity(), an_entity(kind=3, target=Point(7, 8), hp=-10)])
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows[0], list(FEATURES.values()), rtol=1e-6)
    changed = {
        **FEATURES,
        "kind=miner": 0,
        "kind=3": 1,
        "target?": 1,
        "target.x": 7,
        "target.y": 8,
        "hp": -0.1,
    }
    np.testing.assert_allclose(rows[1], list(changed.values()), rtol=1e-6)
    assert schema.rows([]).shape == (0, len(FEATURES))


def test_entities_are_dataclasses_told_apart_by_identity():
    one, other = an_entity(), an_entity()
    assert one != other and len({one, other}) == 2
    assert "number=1.5, count=2" in repr(one)

    @entity(name="Tiny", frozen=True, slots=True)
    class Small:
        x: float = 0.0
        y: float = field(default=2.0, kw_only=True)

    assert ez.entities.schema_of(Small).name == "Tiny"
    seen = Obs(Small(1.0), Small(3.0, y=4.0))
    assert np.asarray(seen.entities["Tiny"]).tolist() == [[1, 2], [3, 4]]


def test_classes_inside_a_function_may_use_what_is_there():
    class Local(Enum):
        A = 0
        B = 1

    @entity
    class Thing:
        local: "Local"

    assert ez.entities.schema_of(Thing).features == ("local=A", "local=B")


def test_a_derived_class_has_the_features_of_its_base_first():
    @entity
    class Base:
        x: float

    @entity
    class Derived(Base):
        y: float

    assert ez.entities.schema_of(Derived).features == ("x", "y") and ez.entities.schema_of(Base).features == (
        "x",
    )

    class Plain(Base):
        pass

    with raises(TypeError, "Plain", "@entity"):
        Obs(Plain(1.0))


def make(annotation: Any) -> Any:
    return entity(type("Thing", (), {"__annotations__": {"what": annotation}}))


@pytest.mark.parametrize(
    ("annotation", "facts"),
    [
        (str, ["Thing.what", "str", "Literal", "Enum"]),
        (list[float], ["Thing.what", "list[float]", "tuple"]),
        (tuple[float, ...], ["Thing.what", "tuple[float, ...]", "length"]),
        (dict, ["Thing.what", "dict", "tuple"]),
        (float | int, ["Thing.what", "float | int", "bool", "Enum"]),
        (tuple[int, str], ["Thing.what[1]", "str"]),
        (object, ["Thing.what", "object", "bool", "Enum"]),
        ("Unknown", ["Thing", "annotation", "'Unknown'"]),
    ],
)
def test_annotations_that_are_no_features_are_named_with_what_would_be_one(annotation, facts):
    with raises(TypeError, *facts):
        make(annotation)


def test_nested_fields_are_named_by_their_path():
    @dataclass
    class Inner:
        tags: list[str]

    with raises(TypeError, "Thing.what.tags", "list[str]"):
        make(Inner)


def test_dataclasses_and_equal_entities_are_refused():
    with raises(TypeError, "Engine", "dataclass", "@entity"):
        entity(Engine)
    with raises(TypeError, "identity", "eq=True"):

        @entity(eq=True)
        class Thing:
            x: float


@pytest.mark.parametrize(
    ("change", "facts"),
    [
        ({"kind": "boss"}, ["Everything.kind", "'boss'"]),
        ({"kind": True}, ["Everything.kind", True]),
        ({"terrain": "sand"}, ["Everything.terrain", "'sand'"]),
        ({"number": "much"}, ["Everything.number", "number", "'much'"]),
        ({"number": [1, 2]}, ["Everything.number"]),
        ({"pair": (1,)}, ["Everything.pair", 2, "(1,)"]),
        ({"engine": 3}, ["Everything.engine", "Engine", 3]),
        ({"place": None}, ["Everything.place", "Point", None]),
    ],
)
def test_values_that_do_not_fit_are_named(change, facts):
    with raises(ObservationError, *facts):
        Obs([an_entity(), an_entity(**change)])


# -- an environment written with them -----------------------------------------------------------------------


class Move(Enum):
    STAY = 0
    LEFT = -1
    RIGHT = 1


@entity
class Drone:
    x: int
    kind: Literal["scout", "miner"]
    hp: Annotated[int, Scale(1 / 100)] = 100
    _log: tuple = ()


@entity
class Mineral:
    x: int


@entity
class Weather:
    wind: float
    rain: bool


class Mining(EntityEnv):
    """Drones move and mine; scouts only move."""

    def __init__(self) -> None:
        self.observation_space, self.action_space = declare(
            entities=[Drone, Mineral],
            actions={"move": Move, "mine": SelectEntity(), "alarm": GlobalCategorical(["off", "on"])},
            optional=True,
            global_features=Weather,
            hidden=True,
        )

    def _reset(self, options: dict[str, Any]) -> Obs:
        places = self.np_random.integers(-3, 4, 3).tolist()
        self.drones = [Drone(places[0], "scout"), *(Drone(x, "miner") for x in places[1:])]
        self.minerals = [Mineral(int(x)) for x in self.np_random.integers(-3, 4, 2)]
        self.moves: list = []
        return self._look()

    def _step(self, actions: dict[str, Any]) -> Any:
        for drone, move in ez.entities.orders(actions["move"], Move):
            assert isinstance(drone, Drone) and isinstance(move, Move)
            drone.x += move.value
            self.moves.append((drone, move))
        mine = actions["mine"]
        for drone, mineral in zip(mine.actors, mine.actees, strict=True):
            assert drone.kind == "miner"
            if mineral in self.minerals:
                self.minerals.remove(mineral)
        return self._look(), 0.0, len(self.minerals) < 2, False, {}

    def _look(self) -> Obs:
        miners = [drone for drone in self.drones if drone.kind == "miner"]
        mine = SelectEntityMask(actor_ids=miners, actee_ids=self.minerals[1:])  # the first is hidden
        return Obs(
            self.drones,
            entities=self.minerals,
            globals=Weather(0.5, True),
            actions={
                "move": {d: [Move.STAY] if abs(d.x) > 5 else Move for d in self.drones},
                "alarm": GlobalCategoricalMask(),
                **({"mine": mine} if self.minerals[1:] else {}),
            },
            hidden=self.minerals[:1],
        )


def test_an_environment_of_ones_own_objects_conforms():
    check_entity_env(Mining(), 40)


@pytest.mark.parametrize("of_program", ["score", "reward"])
def test_what_is_for_programs_is_refused(of_program: str):
    class Scored(Mining):
        def _look(self) -> Obs:
            return Obs(self.drones, globals=Weather(0.5, True), **{of_program: self.given})

    env = Scored()
    env.given = 100
    with raises(ObservationError, "Scored._reset", f"{of_program}=100", "ez.program", "(observation, reward"):
        env.reset()
    env.given = None
    env.reset()
    env.given = 0
    with raises(ObservationError, "Scored._step", f"{of_program}=0"):
        env.step({})


def test_objects_come_back_with_the_orders():
    env = Mining()
    seen, _ = env.reset(seed=1)
    assert list(env.observation_space.entities) == ["Drone", "Mineral"]
    assert env.observation_space.entities["Drone"] == ("x", "kind=scout", "kind=miner", "hp")
    assert env.observation_space.global_features == ("wind", "rain") and seen["globals"].tolist() == [0.5, 1]
    assert env.action_space["move"] == Categorical(["STAY", "LEFT", "RIGHT"])
    assert [row[:1].tolist() for row in seen["entities"]["Drone"]] == [[d.x] for d in env.drones]
    assert seen["visible"]["Mineral"].tolist() == [0, 1] and seen["visible"]["Drone"].tolist() == [1, 1, 1]
    before = [drone.x for drone in env.drones]
    env.step({"move": np.array([1, 2, 0])})
    assert [drone.x for drone in env.drones] == [before[0] - 1, before[1] + 1, before[2]]
    assert [(drone is mine, move) for (drone, move), mine in zip(env.moves, env.drones, strict=True)] == [
        (True, Move.LEFT),
        (True, Move.RIGHT),
        (True, Move.STAY),
    ]
    env.drones[0].x = 9
    env.step({})
    with raises(ActionError, "action 'move'", 2, "'RIGHT'", "not allowed", 0, "'STAY'"):
        env.step({"move": np.array([2, 0, 0])})


MOVES = ["STAY", "LEFT", "RIGHT"]


class Gear(Enum):
    """As many members as Move."""

    FIRST = 0
    SECOND = 1
    THIRD = 2


@pytest.mark.parametrize("name", ["move", "alarm"])
def test_members_of_another_enum_are_refused(name):
    class Wrong(EntityEnv):
        observation_space, action_space = declare(
            entities=[Drone], actions={"move": Move, "alarm": GlobalCategorical(Move)}
        )

        def _reset(self, options):
            drone = Drone(0, "scout")
            return Obs(drone, actions={name: {drone: [Gear.FIRST]} if name == "move" else Gear})

        def _step(self, actions):
            raise AssertionError

    with raises(ObservationError, "Wrong", f"action {name!r}", "FIRST, SECOND, THIRD", "STAY, LEFT, RIGHT"):
        Wrong().reset()


def test_an_alias_in_an_enum_is_no_choice_of_its_own():
    class Turn(Enum):
        LEFT = 0
        RIGHT = 1
        PORT = 0  # noqa: PIE796 - an alias is meant

    _, actions = declare(entities=[Drone], actions={"turn": Turn})
    assert actions["turn"].choices == ("LEFT", "RIGHT")
    drone = Drone(0, "scout")
    mask = Obs(drone, actions={"turn": {drone: [Turn.PORT]}}).actions["turn"]
    assert mask.mask == [[True, False]] and mask.choices == ["LEFT", "RIGHT"]


def test_who_may_act_is_said_briefly():
    drones = [Drone(0, "scout"), Drone(1, "miner")]
    mask = CategoricalMask(actor_ids=drones[:1])
    seen = Obs(
        drones,
        actions={
            "all": drones,
            "some": {drones[0]: [Move.LEFT, Move.RIGHT], drones[1]: Move},
            "global": Move,
            "limited": [Move.STAY],
            "mask": mask,
            "nobody": [],
            "none": {},
        },
    )
    assert seen.actions["all"] == CategoricalMask(actor_ids=drones)
    assert seen.actions["some"] == CategoricalMask(
        actor_ids=drones, mask=[[False, True, True], [True, True, True]], choices=MOVES
    )
    assert seen.actions["global"] == GlobalCategoricalMask(choices=MOVES)
    assert seen.actions["limited"] == GlobalCategoricalMask(mask=[True, False, False], choices=MOVES)
    assert seen.actions["mask"] is mask and set(seen.actions) == {"all", "some", "global", "limited", "mask"}
    assert ez.entities.orders(None, Move) == []


def test_things_come_alone_in_lists_and_in_lists_of_lists():
    one, others = Drone(0, "scout"), [Drone(1, "miner"), Drone(2, "scout")]
    seen = Obs(one, [others, [Mineral(7)]], entities=(Mineral(i) for i in range(2)))
    assert np.asarray(seen.entities["Drone"])[:, 0].tolist() == [0, 1, 2]
    assert np.asarray(seen.entities["Mineral"]).tolist() == [[7], [0], [1]]
    assert seen.ids["Drone"] == [one, *others]
    assert Obs().entities == {} and Obs(globals=[1, 2]).globals == [1, 2]


def test_what_cannot_be_declared_is_named():
    with raises(TypeError, "'drone'", "@entity"):
        Obs("drone")
    with raises(ObservationError, "hidden", "entities"):
        Obs(Mineral(1), hidden=[Mineral(1)])
    with raises(TypeError, 3, "@entity"):
        Obs(3)
    with raises(TypeError, "action 'move'", "Enum", 3):
        declare(entities=[Drone], actions={"move": 3})  # type: ignore[dict-item]
    with raises(TypeError, "Engine", "@entity"):
        declare(entities=[Engine], actions={})
    with raises(TypeError, "two classes", "entity type 'Drone'"):
        declare(entities=[Drone, Drone], actions={})
    with raises(ObservationError, "action 'move'", "Enum"):
        Obs(actions={"move": {Drone(0, "scout"): []}})
