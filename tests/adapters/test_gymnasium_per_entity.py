"""`PerEntity`: actions whose numbers belong to entities."""

from functools import partial
from typing import Any

import entitize as ez
import gymnasium
import numpy as np
import pytest
from entitize import views, wrap, wrap_vec
from entitize.envs import ActionError, ObservationError
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import SyncVectorEnv

from facts import raises

N = 4


class Lamps(gymnasium.Env[Any, Any]):
    """A table of lamps, of which some are there, in a random order of rows; `action_space` is given."""

    observation_space = spaces.Box(0, N, (N, 2), np.float32)  # is there, number

    def __init__(self, action_space: spaces.Space[Any], masked: bool = False) -> None:
        self.action_space, self.masked = action_space, masked
        self.taken: list[Any] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.action_space.seed(seed)
        return self._look()

    def step(self, action: Any) -> Any:
        self.taken.append(action)
        observation, info = self._look()
        return observation, 0.0, len(self.taken) % 5 == 4, False, info

    def _look(self) -> Any:
        there = self.np_random.random(N) < 0.7
        there[self.np_random.integers(N)] = True
        self.numbers = self.np_random.permutation(N)
        shape = getattr(self.action_space, "nvec", None)
        self.mask = self.np_random.random(N if shape is None else shape.sum()) < 0.6
        if shape is None:
            self.mask[self.numbers[~there]] = False
        info = {"action_mask": self.mask.copy()} if self.masked else {}
        return np.column_stack([there, self.numbers]).astype(np.float32), info


LAMP = views.Rows(["on", "number"], name="Lamp", presence="on")
ACTIONS = {
    "discrete": spaces.Discrete(N, start=3),
    "multi-discrete": spaces.MultiDiscrete([3] * N),
    "multi-binary": spaces.MultiBinary(N),
    "box": spaces.Box(-2, 2, (N,), np.float32),
    "wide box": spaces.Box(-2, 2, (N, 3), np.float32),
}
KINDS = ["SelectEntity", "Categorical", "Categorical", "Continuous", "Continuous"]


@pytest.mark.parametrize(("name", "kind"), [*zip(ACTIONS, KINDS, strict=True)])
@pytest.mark.parametrize("masked", [False, True])
def test_number_i_belongs_to_the_entity_with_number_i(name, kind, masked):
    masked = masked and name in ("discrete", "multi-discrete")
    env = wrap(Lamps(ACTIONS[name], masked), LAMP, actions=views.PerEntity("Lamp", index="number"))
    action_space = env.action_space["action"]
    assert type(action_space).__name__ == kind
    raw, rng = env.unwrapped, np.random.default_rng(0)
    seen, _ = env.reset(seed=1)
    for _ in range(60):
        numbers = seen["entities"]["Lamp"][:, 0].astype(int)
        part = seen["actions"]["action"]
        chosen = action_space.sample(mask=part)
        mask = raw.mask
        if name == "discrete":
            assert part["actees"].tolist() == (list(range(len(numbers))) if len(part["actors"]) else [])
            expected = 3 + (numbers[chosen[0]] if len(chosen) else 0)
            assert part["mask"].astype(bool).tolist() == (
                [*mask[numbers]] if masked and len(chosen) else [True] * len(part["mask"])
            )
        else:
            expected = np.zeros(raw.action_space.shape)
            actors = numbers[part["actors"]]
            expected[actors] = chosen.reshape(len(actors), *expected.shape[1:])
            if masked:
                np.testing.assert_array_equal(part["mask"], mask.reshape(N, 3)[actors])
                assert mask.reshape(N, 3)[[n for n in numbers if n not in actors]].sum() == 0
        seen, _, over, _, _ = env.step({"action": chosen})
        np.testing.assert_array_equal(raw.taken[-1], expected)
        assert raw.action_space.contains(raw.taken[-1])
        if over or rng.random() < 0.1:
            seen, _ = env.reset()


@pytest.mark.parametrize("name", ACTIONS)
def test_lanes_are_the_single_environments(name):
    view, actions = LAMP, views.PerEntity("Lamp", index="number")
    venv = wrap_vec(SyncVectorEnv([partial(Lamps, ACTIONS[name])] * 3), view, actions=actions)
    singles = [wrap(Lamps(ACTIONS[name]), view, actions=actions) for _ in range(3)]
    batch, _ = venv.reset(seed=5)
    seen = [env.reset(seed=5 + lane)[0] for lane, env in enumerate(singles)]
    venv.action_space.seed(0)
    for _ in range(12):
        chosen = venv.action_space.sample(mask=batch)
        batch, _, over, _, _ = venv.step(chosen)
        for lane, env in enumerate(singles):
            seen[lane], _, ended, _, _ = env.step({"action": chosen["action"][lane]})
            assert over[lane] == ended
            np.testing.assert_array_equal(venv.venv.envs[lane].unwrapped.taken[-1], env.unwrapped.taken[-1])
            if ended:
                seen[lane], _ = env.reset()
            np.testing.assert_array_equal(batch.entities["Lamp"][lane], seen[lane]["entities"]["Lamp"])
    venv.close()


@pytest.mark.parametrize("name", ACTIONS)
def test_they_keep_the_rules_and_train(name):
    venv = wrap_vec(
        SyncVectorEnv([partial(Lamps, ACTIONS[name])] * 2),
        LAMP,
        actions=views.PerEntity("Lamp", index="number"),
    )
    ez.check_entity_env(venv, num_steps=20)
    net = ez.RogueNet(venv.single_observation_space, venv.single_action_space, d_model=8, n_layer=1)
    ppo = ez.PPO(net, venv, ez.PPOConfig(num_steps=8))
    ppo.collect()
    ppo.update()
    venv.close()


def test_an_entity_of_the_view_may_select():
    space = spaces.Dict({"self": spaces.Box(-1, 1, (2,)), "lamps": spaces.Box(-1, 1, (N, 2))})

    class Room(Lamps):
        observation_space = space

        def _look(self) -> Any:
            return space.sample(), {}

    env = wrap(Room(ACTIONS["discrete"]), actions=views.PerEntity("lamps", actor="self"))
    assert list(env.observation_space.entities) == ["lamps", "self"]
    seen, _ = env.reset(seed=1)
    assert seen["actions"]["action"]["actors"].tolist() == [N]
    env.step({"action": [2]})
    assert env.unwrapped.taken == [5]
    with raises(ActionError, "action", N):
        env.step({"action": [N]})


def test_actions_of_a_dict_are_declared_by_name_and_the_spec_keeps_them():
    gymnasium.register(
        "Room-v0", lambda: Lamps(spaces.Dict({"light": ACTIONS["box"], "door": spaces.Discrete(2)}))
    )
    try:
        owners = {"light": views.PerEntity("Lamp", index="number")}
        env = wrap(gymnasium.make("Room-v0"), LAMP, actions=owners)
        again = gymnasium.make(env.spec)
        for one in (env, again):
            kinds = {name: type(action).__name__ for name, action in one.action_space.items()}
            assert kinds == {"door": "GlobalCategorical", "light": "Continuous"}
    finally:
        del gymnasium.registry["Room-v0"]


@pytest.mark.parametrize(
    ("action_space", "actions", "facts"),
    [
        ("box", views.PerEntity("Lampe"), ["'Lampe'", "'Lamp'"]),
        ("box", views.PerEntity("Lamp", index="nummer"), ["'nummer'", "'number'"]),
        ("discrete", views.PerEntity("Lamp", actor="me"), ["'me'", "'Lamp'"]),
        ("box", {"light": views.PerEntity("Lamp")}, ["'action'", "'light'"]),
        ("box", "Lamp", ["PerEntity", "'Lamp'"]),
        ("box", {"action": "Lamp"}, ["PerEntity", "'action'", "'Lamp'"]),
    ],
)
def test_declarations_that_do_not_fit_are_refused(action_space, actions, facts):
    with raises(views.ViewError, "Lamps", *facts):
        wrap(Lamps(ACTIONS[action_space]), LAMP, actions=actions)


@pytest.mark.parametrize(
    "space",
    [
        spaces.MultiDiscrete([2, 3]),
        spaces.Box(np.array([0, -1]), np.array([1, 1]), (2,)),
        spaces.Box(-1, 1, ()),
    ],
)
def test_actions_that_differ_between_entities_are_refused(space):
    with raises(views.ViewError, "Lamps", "'action'", "'Lamp'"):
        wrap(Lamps(space), LAMP, actions=views.PerEntity("Lamp"))


def test_entities_without_their_number_are_named():
    env = wrap(Lamps(ACTIONS["box"]), LAMP, actions=views.PerEntity("Lamp"))
    with raises(ObservationError, "Lamps", "'Lamp'", N, "index="):
        for seed in range(20):
            env.reset(seed=seed)
    env = wrap(Lamps(spaces.Box(-1, 1, (2,))), LAMP, actions=views.PerEntity("Lamp", index="number"))
    with raises(ObservationError, "Lamps", "'Lamp'", 0, 1):
        for seed in range(20):
            env.reset(seed=seed)


# -- choices that are no entities ---------------------------------------------------------------------------


class Shop(gymnasium.Env[Any, Any]):
    """Six items by weight and value, of which some may be sold; the last choices of `n` are no items."""

    observation_space = spaces.Dict(
        {
            "item_value": spaces.Box(0, 1, (6,), np.float32),
            "item_weight": spaces.Box(0, 1, (6,), np.float32),
            "item_here": spaces.MultiBinary(6),
        }
    )

    def __init__(self, n: int = 8, mask: Any = None) -> None:
        self.action_space, self.mask, self.here = spaces.Discrete(n, start=10), mask, np.ones(6, np.int8)
        self.taken: list[int] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self._look()

    def step(self, action: Any) -> Any:
        self.taken.append(int(action))
        return (*self._look()[:1], 0.0, not self.here.any(), False, self._look()[1])

    def _look(self) -> Any:
        value, weight = self.np_random.random((2, 6), np.float32)
        seen = {"item_value": value, "item_weight": weight, "item_here": self.here.copy()}
        return seen, {} if self.mask is None else {"action_mask": np.array(self.mask, np.int8)}


ITEM = views.Columns("Item", presence="item_here", index=True)
SHOPPING = views.PerEntity("Item", others=["skip", "leave"])


def test_the_last_choices_may_be_no_entities():
    raw = Shop()
    env = wrap(raw, ITEM, actions=SHOPPING)
    assert [*env.observation_space.entities] == ["Item", "skip", "leave", "Actor"]
    assert env.observation_space.entities["skip"] == ()
    raw.here[[1, 4]] = 0
    seen, _ = env.reset(seed=1)
    part = seen["actions"]["action"]
    assert (part["actors"].tolist(), part["actees"].tolist()) == ([6], [0, 1, 2, 3, 4, 5])
    for actee in part["actees"]:
        env.step({"action": [actee]})
    assert raw.taken == [10, 12, 13, 15, 16, 17]  # absent items have kept their numbers
    with raises(ActionError, "action", 6):
        env.step({"action": [6]})


def test_a_mask_may_allow_nothing_but_another_choice():
    raw = Shop(mask=[0] * 6 + [0, 1])
    env = wrap(raw, ITEM, actions=SHOPPING)
    for here in (1, 0):
        raw.here[:] = here
        seen, _ = env.reset(seed=1)
        chosen = env.action_space.sample(mask=seen)
        env.step(chosen)
    assert raw.taken == [17, 17]
    raw.mask = [0] * 8
    seen, _ = env.reset(seed=1)
    assert len(seen["actions"]["action"]["actors"]) == 0


def test_lanes_with_other_choices_are_the_single_environments():
    masks = [[1, 0, 1, 1, 0, 1, 0, 1], [0] * 6 + [1, 0], None]
    venv = wrap_vec(SyncVectorEnv([partial(Shop, 8, mask) for mask in masks]), ITEM, actions=SHOPPING)
    singles = [wrap(Shop(8, mask), ITEM, actions=SHOPPING) for mask in masks]
    for lane, env in enumerate(singles):
        present = np.arange(6) % (lane + 2) > 0
        venv.venv.envs[lane].unwrapped.here[:] = env.unwrapped.here[:] = present
        env.reset(seed=lane)
    batch, _ = venv.reset(seed=0)
    venv.action_space.seed(0)
    for _ in range(20):
        chosen = venv.action_space.sample(mask=batch)
        batch, *_ = venv.step(chosen)
        for lane, env in enumerate(singles):
            env.step({"action": chosen["action"][lane]})
            assert env.unwrapped.taken == venv.venv.envs[lane].unwrapped.taken
    for lane, env in enumerate(singles):
        mask = np.ones(8) if masks[lane] is None else np.array(masks[lane])
        mask[:6] *= env.unwrapped.here
        assert set(env.unwrapped.taken) == set(10 + np.flatnonzero(mask))
    ez.check_entity_env(venv, num_steps=20)
    venv.close()


def test_the_spec_keeps_the_other_choices():
    gymnasium.register("Shop-v0", f"{Shop.__module__}:Shop")
    try:
        env = wrap(gymnasium.make("Shop-v0"), ITEM, actions=SHOPPING)
        spec = EnvSpec.from_json(env.spec.to_json())
        assert gymnasium.make(spec).observation_space == env.observation_space
    finally:
        del gymnasium.registry["Shop-v0"]


@pytest.mark.parametrize(
    ("n", "view", "others", "facts"),
    [
        (7, ITEM, [], [6, 7, "others"]),
        (5, ITEM, [], [6, 5, "index"]),
        (8, ITEM, ["skip"], [7, 8, "'skip'"]),
        (6, ITEM, ["skip"], [7, 6]),
        (1, ITEM, ["skip"], ["others", "Discrete(1"]),
        (7, views.Columns("Item"), [], [6, 7, "others"]),
        (7, ITEM, ["Item"], ["others", "'Item'"]),
        (7, ITEM, ["Actor"], ["others", "'Actor'"]),
    ],
)
def test_numbers_without_entity_are_refused_when_wrapping(n, view, others, facts):
    with raises(views.ViewError, "Shop", "'Item'", *facts):
        wrap(Shop(n), view, actions=views.PerEntity("Item", others=others))


def test_counts_are_known_for_parts_and_components():
    space = spaces.Dict({"arms": spaces.Box(-1, 1, (3, 2)), "legs": spaces.Box(-1, 1, (4,))})

    class Robot(Shop):
        observation_space = space

    limbs = views.Items({"legs": views.Vector([("Leg", 2), ("Leg", 2)])})
    for entity, count in (("arms", 3), ("Leg", 2)):
        with raises(views.ViewError, "Robot", f"'{entity}'", count, 8):
            wrap(Robot(8), limbs, actions=views.PerEntity(entity))
        wrap(Robot(count), limbs, actions=views.PerEntity(entity))


@pytest.mark.parametrize("others", ["skip", ["a", "a"], [1], 3])
def test_other_choices_are_a_list_of_names(others):
    with raises(views.ViewError, "'Item'", "others", repr(others)):
        views.PerEntity("Item", others=others)


def test_other_choices_are_those_of_a_discrete():
    with raises(views.ViewError, "Lamps", "'Lamp'", "others", "Discrete", "Box"):
        wrap(Lamps(ACTIONS["box"]), LAMP, actions=views.PerEntity("Lamp", others=["skip"]))


def test_a_choice_that_only_the_mask_has_is_an_error_and_not_0():
    sold = Shop(6, mask=[0, 0, 0, 1, 1, 0])
    sold.here[3:] = 0
    env = wrap(sold, ITEM, actions=views.PerEntity("Item"))
    with raises(ObservationError, "Shop", "'Item'", "[3, 4]", "others"):
        env.reset(seed=1)
    venv = wrap_vec(SyncVectorEnv([lambda: sold]), ITEM, actions=views.PerEntity("Item"))
    with raises(ObservationError, "Shop", "'Item'", "lane 0", "[3, 4]"):
        venv.reset(seed=1)
    sold.here[3] = 1
    seen, _ = env.reset(seed=1)
    sold.here[:] = 0  # sold out: no action follows
    _, _, terminated, *_ = env.step(env.action_space.sample(mask=seen))
    assert terminated and sold.taken == [13]


@pytest.mark.parametrize("flat", [False, True])
def test_a_mask_may_have_a_row_for_each_entity(flat):
    class Cleaner(Lamps):
        """Jumanji's Cleaner: a row of the mask for each agent."""

        def _look(self) -> Any:
            observation, info = super()._look()
            return observation, {"action_mask": info["action_mask"].reshape(-1 if flat else (N, 3))}

    env = wrap(
        Cleaner(ACTIONS["multi-discrete"], True), LAMP, actions=views.PerEntity("Lamp", index="number")
    )
    for seed in range(5):
        seen, _ = env.reset(seed=seed)
        numbers = seen["entities"]["Lamp"][:, 0].astype(int)
        part = seen["actions"]["action"]
        expected = env.unwrapped.mask.reshape(N, 3)[numbers[part["actors"]]]
        np.testing.assert_array_equal(part["mask"], expected)
