"""Advantages against the definition, summed term by term in plain Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from entitize.trainers import generalized_advantages
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from facts import raises


def slow_advantages(
    rewards: Any, values: Any, next_values: Any, final_values: Any, terminated: Any, truncated: Any,
    gamma: float, lam: float,
) -> np.ndarray:  # fmt: skip
    """Â_t = Σ_l (γλ)^l δ_{t+l}, up to the end of the episode or of the rollout."""
    num_steps, num_envs = rewards.shape
    result = np.zeros((num_steps, num_envs))
    for env in range(num_envs):
        for start in range(num_steps):
            for t in range(start, num_steps):
                if terminated[t, env]:
                    bootstrap = 0.0
                elif truncated[t, env]:
                    bootstrap = final_values[t, env]
                elif t + 1 == num_steps:
                    bootstrap = next_values[env]
                else:
                    bootstrap = values[t + 1, env]
                delta = rewards[t, env] + gamma * bootstrap - values[t, env]
                result[start, env] += (gamma * lam) ** (t - start) * delta
                if terminated[t, env] or truncated[t, env]:
                    break
    return result


@st.composite
def rollouts(draw: Any) -> tuple[Any, ...]:
    shape = draw(st.tuples(st.integers(0, 7), st.integers(1, 3)))
    numbers = st.floats(-10, 10)
    flags = arrays.arrays(bool, shape)
    tables = [draw(arrays.arrays(np.float64, shape, elements=numbers)) for _ in range(3)]
    next_values = draw(arrays.arrays(np.float64, shape[1:], elements=numbers))
    fractions = st.floats(0, 1)
    rewards, values, final_values = tables
    ends = draw(flags), draw(flags)
    return rewards, values, next_values, final_values, *ends, draw(fractions), draw(fractions)


@given(rollouts())
def test_advantages_equal_the_sum_of_discounted_errors_at_every_kind_of_end(rollout: tuple[Any, ...]) -> None:
    advantages, returns = generalized_advantages(*rollout)
    expected = slow_advantages(*rollout)
    np.testing.assert_allclose(advantages, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(returns, expected + rollout[1], rtol=1e-9, atol=1e-9)


def slow_v_trace(
    rewards: Any, values: Any, next_values: Any, final_values: Any, terminated: Any, truncated: Any,
    gamma: float, lam: float, ratios: Any,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """v_s = V_s + Σ_t γ^(t-s) (Π_{s ≤ i < t} c_i) ρ_t δ_t with c = λ min(1, w) and ρ = min(1, w)."""
    deltas = slow_advantages(rewards, values, next_values, final_values, terminated, truncated, gamma, 0.0)
    num_steps, num_envs = rewards.shape
    corrections, advantages = np.zeros(rewards.shape), np.zeros(rewards.shape)
    for env in range(num_envs):
        for start in range(num_steps):
            product = 1.0
            for t in range(start, num_steps):
                clipped = min(1.0, float(ratios[t, env]))
                corrections[start, env] += gamma ** (t - start) * product * clipped * deltas[t, env]
                product *= lam * clipped
                if terminated[t, env] or truncated[t, env]:
                    break
    for env in range(num_envs):
        for t in range(num_steps):
            ends = t + 1 == num_steps or terminated[t, env] or truncated[t, env]
            following = 0.0 if ends else corrections[t + 1, env]
            advantages[t, env] = deltas[t, env] + gamma * lam * following
    return advantages, corrections + values


@given(rollouts(), st.integers(0, 2**32))
def test_v_trace_is_the_sum_of_its_definition_at_every_kind_of_end(
    rollout: tuple[Any, ...], seed: int
) -> None:
    ratios = np.exp(np.random.default_rng(seed).normal(0, 1, rollout[0].shape))
    found = generalized_advantages(*rollout, None, ratios)
    for ours, expected in zip(found, slow_v_trace(*rollout, ratios), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-9, atol=1e-9)


@given(rollouts())
def test_v_trace_of_the_acting_policy_is_generalized_advantage_estimation(rollout: tuple[Any, ...]) -> None:
    same = generalized_advantages(*rollout, None, np.ones(rollout[0].shape))
    for ours, plain in zip(same, generalized_advantages(*rollout), strict=True):
        np.testing.assert_array_equal(ours, plain)


def compressed_advantages(
    rewards: Any, values: Any, next_values: Any, final_values: Any, terminated: Any, truncated: Any,
    gamma: float, lam: float, active: Any,
) -> np.ndarray:  # fmt: skip
    """Of each environment's active steps alone, to which what happened meanwhile was written beforehand."""
    result = np.zeros(rewards.shape)
    for env in range(rewards.shape[1]):
        steps: list[dict[str, Any]] = []
        for t in range(len(rewards)):
            if active[t, env]:
                steps.append({"t": t, "reward": 0.0, "value": values[t, env], "end": None, "final": 0.0})
            if not steps or steps[-1]["end"] is not None:
                continue  # nobody's, or the next episode's
            steps[-1]["reward"] += rewards[t, env]
            if terminated[t, env] or truncated[t, env]:
                steps[-1]["end"] = "terminated" if terminated[t, env] else "truncated"
                steps[-1]["final"] = final_values[t, env]
        column = slow_advantages(
            *(np.array([[step[name]] for step in steps]).reshape(-1, 1) for name in ("reward", "value")),
            next_values[env : env + 1],
            np.array([[step["final"]] for step in steps]).reshape(-1, 1),
            *(
                np.array([[step["end"] == end] for step in steps]).reshape(-1, 1)
                for end in ("terminated", "truncated")
            ),
            gamma,
            lam,
        )
        for step, advantage in zip(steps, column[:, 0], strict=True):
            result[step["t"], env] = advantage
    return result


@given(rollouts(), st.randoms(use_true_random=False))
def test_idle_steps_are_left_out_and_what_came_with_them_belongs_to_the_last_active_one(
    rollout: tuple[Any, ...], random: Any
) -> None:
    share = random.random()
    active = np.array([[random.random() < share for _ in row] for row in rollout[0]], bool)
    active = active.reshape(rollout[0].shape)
    advantages, returns = generalized_advantages(*rollout, active)
    expected = compressed_advantages(*rollout, active)
    np.testing.assert_allclose(advantages, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(returns, np.where(active, expected + rollout[1], 0), rtol=1e-9, atol=1e-9)


@given(rollouts())
def test_where_nobody_is_idle_nothing_changes_to_the_bit(rollout: tuple[Any, ...]) -> None:
    plain = generalized_advantages(*rollout)
    for one, other in zip(
        plain, generalized_advantages(*rollout, np.ones(rollout[0].shape, bool)), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_a_loss_that_comes_while_an_agent_waits_is_its_last_move_s() -> None:
    """Active at 0 and 2; the game is lost at 3, and another one, won by termination, passes by before 5."""
    advantages, returns = generalized_advantages(
        one_env(0, 2, 0, -1, 4, 0), one_env(0.5, 9, 0.25, 9, 9, 1), np.array([3], np.float32),
        one_env(0, 0, 0, 0, 7, 0), flags(0, 0, 0, 1, 0, 0), flags(0, 0, 0, 0, 1, 0), 0.5, 1.0,
        flags(1, 0, 1, 0, 0, 1),
    )  # fmt: skip
    last = -1 - 0.25  # it ended by termination, and what the other game paid is not its doing
    assert advantages[:, 0].tolist() == [2 + 0.5 * 0.25 - 0.5 + 0.5 * last, 0, last, 0, 0, 0.5 * 3 - 1]
    assert returns[[1, 3, 4], 0].tolist() == [0, 0, 0]


def one_env(*numbers: float) -> np.ndarray:
    return np.array(numbers, np.float32)[:, None]


def flags(*raised: int) -> np.ndarray:
    return np.array(raised, bool)[:, None]


@pytest.mark.parametrize(
    ("terminated", "truncated", "expected"),
    [
        (0, 0, 1 + 0.5 * 7 - 2),  # the rollout's end: V of the next observation
        (1, 0, 1 - 2),  # nothing comes after a termination
        (0, 1, 1 + 0.5 * 100 - 2),  # cut off: V of the final observation
        (1, 1, 1 - 2),  # a termination at the time limit is a termination
    ],
)
def test_the_last_step_bootstraps_by_how_it_ends(terminated: int, truncated: int, expected: float) -> None:
    advantages, returns = generalized_advantages(
        one_env(1), one_env(2), np.array([7], np.float32), one_env(100),
        flags(terminated), flags(truncated), 0.5, 0.9,
    )  # fmt: skip
    assert advantages[0, 0] == expected
    assert returns[0, 0] == expected + 2


def test_nothing_flows_from_the_next_episode_into_an_ended_one() -> None:
    for end in ((flags(0, 1, 0), flags(0, 0, 0)), (flags(0, 0, 0), flags(0, 1, 0))):
        results = [
            generalized_advantages(
                one_env(1, 2, reward), one_env(3, 4, value), np.array([value], np.float32),
                one_env(0, 9, 0), *end, 0.99, 0.95,
            )[0]
            for reward, value in ((5, 6), (-50, 60))
        ]  # fmt: skip
        np.testing.assert_array_equal(results[0][:2], results[1][:2])
        assert results[0][2, 0] != results[1][2, 0]


def test_results_have_the_dtype_of_the_values() -> None:
    advantages, returns = generalized_advantages(
        one_env(1), one_env(2), np.array([7], np.float32), one_env(0), flags(0), flags(0), 0.9, 0.9
    )
    assert advantages.dtype == returns.dtype == np.float32


def test_shapes_that_disagree_are_named() -> None:
    ok = one_env(1, 2), flags(0, 0)
    with raises(ValueError, "values", "(3, 1)", "rewards", "(2, 1)"):
        generalized_advantages(ok[0], one_env(1, 2, 3), np.zeros(1), ok[0], ok[1], ok[1], 0.9, 0.9)
    with raises(ValueError, "next_values", "(2,)", "(1,)"):
        generalized_advantages(ok[0], ok[0], np.zeros(2), ok[0], ok[1], ok[1], 0.9, 0.9)
    with raises(ValueError, "active", "(3, 1)", "rewards", "(2, 1)"):
        generalized_advantages(ok[0], ok[0], np.zeros(1), ok[0], ok[1], ok[1], 0.9, 0.9, flags(1, 1, 1))
