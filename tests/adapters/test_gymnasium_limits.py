"""Fixed numbers of entities and actors: what is shown where there are more."""

from __future__ import annotations

from typing import Any

import entitize as ez
import gymnasium
import numpy as np
from entitize import (
    Categorical,
    EntityActionSpace,
    EntityEnv,
    EntitySpace,
    Observation,
    ObservationError,
    SelectEntity,
    to_gymnasium,
)
from entitize.envs import CategoricalMask, SelectEntityMask

from drone_field import Field
from facts import raises


class Crowd(EntityEnv):
    """One hero at 0 and people at 1, -2, 3, -4, …; the hero may greet any of them, all may shout."""

    def __init__(self) -> None:
        self.action_space = EntityActionSpace({"greet": SelectEntity(), "shout": Categorical(["no", "yes"])})
        self.observation_space = EntitySpace({"Hero": ["x"], "Person": ["x"]}, self.action_space)

    def _reset(self, options: dict[str, Any]) -> Observation:
        self.here = options.get("here", True)
        return self._look()

    def _step(self, actions: dict[str, Any]) -> Any:
        self.told = actions
        return self._look(), 0.0, False, False, {}

    def _look(self) -> Observation:
        people = [[i if i % 2 else -i] for i in range(9, 0, -1)]
        entities = {"Hero": [[0.0]] if self.here else [], "Person": people}
        greet = {"greet": SelectEntityMask(actor_types=["Hero"], actee_types=["Person"])} if self.here else {}
        return Observation(entities, actions={"shout": CategoricalMask(), **greet})


def people(observation: dict[str, Any]) -> list[int]:
    return observation["entities/Person"][observation["presence/Person"], 0].astype(int).tolist()


def test_too_many_are_an_error_unless_said_otherwise():
    env = to_gymnasium(Crowd(), "padded", maxima={"Hero": 1, "Person": 4})
    with raises(ObservationError, "Crowd", 9, "type 'Person'", 4, "maxima"):
        env.reset()


def test_entity_types_may_come_in_any_order():
    action_space = ez.EntityActionSpace({"pick": ez.SelectEntity()})
    space = EntitySpace({"A": ["x"], "B": ["x"]}, action_space)
    rows = {"A": np.float32([[1], [2]]), "B": np.float32([[3], [4], [5]])}
    picks = {"actors": np.array([0]), "actees": np.array([1, 2, 4]), "mask": np.ones(3, np.int8)}

    class Turned(gymnasium.Env):
        observation_space = space

        def __init__(self, names: str) -> None:
            self.names, self.action_space = names, action_space

        def reset(self, *, seed=None, options=None):
            entities = {name: rows[name] for name in self.names}
            return {"entities": entities, "actions": {"pick": picks}}, {}

    seen = [
        to_gymnasium(Turned(names), "padded", maxima={"A": 2, "B": 3}).reset()[0] for names in ("AB", "BA")
    ]
    for name, array in seen[0].items():
        np.testing.assert_array_equal(seen[1][name], array, err_msg=name)


def test_the_nearest_stay_in_their_order():
    env = to_gymnasium(
        Crowd(), "padded", maxima={"Hero": 1, "Person": 4}, beyond=ez.gymnasium.Nearest("Hero", ["x"])
    )
    observation, info = env.reset()
    assert people(observation) == [-4, 3, -2, 1] and info["dropped"] == {"Hero": 0, "Person": 5}
    assert info["dropped_actors"] == {"greet": 0, "shout": 5}
    action = env.action_space.sample()
    action["greet"][0] = 1  # the second of those that are shown: 3
    action["shout"][:] = 1
    env.step(action)
    told = env.env.told
    assert told["greet"].actors == [0] and told["greet"].actees == [1 + 6]
    assert told["shout"].choices.tolist() == [
        1,
        0,
        0,
        0,
        0,
        0,
        1,
        1,
        1,
        1,
    ]  # actors that are not in the observation take the first choice
    observation, _ = env.reset(options={"here": False})
    assert people(observation) == [9, -8, 7, -6]
    assert not observation["actions/greet/presence"].any()


def test_who_could_choose_only_what_is_left_out_does_not_act():
    env = to_gymnasium(Crowd(), "padded", maxima={"Hero": 1, "Person": 0}, beyond="drop")
    observation, info = env.reset()
    assert not observation["actions/greet/presence"].any() and observation["presence/Hero"].all()
    assert info["dropped_actors"] == {"greet": 1, "shout": 9}


def test_a_random_choice_stays_by_seed_and_leaves_the_environment_alone():
    env = to_gymnasium(Crowd(), "padded", maxima={"Hero": 1, "Person": 4}, beyond="drop")
    draws = [people(env.reset(seed=seed)[0]) for seed in (1, 1, 2, 3, 4)]
    assert draws[0] == draws[1] and len({tuple(d) for d in draws}) > 2
    assert all(sorted(d, key=abs, reverse=True) == d and len(d) == 4 for d in draws)
    assert len({tuple(people(env.reset()[0])) for _ in range(5)}) > 1
    plain_env = Field()
    dropping = to_gymnasium(Field(), "padded", maxima=1, beyond="drop", illegal="replace")
    whole, _ = plain_env.reset(seed=1)
    dropping.reset(seed=1)
    for _ in range(5):
        whole, *_ = plain_env.step(plain_env.action_space.sample(mask=whole))
        dropping.step(dropping.action_space.sample())
        np.testing.assert_equal(dropping.entity_observation["entities"], whole["entities"])


def test_more_actors_than_slots_are_named():
    env = to_gymnasium(Crowd(), "padded", maxima=9, max_actors={"shout": 2})
    with raises(ObservationError, "Crowd", "env 0", 10, "action 'shout'"):
        env.reset()


def test_who_stays_is_as_visible_as_before():
    env = to_gymnasium(Field(), "padded", maxima=2, beyond="drop", illegal="replace")
    seen = set()
    for seed in range(40):
        shown, _ = env.reset(seed=seed)
        whole = env.entity_observation
        for kind in ("Drone", "Mineral"):
            rows = shown[f"entities/{kind}"][shown[f"presence/{kind}"].astype(bool)]
            flags = shown[f"visible/{kind}"][shown[f"presence/{kind}"].astype(bool)]
            places = [int(np.flatnonzero((whole["entities"][kind] == row).all(1))[0]) for row in rows]
            np.testing.assert_array_equal(flags, whole["visible"][kind][places])
            seen.add((kind, len(places), 0 in places))
    assert {("Drone", 2, False), ("Drone", 2, True)} <= seen
