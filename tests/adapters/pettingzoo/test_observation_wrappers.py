"""Known games under wrappers: a view of the game never bypasses changed observations silently."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import entitize as ez
import numpy as np
import pytest
from entitize.adapters.pettingzoo.games import SimpleSpreadView
from gymnasium import spaces
from mpe2 import simple_spread_v3
from pettingzoo.utils import (
    BaseParallelWrapper,
    BaseWrapper,
    OrderEnforcingWrapper,
    aec_to_parallel,
    parallel_to_aec,
)
from pettingzoo.utils.wrappers import MultiEpisodeEnv, MultiEpisodeParallelEnv

from facts import warns


class Doubled(BaseParallelWrapper):
    """Stacks each observation twice, as SuperSuit's frame stack does at a reset."""

    def observation_space(self, agent: str) -> spaces.Box:
        box = self.env.observation_space(agent)
        return spaces.Box(np.tile(box.low, 2), np.tile(box.high, 2), dtype=np.float32)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        seen, infos = self.env.reset(seed=seed, options=options)
        return {agent: np.tile(row, 2) for agent, row in seen.items()}, infos


@pytest.mark.parametrize("mode", ["lanes", "team"])
def test_wrapped_observations_are_not_bypassed_silently(mode: str) -> None:
    game = Doubled(simple_spread_v3.parallel_env())
    with warns(UserWarning, "simple_spread_v3", "SimpleSpreadView", "view="):
        env = ez.from_pettingzoo(game, mode)  # type: ignore[call-overload]
    reference, _ = game.reset(seed=1)
    seen, _ = env.reset(seed=1)
    entities = seen["entities"] if mode == "team" else {n: r.values for n, r in seen.entities.items()}
    (rows,) = entities.values()
    np.testing.assert_array_equal(rows, np.stack(list(reference.values())))
    env.close()
    state = ez.from_pettingzoo(game, mode, SimpleSpreadView)  # type: ignore[call-overload]
    space = state.observation_space if mode == "team" else state.single_observation_space
    assert list(space.entities) == ["Agent", "Landmark"]
    state.close()


class Noisy(BaseParallelWrapper):
    """Changes observations and keeps their space."""

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        seen, infos = self.env.reset(seed=seed, options=options)
        return {agent: row + 1 for agent, row in seen.items()}, infos


class NoisyTurns(BaseWrapper):
    def observe(self, agent: str) -> Any:
        return self.env.observe(agent) + 1


class Hidden(BaseParallelWrapper):
    """Overrides nothing, but keeps the game under a name of its own."""

    def __init__(self, env: Any) -> None:
        self.inside = env

    @property
    def env(self) -> Any:
        return self.inside


class Paid(BaseWrapper):
    """Changes rewards only."""

    def step(self, action: Any) -> None:
        self.env.step(action)
        self.rewards = {agent: 2 * reward for agent, reward in self.env.rewards.items()}


class PassedOn(BaseParallelWrapper):
    pass


def parallel() -> Any:
    return simple_spread_v3.parallel_env()


def turns() -> Any:
    return simple_spread_v3.env()


def supersuit(wrapper: str, game: Any, *arguments: Any) -> Any:
    """Apply one of SuperSuit's wrappers; of its wheels there is none for Python 3.13."""
    return getattr(pytest.importorskip("supersuit"), wrapper)(game, *arguments)


CHANGING: dict[str, Callable[[], Any]] = {
    "Noisy": lambda: PassedOn(Noisy(parallel())),
    "NoisyTurns": lambda: aec_to_parallel(OrderEnforcingWrapper(NoisyTurns(turns()))),
    "Hidden": lambda: PassedOn(Hidden(parallel())),
    "DelayObsModifier": lambda: supersuit("delay_observations_v0", parallel(), 2),
    "FrameStackModifier": lambda: supersuit("frame_stack_v1", turns(), 2),
    "aec_observation_lambda": lambda: supersuit("observation_lambda_v0", parallel(), lambda row, space: row),
}
KEEPING: dict[str, Callable[[], Any]] = {
    "none": parallel,
    "own that overrides nothing": lambda: PassedOn(parallel()),
    "own of rewards": lambda: Paid(turns()),
    "conversions": lambda: aec_to_parallel(parallel_to_aec(parallel())),
    "MultiEpisodeEnv": lambda: MultiEpisodeEnv(turns(), 2),
    "MultiEpisodeParallelEnv": lambda: MultiEpisodeParallelEnv(parallel(), 2),
    "sticky_actions": lambda: supersuit("sticky_actions_v0", parallel(), 0.5),
    "frame_skip": lambda: supersuit("frame_skip_v0", parallel(), 2),
    "action_lambda": lambda: supersuit("action_lambda_v1", parallel(), lambda a, _: a, lambda space: space),
    "clip_reward": lambda: supersuit("clip_reward_v0", parallel()),
}


@pytest.mark.parametrize("wrapper", CHANGING)
def test_wrappers_that_may_change_observations_are_named(wrapper: str) -> None:
    game = CHANGING[wrapper]()
    with warns(UserWarning, "simple_spread_v3", wrapper, "SimpleSpreadView", "view="):
        venv = ez.from_pettingzoo(game)
    assert list(venv.single_observation_space.entities) != ["Agent", "Landmark"]
    batch, _ = venv.reset(seed=1)
    (rows,) = batch.entities.values()
    venv.close()
    twin = CHANGING[wrapper]()
    reference = twin.reset(seed=1)
    seen = reference[0] if reference is not None else {a: twin.observe(a) for a in twin.agents[:1]}
    np.testing.assert_array_equal(rows.values[: len(seen)], np.stack(list(seen.values())))
    twin.close()


@pytest.mark.parametrize("wrapper", KEEPING)
def test_wrappers_that_pass_observations_on_keep_the_view(wrapper: str) -> None:
    game = KEEPING[wrapper]()
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        venv = ez.from_pettingzoo(game)
    assert list(venv.single_observation_space.entities) == ["Agent", "Landmark"]
    venv.reset(seed=1)
    venv.close()


def test_every_game_of_a_list_counts() -> None:
    with warns(UserWarning, "Noisy"):
        ez.from_pettingzoo([parallel, lambda: Noisy(parallel())]).close()


def test_a_view_that_is_given_reads_the_game_under_any_wrapper() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        venv = ez.from_pettingzoo(Noisy(parallel()), view=SimpleSpreadView)
    assert list(venv.single_observation_space.entities) == ["Agent", "Landmark"]
    venv.close()
