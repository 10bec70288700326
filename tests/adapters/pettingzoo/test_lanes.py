"""Agents of PettingZoo's parallel games as lanes, against plain loops over the same games."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import entitize as ez
import gymnasium
import numpy as np
import pettingzoo
import pytest
from entitize.envs import no_actions, sample_actions
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from magent2.environments import gather_v5, tiger_deer_v4
from mpe2 import simple_speaker_listener_v4, simple_tag_v3, simple_world_comm_v3

from facts import raises

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # Box2D's bindings, at their first import
    import Box2D as Box2D

AUTO = ez.views.auto


def kaz(**options: Any) -> Any:
    return pettingzoo.make("parallel", "butterfly/knights_archers_zombies-v11", **options)


#: Games with all kinds of spaces, deaths, terminations and truncations.
GAMES: dict[str, Callable[[], Any]] = {
    "knights_archers_zombies": partial(kaz, max_cycles=90, max_zombies=30, spawn_delay=4, line_death=True),
    "vector_sequence": partial(kaz, obs_method="vector-sequence", max_cycles=25),
    "pursuit": partial(pettingzoo.make, "parallel", "sisl/pursuit-v5", max_cycles=4, n_pursuers=3),
    "multiwalker": partial(pettingzoo.make, "parallel", "sisl/multiwalker-v9", max_cycles=30, n_walkers=2),
    "rock_paper_scissors": partial(pettingzoo.make, "parallel", "classic/rps-v2"),
    "tag": partial(simple_tag_v3.parallel_env, max_cycles=9),
    "tag_continuous": partial(simple_tag_v3.parallel_env, max_cycles=9, continuous_actions=True),
    "speaker_listener": partial(simple_speaker_listener_v4.parallel_env, max_cycles=9),
    "world_comm": partial(simple_world_comm_v3.parallel_env, max_cycles=9),
    "tiger_deer": partial(tiger_deer_v4.parallel_env, map_size=10, max_cycles=110),
    "gather": partial(gather_v5.parallel_env, max_cycles=6),
}
#: How long to play.
STEPS = {"knights_archers_zombies": 95, "tiger_deer": 105, "gather": 7}


def raw_action(space: spaces.Space[Any], orders: dict[str, ez.RaggedArray], lane: int) -> Any:
    """What a lane was told, as the game's action."""
    (value,) = [order[lane][0] for order in orders.values() if len(order[lane])]
    return np.asarray(value, space.dtype) if isinstance(space, spaces.Box) else int(value)


def numbers(batch: ez.EntityBatch, lane: int) -> np.ndarray:
    """All features of a lane's entities, one after the other."""
    return np.concatenate([rows[lane].ravel() for rows in batch.entities.values()])


def flattened(observation: Any, discrete: int | None) -> np.ndarray:
    if discrete is not None:
        return np.eye(discrete, dtype=np.float32)[observation]
    return np.asarray(observation, np.float32).ravel()


@pytest.mark.parametrize("name", GAMES)
def test_lanes_are_what_a_plain_loop_over_the_games_sees(name: str) -> None:
    """Same seeds, same actions: same observations, rewards, deaths and infos, lane by lane."""
    make = GAMES[name]
    # Everything as one row of numbers, except where an observation is a list of rows already.
    view = AUTO if name == "vector_sequence" else ez.views.Vector()
    venv = ez.from_pettingzoo(make, view=view, num_envs=2)
    games = [make(), make()]
    rng = np.random.default_rng(1)
    batch, info = venv.reset(seed=5)
    shown = [game.reset(seed=5 + i)[0] for i, game in enumerate(games)]
    ends = 0
    for _ in range(STEPS.get(name, 40)):
        for lane, (i, agent) in enumerate(venv.agents):
            assert info["inactive"][lane] == (agent not in games[i].agents)
            if agent in games[i].agents:
                space = games[i].observation_space(agent)
                discrete = int(space.n) if isinstance(space, spaces.Discrete) else None
                np.testing.assert_array_equal(numbers(batch, lane), flattened(shown[i][agent], discrete))
            else:
                assert not numbers(batch, lane).size
                assert not any(len(part.actors[lane]) for part in batch.actions.values())
        orders = sample_actions(venv.single_action_space, batch, rng)
        batch, rewards, terminated, truncated, info = venv.step(orders)
        final_lanes = list(np.flatnonzero(info.get("_final_obs", np.zeros(venv.num_envs, bool))))
        for i, game in enumerate(games):
            lanes = {agent: lane for lane, (g, agent) in enumerate(venv.agents) if g == i}
            before = list(game.agents)
            told = {a: raw_action(game.action_space(a), orders, lanes[a]) for a in before}
            shown[i], paid, dead, cut, infos = game.step(told)
            for agent, lane in lanes.items():
                alive = agent in before
                assert rewards[lane] == pytest.approx(paid[agent] if alive else 0, rel=1e-6)
                assert terminated[lane] == (alive and dead[agent])
                assert truncated[lane] == (alive and cut[agent])
                if terminated[lane] or truncated[lane]:
                    ends += 1
                    space = game.observation_space(agent)
                    discrete = int(space.n) if isinstance(space, spaces.Discrete) else None
                    last = numbers(info["final_obs"], final_lanes.index(lane))
                    np.testing.assert_array_equal(last, flattened(shown[i][agent], discrete))
                    for key, value in infos[agent].items():
                        assert np.array_equal(info["final_info"][key][lane], value)
            if not game.agents:
                shown[i] = game.reset()[0]
    assert ends >= (0 if name == "vector_sequence" else 2)
    venv.close()
    for game in games:
        game.close()


def test_an_agent_that_dies_is_a_lane_that_is_idle_until_the_game_starts_over() -> None:
    venv = ez.from_pettingzoo(GAMES["knights_archers_zombies"], num_envs=2, view=AUTO)
    batch, info = venv.reset(seed=5)
    over, played_on = np.zeros(8, bool), 0
    for step in range(110):
        batch, _, terminated, truncated, info = venv.step(
            sample_actions(venv.single_action_space, batch, np.random.default_rng(step))
        )
        assert not (terminated & over).any(), "a lane ended twice"
        over |= terminated | truncated
        for game in range(2):
            lanes = slice(4 * game, 4 * game + 4)
            if over[lanes].all():
                over[lanes] = False
            played_on += int(over[lanes].any())
        np.testing.assert_array_equal(info["inactive"], over)
    assert played_on > 10
    venv.close()


def test_agents_with_the_same_spaces_share_types_and_actions() -> None:
    venv = ez.from_pettingzoo(GAMES["tag_continuous"](), view=AUTO)
    assert dict(venv.single_observation_space.entities) == {
        "adversary": tuple(f"x_{i}" for i in range(16)),
        "agent": tuple(f"x_{i}" for i in range(14)),
    }
    assert list(venv.single_action_space) == ["action"]
    assert venv.agents == [(0, f"adversary_{i}") for i in range(3)] + [(0, "agent_0")]
    batch, _ = venv.reset(seed=1)
    assert batch.entities["adversary"].lengths.tolist() == [1, 1, 1, 0]
    assert batch.entities["agent"].lengths.tolist() == [0, 0, 0, 1]
    venv.close()


def test_kinds_of_agents_have_actions_of_their_own_where_the_spaces_differ() -> None:
    venv = ez.from_pettingzoo(GAMES["speaker_listener"], view=AUTO)
    assert {name: len(action.choices) for name, action in venv.single_action_space.items()} == {
        "speaker": 3,
        "listener": 5,
    }
    batch, _ = venv.reset(seed=1)
    assert batch.actions["speaker"].actors.lengths.tolist() == [1, 0]
    assert batch.actions["listener"].actors.lengths.tolist() == [0, 1]
    venv.close()


@pytest.mark.parametrize("seed", [[1, 2], -1, 0.5])
def test_a_wrong_seed_leaves_the_games_as_they_are(seed: Any) -> None:
    venv = ez.from_pettingzoo(GAMES["tag"], view=AUTO)
    with raises(ValueError, "seed"):
        venv.reset(seed=seed)
    venv.reset(seed=1)
    venv.close()


def test_one_seed_seeds_every_game_and_later_resets_go_on() -> None:
    make = GAMES["tag"]
    one, other = ez.from_pettingzoo(make, num_envs=2, view=AUTO), ez.from_pettingzoo([make], view=AUTO)
    batch, _ = one.reset(seed=8)
    second, _ = other.reset(seed=9)
    assert batch[4:].equals(second)
    assert not batch[:4].equals(batch[4:])
    following, _ = one.reset()
    assert not following.equals(batch)
    again, _ = one.reset(seed=8)
    assert again.equals(batch)
    assert one.reset()[0].equals(following)
    one.close()
    other.close()


def test_an_action_that_is_left_out_names_the_lane_and_its_agent_and_moves_nothing() -> None:
    for name in ("tag", "multiwalker"):
        venv, other = (ez.from_pettingzoo(GAMES[name], view=AUTO) for _ in range(2))
        batch, _ = venv.reset(seed=3)
        other.reset(seed=3)
        venv.action_space.seed(3)
        actions, agent = venv.action_space.sample(mask=batch), repr(venv.agents[0][1])
        for left_out in ({}, no_actions(venv.single_action_space, venv.num_envs)):
            with raises(ez.ActionError, "lane 0", agent, "'action'", 1):
                venv.step(left_out)
        assert venv.step(actions)[0].equals(other.step(actions)[0])
        venv.close()
        other.close()


def test_the_vector_environment_says_what_it_is_and_renders_a_frame_per_lane() -> None:
    venv = ez.from_pettingzoo(
        partial(simple_tag_v3.parallel_env, render_mode="rgb_array"), num_envs=2, view=AUTO
    )
    assert venv.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP and venv.metadata["final_obs"]
    assert venv.metadata["name"] == "simple_tag_v3"
    assert venv.num_envs == 8
    venv.reset(seed=1)
    frames = venv.render()
    assert frames is not None and len(frames) == 8
    assert frames[0].ndim == 3 and frames[0] is frames[3] and not np.array_equal(frames[3], frames[4])
    venv.close()
    with raises(gymnasium.error.ClosedEnvironmentError, "simple_tag_v3", "closed"):
        venv.reset()


def test_views_are_declared_for_all_agents_by_kind_or_by_a_function() -> None:
    make = GAMES["tag"]
    halves = ez.views.Vector([("Own", 4), ("Rest", slice(4, 14))])
    venv = ez.from_pettingzoo(make, view=halves)
    assert list(venv.single_observation_space.entities) == ["Own", "Rest"]
    assert venv.reset(seed=1)[0].entities["Own"].lengths.tolist() == [1] * 4
    venv = ez.from_pettingzoo(make, view=ez.views.Vector(name="Player"))
    assert list(venv.single_observation_space.entities) == ["adversary", "agent"], "they differ in length"
    by_kind = {"adversary": ez.views.Vector(name="Hunter"), "agent_0": halves}
    for view in (by_kind, lambda agent: by_kind["agent_0" if agent == "agent_0" else "adversary"]):
        venv = ez.from_pettingzoo(make, view=view)
        assert list(venv.single_observation_space.entities) == ["Hunter", "Own", "Rest"]
        assert venv.reset(seed=1)[0].entities["Hunter"].lengths.tolist() == [1, 1, 1, 0]
