"""Arrays that an author or a caller hands over in forms that NumPy reads wrongly, or not at all."""

from __future__ import annotations

from typing import Any

import entitize as ez
import numpy as np
import pytest
import torch
from entitize import ActionError, EntityActionSpace, EntityEnv, EntitySpace, Observation, ObservationError
from entitize.envs import (
    Categorical,
    CategoricalMask,
    Continuous,
    ContinuousMask,
    SelectEntity,
    SelectEntityMask,
    sample_actions,
)

from facts import raises

MOST = 2**64 - 1


class Tour(EntityEnv):
    """A car that selects one of two cities and steers; each part of an observation can be chosen."""

    def __init__(self, city: Any = None, mask: Any = None, speed: Any = (0.0,)) -> None:
        self.city = np.zeros((2, 2)) if city is None else city
        self.mask, self.speed = mask, speed
        self.action_space = EntityActionSpace(
            {"next": SelectEntity(), "gear": Categorical(2), "steer": Continuous(-1, 1)}
        )
        self.observation_space = EntitySpace(
            {"Car": ["x"], "City": ["x", "y"]}, self.action_space, global_features=["speed"]
        )

    def _reset(self, options: object) -> Observation:
        return Observation(
            {"Car": [[0.0]], "City": self.city},
            globals=self.speed,
            actions={
                "next": SelectEntityMask(actor_types=["Car"], actee_types=["City"]),
                "gear": CategoricalMask(actor_types=["Car"], mask=self.mask),
                "steer": ContinuousMask(actor_types=["Car"]),
            },
        )

    def _step(self, actions: object) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        return self._reset({}), 0.0, False, False, {}


LEGAL = {"next": [1], "gear": [1], "steer": [[0.5]]}


def needs_gradients(*shape: int) -> torch.Tensor:
    return torch.rand(*shape, requires_grad=True)


def test_features_that_need_gradients() -> None:
    with raises(ObservationError, "Tour", "entity type 'City'", "Tensor", "requires grad", "detach()"):
        Tour(needs_gradients(3, 2)).reset(seed=0)
    with raises(ObservationError, "Tour", "globals", "Tensor", "detach()"):
        Tour(speed=needs_gradients(1)).reset(seed=0)
    with raises(ObservationError, "Tour", "'gear'", "mask", "detach()"):
        Tour(mask=needs_gradients(1, 2)).reset(seed=0)
    observation, _ = Tour(needs_gradients(3, 2).detach()).reset(seed=0)
    assert observation["entities"]["City"].shape == (3, 2)


def test_actions_that_need_gradients_leave_the_environment_usable() -> None:
    env = Tour()
    env.reset(seed=0)
    for name, shape in (("steer", (1, 1)), ("gear", (1,))):
        with raises(ActionError, "Tour", f"action {name!r}", "detach()"):
            env.step({**LEGAL, name: needs_gradients(*shape)})
    env.step(LEGAL)


def test_masked_arrays_that_hide_values() -> None:
    hiding = np.ma.masked_array(np.ones((2, 2)), [[0, 1], [0, 0]])
    with raises(ObservationError, "Tour", "entity type 'City'", "masked array", "hides 1 of 4"):
        Tour(hiding).reset(seed=0)
    with raises(ObservationError, "Tour", "globals", "masked array", "hides 1 of 1"):
        Tour(speed=np.ma.masked_array([1.0], [True])).reset(seed=0)
    with raises(ObservationError, "Tour", "'gear'", "masked array", "hides 1 of 2"):
        Tour(mask=np.ma.masked_array([[True, True]], [[False, True]])).reset(seed=0)
    observation, _ = Tour(np.ma.masked_array(np.ones((2, 2)))).reset(seed=0)
    assert (observation["entities"]["City"] == 1).all()


def test_masked_arrays_that_hide_actions() -> None:
    env, venv = Tour(), ez.make_vec(Tour, 2)
    env.reset(seed=0)
    with raises(ActionError, "'gear'", "masked array", "hides 1 of 1"):
        env.step({**LEGAL, "gear": np.ma.masked_array([1], [True])})
    env.step(LEGAL)
    batch, _ = venv.reset(seed=0)
    legal = sample_actions(venv.single_action_space, batch, np.random.default_rng(0))
    with raises(ActionError, "'gear'", "masked array", "hides 2 of 2"):
        venv.step({**legal, "gear": np.ma.masked_array([1, 1], [True, True])})
    venv.step(legal)


@pytest.mark.parametrize("number", [MOST, 2**63])
@pytest.mark.parametrize("name", ["next", "gear"])
def test_numbers_beyond_int64_are_said_as_they_are(name: str, number: int) -> None:
    env = Tour()
    env.reset(seed=0)
    with raises(ActionError, "Tour", f"action {name!r}", 2**63 - 1, number):
        env.step({**LEGAL, name: np.array([number], np.uint64)})
    env.step({**LEGAL, name: np.array([1], np.uint64)})


def test_rows_of_different_lengths_are_cut_in_the_error() -> None:
    with raises(ObservationError, "entity type 'City'", "rows of one length", "[0, 1]") as caught:
        Tour([[0, 1]] * 2000 + [[2]]).reset(seed=0)
    assert len(str(caught.value)) < 400
