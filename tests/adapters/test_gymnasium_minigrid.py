"""MiniGrid's and highway-env's classes and wrappers, as users derive from them and combine them."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from entitize import views, wrap
from gymnasium import spaces

from facts import raises
from peers import make

pytest.importorskip("minigrid")
pytest.importorskip("highway_env")

from highway_env.envs.highway_env import HighwayEnvFast
from minigrid import wrappers
from minigrid.core.constants import COLOR_TO_IDX, OBJECT_TO_IDX, STATE_TO_IDX
from minigrid.core.mission import MissionSpace
from minigrid.envs import DoorKeyEnv, GoToDoorEnv

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:.*freesansbold")

KINDS = [name for name in OBJECT_TO_IDX if name not in ("unseen", "empty")]


class MyDoor(GoToDoorEnv):
    """An environment of a user, derived from one of MiniGrid's."""


class MyRoad(HighwayEnvFast):
    pass


class TwoActions(DoorKeyEnv):
    def __init__(self) -> None:
        super().__init__()
        self.action_space = spaces.Discrete(2)


def words_of(env: Any, seen: Any) -> str:
    features = env.observation_space.entities["mission"]
    rows = sorted(seen["entities"]["mission"].tolist())
    return " ".join(features[row.index(1.0, 1)].removeprefix("is_") for row in rows)


def test_derived_classes_are_recognised():
    env = wrap(MyDoor())
    original = wrap(make("MiniGrid-GoToDoor-5x5-v0"))
    assert env.observation_space == original.observation_space
    seen, _ = env.reset(seed=1)
    assert words_of(env, seen) == env.unwrapped.mission
    assert (
        wrap(MyRoad()).observation_space.entities == wrap(make("highway-fast-v0")).observation_space.entities
    )
    two = wrap(TwoActions())
    assert len(two.action_space["action"].choices) == 2 and "key" in two.observation_space.entities


def test_a_class_of_the_user_with_the_name_of_a_known_environment_is_not_taken_for_it():
    class CartPole(gymnasium.Env[Any, Any]):
        observation_space = spaces.Box(-1, 1, (4,), np.float32)
        action_space = spaces.Discrete(2)
        spec = gymnasium.spec("CartPole-v1")

    assert wrap(CartPole()).observation_space.entities["Vector"] == ("x_0", "x_1", "x_2", "x_3")
    assert wrap(CartPole()).action_space["action"].choices == ("0", "1")


def test_one_hot_images_have_the_objects_of_the_plain_ones():
    plain = wrap(make("MiniGrid-DoorKey-5x5-v0"))
    env = wrap(wrappers.OneHotPartialObsWrapper(make("MiniGrid-DoorKey-5x5-v0")))
    properties = [*(f"color={c}" for c in COLOR_TO_IDX), *(f"state={s}" for s in STATE_TO_IDX)]
    assert env.observation_space.entities["key"] == ("x", "y", *properties)
    expected, seen = plain.reset(seed=4)[0], env.reset(seed=4)[0]
    found = 0
    for _ in range(20):
        for kind in KINDS:
            columns = len(properties) + 2  # all but "state=up", which the one-hot image has no bit for
            np.testing.assert_array_equal(
                seen["entities"][kind], expected["entities"][kind][:, :columns], err_msg=kind
            )
            found += len(seen["entities"][kind])
        action = plain.action_space.sample(mask=expected)
        expected, seen = plain.step(action)[0], env.step(action)[0]
    assert found > 20


def test_word_ids_are_the_words_of_the_mission():
    env = wrap(wrappers.DictObservationSpaceWrapper(MyDoor()))
    for seed in range(5):
        seen, _ = env.reset(seed=seed)
        assert words_of(env, seen) == env.unwrapped.mission
    same = wrap(wrappers.DictObservationSpaceWrapper(make("MiniGrid-DoorKey-5x5-v0")))
    assert "mission" not in same.observation_space.entities and "key" in same.observation_space.entities


def test_symbolic_images_have_objects_where_the_grid_has_them():
    env = wrap(wrappers.SymbolicObsWrapper(make("MiniGrid-DoorKey-8x8-v0")))
    seen, _ = env.reset(seed=3)
    for _ in range(20):
        grid = env.unwrapped.grid
        places = [(x, y) for x in range(grid.width) for y in range(grid.height)]
        agent = tuple(env.unwrapped.agent_pos)
        for kind in KINDS:
            expected = {p for p in places if p != agent and grid.get(*p) and grid.get(*p).type == kind}
            expected |= {agent} if kind == "agent" else set()
            assert {tuple(row) for row in seen["entities"][kind].astype(int).tolist()} == expected
        seen, *_ = env.step(env.action_space.sample(mask=seen))


@pytest.mark.parametrize(
    "inner", [lambda env: env, wrappers.FullyObsWrapper, wrappers.OneHotPartialObsWrapper]
)
def test_the_image_alone_has_the_objects_of_the_dict(inner):
    whole = wrap(inner(make("MiniGrid-DoorKey-5x5-v0")))
    image = wrap(wrappers.ImgObsWrapper(inner(make("MiniGrid-DoorKey-5x5-v0"))))
    assert image.action_space == whole.action_space
    expected, seen = whole.reset(seed=4)[0], image.reset(seed=4)[0]
    assert {*seen["entities"]} == {*expected["entities"]} - {"direction"} >= {*KINDS}
    for kind in KINDS:
        assert image.observation_space.entities[kind] == whole.observation_space.entities[kind]
        np.testing.assert_array_equal(seen["entities"][kind], expected["entities"][kind])


def test_an_image_alone_that_is_changed_is_not_read_as_objects():
    image = wrappers.ImgObsWrapper(make("MiniGrid-DoorKey-5x5-v0"))
    for changed in (
        wrappers.ImgObsWrapper(wrappers.RGBImgPartialObsWrapper(make("MiniGrid-DoorKey-5x5-v0"))),
        gymnasium.wrappers.FrameStackObservation(image, 2),
        gymnasium.wrappers.DtypeObservation(image, np.float32),
    ):
        env = wrap(changed)
        assert "key" not in env.observation_space.entities
        assert "pickup" in env.action_space["action"].choices


@pytest.mark.parametrize("tile_size", [2, 8])
def test_pictures_are_no_objects(tile_size):
    picture = wrappers.RGBImgPartialObsWrapper(make("MiniGrid-DoorKey-5x5-v0"), tile_size)
    assert list(wrap(picture).observation_space.entities) == ["direction", "image"]
    again = wrap(wrappers.FullyObsWrapper(picture))
    assert "key" in again.observation_space.entities
    again.reset(seed=1)


def test_large_grids_have_objects():
    env = wrap(wrappers.FullyObsWrapper(make("MiniGrid-DoorKey-5x5-v0", size=40)))
    assert "key" in env.observation_space.entities
    assert len(env.reset(seed=1)[0]["entities"]["agent"]) == 1


class Strange(spaces.Space[Any]):
    """A space that no view reads by itself."""


class Form(gymnasium.Env[Any, Any]):
    action_space = spaces.Discrete(2)

    def __init__(self, observation_space: spaces.Space[Any]) -> None:
        self.observation_space = observation_space


def test_a_space_without_a_view_is_named_with_its_place_and_the_ways_out():
    mission = MissionSpace(lambda color: f"find {color}", [["red", "blue"]])
    nested = spaces.Dict({"goal": spaces.Dict({"mission": mission}), "size": spaces.Discrete(3)})
    with raises(views.ViewError, "Form", "['goal']['mission']", "'goal/mission'", "Words", "None"):
        wrap(Form(nested))
    with raises(views.ViewError, "Form", "observation_space", "Words"):
        wrap(Form(mission))
    with raises(views.ViewError, "Form", "['odd']", "Function", "'odd'", "None"):
        wrap(Form(spaces.Dict({"odd": Strange(), "size": spaces.Discrete(3)})))
    words = views.Words(["find", "red", "blue"])
    assert (
        "goal/mission" in wrap(Form(nested), views.Items({"goal/mission": words})).observation_space.entities
    )


@pytest.mark.parametrize("count", [1, 3])
def test_word_ids_need_a_word_each(count):
    with raises(views.ViewError, "Form", "Words", count):
        wrap(Form(spaces.MultiDiscrete([3] * 4)), views.Words([*"abc"][:count]))


def test_word_ids_are_read_up_to_their_padding():
    encoder = wrap(Form(spaces.MultiDiscrete([3] * 4)), views.Words(["up", "down"]))
    assert encoder.observation_space.entities == {"Word": ("position", "is_up", "is_down")}
    encoder.env.reset = lambda **_: (np.array([2, 1, 0, 0]), {})
    assert encoder.reset()[0]["entities"]["Word"].tolist() == [[0, 0, 1], [1, 1, 0]]
