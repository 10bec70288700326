# ruff: noqa: NPY002 - Entity Gym draws from the legacy generator
"""`from_entity_gym`: every example of `entity_gym` against a plain loop over the original."""

import random
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import entitize as ez
import gymnasium
import numpy as np
import pytest
from entitize.adapters.entity_gym import RandomStreams
from entitize.adapters.entity_gym import entity_gym as eg
from entity_gym.examples import ENV_REGISTRY, CherryPick, Minefield, MineSweeper, MultiSnake, Xor
from gymnasium.utils.env_checker import data_equivalence

from facts import mentions, raises

EXAMPLES: dict[str, Callable[[], Any]] = {
    **ENV_REGISTRY,
    "MineSweeper with a cannon": partial(MineSweeper, orbital_cannon=True, cooldown_period=1, nmines=3),
    "Count with masks": partial(ENV_REGISTRY["Count"], masked_choices=4),
    "PickMatchingBalls with few": partial(ENV_REGISTRY["PickMatchingBalls"], max_balls=2),
    "MultiSnake of four": partial(MultiSnake, num_snakes=4, max_snake_length=3),
    "RockPaperScissors that cheats": partial(ENV_REGISTRY["RockPaperScissors"], cheat=True),
}
each_example = pytest.mark.parametrize("name", EXAMPLES)


@pytest.fixture(autouse=True)
def _global_random() -> Any:
    """The originals draw from the global generators; other tests need not know."""
    python, numpy = random.getstate(), np.random.get_state(legacy=False)
    yield
    random.setstate(python)
    np.random.set_state(numpy)


class Reference:
    """An original's observations as ours, entity by entity; slow and independent of the adapter."""

    def __init__(self, env: Any) -> None:
        self.env, self.space, self.actions = env, env.obs_space(), env.action_space()

    def see(self, seen: Any, space: ez.EntitySpace) -> dict[str, Any]:
        self.seen, self.names = seen, []
        expected: dict[str, Any] = {"entities": {}, "actions": {}}
        for name, entity in self.space.entities.items():
            rows = [[float(x) for x in row] for row in seen.features.get(name, [])]
            expected["entities"][name] = np.array(rows, np.float32).reshape(len(rows), len(entity.features))
            self.names += list(seen.ids.get(name, [None] * len(rows)))
        if not self.space.entities:
            del expected["entities"]
        if self.space.global_features:
            expected["globals"] = np.array(list(seen.global_features), np.float32)
        if space.hidden:
            expected["visible"] = {
                name: np.array(seen.visible.get(name, [True] * len(rows)), np.int8)
                for name, rows in expected["entities"].items()
            }
        expected["actions"] = {
            name: self.mask(action, seen.actions[name]) for name, action in self.actions.items()
        }
        return expected

    def mask(self, action: Any, mask: Any) -> dict[str, Any]:
        if isinstance(action, eg.GlobalCategoricalActionSpace):
            return {"mask": np.ones((1, len(action)), np.int8)}
        actors = self.indices(mask.actor_ids, mask.actor_types)
        if isinstance(action, eg.CategoricalActionSpace):
            given = np.ones((len(actors), len(action))) if mask.mask is None else mask.mask
            return {"actors": actors, "mask": np.array(given, np.int8).reshape(len(actors), len(action))}
        actees = self.indices(mask.actee_ids, mask.actee_types)
        if not len(actors) or not len(actees):
            actors = actees = np.zeros(0, np.int64)
        return {"actors": actors, "actees": actees, "mask": np.ones(len(actors) * len(actees), np.int8)}

    def indices(self, ids: Sequence[Any] | None, types: Sequence[str] | None) -> Any:
        if ids is not None:
            return np.array([self.names.index(identity) for identity in ids], np.int64)
        found, first = [], 0
        starts = {}
        for name in self.space.entities:
            starts[name] = (first, first + len(self.seen.features.get(name, [])))
            first = starts[name][1]
        for name in self.space.entities if types is None else types:
            found += list(range(*starts[name]))
        return np.array(found, np.int64)

    def act(self, orders: Mapping[str, Any], seen: Mapping[str, Any]) -> Any:
        theirs: dict[str, Any] = {}
        for name, order in orders.items():
            space = self.actions[name]
            if isinstance(space, eg.GlobalCategoricalActionSpace):
                theirs[name] = eg.GlobalCategoricalAction(int(order[0]), space.index_to_label[order[0]])
                continue
            actors = [self.names[i] for i in seen["actions"][name]["actors"]]
            if isinstance(space, eg.CategoricalActionSpace):
                theirs[name] = eg.CategoricalAction(actors, order, space.index_to_label)
            else:
                theirs[name] = eg.SelectEntityAction(actors, [self.names[i] for i in order])
        return self.env.act(theirs)


@each_example
def test_an_example_is_what_a_plain_loop_over_the_original_sees(name: str) -> None:
    env = ez.from_entity_gym(EXAMPLES[name])
    for seed in (3, 11):
        random.seed(seed)
        np.random.seed(seed)
        original = EXAMPLES[name]()
        random.seed(seed)
        np.random.seed(seed)
        reference = Reference(original)
        expected = reference.see(original.reset(), env.observation_space)
        seen, info = env.reset(seed=seed)
        assert info == {}
        env.action_space.seed(seed)
        for _ in range(40):
            assert data_equivalence(seen, expected, exact=True), name
            orders = env.action_space.sample(mask=seen)
            answer = reference.act(orders, seen)
            seen, reward, terminated, truncated, info = env.step(orders)
            assert (reward, terminated, truncated, info) == (answer.reward, answer.done, False, {})
            if answer.done:
                with pytest.raises(gymnasium.error.ResetNeeded):
                    env.step(orders)
                answer = original.reset()
                seen, _ = env.reset()
            expected = reference.see(answer, env.observation_space)


@pytest.mark.filterwarnings("ignore:.*never had an actor")
@each_example
def test_an_example_keeps_the_rules(name: str) -> None:
    ez.check_entity_env(ez.from_entity_gym(EXAMPLES[name]), num_steps=40)


@pytest.mark.filterwarnings("ignore:.*never had an actor")
def test_examples_in_a_vector_environment_keep_the_rules() -> None:
    ez.check_entity_env(
        ez.vector.ListVectorEnv([partial(ez.from_entity_gym, EXAMPLES["MineSweeper with a cannon"])] * 3), 40
    )
    with ez.vector.ProcessVectorEnv([partial(ez.from_entity_gym, MultiSnake)] * 2, num_workers=1) as venv:
        ez.check_entity_env(venv, 20)


def test_ppo_learns_a_bandit_of_entity_gym() -> None:
    with ez.vector.ListVectorEnv(
        [partial(ez.from_entity_gym, ENV_REGISTRY["MultiArmedBandit"])] * 32
    ) as venv:
        policy = ez.RogueNet(
            venv.single_observation_space, venv.single_action_space, d_model=8, n_layer=0, n_head=1
        )
        config = ez.PPOConfig(num_steps=16, minibatch_size=256, learning_rate=0.02, seed=1)
        ez.PPO(policy, venv, config).train(8192)
        played = ez.evaluate(policy, venv, 32, seed=2, deterministic=True)
    assert played.returns.mean() > 0.9  # the optimum is 1, chance 0.2


# -- what an environment may do ------------------------------------------------------------------------------


class Told(eg.Environment):
    """Returns the observations it was made with, one after the other, and keeps what it is told."""

    def __init__(
        self, *observations: Mapping[str, Any], entities: Any = None, actions: Any = None, globals: Any = ()
    ) -> None:
        self.observations = observations
        self.entities = entities or {"Cat": ["x"], "Dog": ["x", "y"]}
        self.actions = actions or {}
        self.globals = list(globals)
        self.told: list[Any] = []
        self.closed = 0

    def obs_space(self) -> Any:
        return eg.ObsSpace(
            self.globals, {name: eg.Entity(list(features)) for name, features in self.entities.items()}
        )

    def action_space(self) -> Any:
        return self.actions

    def reset(self) -> Any:
        self.step = 0
        return self.look()

    def act(self, actions: Any) -> Any:
        self.told.append(actions)
        self.step += 1
        return self.look()

    def look(self) -> Any:
        given = dict(self.observations[min(self.step, len(self.observations) - 1)])
        return eg.Observation(**{"done": False, "reward": 0.0, **given})

    def close(self) -> None:
        self.closed += 1


MOVE = {"move": eg.CategoricalActionSpace(["a", "b"])}


@pytest.mark.parametrize(
    "given",
    [
        {"entities": {"Cat": np.array([[1.0], [2.0]]), "Dog": [(3, 4)]}},
        {"entities": {"Cat": ([(1,), (2,)], ["p", "q"]), "Dog": (np.array([[3, 4]]), [("dog", 0)])}},
        {"features": {"Cat": [[1.0], [2.0]], "Dog": np.array([[3, 4]], np.float32)}, "ids": {"Dog": [b"d"]}},
    ],
)
def test_entities_may_be_given_in_each_way_there_is(given: dict[str, Any]) -> None:
    env = ez.from_entity_gym(Told(given))
    seen, _ = env.reset()
    assert {name: rows.tolist() for name, rows in seen["entities"].items()} == {
        "Cat": [[1], [2]],
        "Dog": [[3, 4]],
    }
    assert all(rows.dtype == np.float32 for rows in seen["entities"].values())


def test_missing_types_and_actions_are_absent() -> None:
    actions = {
        **MOVE,
        "hit": eg.SelectEntityActionSpace(),
        "all": eg.GlobalCategoricalActionSpace(["x", "y"]),
    }
    env = ez.from_entity_gym(Told({"entities": {"Cat": None}}, actions=actions))
    seen, _ = env.reset()
    assert {name: rows.shape for name, rows in seen["entities"].items()} == {"Cat": (0, 1), "Dog": (0, 2)}
    assert seen["actions"]["all"]["mask"].shape == (0, 2)
    assert seen["actions"]["move"]["actors"].shape == seen["actions"]["hit"]["actors"].shape == (0,)
    env.step(env.action_space.sample(mask=seen))
    told = env.env.told[0]
    assert told["move"].actors == [] and told["hit"].actees == [] and "all" not in told


def test_types_without_ids_do_not_shift_the_actors() -> None:
    """entity_gym counts only the types that have ids, and lets a cat act for the dog."""
    given = {
        "features": {"Cat": [[1], [2], [3]], "Dog": [[4, 5]]},
        "ids": {"Dog": ["rex"]},
        "actions": {"move": eg.CategoricalActionMask(actor_ids=["rex"])},
    }
    original = Told(given, actions=MOVE)
    assert original.reset()._actor_indices("move", original.obs_space()).tolist() == [0]
    env = ez.from_entity_gym(original)
    seen, _ = env.reset()
    assert seen["actions"]["move"]["actors"].tolist() == [3]
    env.step({"move": [1]})
    assert (original.told[0]["move"].actors, original.told[0]["move"].labels) == (["rex"], ["b"])


def test_masks_of_pairs_are_seen_and_kept() -> None:
    """entity_gym drops them."""
    pairs = np.array([[True, False], [False, True]])
    given = {
        "entities": {"Cat": ([[1], [2]], ["p", "q"]), "Dog": ([[3, 4], [5, 6]], ["r", "s"])},
        "actions": {"hit": eg.SelectEntityActionMask(actor_ids=["q", "p"], actee_types=["Dog"], mask=pairs)},
    }
    env = ez.from_entity_gym(Told(given, actions={"hit": eg.SelectEntityActionSpace()}))
    seen, _ = env.reset()
    part = seen["actions"]["hit"]
    assert (part["actors"].tolist(), part["actees"].tolist(), part["mask"].tolist()) == (
        [1, 0],
        [2, 3],
        [1, 0, 0, 1],
    )
    with raises(ez.ActionError, "Told", "action 'hit'", "actor 'q'", 3, 2):
        env.step({"hit": [3, 3]})
    env.step({"hit": [2, 3]})
    assert (env.env.told[0]["hit"].actors, env.env.told[0]["hit"].actees) == (["q", "p"], ["r", "s"])


@pytest.mark.parametrize("mask", [[True, False], [[True, False]], np.array([1, 0], bool)])
def test_global_masks_may_be_a_row_or_a_table_of_one(mask: Any) -> None:
    given = {"actions": {"all": eg.GlobalCategoricalActionMask(mask)}}
    env = ez.from_entity_gym(Told(given, actions={"all": eg.GlobalCategoricalActionSpace(["x", "y"])}))
    seen, _ = env.reset()
    assert seen["actions"]["all"]["mask"].tolist() == [[1, 0]]
    with raises(ez.ActionError, "choice", 1, "'y'", "not allowed"):
        env.step({"all": 1})


def test_an_action_that_is_left_out_is_refused_by_name() -> None:
    given = {
        "entities": {"Cat": ([[1], [2]], ["p", "q"])},
        "actions": {
            "move": eg.CategoricalActionMask(mask=[[False, True], [True, True]]),
            "hit": eg.SelectEntityActionMask(["p"], actee_ids=["q", "p"], mask=np.array([[False, True]])),
            "all": eg.GlobalCategoricalActionMask([False, True]),
        },
    }
    actions = {
        **MOVE,
        "hit": eg.SelectEntityActionSpace(),
        "all": eg.GlobalCategoricalActionSpace(["x", "y"]),
    }
    env = ez.from_entity_gym(Told(given, actions=actions))
    env.reset()
    for left_out in ({}, {"move": None, "hit": [], "all": ()}):
        with raises(ez.ActionError, "Told", "action 'move'", 2, "'p'", "'q'"):
            env.step(left_out)
    with raises(ez.ActionError, "Told", "action 'hit'", 1, "'p'"):
        env.step({"move": [1, 0], "all": 1})
    assert env.env.told == []
    env.step({"move": [1, 0], "hit": [0], "all": 1})
    assert env.env.told[0]["hit"].actees == ["p"]


def test_metrics_are_infos_and_done_is_terminated() -> None:
    env = ez.from_entity_gym(Told({}, {"metrics": {"score": 2.5}, "reward": 3, "done": True}))
    env.reset()
    assert env.step({})[1:] == (3.0, True, False, {"score": 2.5})


def test_last_observations_may_allow_nothing() -> None:
    last = {
        "done": True,
        "entities": {"Cat": ([[1]], ["p"])},
        "actions": {"move": eg.CategoricalActionMask(["p"], mask=[[False, False]])},
    }
    env = ez.from_entity_gym(Told({}, last, actions=MOVE))
    env.reset()
    assert len(env.step({})[0]["actions"]["move"]["actors"]) == 0
    alive = ez.from_entity_gym(Told({}, {**last, "done": False}, actions=MOVE))
    alive.reset()
    with raises(ez.ObservationError, "Told", "action 'move'", "actor 'p'", "choice"):
        alive.step({})


def test_hidden_entities_are_seen_for_what_they_are() -> None:
    hiding = {"entities": {"Cat": [[1], [2]]}, "visible": {"Cat": [True, False]}}
    seen, _ = ez.from_entity_gym(Told(hiding)).reset()
    assert seen["visible"]["Cat"].tolist() == [1, 0]
    late = ez.from_entity_gym(Told({}, {**hiding, "visible": {"Cat": [True, True]}}, hiding))
    late.reset()
    assert "visible" not in late.step({})[0]
    with raises(ez.ObservationError, "Told", "hide", "hidden=True"):
        late.step({})
    ready = ez.from_entity_gym(Told({}, hiding), hidden=True)
    ready.reset()
    assert ready.step({})[0]["visible"]["Cat"].tolist() == [1, 0]


def test_labels_that_repeat_are_told_apart() -> None:
    env = ez.from_entity_gym(Told({}, actions={"go": eg.CategoricalActionSpace(["x", "y", "x"])}))
    assert env.action_space["go"].choices == ("x", "y", "x (2)")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("given", "facts"),
    [
        ({"entities": {"Cat": [[np.nan]]}}, ["entity type 'Cat'", "feature 'x'", 0, "nan"]),
        ({"entities": {"Cow": [[1]]}}, ["entity type 'Cow'"]),
        ({"entities": {"Cat": [[1, 2]]}}, ["entity type 'Cat'", "(1, 2)", "(n, 1)"]),
        ({"entities": {"Cat": ([[1], [2]], ["p", "p"])}}, ["id 'p'", "twice"]),
        ({"actions": {"fly": eg.CategoricalActionMask()}}, ["action 'fly'"]),
        (
            {"actions": {"move": eg.GlobalCategoricalActionMask()}},
            ["action 'move'", "CategoricalMask"],
        ),
        ({"actions": {"move": 3}}, ["action 'move'", "CategoricalMask", "int"]),
        ({"global_features": [1]}, ["globals", "(1,)", "(0,)"]),
        ({"reward": np.inf}, ["reward", "inf"]),
    ],
)
def test_what_breaks_the_rules_is_named(given: dict[str, Any], facts: list[object]) -> None:
    env = ez.from_entity_gym(Told({}, given, actions=MOVE))
    env.reset()
    with raises(ez.ObservationError, *facts):
        env.step({})
    env.reset()


def test_only_environments_of_entity_gym_are_taken() -> None:
    with raises(TypeError, "entity_gym", "Environment", 3):
        ez.from_entity_gym(lambda: 3)  # type: ignore[arg-type,return-value]
    with raises(TypeError, "Told", "action 'go'", "'left'"):
        ez.from_entity_gym(Told({}, actions={"go": "left"}))
    with raises(ValueError, "Xor", "render_mode", "'rgb_array'"):
        ez.from_entity_gym(Xor, render_mode="rgb_array")

    class Silent(Told):
        def reset(self) -> Any:
            return None

    with raises(ez.ObservationError, "Silent", "Observation", "NoneType"):
        ez.from_entity_gym(Silent(), hidden=False).reset()


def test_rendering_and_closing_reach_the_environment() -> None:
    class Painter(Told):
        def render(self, **options: Any) -> Any:
            assert options == {"mode": "rgb_array"}
            return np.zeros((2, 3, 3), np.uint8)

    env = ez.from_entity_gym(Painter({}), render_mode="rgb_array")
    env.reset()
    assert env.render().shape == (2, 3, 3)
    assert ez.from_entity_gym(Painter({})).render() is None
    env.close()
    assert env.env.closed == 1


# -- random numbers ------------------------------------------------------------------------------------------


def test_environments_do_not_disturb_each_other_nor_other_code() -> None:
    def draws(*envs: Any) -> list[float]:
        random.seed(5)
        np.random.seed(5)
        drawn = []
        for i in range(9):
            for env in envs:
                seen, _ = env.reset(seed=i if i % 3 == 0 else None)
                env.action_space.seed(i)
                env.step(env.action_space.sample(mask=seen))
            drawn += [random.random(), float(np.random.normal()), random.gauss(0, 1)]
        return drawn

    assert draws() == draws(
        *(ez.from_entity_gym(example) for example in (CherryPick, Minefield, MineSweeper))
    )


def test_a_seed_undoes_what_an_environment_carries_over() -> None:
    """Minefield's vehicle remembers the step it was at when the last episode ended."""
    env = ez.from_entity_gym(Minefield)
    first, _ = env.reset(seed=1)
    env.step({"move": [1]})
    again, _ = env.reset(seed=1)
    assert data_equivalence(first, again)
    carried, _ = env.reset()
    assert carried["entities"]["Vehicle"][0, 3] == 0
    env.step({"move": [1]})
    assert env.reset()[0]["entities"]["Vehicle"][0, 3] == 1


@pytest.mark.parametrize("outside", ["twister", "pcg"])
def test_streams_go_on_where_they_were_and_leave_others_where_they_were(outside: str) -> None:
    def draw(count: int) -> list[float]:
        return [float(np.random.normal()) for _ in range(count)] + [random.random(), random.gauss(0, 1)]

    counts = [1, 2, 0, 3, 1, 1, 4]  # normal numbers come in pairs, so halves are left over
    random.seed(8)
    np.random.seed(8)
    mine_expected = [draw(count) for count in counts]
    usual = np.random.get_bit_generator()
    if outside == "pcg":
        np.random.set_bit_generator(np.random.PCG64(1))
    before = np.random.get_state(legacy=False), random.getstate()
    others_expected = [draw(count) for count in reversed(counts)]
    np.random.set_state(before[0])
    random.setstate(before[1])
    streams, mine, others = RandomStreams(8), [], []
    for count, other in zip(counts, reversed(counts), strict=True):
        with streams.drawn_from():
            mine.append(draw(count))
        with streams.drawn_from():
            pass
        others.append(draw(other))
    np.random.set_bit_generator(usual)
    assert mine == mine_expected
    assert others == others_expected


def test_streams_are_put_back_when_the_environment_raises() -> None:
    random.seed(1)
    expected = random.Random(1).random()
    with pytest.raises(ZeroDivisionError), RandomStreams(2).drawn_from():
        random.random()
        raise ZeroDivisionError
    assert random.random() == expected


# -- the package ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prepare", "facts"),
    [
        ("sys.modules['entity_gym'] = None", ["package entity_gym"]),
        ("sys.modules['ragged_buffer'] = None", ["package ragged_buffer"]),
        ("import numpy; del numpy.__getattr__", ["NumPy 1", "'numpy<2'"]),
    ],
)
def test_what_is_missing_is_told_with_the_way_to_get_it(prepare: str, facts: list[object]) -> None:
    program = f"import sys; {prepare}; import entitize; entitize.from_entity_gym"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert re.search(mentions("ImportError", *facts, "pip install"), result.stderr)
