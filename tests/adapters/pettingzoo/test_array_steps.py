"""`GameView.array_step`: games stepped with arrays are the games stepped by their own `step`."""

from __future__ import annotations

import importlib
from functools import partial
from typing import Any

import entitize as ez
import numpy as np
import pytest
from entitize.adapters.pettingzoo.games import find_view
from entitize.envs import sample_actions
from numpy.typing import NDArray
from pettingzoo.utils import BaseParallelWrapper

#: Game -> options, and steps of a test.
GAMES: dict[str, tuple[dict[str, Any], int]] = {
    "battle_v4": ({"map_size": 24, "max_cycles": 60}, 130),
    "battlefield_v5": ({"map_size": 50, "max_cycles": 12}, 30),
    "combined_arms_v6": ({"map_size": 16, "max_cycles": 90}, 200),
    "adversarial_pursuit_v4": ({"map_size": 20, "max_cycles": 20}, 50),
    "tiger_deer_v4": ({"map_size": 20, "max_cycles": 110}, 130),
    "gather_v5": ({"max_cycles": 14}, 30),
    "collect_treasure_v1": ({}, 60),
    "simple_v3": ({}, 60),
    "simple_adversary_v3": ({}, 60),
    "simple_crypto_v3": ({}, 60),
    "simple_formation_v1": ({}, 60),
    "simple_push_v3": ({}, 60),
    "simple_reference_v3": ({}, 60),
    "simple_speaker_listener_v4": ({}, 60),
    "simple_spread_v3": ({"local_ratio": 0.3, "benchmark_data": True}, 60),
    "simple_tag_v3": ({"num_adversaries": 6, "terminate_on_success": True, "max_cycles": 30}, 150),
    "simple_world_comm_v3": ({}, 60),
}
WITH_DEATHS = {"battle_v4", "combined_arms_v6", "gather_v5", "simple_tag_v3", "tiger_deer_v4"}
FEW = ["battle_v4", "gather_v5", "simple_tag_v3"]


def make(name: str, **options: Any) -> Any:
    package = "mpe2" if name.startswith(("simple", "collect")) else "magent2.environments"
    return importlib.import_module(f"{package}.{name}").parallel_env(**GAMES[name][0] | options)


def view_of(name: str, with_arrays: bool) -> Any:
    """The game's own view; `steps` counts the steps with arrays, `with_arrays` allows them."""
    kind = find_view(make(name).unwrapped)
    assert kind is not None

    class View(kind):  # type: ignore[misc, valid-type]
        steps = 0

        def array_step(self, env: Any) -> Any:
            step = super().array_step(env) if with_arrays else None

            def counted(actions: NDArray[np.int64]) -> Any:
                View.steps += 1
                return step(actions)

            return None if step is None else counted

    return View


def assert_same(one: Any, other: Any) -> None:
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert list(one) == list(other)
        for key in one:
            assert_same(one[key], other[key])
    elif isinstance(one, ez.EntityBatch):
        assert one.equals(other)
    elif isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    else:
        assert one == other


def assert_same_games(one: Any, other: Any) -> None:
    """Compare the public state and the attributes of two games and their wrappers."""
    assert one.agents == other.agents and one.possible_agents == other.possible_agents
    mine, yours = one.unwrapped, other.unwrapped
    np.testing.assert_array_equal(mine.state(), yours.state())
    for name in ("frames", "team_sizes", "steps", "agents", "agent_selection", "rewards", "infos"):
        assert getattr(mine, name, None) == getattr(yours, name, None), name
    for name in ("terminations", "truncations", "_cumulative_rewards", "current_actions"):
        assert getattr(mine, name, None) == getattr(yours, name, None), name


def random_actions(env: Any, rng: np.random.Generator) -> dict[str, int]:
    return {agent: int(rng.integers(env.action_space(agent).n)) for agent in env.agents}


def warlike_actions(venv: Any, batch: ez.EntityBatch, rng: np.random.Generator) -> Any:
    """At random; but battle's soldiers go towards the other army, or attack."""
    actions = sample_actions(venv.single_action_space, batch, rng)
    if not venv.agents[0][1].startswith("red_"):
        return actions
    choices, order = venv.single_action_space["action"].choices, actions["action"]
    names = [agent for _, agent in np.array(venv.agents, object)[order.lengths > 0]]
    ahead = [choices.index("move +1 +0" if name.startswith("red") else "move -1 +0") for name in names]
    attacks = rng.integers(choices.index("attack -1 -1"), len(choices), len(names))
    return {"action": order.with_values(np.where(rng.random(len(names)) < 0.5, ahead, attacks))}


@pytest.mark.parametrize("name", GAMES)
def test_lanes_are_the_same_to_the_last_reset(name: str) -> None:
    """Two games, over several episodes, without a seed after the first."""
    games: list[list[Any]] = [[make(name) for _ in range(2)] for _ in range(2)]
    views = [view_of(name, with_arrays) for with_arrays in (True, False)]
    venvs = [
        ez.from_pettingzoo([lambda env=env: env for env in envs], view=view)
        for envs, view in zip(games, views, strict=True)
    ]
    for one, other in zip(*(venv.reset(seed=5) for venv in venvs), strict=True):
        assert_same(one, other)
    assert venvs[0].agents == venvs[1].agents
    rng, num_steps, ended = np.random.default_rng(6), GAMES[name][1], np.zeros(2, int)
    batch, _ = venvs[0].reset(seed=7)
    venvs[1].reset(seed=7)
    for _ in range(num_steps):
        actions = warlike_actions(venvs[0], batch, rng)
        results = [venv.step(actions) for venv in venvs]
        for one, other in zip(*results, strict=True):
            assert_same(one, other)
        for mine, yours in zip(*games, strict=True):
            assert_same_games(mine, yours)
        batch, _, terminated, truncated, _ = results[0]
        ended += terminated.sum(), truncated.sum()
    assert [view.steps for view in views] == [2 * num_steps, 0]
    assert bool(ended[0]) == (name in WITH_DEATHS) and (ended[1] or name == "tiger_deer_v4")
    for venv in venvs:
        venv.close()


@pytest.mark.parametrize("name", FEW)
def test_games_go_on_by_their_own_step(name: str) -> None:
    """Frames, states, observations of a team, steps and resets equal those of a game that was never stepped
    with arrays."""
    envs = [make(name, render_mode="rgb_array") for _ in range(2)]
    kind = view_of(name, True)
    views = [kind, view_of(name, False)]
    venvs = [ez.from_pettingzoo(env, view=view) for env, view in zip(envs, views, strict=True)]
    batches = [venv.reset(seed=8)[0] for venv in venvs]
    rng = np.random.default_rng(9)
    for _ in range(11):
        actions = sample_actions(venvs[0].single_action_space, batches[0], rng)
        batches = [venv.step(actions)[0] for venv in venvs]
    assert kind.steps == 11
    readers = [kind(env.unwrapped) for env in envs]
    for round_ in range(3):
        assert_same(*(env.render() for env in envs))
        assert_same(*(env.state() for env in envs))
        team = tuple(envs[0].agents)
        one, other = (reader.observe_team(team) for reader in readers)
        assert_same(one.entities, other.entities)
        assert one.ids == other.ids
        actions = random_actions(envs[0], rng)
        results = [env.reset(seed=1) if round_ == 1 else env.step(actions) for env in envs]
        for mine, yours in zip(*results, strict=True):
            assert_same(dict(mine), dict(yours))
        assert_same_games(*envs)
    for venv in venvs:
        venv.close()


@pytest.mark.parametrize("name", FEW)
def test_views_read_games_that_are_stepped_in_both_ways(name: str) -> None:
    """With a `step` of the game's own in between, and after a reset."""
    envs, rng = [make(name) for _ in range(2)], np.random.default_rng(10)
    views: list[Any] = [view_of(name, True)(env.unwrapped) for env in envs]
    for env in envs:
        env.reset(seed=11)
    step, agents = views[0].array_step(envs[0]), envs[0].possible_agents
    for turn in range(12):
        actions = random_actions(envs[1], rng)
        if turn % 3 == 2:
            envs[0].step(actions)
        else:
            step(np.array([actions.get(agent, 0) for agent in agents]))
        envs[1].step(actions)
        if turn == 7:
            for env in envs:
                env.reset(seed=12)
        one, other = (view.observe_all(list(env.agents)) for view, env in zip(views, envs, strict=True))
        for kind, rows in one.entities.items():
            np.testing.assert_array_equal(rows.offsets, other.entities[kind].offsets)
            np.testing.assert_array_equal(rows.values, other.entities[kind].values)


class HalfRewards(BaseParallelWrapper):  # type: ignore[misc]
    def step(self, actions: Any) -> Any:
        observations, rewards, *rest = self.env.step(actions)
        return observations, {agent: reward / 2 for agent, reward in rewards.items()}, *rest


def rewards_of(env: Any, view: Any, num_steps: int = 5, **options: Any) -> list[Any]:
    venv = ez.from_pettingzoo(env, view=view, **options)
    batch, _ = venv.reset(seed=13)
    rng, total = np.random.default_rng(14), []
    for _ in range(num_steps):
        batch, rewards, *_ = venv.step(sample_actions(venv.single_action_space, batch, rng))
        total.append(rewards)
    venv.close()
    return total


@pytest.mark.parametrize("name", ["battle_v4", "simple_spread_v3"])
def test_wrappers_and_replaced_methods_are_not_bypassed(name: str) -> None:
    view = view_of(name, True)
    whole = rewards_of(make(name), view)
    assert view.steps == 5
    np.testing.assert_array_equal(rewards_of(HalfRewards(make(name)), view), np.array(whole) / 2)
    for is_inner in (False, True):
        env, calls = make(name), []
        owner = env.unwrapped if is_inner else env

        def counted(actions: Any, own: Any = owner.step, calls: list[Any] = calls) -> Any:
            calls.append(actions)
            return own(actions)

        owner.step = counted
        np.testing.assert_array_equal(rewards_of(env, view), whole)
        assert len(calls) >= 5
    assert view.steps == 5


def test_subclasses_of_wrappers_are_not_bypassed() -> None:
    class Louder(type(make("simple_spread_v3"))):  # type: ignore[misc]
        def step(self, actions: Any) -> Any:
            observations, rewards, *rest = super().step(actions)
            return observations, {agent: reward * 4 for agent, reward in rewards.items()}, *rest

    view, plain = view_of("simple_spread_v3", True), make("simple_spread_v3")
    whole = rewards_of(plain, view)
    loud = rewards_of(Louder(make("simple_spread_v3").aec_env), view)
    np.testing.assert_array_equal(loud, np.array(whole) * 4)
    assert np.any(whole) and view.steps == 5


@pytest.mark.parametrize("name", ["battle_v4", "simple_spread_v3"])
def test_games_in_a_window_draw_each_step(name: str) -> None:
    for render_mode in (None, "rgb_array", "human"):
        env = make(name, render_mode=render_mode)
        step = view_of(name, True)(env.unwrapped).array_step(env)
        assert (step is None) == (render_mode == "human")


def test_continuous_actions_are_stepped_by_the_game() -> None:
    view = view_of("simple_spread_v3", True)
    rewards_of(make("simple_spread_v3", continuous_actions=True), view)
    assert view.steps == 0


@pytest.mark.parametrize("name", ["battle_v4", "simple_spread_v3"])
def test_opponents_observe_each_step(name: str) -> None:
    env, view, seen = make(name), view_of(name, True), []

    def opponent(observation: Any, action_mask: Any, agent: str) -> int:
        seen.append(observation is not None)
        return 0

    rewards_of(env, view, opponents={env.possible_agents[-1]: opponent})
    assert view.steps == 0 and len(seen) >= 5 and all(seen)


def broken(name: str, fault: str) -> Any:
    env = make(name)
    owner, call = (
        (env.unwrapped.env, "get_reward") if name == "battle_v4" else (env.unwrapped.scenario, "reward")
    )
    own, calls = getattr(owner, call), []

    def bad(*args: Any) -> Any:
        calls.append(1)
        if len(calls) > 20 and fault == "raises":
            raise ArithmeticError("out of numbers")
        return own(*args) + (float(fault) if len(calls) > 20 else 0)

    setattr(owner, call, bad)
    return env


@pytest.mark.parametrize("fault", ["nan", "1e+40", "raises"])
@pytest.mark.parametrize("name", ["battle_v4", "simple_spread_v3"])
def test_errors_are_the_same(name: str, fault: str) -> None:
    messages = []
    for with_arrays in (True, False):
        with pytest.raises((ez.errors.ObservationError, ez.errors.WorkerError)) as error:
            rewards_of(broken(name, fault), view_of(name, with_arrays), num_steps=40)
        messages.append((type(error.value), str(error.value), type(error.value.__cause__)))
    assert messages[0] == messages[1]
    assert {"nan": "nan", "1e+40": "float32", "raises": "out of numbers"}[fault] in messages[0][1]


@pytest.mark.parametrize("name", ["battle_v4", "simple_spread_v3"])
def test_a_masked_or_missing_action_steps_no_game(name: str) -> None:
    venv = ez.from_pettingzoo(partial(make, name), num_envs=2)
    batch, _ = venv.reset(seed=15)
    actions = dict(sample_actions(venv.single_action_space, batch, np.random.default_rng(16)))
    first = next(iter(actions))
    values = actions[first].values.copy()
    values[-1] = 99
    with pytest.raises(ez.errors.ActionError):
        venv.step({**actions, first: actions[first].with_values(values)})
    with pytest.raises(ez.errors.ActionError):
        venv.step({name: action for name, action in actions.items() if name != first})
    other = ez.from_pettingzoo(partial(make, name), num_envs=2)
    other.reset(seed=15)
    for one, two in zip(venv.step(actions), other.step(actions), strict=True):
        assert_same(one, two)
    venv.close()
    other.close()
