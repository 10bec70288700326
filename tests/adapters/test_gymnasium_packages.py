"""`wrap` on environments of other packages, or on minimal environments with the form of theirs."""

import re
from typing import Any

import entitize as ez
import gymnasium
import numpy as np
import pytest
from entitize import views, wrap, wrap_vec
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv

from facts import raises
from peers import make

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:.*freesansbold")


class Form(gymnasium.Env[Any, Any]):
    """An environment of some form: its spaces, samples as observations, a reward of 0."""

    def __init__(self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]) -> None:
        self.observation_space, self.action_space = observation_space, action_space
        self.actions: list[Any] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        self.actions.append(action)
        return self.observation_space.sample(), 0.0, False, False, {}


def whole(high: int, *shape: int) -> spaces.Box:
    return spaces.Box(0, high, shape, np.uint8)


def test_grids_of_a_dict_are_named_by_their_paths():
    """tetris-gymnasium 0.3: four grids of ids."""
    shapes = {"board": (24, 18), "holder": (4, 4), "queue": (4, 16)}
    env = wrap(Form(spaces.Dict({k: whole(9, *v) for k, v in shapes.items()}), spaces.Discrete(8)))
    assert list(env.observation_space.entities) == list(shapes)
    raw, seen = env.env.reset(seed=1)[0], env.reset(seed=1)[0]
    for name in shapes:
        assert len(seen["entities"][name]) == np.count_nonzero(raw[name])
    board = wrap(Form(whole(9, 4, 4), spaces.Discrete(2)))
    assert list(board.observation_space.entities) == ["Cell"]


def test_racetrack_cells_are_vehicles_and_road():
    env = wrap(make("racetrack-v1"))
    raw, seen = env.env.reset(seed=3)[0], env.reset(seed=3)[0]
    assert env.observation_space.entities == {"Vehicle": ("x", "y"), "Road": ("x", "y")}
    for name, channel in (("Vehicle", 0), ("Road", 1)):
        x, y = seen["entities"][name].astype(int).T
        assert len(x) and (raw[channel, x, y] != 0).all() and len(x) == np.count_nonzero(raw[channel])


def test_an_occupied_cell_has_the_features_of_its_vehicle():
    features = ["vx", "presence", "vy", "on_road"]
    observation = {"type": "OccupancyGrid", "features": features}
    env = wrap(make("racetrack-v1", config={"observation": observation}))
    raw, seen = env.env.reset(seed=3)[0], env.reset(seed=3)[0]
    assert env.observation_space.entities == {"Vehicle": ("x", "y", "vx", "vy"), "Road": ("x", "y")}
    assert len(seen["entities"]["Vehicle"]) == np.count_nonzero(raw[1])
    for x, y, vx, vy in seen["entities"]["Vehicle"]:
        assert raw[0, int(x), int(y)] == vx and raw[2, int(x), int(y)] == vy


def test_features_of_channels_are_channels():
    space = spaces.Box(-1, 1, (3, 3, 2), np.float32)
    with raises(views.ViewError, "'speed'", "'car'"):
        wrap(Form(space, spaces.Discrete(2)), views.Channels(["car", "vx"], features={"car": ["speed"]}))
    view = views.Channels(["car", "vx"], features={"car": ["vx"]})
    env = wrap(Form(space, spaces.Discrete(2)), view)
    raw, seen = env.env.reset(seed=1)[0], env.reset(seed=1)[0]
    assert env.observation_space.entities == {"car": ("x", "y", "value", "vx")}
    x, y = seen["entities"]["car"][:, :2].astype(int).T
    np.testing.assert_array_equal(seen["entities"]["car"][:, 2:], raw[y, x])


def test_goals_have_the_features_of_the_car():
    env = wrap(make("parking-v0"))
    assert env.observation_space.entities["desired_goal"] == ("x", "y", "vx", "vy", "cos_h", "sin_h")


class Team(Form):
    """lb-foraging and rware: Tuples of `n_agents` observations and actions, a list of rewards."""

    n_agents = 2

    def __init__(self) -> None:
        super().__init__(
            spaces.Tuple([spaces.Box(-1, 1, (9,), np.float32)] * 2), spaces.Tuple([spaces.Discrete(6)] * 2)
        )

    def step(self, action: Any) -> Any:
        observation, _, *rest = super().step(action)
        return observation, [1.0, 2.0], *rest


class Summed(gymnasium.Wrapper[Any, Any, Any, Any]):
    def step(self, action: Any) -> Any:
        observation, rewards, *rest = self.env.step(action)
        return observation, sum(rewards), *rest


def test_rewards_of_many_agents_are_refused_before_any_step():
    for build in (lambda: wrap(Team()), lambda: wrap_vec(SyncVectorEnv([Team]))):
        with raises(TypeError, "Team", "n_agents", 2, "LinearReward", "from_pettingzoo"):
            build()
    env = wrap(Summed(Team()))
    env.reset()
    assert env.step({"0": 1, "1": 2})[1] == 3


class TwoObjectives(Form):
    """Multi-objective: two rewards, declared."""

    reward_space = spaces.Box(-1, 1, (2,), np.float32)

    def __init__(self) -> None:
        super().__init__(spaces.Box(-1, 1, (2,), np.float32), spaces.Discrete(2))

    def step(self, action: Any) -> Any:
        observation, _, *rest = super().step(action)
        return observation, np.float32([1, 2]), *rest


class MOClipReward(gymnasium.RewardWrapper[Any, Any]):
    """MO-Gymnasium's, which clips each number."""

    __module__ = "mo_gymnasium.wrappers.wrappers"

    def reward(self, reward: Any) -> Any:
        return np.clip(reward, 0, 1)


class Quarrel(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Makes two rewards of one, and declares them."""

    reward_space = spaces.Box(-1, 1, (2,), np.float32)

    def step(self, action: Any) -> Any:
        observation, reward, *rest = self.env.step(action)
        return observation, np.float32([reward, -reward]), *rest


class Turned(gymnasium.ObservationWrapper[Any, Any, Any]):
    def observation(self, observation: Any) -> Any:
        return -observation


SEVERAL = {
    "a clipped vector": lambda: MOClipReward(TwoObjectives()),
    "ClipReward": lambda: gymnasium.wrappers.ClipReward(TwoObjectives(), 0, 1),
    "an own observation wrapper": lambda: Turned(TwoObjectives()),
    "a wrapper that declares them": lambda: gymnasium.wrappers.TimeLimit(Quarrel(Summed(TwoObjectives())), 9),
    "highway-env": lambda: make("intersection-multi-agent-v1"),
}
ONE = {
    "a sum by an own wrapper": lambda: gymnasium.wrappers.TimeLimit(Summed(TwoObjectives()), 9),
    "a clipped sum": lambda: gymnasium.wrappers.ClipReward(Summed(MOClipReward(TwoObjectives())), 0, 3),
    "a transformation": lambda: gymnasium.wrappers.TransformReward(TwoObjectives(), sum),
    "highway-env": lambda: Summed(make("intersection-multi-agent-v1")),
    "highway-env's mean": lambda: make("intersection-multi-agent-v0"),
}


@pytest.mark.parametrize("build", SEVERAL.values(), ids=SEVERAL)
def test_rewards_of_several_numbers_are_refused_where_they_are_known(build: Any) -> None:
    env = build()
    with raises(TypeError, "rewards", "one number", "LinearReward"):
        wrap(env)
    with raises(TypeError, "rewards", "one number", "LinearReward"):
        wrap_vec(SyncVectorEnv([lambda: env]))
    with raises(TypeError, "rewards", "one number", "LinearReward"):
        ez.make_vec(build, num_envs=2)


@pytest.mark.parametrize("build", ONE.values(), ids=ONE)
def test_rewards_that_a_wrapper_may_combine_pass(build: Any) -> None:
    wrap(build())


def test_vector_wrappers_may_combine_rewards() -> None:
    inside = SyncVectorEnv([TwoObjectives])
    wrap_vec(gymnasium.wrappers.vector.TransformReward(inside, lambda rewards: rewards.sum(-1)))
    with raises(TypeError, "TwoObjectives", "rewards"):
        wrap_vec(gymnasium.wrappers.vector.RecordEpisodeStatistics(inside))


class Array:
    """An array of another library, such as JAX's, that NumPy can read."""

    def __init__(self, value: Any) -> None:
        self.value = np.asarray(value)
        self.dtype = self.value.dtype

    def __array__(self, dtype: Any = None) -> np.ndarray:
        return self.value.astype(dtype or self.dtype)

    def __bool__(self) -> bool:
        return bool(self.value)


class Foreign(Form):
    """Wrappers of Jumanji and gymnax: `unwrapped` is no Gymnasium environment; JAX's arrays come back."""

    def __init__(self) -> None:
        super().__init__(spaces.Box(-1, 1, (3,), np.float32), spaces.Discrete(2))

    @property
    def unwrapped(self) -> Any:
        return object()

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return Array(np.ones(3, np.float32)), {}

    def step(self, action: Any) -> Any:
        return Array(np.zeros(3, np.float32)), Array(np.float32(2)), Array(True), Array(False), {}


def test_small_grids_from_0_to_1_have_objects_in_their_channels():
    """MinAtar in gymnax, Jumanji's Snake: floats that are 0 or 1."""
    env = wrap(Form(spaces.Box(0, 1, (10, 10, 4), np.float32), spaces.Discrete(3)))
    assert isinstance(env.view, views.Channels) and len(env.observation_space.entities) == 4
    picture = spaces.Box(0, 1, (64, 64, 3), np.float32)
    assert isinstance(views.auto(picture), views.Chunks)


class Slot:
    def __init__(self, category: str, *meanings: str) -> None:
        self.category, self._ns_meaning = category, meanings
        self._nsrepr = [0] * sum(2 if meaning == "POSITION" else 1 for meaning in meanings)


class Objects(Form):
    """OCAtari 2.2: slots of objects in four frames, zeros where there is none."""

    __module__ = "ocatari.core"

    def __init__(self) -> None:
        super().__init__(spaces.Box(0, 255, (4, 7), np.float32), spaces.Discrete(2))
        self._slots = [Slot("Player", "POSITION"), *[Slot("Shark", "POSITION")] * 2, Slot("Oxygen", "VALUE")]

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        frames = np.zeros((4, 7), np.float32)
        frames[:, :2] = [[10, 1], [11, 1], [12, 1], [13, 1]]
        frames[:3, 2:4] = [20, 30]  # it has gone
        frames[3, 4:6] = [50, 60]
        return frames, {}


def test_objects_in_slots_have_their_category_as_type():
    env = wrap(Objects())
    entities = env.observation_space.entities
    assert entities["Shark"] == ("x_3_ago", "y_3_ago", "x_2_ago", "y_2_ago", "x_1_ago", "y_1_ago", "x", "y")
    assert entities["Oxygen"] == ("value_3_ago", "value_2_ago", "value_1_ago", "value")
    seen, _ = env.reset()
    assert seen["entities"]["Player"].tolist() == [[10, 1, 11, 1, 12, 1, 13, 1]]
    assert seen["entities"]["Shark"].tolist() == [[0, 0, 0, 0, 0, 0, 50, 60]]
    assert len(seen["entities"]["Oxygen"]) == 0


def test_environments_around_other_libraries_work():
    env = wrap(Foreign())
    seen, _ = env.reset(seed=1)
    assert seen["entities"]["Vector"].tolist() == [[1, 1, 1]]
    _, reward, terminated, truncated, _ = env.step({"action": 0})
    assert (reward, terminated, truncated) == (2.0, True, False)


# -- arrays of equal length ---------------------------------------------------------------------------------


def numbers(*shape: int) -> spaces.Box:
    return spaces.Box(-1, 1, shape, np.float32)


KNAPSACK = {"packed_items": spaces.MultiBinary(6), "values": numbers(6), "weights": numbers(6)}
SECTOR = {
    **{name: numbers(1) for name in ("cos(drift)", "sin(drift)", "airspeed")},
    **{name: numbers(4) for name in ("x_r", "y_r", "vx_r", "vy_r", "cos(track)", "sin(track)", "distances")},
}
INVENTORY = {
    "blstats": numbers(27),
    "inv_glyphs": whole(200, 5),
    "inv_letters": whole(127, 5),
    "inv_strs": whole(255, 5, 3),
    "message": whole(255, 25),
}


def test_arrays_of_equal_length_are_a_table():
    """Jumanji's Knapsack, bluesky-gym's sectors, NetHack's inventory."""
    knapsack = wrap(Form(spaces.Dict(KNAPSACK), spaces.Discrete(6)))
    assert knapsack.view == views.Columns(index=True)
    assert knapsack.observation_space.entities == {"Row": ("packed_items", "values", "weights", "row")}
    raw, seen = knapsack.env.reset(seed=1)[0], knapsack.reset(seed=1)[0]
    for i, row in enumerate(seen["entities"]["Row"]):
        assert row.tolist() == [raw["packed_items"][i], raw["values"][i], raw["weights"][i], i]

    sector = wrap(Form(spaces.Dict(SECTOR), numbers(2)))
    assert len(sector.observation_space.entities["Row"]) == 8 and len(sector.observation_space.entities) == 4
    assert len(sector.reset(seed=1)[0]["entities"]["Row"]) == 4

    inventory = wrap(Form(spaces.Dict(INVENTORY), spaces.Discrete(23)))
    raw, seen = inventory.env.reset(seed=1)[0], inventory.reset(seed=1)[0]
    assert set(inventory.observation_space.entities) == {"blstats", "inv", "message"}
    np.testing.assert_array_equal(seen["entities"]["inv"][:, 0], raw["inv_glyphs"])
    np.testing.assert_array_equal(seen["entities"]["inv"][:, 2:5], raw["inv_strs"])


FOOD = {name: numbers(5) for name in ("enemy_x", "enemy_y", "food_x", "food_y")}


@pytest.mark.parametrize(
    ("names", "tables"),
    [
        (FOOD, {"enemy": ["enemy_x", "enemy_y"], "food": ["food_x", "food_y"]}),
        ([*FOOD, "alive"], {"enemy": ["enemy_x", "enemy_y"], "food": ["food_x", "food_y"]}),
        (["x_a", "x_b", "y_a", "y_b"], {"a": ["x_a", "y_a"], "b": ["x_b", "y_b"]}),
        (["enemy_x", "food_x", "food_y"], {"food": ["food_x", "food_y"]}),
    ],
)
@pytest.mark.parametrize("more", [{}, {"blood": numbers(2)}])
@pytest.mark.parametrize("nested", [False, True])
def test_arrays_that_may_be_one_table_or_several_are_refused(names, tables, more, nested):
    parts = spaces.Dict({**{name: numbers(5) for name in names}, **more})
    env = Form(spaces.Dict(here=parts, own=numbers(2)) if nested else parts, spaces.Discrete(2))
    place = "observation_space['here']" if nested else "observation_space"
    with raises(views.ViewError, f"Form: {place}: ", *names) as caught:
        wrap(env)
    offers = re.findall(r"views\.(?:Columns\(\)|Items\(\{.*?\}\))", str(caught.value))
    one, several = (eval(offer) for offer in offers)
    rows = wrap(env, views.Items({"here": one}) if nested else one).reset(seed=1)[0]["entities"]
    assert [len(values) for values in rows.values()].count(5) == 1
    seen = wrap(env, views.Items({"here": several}) if nested else several)
    raw, entities = seen.env.reset(seed=1)[0], seen.reset(seed=1)[0]["entities"]
    for label, members in tables.items():
        columns = [(raw["here"] if nested else raw)[name] for name in members]
        np.testing.assert_array_equal(entities[label], np.column_stack(columns))


def test_tables_are_named_by_their_path():
    enemies = {"enemy_x": numbers(5), "enemy_y": numbers(5)}
    env = wrap(Form(spaces.Dict(p=spaces.Dict(enemies), q=spaces.Dict(enemies)), spaces.Discrete(2)))
    assert set(env.observation_space.entities) == {"p/enemy", "q/enemy"}
    raw, seen = env.env.reset(seed=1)[0], env.reset(seed=1)[0]
    for key in "pq":
        np.testing.assert_array_equal(seen["entities"][f"{key}/enemy"][:, 0], raw[key]["enemy_x"])
    items = {"item": spaces.Discrete(3), "item_v": numbers(5), "item_w": numbers(5)}
    env = wrap(Form(spaces.Dict(items), spaces.Discrete(2)))
    assert set(env.observation_space.entities) == {"item", "item_v"}
    assert env.observation_space.entities["item_v"] == ("item_v", "item_w", "row")
    env = wrap(Form(spaces.Dict(enemies), spaces.Discrete(2)))
    assert set(env.observation_space.entities) == {"enemy"}


@pytest.mark.parametrize(
    "parts",
    [
        {"achieved_goal": numbers(6), "desired_goal": numbers(6), "observation": numbers(6)},
        {"position": numbers(3), "velocity": numbers(3), "acceleration": numbers(3)},
        {"state": numbers(4, 1), "derivative": numbers(4, 1), "reference_state": numbers(4, 1)},
        {"lidar": numbers(8), "speeds": numbers(8)},
        {"actions/Move/actors": numbers(5), "actions/Move/mask": numbers(5), "actions/Fire/mask": numbers(5)},
    ],
)
def test_places_goals_and_unrelated_arrays_are_no_table(parts):
    assert views.auto(spaces.Dict(parts)) == views.Items()


def test_columns_take_the_options_of_rows():
    space = spaces.Dict(
        {"kind": spaces.MultiDiscrete([3, 3]), "on": spaces.MultiBinary(2), "at": numbers(2, 2)}
    )
    env = wrap(Form(space, spaces.Discrete(2)), views.Columns("Lamp", presence="on"))
    assert env.observation_space.entities == {"Lamp": ("at_0", "at_1", "kind=0", "kind=1", "kind=2")}
    for seed in range(8):
        raw, seen = env.env.reset(seed=seed)[0], env.reset(seed=seed)[0]
        present = raw["on"] == 1
        expected = np.column_stack([raw["at"], raw["kind"][:, None] == np.arange(3)])[present]
        np.testing.assert_array_equal(seen["entities"]["Lamp"], expected.astype(np.float32))
    venv = wrap_vec(SyncVectorEnv([lambda: Form(space, spaces.Discrete(2))] * 3), env.view)
    batch, _ = venv.reset(seed=0)
    for lane in range(3):
        single = env.reset(seed=lane)[0]["entities"]["Lamp"]
        np.testing.assert_array_equal(batch.entities["Lamp"][lane], single)


def test_some_components_are_viewed_together():
    space = spaces.Tuple([numbers(3), numbers(3), numbers(2)])
    view = views.Items({"0,1": views.Columns("Pair"), "2": views.Vector(name="Own")})
    env = wrap(Form(space, spaces.Discrete(2)), view)
    raw, seen = env.env.reset(seed=1)[0], env.reset(seed=1)[0]
    assert env.observation_space.entities == {"Pair": ("0", "1"), "Own": ("2_0", "2_1")}
    np.testing.assert_array_equal(seen["entities"]["Pair"], np.column_stack(raw[:2]))
    slashed = spaces.Dict({"a/x": numbers(3), "a/y": numbers(3), "a/z": numbers(2)})
    env = wrap(Form(slashed, spaces.Discrete(2)), views.Items({"a/x, a/y": views.Columns("Pair")}))
    assert list(env.observation_space.entities) == ["Pair", "a/z"]
    dropped = wrap(Form(space, spaces.Discrete(2)), views.Items({"0,1": None}))
    assert list(dropped.observation_space.entities) == ["part_2"]


@pytest.mark.parametrize(
    ("view", "facts"),
    [
        (views.Columns(), ["equal length", 3, 2, "Items({'a,b': Columns()})"]),
        (views.Rows(), ["Dict", "Items({'a,b': Columns()})"]),
        (views.Items({"a,z": views.Columns()}), ["'a,z'", "'z'"]),
        (views.Items({"a,b": views.Columns(), "b": None}), ["'a,b'", "'b'"]),
    ],
)
def test_errors_offer_the_table(view, facts):
    space = spaces.Dict({"a": numbers(3), "b": numbers(3), "c": numbers(2)})
    with raises(views.ViewError, "Form", *facts):
        wrap(Form(space, spaces.Discrete(2)), view)
