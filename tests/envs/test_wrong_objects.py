"""Errors about objects whose values are no features: the environment, the field and the object's number."""

from __future__ import annotations

import math
import traceback
from enum import Enum
from typing import Annotated, Any, Literal

import entitize as ez
import numpy as np
import pytest
from entitize import ActionError, Obs, ObservationError
from entitize.envs import SelectEntityMask, WorkerError

from facts import raises


@ez.entity
class Truck:
    x: float


@ez.entity
class Stop:
    x: Annotated[float, ez.Scale(2)]
    size: Literal["small", "large"] = "small"
    pair: tuple[float, float] = (0.0, 0.0)
    load: float | None = None


@ez.entity
class Clock:
    time: float


class Move(Enum):
    LEFT = 0
    RIGHT = 1


class Tour(ez.EntityEnv):
    """A truck that selects a stop; the last stop has a wrong value at a step or from the start."""

    wrong_from = 0
    stop: Any = None

    def __init__(self) -> None:
        self.observation_space, self.action_space = ez.declare(
            [Truck, Stop], {"go": ez.SelectEntity()}, global_features=Clock
        )

    def _reset(self, options: object) -> Obs:
        self.time = 0
        return self._look()

    def _step(self, actions: object) -> tuple[Obs, float, bool, bool, dict[str, Any]]:
        self.time += 1
        return self._look(), 0.0, False, False, {}

    def _look(self) -> Obs:
        trucks, stops = [Truck(0.0)], [Stop(1.0), Stop(2.0), Stop(3.0)]
        if self.stop is not None and self.time >= self.wrong_from:
            stops.append(self.stop)
        mask = SelectEntityMask(actor_ids=trucks, actee_ids=stops)
        return Obs(trucks, stops, globals=Clock(self.time), actions={"go": mask})


def tour(stop: Any, wrong_from: int = 0) -> type[Tour]:
    return type("Tour", (Tour,), {"stop": stop, "wrong_from": wrong_from})


NAN = math.nan


@pytest.mark.parametrize(
    ("stop", "facts"),
    [
        (Stop(NAN), ("Stop.x", "finite", "nan")),
        (Stop(math.inf), ("Stop.x", "finite", "inf")),
        (Stop("1"), ("Stop.x", "real numbers", "'1'")),  # type: ignore[arg-type]
        (Stop(np.ones(2)), ("Stop.x", "one number", "(2,)")),  # type: ignore[arg-type]
        (Stop(1.0, "huge"), ("Stop.size", "'small', 'large'", "'huge'")),  # type: ignore[arg-type]
        (Stop(1.0, pair=(0.0, NAN)), ("Stop.pair", "finite", "nan")),
        (Stop(1.0, pair=(0.0,)), ("Stop.pair", "2 items")),  # type: ignore[arg-type]
        (Stop(1.0, load=NAN), ("Stop.load", "finite", "nan")),
    ],
)
def test_a_wrong_value_of_an_object(stop: Stop, facts: tuple[str, ...]) -> None:
    with raises(ObservationError, "Tour: ", "of entity 3", *facts) as caught:
        tour(stop)().reset(seed=0)
    assert type(caught.value) is ObservationError
    assert str(caught.value).count("Tour") == 1
    # The line of the game is among the places: commands show it.
    assert "_look" in [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]


def test_a_wrong_value_after_a_step_leaves_an_environment_that_can_be_reset() -> None:
    env = tour(Stop(NAN), wrong_from=1)()
    env.reset(seed=0)
    with raises(ObservationError, "Tour: ", "Stop.x of entity 3", "nan"):
        env.step({"go": [1]})
    env.reset()
    with raises(ActionError, "Tour", "'go'"):
        env.step({"go": [0]})


def test_a_wrong_value_in_a_vector_environment() -> None:
    venv = ez.vector.ListVectorEnv([Tour, tour(Stop(NAN))])
    with raises(WorkerError, "env 1 (Tour)", "Stop.x of entity 3", "nan"):
        venv.reset(seed=0)


def test_a_wrong_value_of_the_globals_has_no_number() -> None:
    with raises(ObservationError, "Clock.time: ", "nan") as caught:
        Obs(Truck(0.0), globals=Clock(NAN))
    assert "entity" not in str(caught.value)


def test_objects_outside_an_environment() -> None:
    with raises(ObservationError, "Truck.x of entity 1", "nan"):
        Obs([Truck(0.0), Truck(NAN)])


def test_other_wrong_parts_of_an_observation_name_the_environment() -> None:
    class Wrong(Tour):
        def _look(self) -> Obs:
            return Obs(Truck(0.0), actions={"go": 5})  # type: ignore[dict-item]

    with raises(ObservationError, "Wrong: ", "'go'", "5"):
        Wrong().reset(seed=0)


def test_many_objects_in_an_error_are_cut() -> None:
    truck, stops = Truck(0.0), [Stop(float(i)) for i in range(2000)]
    wrong: Any
    for wrong in ({"go": {truck: stops}}, [stops]):
        with raises(ObservationError, "actor", "Stop(x=0.0") as caught:
            Obs(truck, stops, actions=wrong)
        assert len(str(caught.value)) < 500


def test_a_wrong_value_in_a_game_of_several_agents() -> None:
    class Pair(ez.EntityGame):
        def __init__(self) -> None:
            self.possible_agents = ["a", "b"]
            self.spaces = ez.declare([Truck], {"move": Move})
            self.x = 0.0

        def _reset(self, options: object) -> dict[str, Obs]:
            trucks = [Truck(0.0), Truck(self.x)]
            return {agent: Obs(trucks, actions={"move": trucks}) for agent in self.possible_agents}

        def _step(self, actions: object) -> Any:
            self.x = NAN
            return self._reset({}), dict.fromkeys("ab", 0.0), False, False, {}

    game = Pair()
    game.reset(seed=0)
    with raises(ObservationError, "Pair: ", "Truck.x of entity 1", "nan"):
        game.step({agent: {"move": [0, 0]} for agent in "ab"})
    with raises(ObservationError, "Pair: ", "Truck.x of entity 1", "nan"):
        game.reset()
