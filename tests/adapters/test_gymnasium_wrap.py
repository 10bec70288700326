"""`wrap` and `wrap_vec` on real environments."""

import copy
import json
import time
from functools import partial
from typing import Any

import entitize as ez
import gymnasium
import numpy as np
import pytest
from entitize import ActionError, EntitySpace, EntityVectorEnv, RaggedArray, views, wrap, wrap_vec
from entitize.envs import ListVectorEnv, ObservationError, batch_observations
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import RecordEpisodeStatistics, TimeLimit

from facts import raises
from peers import REAL, SLOW, make

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:.*freesansbold")


@pytest.mark.parametrize("env_id", REAL)
def test_lanes_are_the_single_environments(env_id):
    makers = [partial(make, env_id, **REAL[env_id])] * 3
    venv = wrap_vec(SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP))
    others = ListVectorEnv([lambda maker=maker: wrap(maker()) for maker in makers])
    batch, _ = venv.reset(seed=5)
    other, _ = others.reset(seed=5)
    venv.action_space.seed(1)
    for _ in range(SLOW.get(env_id, 25)):
        assert batch.equals(other)
        actions = venv.action_space.sample(mask=batch)
        batch, rewards, terminated, truncated, info = venv.step(actions)
        other, *same = others.step(actions)
        for mine, theirs in zip((rewards, terminated, truncated), same[:3], strict=True):
            np.testing.assert_array_equal(mine, theirs)
        if "final_obs" in info:
            finals = same[3]["final_obs"]
            assert all(info["final_obs"].entities[n] == finals.entities[n] for n in finals.entities)
            np.testing.assert_array_equal(info["_final_obs"], same[3]["_final_obs"])
    venv.close()
    others.close()


def test_every_autoreset_mode_gives_the_same_episodes():
    def play(venv: EntityVectorEnv) -> list:
        batch, _ = venv.reset(seed=3)
        rng = np.random.default_rng(0)
        seen = []
        for _ in range(60):
            order = RaggedArray(rng.integers(2, size=4), np.arange(5))
            batch, rewards, terminated, truncated, info = venv.step({"action": order})
            ended = terminated | truncated
            assert ("final_obs" in info) == bool(ended.any())
            if ended.any():
                assert len(info["final_obs"]) == ended.sum()
                np.testing.assert_array_equal(info["_final_obs"], ended)
                seen.append(info["final_obs"].entities["Vector"].values)
            seen += [batch.entities["Vector"].values, rewards, terminated, truncated]
        assert any(array.shape[0] and array.dtype == bool and array.any() for array in seen)
        venv.close()
        return seen

    makers = [partial(gymnasium.make, "CartPole-v1", max_episode_steps=n) for n in (9, 14, 30, 500)]
    expected = play(wrap_vec(SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP)))
    same = [
        SyncVectorEnv(makers, autoreset_mode=AutoresetMode.NEXT_STEP),
        SyncVectorEnv(makers, autoreset_mode=AutoresetMode.DISABLED, copy=False),
        AsyncVectorEnv(makers, autoreset_mode=AutoresetMode.NEXT_STEP),
        AsyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP, shared_memory=False),
        gymnasium.wrappers.vector.RecordEpisodeStatistics(SyncVectorEnv(makers)),
    ]
    for inside in same:
        venv = wrap_vec(inside)
        assert venv.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP and venv.metadata["final_obs"]
        for mine, theirs in zip(play(venv), expected, strict=True):
            np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize(
    "make_inside",
    [
        lambda: gymnasium.make_vec("CartPole-v1", num_envs=3, vectorization_mode="vector_entry_point"),
        lambda: AsyncVectorEnv([partial(gymnasium.make, "CartPole-v1")] * 3, shared_memory=False),
    ],
)
def test_engines_that_reset_by_themselves_pass_their_mode_on(make_inside):
    with wrap_vec(make_inside()) as venv:
        assert venv.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP and not venv.metadata["final_obs"]
        batch, _ = venv.reset(seed=1)
        ended = np.zeros(3, bool)
        episodes = 0
        for _ in range(60):
            np.testing.assert_array_equal(batch.actions["action"].actors.lengths, ~ended)
            actors = batch.actions["action"].actors
            left = {"action": actors.with_values(np.zeros(actors.num_items, np.int64))}
            batch, rewards, terminated, truncated, _ = venv.step(left)
            assert not rewards[ended].any()  # the step whose action is ignored
            ended = terminated | truncated
            episodes += ended.sum()
        assert episodes > 6


def test_known_environments_have_names_for_what_they_show():
    assert wrap(make("CartPole-v1")).observation_space.entities["Vector"] == (
        "position",
        "velocity",
        "angle",
        "angular_velocity",
    )
    native = wrap_vec(gymnasium.make_vec("CartPole-v1", 2, vectorization_mode="vector_entry_point"))
    assert native.single_observation_space == wrap(make("CartPole-v1")).observation_space
    lander = wrap(make("LunarLander-v3")).action_space["action"]
    assert lander.choices == ("nothing", "left_engine", "main_engine", "right_engine")


def test_choices_have_numbers_where_a_wrapper_may_change_their_meaning():
    changed = gymnasium.wrappers.TransformAction(
        make("CartPole-v1"), lambda a: 1 - a, gymnasium.spaces.Discrete(2)
    )
    assert wrap(changed).action_space["action"].choices == ("0", "1")
    sticky = gymnasium.wrappers.StickyAction(make("CartPole-v1"), 0.25)
    assert wrap(sticky).action_space["action"].choices == ("left", "right")


@pytest.mark.full
def test_known_games_have_names_for_what_they_show():
    breakout = wrap(make("MinAtar/Breakout-v1"))
    assert breakout.observation_space.entities == dict.fromkeys(
        ["paddle", "ball", "trail", "brick"], ("x", "y")
    )
    assert breakout.action_space["action"].choices == ("noop", "left", "right")
    assert wrap(make("ALE/Breakout-v5", obs_type="ram")).action_space["action"].choices[1] == "FIRE"


@pytest.mark.full
def test_minatar_entities_are_where_the_game_has_them():
    env = wrap(make("MinAtar/Breakout-v1"))
    seen, _ = env.reset(seed=1)
    for _ in range(10):
        game = env.unwrapped.game.env
        assert seen["entities"]["paddle"].tolist() == [[game.pos, 9]]
        assert seen["entities"]["ball"].tolist() == [[game.ball_x, game.ball_y]]
        assert len(seen["entities"]["brick"]) == game.brick_map.sum()
        seen, _, terminated, _, _ = env.step(env.action_space.sample(mask=seen))
        if terminated:
            seen, _ = env.reset()


def test_minigrid_objects_are_where_the_agent_sees_them():
    env = wrap(make("MiniGrid-DoorKey-8x8-v0"))
    seen, _ = env.reset(seed=3)
    for _ in range(30):
        grid, visible = env.unwrapped.gen_obs_grid()
        for kind in ("key", "door", "goal", "wall"):
            expected = {
                (x, y)
                for x in range(grid.width)
                for y in range(grid.height)
                if visible[x, y] and grid.get(x, y) is not None and grid.get(x, y).type == kind
            }
            assert {tuple(row[:2]) for row in seen["entities"][kind].astype(int)} == expected
        assert seen["entities"]["direction"].argmax() == env.unwrapped.agent_dir
        seen, *_ = env.step(env.action_space.sample(mask=seen))
    names = env.observation_space.entities["door"]
    assert names[2:] == (
        *(f"color={c}" for c in ("red", "green", "blue", "purple", "yellow", "grey")),
        *(f"state={s}" for s in ("open", "closed", "locked", "up")),
    )


def test_minigrid_missions_are_words_where_they_differ():
    env = wrap(make("MiniGrid-GoToDoor-5x5-v0"))
    seen, _ = env.reset(seed=1)
    features = env.observation_space.entities["mission"]
    words = [features[row[1:].argmax() + 1].removeprefix("is_") for row in seen["entities"]["mission"]]
    assert " ".join(words) == env.unwrapped.mission
    assert "mission" not in wrap(make("MiniGrid-DoorKey-5x5-v0")).observation_space.entities


def test_highway_rows_of_zeros_are_no_vehicles():
    observation = {"type": "Kinematics", "vehicles_count": 6, "features": ["x", "y", "vx", "vy"]}
    env = wrap(make("highway-fast-v0", config={"vehicles_count": 2, "observation": observation}))
    step, _ = env.reset(seed=1)
    rows = env.unwrapped.observation_type.observe()
    assert len(step["entities"]["Ego"]) == 1 and len(step["entities"]["Vehicle"]) == 2
    np.testing.assert_array_equal(step["entities"]["Vehicle"], rows[1:3])
    assert not rows[3:].any()


def test_highway_rows_are_the_own_car_and_the_others():
    env = wrap(make("highway-fast-v0"), views.Rows(presence="presence", name="Car"))
    assert env.observation_space.entities == {"Car": ("x", "y", "vx", "vy")}
    known = wrap(make("highway-fast-v0", **REAL["highway-fast-v0"]))
    seen, _ = known.reset(seed=2)
    assert list(seen["entities"]) == ["Ego", "Vehicle"] and len(seen["entities"]["Ego"]) == 1
    raw, _ = known.env.reset(seed=2)
    np.testing.assert_array_equal(seen["entities"]["Ego"], raw[:1, 1:])
    np.testing.assert_array_equal(seen["entities"]["Vehicle"], raw[1:][raw[1:, 0] != 0, 1:])


# -- specs, copies, seeds -----------------------------------------------------------------------------------

VIEWS = [
    None,
    views.Vector({"Cart": ["x", "v"], "Pole": slice(2, 4)}),
    views.Vector({"slice": 3, "view": ["x"]}),
    views.Vector([("Thing", 2), ("Thing", 2)]),
    views.Rows(["a", "b"], name="Half", index=True),
    views.Function("tests_entitize_functions:halves", {"Half": ["a", "b"]}),
]


@pytest.fixture
def functions(tmp_path, monkeypatch):
    """A module that a view can name."""
    (tmp_path / "tests_entitize_functions.py").write_text(
        "def halves(observation):\n    return {'Half': observation.reshape(2, 2)}\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.parametrize("view", VIEWS, ids=repr)
def test_the_spec_makes_the_environment_again(view, functions):
    env = TimeLimit(RecordEpisodeStatistics(wrap(gymnasium.make("CartPole-v1"), view)), 7)
    text = env.spec.to_json()
    assert json.loads(text)["id"] == "CartPole-v1"
    again = gymnasium.make(EnvSpec.from_json(text))
    assert again.observation_space == env.observation_space and again.action_space == env.action_space
    one, _ = env.reset(seed=4)
    other, _ = again.reset(seed=4)
    np.testing.assert_equal(one, other)


def test_a_function_by_value_stays_in_this_process():
    view = views.Function(lambda o: {"All": o[None]}, {"All": list("abcd")})
    env = wrap(gymnasium.make("CartPole-v1"), view)
    assert gymnasium.make(env.spec).observation_space == env.observation_space
    with raises(TypeError, "JSON serializable"):
        env.spec.to_json()


def test_a_spec_refuses_a_view_that_reads_the_wrapped_environment():
    raw = gymnasium.make("CartPole-v1")

    class Reader:
        def rows(self, observation):
            return {"Pole": [raw.unwrapped.state[:1]]}

    for function in (lambda _: {"Pole": [raw.unwrapped.state[:1]]}, Reader().rows):
        env = wrap(raw, views.Function(function, {"Pole": ["angle"]}))
        seen, _ = env.reset(seed=1)
        assert seen["entities"]["Pole"][0] == raw.unwrapped.state[0].astype(np.float32)
        with raises(ez.views.ViewError, "reads the environment", "spec"):
            gymnasium.make(env.spec).reset(seed=2)


def test_vectors_of_a_spec_are_made_by_gymnasium():
    spec = wrap(gymnasium.make("CartPole-v1")).spec
    venv = SyncVectorEnv([partial(gymnasium.make, copy.deepcopy(spec))] * 2)
    assert isinstance(venv.single_observation_space, EntitySpace)
    seen, _ = venv.reset(seed=1)
    assert [len(rows) for rows in seen["entities"]["Vector"]] == [1, 1]
    venv.close()


def test_old_observations_stay_as_they_were():
    venv = wrap_vec(SyncVectorEnv([partial(gymnasium.make, "CartPole-v1")] * 2, copy=False))
    first, _ = venv.reset(seed=1)
    kept = first.entities["Vector"].values.copy()
    for _ in range(3):
        venv.step(venv.action_space.sample(mask=first))
    np.testing.assert_array_equal(first.entities["Vector"].values, kept)


# -- what goes wrong ----------------------------------------------------------------------------------------


def test_wrong_kinds_of_environments_are_named():
    with raises(TypeError, "wrap_vec"):
        wrap(SyncVectorEnv([partial(gymnasium.make, "CartPole-v1")]))
    with raises(TypeError, "wrap"):
        wrap_vec(gymnasium.make("CartPole-v1"))
    with raises(TypeError, "CartPole-v1", "entity environment"):
        wrap(wrap(gymnasium.make("CartPole-v1")))
    with raises(ez.views.ViewError, "CartPole-v1", "observation_space", "Box", "Vector()"):
        wrap(gymnasium.make("CartPole-v1"), views.Channels())
    with raises(ez.views.ViewError, "'Squares'", "Cells"):
        type(wrap(gymnasium.make("CartPole-v1")))(gymnasium.make("CartPole-v1"), {"view": "Squares"})
    with raises(ez.views.ViewError, "Rows", "'nothing'"):
        type(wrap(gymnasium.make("CartPole-v1")))(
            gymnasium.make("CartPole-v1"), {"view": "Rows", "nothing": 1}
        )


def test_illegal_actions_are_named_and_move_nothing():
    env = wrap(gymnasium.make("CartPole-v1"))
    with raises(gymnasium.error.ResetNeeded, "CartPole-v1"):
        env.step({})
    env.reset(seed=1)
    for action, facts in [
        ({"action": [2]}, ["CartPole-v1", "action 'action'", 2, "not allowed", "0 ('left')"]),
        ({"action": [0, 1]}, ["choice", 2]),
        ({"jump": [0]}, ["action 'jump'", "'action'"]),
        ({"action": [0.5]}, ["integers"]),
        ([1], ["dict", "list"]),
    ]:
        with raises(ActionError, *facts):
            env.step(action)  # type: ignore[arg-type]
    expected = gymnasium.make("CartPole-v1")
    expected.reset(seed=1)
    seen, *_ = env.step({"action": 1})
    np.testing.assert_array_equal(seen["entities"]["Vector"][0], expected.step(1)[0])


class Fragile(gymnasium.Env):
    """Breaks when told to."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        if action == 1:
            raise RuntimeError("the wheel came off")
        return np.zeros(2, np.float32), 0.0, False, False, {}


def test_an_environment_that_raises_is_named_and_goes_on_after_a_reset():
    env = wrap(Fragile())
    env.reset()
    with raises(RuntimeError, "the wheel came off") as caught:
        env.step({"action": 1})
    assert caught.value.__notes__ == ["raised by Fragile in step(1), wrapped by entitize"]
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step({"action": 0})
    env.reset()
    env.step({"action": 0})
    venv = wrap_vec(SyncVectorEnv([Fragile] * 2))
    venv.reset()
    with raises(RuntimeError, "the wheel came off") as caught:
        venv.step({"action": RaggedArray([0, 1], [0, 1, 2])})
    assert caught.value.__notes__ == ["raised by a lane of Fragile in step, wrapped by entitize"]
    with raises(gymnasium.error.ResetNeeded, "Fragile"):
        venv.step({})
    venv.reset()
    venv.step({"action": RaggedArray([0, 0], [0, 1, 2])})
    venv.close()
    venv.close()


def test_a_batch_of_single_observations_is_the_batch():
    env = wrap(gymnasium.make("MountainCar-v0"))
    seen, _ = env.reset(seed=1)
    with wrap_vec(SyncVectorEnv([partial(gymnasium.make, "MountainCar-v0")])) as venv:
        batch, _ = venv.reset(seed=1)
        assert batch.equals(batch_observations(env.observation_space, [seen]))


class Saying(gymnasium.Env):
    """Shows what it is told to show, whatever its spaces are."""

    def __init__(self, observation_space: Any, shown: Any, action_space: Any = None, mask: Any = None):
        self.observation_space = observation_space
        self.action_space = action_space or gymnasium.spaces.Discrete(2)
        self.shown, self.info = shown, {} if mask is None else {"action_mask": mask}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self.shown, self.info


BOX = gymnasium.spaces.Box(-1, 1, (2,))


@pytest.mark.parametrize(
    ("space", "shown", "fact"),
    [
        (gymnasium.spaces.Dict(a=BOX, b=BOX), {"a": np.zeros(2, np.float32)}, "component 'b'"),
        (gymnasium.spaces.Dict(a=BOX, b=BOX), None, "['a', 'b']"),
        (
            gymnasium.spaces.Dict(a=BOX),
            {"a": np.zeros(3, np.float32)},
            "['a']: expected an array of shape (2,)",
        ),
        (gymnasium.spaces.Sequence(BOX), 3, 3),
        (gymnasium.spaces.Graph(BOX, None), 3, 3),
        (gymnasium.spaces.OneOf([BOX, BOX]), 3, 3),
        (gymnasium.spaces.Discrete(3), "1", "'1'"),
    ],
)
def test_an_observation_of_another_structure_is_named(space, shown, fact):
    with raises(ObservationError, "Saying", "observation", fact):
        wrap(Saying(space, shown)).reset()


@pytest.mark.parametrize(
    ("space", "mask", "facts"),
    [
        ({"x": 2, "y": 3}, {"z": np.ones(2)}, ["action 'z'", "['x', 'y']"]),
        ([2, 3], (np.ones(2),), ["mask", "None", "[0, 1]"]),
        ([2, 3], (np.ones(2), np.ones(2)), ["action '1'", "(2,)", "(3,)"]),
    ],
)
def test_a_mask_of_other_parts_is_named(space, mask, facts):
    if isinstance(space, dict):
        actions: Any = gymnasium.spaces.Dict({k: gymnasium.spaces.Discrete(n) for k, n in space.items()})
    else:
        actions = gymnasium.spaces.Tuple([gymnasium.spaces.Discrete(n) for n in space])
    env = wrap(Saying(BOX, np.zeros(2, np.float32), actions, mask))
    with raises(ObservationError, "Saying", "action_mask", *facts):
        env.reset()


class Forgetful(SyncVectorEnv):
    def step(self, actions: Any) -> Any:
        *result, info = super().step(actions)
        info.pop("final_obs", None)
        return *result, info


def test_an_engine_that_keeps_the_final_observations_to_itself_is_named():
    lanes = [lambda: TimeLimit(Fragile(), 1)]
    venv = wrap_vec(Forgetful(lanes, autoreset_mode=AutoresetMode.SAME_STEP))
    venv.reset()
    with raises(ObservationError, "Fragile", "info", "'final_obs'"):
        venv.step({"action": RaggedArray([0], [0, 1])})
    venv.close()


class Objectives(Fragile):
    """Rewards of two numbers, as MO-Gymnasium has them; flags of NumPy's."""

    reward_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)

    def step(self, action: Any) -> Any:
        return np.zeros(2, np.float32), np.array([1.0, 2.0]), np.array(True), np.bool_(False), {}


class LinearReward(gymnasium.Wrapper):
    """What MO-Gymnasium's wrapper of this name does."""

    def step(self, action: Any) -> Any:
        observation, reward, *rest = self.env.step(action)
        return observation, reward.sum(), *rest


def test_rewards_of_several_numbers_are_refused_before_any_step():
    for build in (lambda: wrap(Objectives()), lambda: wrap_vec(SyncVectorEnv([Objectives]))):
        with raises(TypeError, "Objectives", "LinearReward", "from_pettingzoo"):
            build()
    env = wrap(LinearReward(Objectives()))
    env.reset()
    _, reward, terminated, truncated, _ = env.step({"action": 0})
    assert reward == 3.0 and terminated is True and truncated is False


def test_undeclared_rewards_of_several_numbers_are_refused_at_the_step():
    class Undeclared(Objectives):
        reward_space = None

    class Columns(SyncVectorEnv):
        def step(self, actions: Any) -> Any:
            observation, _, *rest = super().step(actions)
            return observation, np.zeros((2, 3)), *rest

    env = wrap(Undeclared())
    env.reset()
    with raises(ObservationError, "Undeclared", "reward", 2, "LinearReward"):
        env.step({"action": 0})
    venv = wrap_vec(Columns([Fragile] * 2))
    venv.reset()
    with raises(ObservationError, "Fragile", "rewards", "(2,)", "(2, 3)"):
        venv.step({"action": RaggedArray([0, 0], [0, 1, 2])})
    venv.close()


def test_missions_are_never_dropped_silently():
    import minigrid
    from minigrid.core.mission import MissionSpace

    gymnasium.register_envs(minigrid)
    env = wrap(gymnasium.make("BabyAI-GoToLocal-v0"))
    seen, _ = env.reset(seed=1)
    assert len(seen["entities"]["mission"]) >= 4

    class Riddles(MissionSpace):
        pass

    raw = gymnasium.make("MiniGrid-DoorKey-5x5-v0")
    raw.unwrapped.observation_space.spaces["mission"] = Riddles(mission_func=lambda: "guess")
    with raises(ez.views.ViewError, "MiniGrid-DoorKey-5x5-v0", "'mission'", "Words", "None"):
        wrap(raw)
    assert "mission" not in wrap(raw, views.Items({"mission": None})).observation_space.entities


def test_names_of_a_large_box_take_no_quadratic_time():
    class Wide(Fragile):
        observation_space = gymnasium.spaces.Box(-1, 1, (28_224,), np.float32)

    start = time.process_time()
    wrap(Wide())
    assert time.process_time() - start < 5  # 16 seconds when every name was counted by itself
