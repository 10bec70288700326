"""Masks that name actors and actees wrongly: ids without ids, and arguments by position."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import entitize as ez
import pytest
from entitize.envs import (
    Categorical,
    CategoricalMask,
    EntityActionSpace,
    EntityEnv,
    EntitySpace,
    Observation,
    ObservationError,
    SelectEntity,
    SelectEntityMask,
)

from facts import raises

Ids = Mapping[str, Sequence[Any]]


class Tour(EntityEnv):
    """A car and three cities."""

    def __init__(self) -> None:
        self.action_space = EntityActionSpace({"next": SelectEntity(), "gear": Categorical(2)})
        self.observation_space = EntitySpace({"Car": ["x"], "City": ["x"], "Depot": ["x"]}, self.action_space)
        self.ids: Ids = {}
        self.entities: dict[str, Any] = {"Car": [[0.0]], "City": [[1.0], [2.0], [3.0]]}
        self.masks: dict[str, Any] = {}

    def _reset(self, options: object) -> Observation:
        return Observation(self.entities, actions=self.masks, ids=self.ids)

    def _step(self, actions: object) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        return self._reset({}), 0.0, False, False, {}


def tour(mask: Any, ids: Ids | None = None, action: str = "next") -> Tour:
    env = Tour()
    env.ids, env.masks = ids or {}, {action: mask}
    return env


def test_ids_of_an_observation_without_ids() -> None:
    env = tour(SelectEntityMask(actor_ids=[0], actee_ids=[1, 2]))
    way_out = "Observation(ids={'Car': [...], 'City': [...]})"
    with raises(ObservationError, "Tour", "'next'", "actor id 0", way_out):
        env.reset(seed=0)
    env.ids = {"Car": [0], "City": [1, 2, 3]}
    env.reset()


def test_an_id_of_a_type_without_ids() -> None:
    env = tour(SelectEntityMask(actor_ids=[0], actee_ids=["a"]), {"City": ["a", "b", "c"]})
    with raises(ObservationError, "id 0", "one of 'a', 'b', 'c'", "Observation(ids={'Car': [...]})"):
        env.reset(seed=0)


def test_a_misspelt_id_beside_a_type_without_ids() -> None:
    env = tour(SelectEntityMask(actor_ids=["pariss"]), {"City": ["paris", "rome", "bonn"]})
    with raises(ObservationError, "'pariss'", "did you mean 'paris'") as caught:
        env.reset(seed=0)
    assert "Car" not in str(caught.value)


def test_an_unknown_id_where_all_have_ids() -> None:
    env = tour(SelectEntityMask(actor_ids=["z"]), {"Car": ["k"], "City": ["a", "b", "c"]})
    with raises(ObservationError, "actor id 'z'", "one of 'k', 'a', 'b', 'c'") as caught:
        env.reset(seed=0)
    assert "Observation(ids=" not in str(caught.value)


def test_an_id_of_a_step_without_entities() -> None:
    env = tour(SelectEntityMask(actor_ids=["z"]))
    env.entities = {}
    with raises(ObservationError, "actor id 'z'") as caught:
        env.reset(seed=0)
    assert "Observation(ids=" not in str(caught.value)


@pytest.mark.parametrize("ids", [{}, {"Car": ["k"], "City": ["a", "b", "c"]}])
def test_actees_at_the_place_of_actor_types(ids: Ids) -> None:
    env = tour(SelectEntityMask(["k"], ["a", "b"]), ids)
    with raises(ObservationError, "actors", "both actor_ids and actor_types", "actee_ids=", "actee_types="):
        env.reset(seed=0)


def test_both_ids_and_types_of_actees_and_of_another_kind_of_action() -> None:
    mask = SelectEntityMask(actor_types=["Car"], actee_ids=["a"], actee_types=["City"])
    with raises(ObservationError, "actees", "both actee_ids and actee_types"):
        tour(mask).reset(seed=0)
    with raises(ObservationError, "'gear'", "both actor_ids and actor_types") as caught:
        tour(CategoricalMask(["k"], ["Car"]), action="gear").reset(seed=0)
    assert "actee" not in str(caught.value)


def test_actors_by_position() -> None:
    env = tour(SelectEntityMask(["k"], actee_ids=["b"]), {"Car": ["k"], "City": ["a", "b", "c"]})
    observation, _ = env.reset(seed=0)
    assert observation["actions"]["next"]["actors"].tolist() == [0]
    assert observation["actions"]["next"]["actees"].tolist() == [2]


def test_objects_at_the_place_of_actor_types() -> None:
    @ez.entity
    class Truck:
        x: float

    trucks = [Truck(0.0), Truck(1.0)]

    class Trucks(EntityEnv):
        def __init__(self) -> None:
            self.observation_space, self.action_space = ez.declare([Truck], {"follow": SelectEntity()})

        def _reset(self, options: object) -> Observation:
            mask: Any = SelectEntityMask(trucks[:1], trucks[1:])  # type: ignore[arg-type]
            return ez.Obs(trucks, actions={"follow": mask})

        def _step(self, actions: object) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
            raise AssertionError("no step is made")

    with raises(ObservationError, "Trucks", "'follow'", "actor_ids and actor_types", "actee_ids="):
        Trucks().reset(seed=0)
