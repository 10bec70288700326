"""Teams of PettingZoo games as one environment, against plain loops over the same games."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import entitize as ez
import gymnasium
import numpy as np
import pettingzoo
import pytest
from gymnasium import spaces
from magent2.environments import tiger_deer_v4
from mpe2 import simple_speaker_listener_v4, simple_spread_v3, simple_tag_v3, simple_world_comm_v3

from facts import raises, warns

AUTO = ez.views.auto
TAG = partial(simple_tag_v3.parallel_env, max_cycles=9)
KAZ = partial(
    pettingzoo.make,
    "parallel",
    "butterfly/knights_archers_zombies-v11",
    max_cycles=90,
    max_zombies=30,
    spawn_delay=4,
    line_death=True,
)
CONNECT_FOUR = partial(pettingzoo.make, "aec", "classic/connect_four-v3")
GAMES: dict[str, Callable[[], Any]] = {
    "tag": TAG,
    "tag_continuous": partial(simple_tag_v3.parallel_env, max_cycles=9, continuous_actions=True),
    "speaker_listener": partial(simple_speaker_listener_v4.parallel_env, max_cycles=9),
    "world_comm": partial(simple_world_comm_v3.parallel_env, max_cycles=9),
    "tiger_deer": partial(tiger_deer_v4.parallel_env, map_size=10, max_cycles=110),
    "knights_archers_zombies": KAZ,
}
TURNS: dict[str, Callable[[], Any]] = {
    "connect_four": CONNECT_FOUR,
    "leduc_holdem": partial(pettingzoo.make, "aec", "classic/leduc_holdem-v4"),
    "world_comm": partial(simple_world_comm_v3.env, max_cycles=4),
}


def test_a_team_is_told_how_far_training_is() -> None:
    told: list[float] = []

    def make() -> Any:
        game = TAG()
        game.unwrapped.set_progress = told.append
        return game

    env = ez.from_pettingzoo(make, mode="team", view=AUTO)
    with ez.vector.ListVectorEnv([lambda: env]) as venv:
        venv.set_progress(0.25)
    assert told == [0.25]


def rows_by_agent(env: Any, seen: dict[str, Any]) -> dict[str, np.ndarray]:
    """Each agent's row: agents of a type come in the game's order."""
    rows = [row for part in seen["entities"].values() for row in part]
    kinds = [name for name, part in seen["entities"].items() for _ in part]
    order = sorted(
        env.agents, key=lambda agent: list(seen["entities"]).index(type_of(agent, seen["entities"]))
    )
    assert [type_of(agent, seen["entities"]) for agent in order] == kinds
    return dict(zip(order, rows, strict=True))


def type_of(agent: str, types: Any) -> str:
    (name,) = [name for name in types if agent.rpartition("_")[0] in name.split("_")]
    return str(name)


def told(env: Any, game: Any, seen: dict[str, Any], action: dict[str, Any]) -> dict[str, Any]:
    """The game's actions of a team's orders."""
    order = list(rows_by_agent(env, seen))
    raw: dict[str, Any] = {}
    for name, choices in action.items():
        for actor, choice in zip(seen["actions"][name]["actors"], choices, strict=True):
            agent = order[actor]
            continuous = isinstance(game.action_space(agent), spaces.Box)
            raw[agent] = choice if continuous else int(choice)
    return raw


def flattened(space: spaces.Space[Any], observation: Any) -> np.ndarray:
    return np.float32(observation["observation"] if isinstance(space, spaces.Dict) else observation).ravel()


@pytest.mark.parametrize("name", GAMES)
def test_a_team_is_what_a_plain_loop_over_the_game_sees(name: str) -> None:
    env, game = ez.from_pettingzoo(GAMES[name], "team", view=AUTO), GAMES[name]()
    env.action_space.seed(1)
    fewer = ends = 0
    seen, _ = env.reset(seed=3)
    shown, _ = game.reset(seed=3)
    for _ in range(105):
        assert env.agents == game.agents
        fewer += len(game.agents) < len(game.possible_agents)
        for agent, row in rows_by_agent(env, seen).items():
            np.testing.assert_array_equal(row, flattened(game.observation_space(agent), shown[agent]))
        action = env.action_space.sample(mask=seen)
        raw = told(env, game, seen, action)
        assert set(raw) == set(game.agents)
        seen, reward, terminated, truncated, info = env.step(action)
        shown, paid, dead, cut, infos = game.step(raw)
        assert reward == pytest.approx(sum(paid.values()), rel=1e-5, abs=1e-6)
        assert info == {agent: its for agent, its in infos.items() if its}
        assert (terminated or truncated) == (not game.agents)
        if terminated or truncated:
            ends += 1
            assert truncated == any(cut[a] and not dead[a] for a in cut)
            last = [row for part in seen["entities"].values() for row in part]
            expected = [flattened(game.observation_space(a), shown[a]) for a in cut if cut[a] and not dead[a]]
            assert sorted(map(tuple, last)) == sorted(map(tuple, expected))
            seen, _ = env.reset()
            shown, _ = game.reset()
    assert ends
    assert bool(fewer) == (name == "knights_archers_zombies")
    env.close()
    game.close()


@pytest.mark.filterwarnings("ignore:.*sum to 0:UserWarning")
@pytest.mark.parametrize("name", TURNS)
def test_in_turns_the_one_whose_turn_it_is_is_the_only_actor(name: str) -> None:
    env, game = ez.from_pettingzoo(TURNS[name], "team", view=AUTO), TURNS[name]()
    env.action_space.seed(1)
    seen, _ = env.reset(seed=3)
    game.reset(seed=3)
    ends, total, owed = 0, 0.0, 0.0
    for _ in range(150):
        mover = game.agent_selection
        rows = rows_by_agent(env, seen)
        assert list(rows) == sorted(
            game.agents, key=lambda a: (type_of(a, seen["entities"]) != "leadadversary_adversary",)
        )
        for agent, row in rows.items():
            np.testing.assert_array_equal(row, flattened(game.observation_space(agent), game.observe(agent)))
        (acting,) = [part for part in seen["actions"].values() if len(part["actors"])]
        assert [list(rows)[i] for i in acting["actors"]] == [mover]
        observation = game.last()[0]
        if isinstance(observation, dict):
            np.testing.assert_array_equal(acting["mask"][0], observation["action_mask"])
        action = env.action_space.sample(mask=seen)
        (raw,) = told(env, game, seen, action).values()
        seen, reward, terminated, truncated, _ = env.step(action)
        owed += game.last()[1]
        game.step(raw)
        total += reward
        if all(game.terminations[a] or game.truncations[a] for a in game.agents):
            ends += 1
            assert terminated or truncated
            assert truncated == any(game.truncations.values())
            while game.agents:
                owed += game.last()[1]
                game.step(None)
            assert total == pytest.approx(owed, rel=1e-5)
            total = owed = 0.0
            seen, _ = env.reset()
            game.reset()
        else:
            assert not terminated and not truncated
    assert ends > 2
    env.close()
    game.close()


def test_a_team_is_named_by_kind_or_by_names_and_others_play_the_rest() -> None:
    for team in ("adversary", ["adversary_0", "adversary_1", "adversary_2"]):
        env = ez.from_pettingzoo(TAG(), "team", team=team, opponents="random", view=AUTO)
        assert list(env.observation_space.entities) == ["adversary"]
        env.action_space.seed(0)
        seen, _ = env.reset(seed=1)
        again, _ = env.reset(seed=1)
        np.testing.assert_array_equal(seen["entities"]["adversary"], again["entities"]["adversary"])
        assert seen["actions"]["action"]["actors"].tolist() == [0, 1, 2]
        env.close()
    by_name = ez.from_pettingzoo(TAG, "team", opponents={"agent_0": lambda o, m, a: 1}, view=AUTO)
    game = TAG()
    by_name.reset(seed=4)
    game.reset(seed=4)
    order = np.array([2, 3, 4])
    _, paid, *_ = game.step({"adversary_0": 2, "adversary_1": 3, "adversary_2": 4, "agent_0": 1})
    seen, reward, *_ = by_name.step({"action": order})
    assert reward == pytest.approx(paid["adversary_0"] * 3)
    assert by_name.agents == ["adversary_0", "adversary_1", "adversary_2"]


def test_a_team_plays_a_board_game_against_an_opponent() -> None:
    env = ez.from_pettingzoo(CONNECT_FOUR, "team", team="player_1", opponents="random", view=AUTO)
    ez.check_entity_env(env, num_steps=30)
    env.close()


def test_rewards_are_summed_or_averaged() -> None:
    make = partial(simple_spread_v3.parallel_env, max_cycles=5)
    totals = {}
    for pooling in ("sum", "mean"):
        env = ez.from_pettingzoo(make, "team", reward=pooling, view=AUTO)
        env.reset(seed=1)
        totals[pooling] = env.step({"action": np.array([1, 2, 3])})[1]
    assert totals["sum"] == pytest.approx(3 * totals["mean"])
    with raises(ValueError, "reward", "'meen'", "'mean'"):
        ez.from_pettingzoo(make, "team", reward="meen")  # type: ignore[call-overload]


def test_a_team_of_opponents_is_warned_of_once() -> None:
    env = ez.from_pettingzoo(CONNECT_FOUR, "team", view=AUTO)
    env.action_space.seed(0)

    def play() -> float:
        seen, _ = env.reset(seed=1)
        total, over = 0.0, False
        while not over:
            seen, reward, terminated, truncated, _ = env.step(env.action_space.sample(mask=seen))
            total, over = total + reward, terminated or truncated
        return total

    with warns(UserWarning, "connect_four_v3", "'player_0'", "'player_1'", 0, "opponents="):
        assert play() == 0
    assert play() == 0  # filterwarnings = error
    env.close()


def test_several_games_make_a_vector_of_teams() -> None:
    venv = ez.from_pettingzoo(TAG, "team", num_envs=3, view=AUTO)
    assert isinstance(venv, ez.vector.ListVectorEnv) and venv.num_envs == 3
    batch, _ = venv.reset(seed=6)
    assert batch.entities["adversary"].lengths.tolist() == [3, 3, 3]
    single = ez.from_pettingzoo(TAG, "team", view=AUTO)
    seen, _ = single.reset(seed=7)
    np.testing.assert_array_equal(batch.entities["adversary"][1], seen["entities"]["adversary"])
    ez.check_entity_env(venv, num_steps=25)
    venv.close()


def test_wrong_orders_name_the_game_and_the_agent_and_nothing_moves() -> None:
    env = ez.from_pettingzoo(TAG, "team", view=AUTO)
    env.reset(seed=1)
    with raises(ez.ActionError, "simple_tag_v3", "action 'action'", "actor 'adversary_1'", 9):
        env.step({"action": [0, 9, 0, 0]})
    with raises(ez.ActionError, "simple_tag_v3", 4, "'adversary_0'", 2):
        env.step({"action": [0, 1]})
    for left_out in ({}, {"action": []}):
        with raises(ez.ActionError, "simple_tag_v3", "'action'", 4, "'adversary_0'"):
            env.step(left_out)
    env.step({"action": [0, 1, 2, 3]})
    env.close()
    env.close()
    with raises(gymnasium.error.ClosedEnvironmentError, "simple_tag_v3", "closed"):
        env.step({})


@pytest.mark.parametrize(
    ("options", "error", "facts"),
    [
        (
            {"team": "adversry"},
            ValueError,
            ["team", "kind 'adversry'"],
        ),
        ({"team": []}, ValueError, ["simple_tag_v3", "team"]),
        ({"team": "adversary"}, ValueError, ["'agent_0'", "team"]),
        (
            {"team": "agent", "opponents": {"adversary": "random", "agent": "random"}},
            ValueError,
            ["'agent_0'", "team", "opponent"],
        ),
        ({"opponents": "random"}, ValueError, ["team="]),
        (
            {"view": ez.views.Vector({"A": 4, "B": 4})},
            ez.views.ViewError,
            ["team", "Vector"],
        ),
    ],
)
def test_teams_that_cannot_be_are_told_at_once(
    options: dict[str, Any], error: type[Exception], facts: list[object]
) -> None:
    with raises(error, *facts):
        ez.from_pettingzoo(TAG, "team", **{"view": AUTO, **options})


def test_lists_of_rows_need_a_view_to_be_one_entity() -> None:
    make = partial(KAZ, obs_method="vector-sequence")
    for view in (AUTO, ez.views.Rows(name="Row")):
        with raises(ez.views.ViewError, "knights_archers_zombies_v11", "observation_space", "Sequence"):
            ez.from_pettingzoo(make, "team", view=view)


@pytest.mark.parametrize("view", [None, AUTO, ez.views.Items()])
def test_a_team_needs_observations_of_a_fixed_size(view: Any) -> None:
    class Varying(pettingzoo.ParallelEnv[str, Any, Any]):
        metadata = {"name": "varying_v0", "render_modes": []}  # noqa: RUF012 - PettingZoo's form
        possible_agents = ["cat_0", "cat_1"]  # noqa: RUF012 - PettingZoo's form
        place = spaces.Box(0, 1, (2,))
        seen, choices = spaces.Dict(own=place, others=spaces.Sequence(place)), spaces.Discrete(2)

        def observation_space(self, agent: str) -> Any:
            return self.seen

        def action_space(self, agent: str) -> Any:
            return self.choices

    with raises(
        ez.views.ViewError, "varying_v0", "'cat_0'", "fixed size", "Sequence", "GameView", "'lanes'"
    ) as e:
        ez.from_pettingzoo(Varying(), "team", view=view)
    assert "Items" not in str(e.value) and "Vector" not in str(e.value)
