"""Composite orders in the worlds of others: Gymnasium's spaces, PettingZoo, Stable-Baselines3."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import entitize as ez
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from sb3_contrib.common.maskable.utils import get_action_masks

from facts import raises

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # PettingZoo's tests import a game in the old way
    from pettingzoo.test import parallel_api_test


ORDER = ez.MultiCategorical(
    {"kind": ["wait", "move", "build"], "where": ["north", "south"], "what": 3},
    uses={"move": ["where"], "build": ["where", "what"]},
)
ACTIONS = ez.EntityActionSpace({"order": ORDER, "alarm": ez.GlobalCategorical(2)})


class Camp(ez.EntityEnv):
    """0 to 4 soldiers come and go; most of them may do something, some may only wait."""

    def __init__(self) -> None:
        self.action_space = ACTIONS
        self.observation_space = ez.EntitySpace({"Tree": [], "Soldier": ["x"]}, ACTIONS)
        self.told: list[Any] = []

    def _reset(self, options: dict[str, Any]) -> ez.Observation:
        self.steps = 0
        return self._look()

    def _step(self, actions: dict[str, Any]) -> Any:
        self.told.append(actions["order"])
        self.steps += 1
        return self._look(), float(len(actions["order"].actors)), self.steps == 8, False, {}

    def _look(self) -> ez.Observation:
        count = int(self.np_random.integers(5))
        ids = [f"s{i}" for i in range(count)]
        acting = self.np_random.permutation(count)[: int(self.np_random.integers(min(count, 1), count + 1))]
        mask = self.np_random.random((len(acting), 8)) < 0.5
        for first, end in ((0, 3), (3, 5), (5, 8)):
            mask[:, first] |= ~mask[:, first:end].any(1)
        mask[:, 3:5] &= mask[:, 1:3].any(1, keepdims=True)
        mask[:, 5:] &= mask[:, 2:3]
        return ez.Observation(
            {"Tree": np.zeros((1, 0)), "Soldier": self.np_random.normal(size=(count, 1))},
            actions={
                "order": ez.actions.MultiCategoricalMask([ids[i] for i in acting], mask=mask),
                "alarm": ez.actions.GlobalCategoricalMask(),
            },
            ids={"Soldier": ids},
        )


MAXIMA = {"Tree": 1, "Soldier": 3}
LAYOUTS: dict[str, dict[str, Any]] = {
    "ragged": {},
    "padded": {"maxima": MAXIMA, "beyond": "drop", "max_actors": {"order": 3}},
    "flat": {"maxima": MAXIMA, "beyond": "drop", "max_actors": {"order": 3}},
}


def face(layout: Any, **options: Any) -> Any:
    return ez.to_gymnasium(Camp(), layout, **{"illegal": "replace", **LAYOUTS[layout], **options})


def test_the_spaces_are_multi_discrete() -> None:
    one = spaces.MultiDiscrete([3, 2, 3])
    assert face("ragged").action_space["order"] == spaces.Sequence(one, stack=True)
    assert face("padded").action_space["order"] == spaces.MultiDiscrete([[3, 2, 3]] * 3)
    assert face("padded").observation_space["actions/order/mask"].shape == (3, 8)
    assert face("flat").action_space == spaces.MultiDiscrete([2, *[3, 2, 3] * 3])  # alarm comes first
    assert face("padded", flat_actions=True).action_space == face("flat").action_space


@pytest.mark.parametrize("layout", LAYOUTS)
def test_faces_keep_gymnasium_s_rules_and_survive_samples(layout: str) -> None:
    env = face(layout)
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")  # of wrappers made without a spec, as for every face
        check_env(env, skip_render_check=True)
    env.action_space.seed(1)
    observation, info = env.reset(seed=1)
    illegal = 0
    for _ in range(60):
        assert env.observation_space.contains(observation)
        observation, _, ended, _, info = env.step(env.action_space.sample())
        illegal += info["illegal_choices"]
        if ended:
            observation, info = env.reset()
    assert illegal > 0 and sum(len(told.actors) for told in env.env.told) > 30
    for inside in (SyncVectorEnv, partial(AsyncVectorEnv, shared_memory=layout != "ragged")):
        venv = inside([partial(face, layout)] * 2)
        venv.reset(seed=1)
        for _ in range(10):
            *_, info = venv.step(venv.action_space.sample())
        assert info["illegal_choices"].shape == (2,)
        venv.close()


def test_orders_reach_the_actors_and_components_they_are_for() -> None:
    env, padded = Camp(), face("padded")
    whole, _ = env.reset(seed=3)
    seen, _ = padded.reset(seed=3)
    rng = np.random.default_rng(0)
    padded.action_space.seed(0)
    arrived = 0
    for _ in range(8):
        action = padded.action_space.sample()
        orders = ez.envs.sample_actions(
            ACTIONS, ez.envs.batch_observations(env.observation_space, [whole]), rng
        )["order"].values
        place = {x: row for row, x in enumerate(whole["entities"]["Soldier"][:, 0].tolist())}
        expected = {}
        for row in np.flatnonzero(seen["actions/order/presence"]):
            x = seen["entities/Soldier"][seen["actions/order/actors"][row] - 1, 0]
            soldier = place[float(x)]
            (actor,) = np.flatnonzero(whole["actions"]["order"]["actors"] == soldier + 1)
            action["order"][row] = orders[actor]
            expected[f"s{soldier}"] = orders[actor].tolist()
        whole, *_ = env.step({"order": orders, "alarm": 0})
        seen, *_, info = padded.step(action)
        told = padded.env.told[-1]
        got = dict(zip(told.actors, told.choices.tolist(), strict=True))
        assert {name: got[name] for name in expected} == expected
        assert info["illegal_choices"] == 0
        arrived += len(expected)
    assert arrived > 5


def test_an_illegal_choice_is_replaced_and_counted_or_named() -> None:
    env = face("ragged")
    seen, _ = env.reset(seed=0)
    while len(seen["actions/order/mask"]) < 2 or seen["actions/order/mask"][0, 2]:
        seen, _ = env.reset()
    row = seen["actions/order/mask"][0].astype(bool)
    assert not row[2], "the first may not build"
    mask = seen["actions/order/mask"].astype(bool)
    given = np.zeros((len(mask), 3), np.int64)
    given[0] = [2, 0, 1]
    *_, info = env.step({"order": given, "alarm": 1})
    told = env.env.told[-1]
    replaced, count = ORDER.replace_illegal(given, ORDER.one_step(np.arange(len(mask)), mask))
    assert told.choices.tolist() == replaced.tolist() and replaced[0, 0] == row.argmax()
    assert info["illegal_choices"] == count > 0
    strict = ez.to_gymnasium(Camp())
    seen, _ = strict.reset(seed=0)
    while len(seen["actions/order/mask"]) < 2 or seen["actions/order/mask"][0, 2]:
        seen, _ = strict.reset()
    with raises(
        ez.ActionError, "Camp", "action 'order'", "actor 0", "component 'kind'", 2, "'build'", "allowed"
    ):
        strict.step({"order": np.array([[2, 0, 1]] * len(seen["actions/order/mask"])), "alarm": 1})


def test_flat_masks_allow_what_is_legal_and_something_of_every_number() -> None:
    env = face("flat")
    env.reset(seed=2)
    env.action_space.seed(2)
    bare = 0
    for _ in range(8):
        flags = get_action_masks(env)
        assert flags.shape == (2 + 3 * 8,)
        part = env.limited.observation["actions"]["order"]
        rows = flags[2:].reshape(3, 8)
        for row, mask in zip(rows, part["mask"].astype(bool), strict=False):
            something = np.repeat(ORDER.allows_something(mask[None])[0], ORDER.sizes)
            np.testing.assert_array_equal(row[something], mask[something])
            bare += int((~something).any())
        nothing = np.zeros(8, bool)
        nothing[ORDER.offsets[:-1]] = True
        assert (rows[len(part["mask"]) :] == nothing).all()
        pieces = np.split(flags, np.cumsum(env.action_space.nvec)[:-1])
        choices = env.action_space.sample(mask=tuple(piece.astype(np.int8) for piece in pieces))
        *_, info = env.step(choices)
        assert info["illegal_choices"] == 0
    assert bare > 0


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("api", ["parallel", "aec"])
def test_pettingzoo_gets_them_too(layout: Any, api: Any) -> None:
    options = LAYOUTS[layout] if layout == "ragged" else {**LAYOUTS[layout], "illegal": "replace"}
    env = ez.to_pettingzoo(Camp(), api, layout, **options)
    if api == "parallel":
        parallel_api_test(env, num_cycles=20)
    env.reset(seed=1)
    (agent,) = env.agents
    env.action_space(agent).seed(1)
    if api == "aec":
        for _ in range(6):
            observation = env.last()[0]
            mask = observation if layout == "ragged" else None
            env.step(env.action_space(agent).sample(mask))
        return
    observations, infos = env.reset(seed=1)
    for _ in range(6):
        mask = {"ragged": observations[agent], "padded": None, "flat": infos[agent].get("action_mask")}[
            layout
        ]
        observations, *_, infos = env.step({agent: env.action_space(agent).sample(mask)})
        if layout == "flat":
            assert infos[agent]["illegal_choices"] == 0


def test_wrong_orders_in_the_turns_of_pettingzoo_are_named() -> None:
    env = ez.to_pettingzoo(Camp(), "aec")
    env.reset(seed=4)
    while not len(env.last()[0]["actions"]["order"]["actors"]):
        env.step(env.action_space("agent_0").sample())
    count = len(env.last()[0]["actions"]["order"]["actors"])
    kind = int(env.last()[0]["actions"]["order"]["mask"][0, :3].argmax())
    with raises(ez.ActionError, "component 'where'", 2, 0):
        env.step({"order": [[kind, 2, 0]] * count})
    with raises(ez.ActionError, "agent 'agent_0'", "'order'", count):
        env.step({"order": [], "alarm": 0})
    env.step(env.action_space("agent_0").sample())


@pytest.mark.full
def test_stable_baselines_trains_on_ragged_orders() -> None:
    venv = ez.sb3.make_vec(ez.vector.ListVectorEnv([Camp] * 3))
    model = ez.sb3.PPO(venv, n_steps=8, n_epochs=2, seed=1, policy_kwargs={"d_model": 8, "n_layer": 1})
    before = model.policy.network.action_heads["order"].proj.weight.detach().clone()
    model.learn(48)
    after = model.policy.network.action_heads["order"].proj.weight.detach()
    assert bool(after.isfinite().all()) and not bool((before == after).all())
    told = [order for env in venv.vector_env.envs for order in env.unwrapped.told]
    assert sum(len(order.actors) for order in told) > 20
