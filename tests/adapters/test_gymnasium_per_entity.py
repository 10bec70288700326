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
