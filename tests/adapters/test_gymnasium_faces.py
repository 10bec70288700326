"""`to_gymnasium`: entity environments behind Gymnasium's own spaces."""

import warnings
from functools import partial
from typing import Any

import entitize as ez
import gymnasium
import numpy as np
import pytest
from entitize import (
    ActionError,
    EntitySpace,
    to_gymnasium,
    wrap,
)
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from gymnasium.wrappers import FrameStackObservation, RecordEpisodeStatistics, TimeLimit

from drone_field import Field
from facts import raises


def register() -> None:
    if "tests/Field-v0" not in gymnasium.registry:
        gymnasium.register("tests/Field-v0", Field)


#: Layout -> its options. Most tests sample without masks.
LAYOUTS: dict[str, dict[str, Any]] = {
    "ragged": {"illegal": "replace"},
    "padded": {"illegal": "replace", "maxima": {"Drone": 3, "Mineral": 4}, "beyond": "drop"},
    "flat": {
        "illegal": "replace",
        "maxima": 4,
        "beyond": ez.gymnasium.Nearest("Drone"),
        "env": ["move", "mine", "horn"],
    },
}


def face(layout: str, made: Any = None) -> Any:
    options = dict(LAYOUTS[layout])
    actions = options.pop("env", None)
    return to_gymnasium(Field(actions) if made is None else made, layout, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gymnasium_has_nothing_to_say_against_a_face(layout):
    env = face(layout)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_env(env, skip_render_check=True)
    # That it is a wrapper, made without a spec, and that the numbers of its actions have other bounds than 1.
    unavoidable = ("different from the unwrapped version", "not having a spec", "symmetric and normalized")
    assert [str(w.message) for w in caught if not any(u in str(w.message) for u in unavoidable)] == []


@pytest.mark.parametrize("layout", LAYOUTS)
def test_faces_survive_samples_and_stay_in_their_space(layout):
    env = face(layout)
    env.action_space.seed(1)
    observation, info = env.reset(seed=1)
    illegal = 0
    for _ in range(60):
        assert env.observation_space.contains(observation)
        observation, _, ended, _, info = env.step(env.action_space.sample())
        illegal += info["illegal_choices"]
        if ended:
            observation, info = env.reset()
    assert illegal > 0


@pytest.mark.parametrize("layout", LAYOUTS)
def test_faces_work_in_vectors_and_wrappers(layout):
    space = face(layout).observation_space
    for inside in (
        SyncVectorEnv([partial(face, layout)] * 2),
        AsyncVectorEnv([partial(face, layout)] * 2, shared_memory=layout != "ragged"),
    ):
        inside.action_space.seed(2)
        inside.reset(seed=1)
        for _ in range(25):
            *_, info = inside.step(inside.action_space.sample())
        assert info["illegal_choices"].shape == (2,)
        inside.close()
    limited = RecordEpisodeStatistics(TimeLimit(face(layout), 3))
    limited.reset(seed=1)
    for _ in range(3):
        *_, truncated, info = limited.step(limited.action_space.sample())
    assert truncated and info["episode"]["l"] == 3
    stacked = FrameStackObservation(face(layout), 2)
    observation, _ = stacked.reset(seed=1)
    assert stacked.observation_space.contains(observation) and stacked.observation_space != space


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_spec_of_a_face_makes_it_again(layout):
    env = (
        face(layout, gymnasium.make("entitize/MineSweeper-v0"))
        if layout == "ragged"
        else to_gymnasium(
            gymnasium.make("entitize/MineSweeper-v0"),
            layout,
            maxima=9,
            beyond="drop",
            illegal="replace",  # type: ignore[arg-type]
        )
    )
    again = gymnasium.make(EnvSpec.from_json(env.spec.to_json()))
    assert again.observation_space == env.observation_space and again.action_space == env.action_space
    np.testing.assert_equal(env.reset(seed=3)[0], again.reset(seed=3)[0])


def test_options_of_a_face_are_plain_values():
    register()
    env = to_gymnasium(
        gymnasium.make("tests/Field-v0", actions=["move"]),
        "flat",
        maxima=3,
        beyond=ez.gymnasium.Nearest("Drone"),
    )
    assert env.spec.additional_wrappers[-1].kwargs == {
        "maxima": 3,
        "beyond": {"reference": "Drone", "features": ["x", "y"]},
        "max_actors": None,
        "illegal": "error",
    }
    assert gymnasium.make(env.spec).observation_space == env.observation_space


def test_faces_render():
    register()
    env = to_gymnasium(gymnasium.make("tests/Field-v0", render_mode="rgb_array"), "padded", maxima=6)
    env.reset(seed=1)
    assert env.render_mode == "rgb_array" and env.render().shape == (4, 4, 3)


def test_wrapped_environments_have_faces():
    env = to_gymnasium(wrap(gymnasium.make("CartPole-v1")), "flat", maxima=1)
    raw = gymnasium.make("CartPole-v1")
    observation, _ = env.reset(seed=3)
    expected, _ = raw.reset(seed=3)
    assert env.action_space == gymnasium.spaces.Discrete(2)
    for action in (0, 1, 1, 0):
        place = np.flatnonzero(np.isin(observation, expected))
        np.testing.assert_array_equal(observation[place[:4]], expected)
        observation, expected = env.step(action)[0], raw.step(action)[0]
    pendulum = to_gymnasium(wrap(gymnasium.make("Pendulum-v1")), "flat", maxima=1)
    assert pendulum.action_space == gymnasium.spaces.Box(-2, 2, (1,))
    with raises(TypeError, "masks"):
        pendulum.action_masks()


# -- what an environment is told ----------------------------------------------------------------------------


def test_legal_actions_of_the_ragged_face_arrive_unchanged():
    env, other = to_gymnasium(Field()), Field()
    seen, _ = env.reset(seed=5)
    whole, _ = other.reset(seed=5)
    other.action_space.seed(1)
    for _ in range(20):
        action = other.action_space.sample(mask=whole)
        given = {name: action[name] for name in ("move", "mine", "push")}
        given["horn"] = action["horn"][0] if len(action["horn"]) else 0
        given["wind"] = action["wind"][0]
        whole, *_ = other.step(action)
        seen, *_, info = env.step(given)
        assert info["illegal_choices"] == 0
        for name, rows in whole["entities"].items():
            np.testing.assert_array_equal(seen[f"entities/{name}"], rows)
        np.testing.assert_array_equal(seen["actions/move/mask"], whole["actions"]["move"]["mask"])
    assert len(env.env.told) == 20
    np.testing.assert_equal(plain(env.env.told), plain(other.told))


def plain(told: list[dict[str, Any]]) -> list:
    return [{name: vars(action) for name, action in one.items()} for one in told]


def slots_of(observation: dict[str, Any], name: str) -> list[int]:
    present = observation[f"actions/{name}/presence"]
    return observation[f"actions/{name}/actors"][present].tolist()


@pytest.mark.parametrize("seed", range(4))
def test_padded_choices_reach_the_actors_that_were_shown(seed):
    """By coordinates: whatever was left out, a drone does what was said of the slot that showed it."""
    field = Field()
    env = to_gymnasium(field, "padded", maxima={"Drone": 3, "Mineral": 2}, beyond="drop")
    rng = np.random.default_rng(seed)
    env.action_space.seed(seed)
    seen, _ = env.reset(seed=seed)
    dropped = 0
    for _ in range(19):
        whole = env.entity_observation
        drones, minerals = whole["entities"]["Drone"], whole["entities"]["Mineral"]
        where = [tuple(row) for row in np.concatenate([drones, minerals[:, :2]])]
        names = [f"d{i}" for i in range(len(drones))] + [f"m{i}" for i in range(len(minerals))]
        shown = np.concatenate([seen["entities/Drone"], seen["entities/Mineral"][:, :2]])

        def name_of(slot, where=where, names=names, shown=shown):
            return names[where.index(tuple(shown[slot]))]

        action = env.action_space.sample()
        expected: dict[str, dict[str, Any]] = {"move": {}, "mine": {}, "push": {}}
        for row, slot in enumerate(slots_of(seen, "move")):
            choice = rng.choice(np.flatnonzero(seen["actions/move/mask"][row]))
            action["move"][row] = choice
            expected["move"][name_of(slot)] = int(choice)
        actees = seen["actions/mine/actees"][seen["actions/mine/actee_presence"]]
        for row, slot in enumerate(slots_of(seen, "mine")):
            column = rng.choice(np.flatnonzero(seen["actions/mine/mask"][row]))
            action["mine"][row] = column
            expected["mine"][name_of(slot)] = name_of(actees[column])
        for row, slot in enumerate(slots_of(seen, "push")):
            expected["push"][name_of(slot)] = action["push"][row].tolist()
        if seen["actions/horn/presence"][0]:
            action["horn"] = np.int64(1)
        seen, _, _, _, info = env.step(action)
        dropped += sum(info["dropped"].values())
        assert info["illegal_choices"] == 0
        told = field.told[-1]
        given = {
            "move": dict(zip(told["move"].actors, told["move"].choices.tolist(), strict=True)),
            "mine": dict(zip(told["mine"].actors, told["mine"].actees, strict=True)),
            "push": dict(zip(told["push"].actors, told["push"].values.tolist(), strict=True)),
        }
        for name, orders in expected.items():
            assert {actor: given[name][actor] for actor in orders} == orders
        assert np.array_equal(told["wind"].values, action["wind"])
        if "horn" in told:
            assert told["horn"].label == "on"
    assert dropped > 0


def test_flat_actions_are_the_padded_ones_in_a_row():
    flat, padded = (
        to_gymnasium(Field(["move", "horn"]), layout, maxima=5, illegal="replace")
        for layout in ("flat", "padded")
    )
    flat.action_space.seed(1)
    one, _ = flat.reset(seed=1)
    other, _ = padded.reset(seed=1)
    for _ in range(15):
        together = np.concatenate([np.ravel(other[name]) for name in padded.observation_space.spaces])
        np.testing.assert_array_equal(one, together.astype(np.float32))
        masks = flat.action_masks()
        assert masks.shape == (flat.action_space.nvec.sum(),)
        expected = np.concatenate([np.ravel(_legal(other, "horn")), np.ravel(_legal(other, "move"))])
        order = list(padded.action_space.spaces)
        assert order == ["horn", "move"]
        np.testing.assert_array_equal(masks, expected)
        action = flat.action_space.sample()
        one, *_, info = flat.step(action)
        other, *_, same = padded.step({"horn": action[0], "move": action[1:]})
        assert info == same
    np.testing.assert_equal(plain(flat.env.told), plain(padded.env.told))


def _legal(observation: dict[str, Any], name: str) -> np.ndarray:
    mask = observation[f"actions/{name}/mask"].copy()
    mask[~observation[f"actions/{name}/presence"], 0] = True
    return mask


# -- what goes wrong ----------------------------------------------------------------------------------------


def test_options_that_do_not_fit_are_named():
    with raises(TypeError, "CartPole-v1", "entity environment"):
        to_gymnasium(gymnasium.make("CartPole-v1"))
    for layout, options, facts in [
        ("square", {}, ["layout", "'ragged', 'padded'", "'flat'", "'square'"]),
        ("ragged", {"maxima": 3}, ["ragged", "maxima"]),
        ("padded", {}, ["padded", "maxima="]),
        (
            "padded",
            {"maxima": {"Drone": 2}},
            ["Field", "maxima", "['Drone', 'Mineral']"],
        ),
        (
            "padded",
            {"maxima": {"Drone": 2, "Mineral": 2, "Tree": 2}},
            ["maxima", "Mineral"],
        ),
        ("padded", {"maxima": 2, "beyond": "hide"}, ["beyond", "'error', 'drop'"]),
        ("padded", {"maxima": 2, "beyond": ez.gymnasium.Nearest("Tree")}, ["entity type 'Tree'"]),
        (
            "padded",
            {"maxima": 2, "beyond": ez.gymnasium.Nearest("Drone", ["z"])},
            ["entity type 'Drone'", "feature 'z'"],
        ),
        ("padded", {"maxima": 2, "illegal": "ignore"}, ["illegal", "'replace'", "'error'"]),
        ("padded", {"maxima": 2, "max_actors": {"jump": 1}}, ["max_actors", "'jump'"]),
        (
            "flat",
            {"maxima": 2},
            ["Field", "layout='padded'"],
        ),
    ]:
        with raises(ValueError, *facts):
            to_gymnasium(Field(), layout, **options)  # type: ignore[arg-type]


def test_the_ragged_layout_needs_one_choice_per_actor():
    env = to_gymnasium(Field(["move"]))
    seen, _ = env.reset(seed=1)
    while len(seen["actions/move/mask"]) < 3:
        seen, _ = env.reset()
    legal = seen["actions/move/mask"].argmax(1)
    for given in (legal[:0], legal[:-1], np.append(legal, 0)):
        with raises(ActionError, "Field", "'move'", len(legal), len(given)):
            env.step({"move": given})
    assert env.step({"move": legal})[-1]["illegal_choices"] == 0
    replacing = to_gymnasium(Field(["move"]), illegal="replace")
    replacing.reset(seed=1)
    while len(replacing.entity_observation["actions"]["move"]["actors"]) < 3:
        replacing.reset()
    count = len(replacing.entity_observation["actions"]["move"]["actors"])
    assert replacing.step({"move": legal[:0]})[-1]["illegal_choices"] == count
    assert len(replacing.env.told[-1]["move"].actors) == count


@pytest.mark.parametrize("illegal", ["error", "replace"])
def test_an_environment_with_a_no_op_gets_it_from_an_empty_sequence(illegal):
    field = Field(["move", "wind"])
    field.action_space.optional = True
    env = to_gymnasium(field, illegal=illegal)
    seen, _ = env.reset(seed=1)
    while len(seen["actions/move/mask"]) < 2:
        seen, _ = env.reset()
    nothing = {"move": np.zeros(0, np.int64), "wind": np.zeros(1, np.float32)}
    assert env.step(nothing)[-1]["illegal_choices"] == 0
    assert field.told[-1]["move"].actors == []


def test_masked_choices_raise_unless_they_are_to_be_replaced():
    env = to_gymnasium(Field(["horn"]), "padded", maxima=6)
    env.reset(seed=1)
    env.step({"horn": 1})
    with raises(ActionError, "Field", "action 'horn'", 0, "not allowed"):
        env.step({"horn": 0})
    with raises(ActionError, "Field", "{'horn': 5}", "Dict"):
        env.step({"horn": 5})
    with raises(gymnasium.error.ResetNeeded, "Field"):
        face("ragged").step({})


@pytest.mark.parametrize("layout", LAYOUTS)
def test_observation_and_action_spaces_of_faces_can_be_sampled(layout):
    env = face(layout)
    for space in (env.observation_space, env.action_space):
        for seed in range(5):
            space.seed(seed)
            assert space.contains(space.sample())


@pytest.mark.parametrize("options", [{"layout": "ragged"}, {"layout": "padded", "maxima": 6}])
def test_observations_are_recorded_in_hdf5_under_their_names(options: dict[str, Any], tmp_path: Any) -> None:
    """Minari 0.5 writes a data set per key of the space and reads them by the keys of the file."""
    h5py = pytest.importorskip("h5py")
    env, plain = to_gymnasium(Field(), **options, separator="."), to_gymnasium(Field(), **options)
    observation, same = (each.reset(seed=3)[0] for each in (env, plain))
    assert env.observation_space.contains(observation)
    assert [key.replace("/", ".") for key in same] == list(observation)
    with h5py.File(tmp_path / "episode.hdf5", "w") as file:
        for key, array in observation.items():
            file.create_dataset(key, data=array)
        assert sorted(file) == sorted(env.observation_space.spaces)
        for key, array in same.items():
            np.testing.assert_array_equal(file[key.replace("/", ".")][()], array)


@pytest.mark.parametrize("layout", ["padded", "flat"])
@pytest.mark.parametrize("game", ["MaskedBandit", "MultiArmedBandit"])
def test_games_without_entity_types_have_faces(game: str, layout: Any) -> None:
    env = to_gymnasium(ez.make(game), layout, maxima=4, illegal="replace")
    env.action_space.seed(0)
    for seed in range(5):
        assert env.observation_space.contains(env.reset(seed=seed)[0])
        assert env.observation_space.contains(env.step(env.action_space.sample())[0])


def test_two_names_that_a_separator_would_join_are_refused() -> None:
    class Twins(Field):
        def __init__(self) -> None:
            super().__init__(["move"])
            entities = {"a.b": ["x"], "a/b": ["x"]}
            self.observation_space = EntitySpace(entities, self.action_space)

    with raises(ValueError, "'.'", "a/b"):
        to_gymnasium(Twins(), separator=".")
