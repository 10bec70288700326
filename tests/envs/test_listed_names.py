"""Names, ids and choices in errors: the first few, and how many more there are."""

from __future__ import annotations

import entitize as ez
import numpy as np
import pytest
from entitize.envs import (
    ActionError,
    Categorical,
    CategoricalMask,
    EntityActionSpace,
    EntityBatch,
    EntityEnv,
    EntitySpace,
    MultiCategorical,
    MultiCategoricalMask,
    Observation,
    ObservationError,
    SelectEntity,
    SelectEntityMask,
)
from entitize.suggestions import expected_one_of, listed, numbered

from facts import raises

CITIES = 2000
SHORT = 400  # characters of an error that lists a few names


class Tour(EntityEnv):
    """A car that selects any city but the first, whose actions have many choices."""

    def __init__(self, with_ids: bool = True, num_cities: int = CITIES) -> None:
        self.num_cities = num_cities
        self.ids = {"Car": ["k"], "City": [("c", i) for i in range(num_cities)]} if with_ids else {}
        self.mask = SelectEntityMask(
            actor_types=["Car"], actee_types=["City"], mask=[[i > 0 for i in range(num_cities)]]
        )
        names = [f"gear {i}" for i in range(50)]
        self.action_space = EntityActionSpace(
            {
                "next": SelectEntity(),
                "gear": Categorical(names),
                "numbered": Categorical(50),
                "parts": MultiCategorical({"kind": ["go"], "gear": names}, {"go": ["gear"]}),
            }
        )
        self.observation_space = EntitySpace({"Car": ["x"], "City": ["x"]}, self.action_space)

    def _reset(self, options: object) -> Observation:
        flags = [[i > 0 for i in range(50)]]
        return Observation(
            {"Car": [[0.0]], "City": np.zeros((self.num_cities, 1))},
            ids=self.ids,
            actions={
                "next": self.mask,
                "gear": CategoricalMask(actor_types=["Car"], mask=flags),
                "numbered": CategoricalMask(actor_types=["Car"], mask=flags),
                "parts": MultiCategoricalMask(actor_types=["Car"], mask=[[True, *flags[0]]]),
            },
        )

    def _step(self, actions: object) -> tuple[Observation, float, bool, bool, dict[str, object]]:
        return self._reset({}), 0.0, False, False, {}


LEGAL = {"next": [2], "gear": [1], "numbered": [1], "parts": [[0, 1]]}


def test_a_list_is_cut_and_counted() -> None:
    assert listed(["a", "b"]) == "'a', 'b'"
    assert listed(range(10)) == ", ".join(map(str, range(10)))
    assert listed(range(2000), str) == ", ".join(map(str, range(10))) + ", … and 1,990 more"
    assert listed([]) == "none"
    assert listed([], none="no choices") == "no choices"


def test_a_name_that_is_not_listed_is_suggested() -> None:
    names = [f"item {i}" for i in range(30)] + ["Warehouse"]
    assert "did you mean 'Warehouse'" in expected_one_of("Warehose", names)
    assert expected_one_of("Warehose", ["Warehouse"]) == "expected one of 'Warehouse'"


def test_a_number_is_said_once() -> None:
    assert numbered(2, "'left'") == "2 ('left')"
    assert numbered(2, "2") == numbered(2, "'2'") == "2"


@pytest.mark.parametrize(
    ("action", "wrong", "facts"),
    [
        ("next", [1], ("entity 1", "2 (('c', 1))", "11 (('c', 10))", "… and 1,989 more")),
        ("gear", [0], ("choice 0", "1 ('gear 1')", "10 ('gear 10')", "… and 39 more")),
        ("numbered", [0], ("choice 0", "expected one of 1, 2, 3", "… and 39 more")),
        ("parts", [[0, 0]], ("component 'gear'", "1 ('gear 1')", "… and 39 more")),
    ],
)
def test_an_illegal_choice_among_many(action: str, wrong: object, facts: tuple[str, ...]) -> None:
    env = Tour()
    env.reset(seed=0)
    with raises(ActionError, f"action {action!r}", "actor 'k'", *facts) as caught:
        env.step({**LEGAL, action: wrong})
    assert len(str(caught.value)) < SHORT
    env.step(LEGAL)


def test_entities_without_ids_are_listed_by_index_alone() -> None:
    env = Tour(with_ids=False, num_cities=4)
    env.reset(seed=0)
    with raises(ActionError, "entity 1", "expected one of 2, 3, 4"):
        env.step({**LEGAL, "next": [1]})


def test_an_illegal_choice_among_many_in_a_vector_environment() -> None:
    venv = ez.make_vec(Tour, num_envs=2)
    batch, _ = venv.reset(seed=0)
    assert isinstance(batch, EntityBatch)
    legal = {name: np.array([*item, *item]) for name, item in LEGAL.items()}
    with raises(ActionError, "env 1", "entity 1", "2 (City 1", "… and 1,989 more") as caught:
        venv.step({**legal, "next": np.array([2, 1])})
    assert len(str(caught.value)) < SHORT
    venv.step(legal)


def test_an_unknown_id_among_many() -> None:
    env = Tour()
    env.mask = SelectEntityMask(actor_types=["Car"], actee_ids=[("d", 1)])
    with raises(ObservationError, "unknown actee id ('d', 1)", "'k', ('c', 0)", "… and 1,991 more") as caught:
        env.reset(seed=0)
    assert len(str(caught.value)) < SHORT


def test_an_unknown_name_among_many_types() -> None:
    env = Tour(num_cities=4)
    types = {f"Type {i}": ["x"] for i in range(30)}
    env.observation_space = EntitySpace({"Car": ["x"], "City": ["x"], **types}, env.action_space)
    env.mask = SelectEntityMask(actor_types=["Type 28a"], actee_types=["City"])
    with raises(ObservationError, "'Type 28a'", "'Car', 'City'", "… and 22 more", "did you mean 'Type 28'"):
        env.reset(seed=0)
