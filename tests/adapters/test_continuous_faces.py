"""`to_gymnasium` and `to_pettingzoo` with real numbers as actions: dtypes, bounds, clipping."""

from typing import Any

import entitize as ez
import gymnasium
import numpy as np
import pytest
from entitize import ActionError

from facts import raises

#: Layout -> its options, and how an action is given.
LAYOUTS: dict[str, tuple[dict[str, Any], Any]] = {
    "ragged": ({}, lambda torque: {"action": torque}),
    "padded": ({"maxima": 1}, lambda torque: {"action": torque}),
    "flat": ({"maxima": 1}, lambda torque: torque),
}


def face(layout: str, **options: Any) -> Any:
    env = ez.to_gymnasium(ez.make("Pendulum-v1"), layout, **LAYOUTS[layout][0], **options)  # type: ignore[arg-type]
    env.reset(seed=3)
    return env


def reward_of(torque: float) -> float:
    """What Gymnasium's own environment pays for it."""
    env = gymnasium.make("Pendulum-v1")
    env.reset(seed=3)
    return float(env.step(np.array([torque], np.float32))[1])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("torque", [np.array([0.5]), np.array([0.5], np.float32), [0.5], np.array([1])])
def test_numbers_of_any_dtype_are_taken(layout: str, torque: Any) -> None:
    given = LAYOUTS[layout][1]
    _, reward, _, _, info = face(layout).step(given(torque))
    assert reward == pytest.approx(reward_of(float(torque[0])), rel=1e-6)
    assert info["illegal_choices"] == 0


@pytest.mark.parametrize("layout", LAYOUTS)
def test_numbers_beyond_the_bounds_are_clipped_or_named(layout: str) -> None:
    given = LAYOUTS[layout][1]
    for torque, nearest in ((2.5, 2.0), (-1e39, -2.0), (np.inf, 2.0)):
        _, reward, _, _, info = face(layout, illegal="replace").step(given([torque]))
        assert reward == pytest.approx(reward_of(nearest), rel=1e-6)
        assert info["illegal_choices"] == 1
    env = face(layout)
    with raises(ActionError, "action 'action'", "actor 0", "number 0", -2.0, 2.0, 2.5):
        env.step(given([2.5]))
    assert env.step(given([0.5]))[1] == pytest.approx(reward_of(0.5), rel=1e-6)  # it had not moved


@pytest.mark.parametrize("illegal", ["error", "replace"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_is_no_vector_of_numbers_is_refused(layout: str, illegal: Any) -> None:
    env, given = face(layout, illegal=illegal), LAYOUTS[layout][1]
    for wrong in ([np.nan], [0.5, 0.5], ["0.5"], [0.5j], None):
        with raises(ActionError, "action", repr(wrong)):
            env.step(given(wrong))
    assert env.step(given([0.5]))[1] == pytest.approx(reward_of(0.5), rel=1e-6)


@pytest.mark.parametrize("layout", ["padded", "flat"])
def test_pettingzoo_s_agents_have_the_same_rules(layout: Any) -> None:
    env = ez.to_pettingzoo(ez.make("Pendulum-v1"), layout=layout, maxima=1, illegal="replace")
    env.reset(seed=3)
    _, rewards, _, _, infos = env.step({"agent_0": LAYOUTS[layout][1](np.array([2.5]))})
    assert rewards["agent_0"] == pytest.approx(reward_of(2.0), rel=1e-6)
    assert infos["agent_0"]["illegal_choices"] == 1
