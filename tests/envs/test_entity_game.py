"""Games of several agents written as entities: what authors return, and what players get."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import entitize as ez
import gymnasium
import numpy as np
import pytest
from entitize.pettingzoo import MultiAgentEnv, check_multi_agent_env

from facts import raises

ACTIONS = ez.EntityActionSpace({"move": ez.Categorical(["left", "right", "hit"])})
SPACE = ez.EntitySpace({"Me": ["x"], "Other": ["x"]}, ACTIONS)
AGENTS = ["fighter_0", "fighter_1", "fighter_2"]


class Duel(ez.EntityGame):
    """Fighters on a line: who is hit is out. The last one wins; all are cut off after 20 steps."""

    def __init__(self) -> None:
        self.possible_agents = AGENTS
        self.spaces = SPACE, ACTIONS

    def _reset(self, options: dict[str, Any]) -> Any:
        self.time = 0
        self.x = {agent: int(self.np_random.integers(12)) for agent in self.possible_agents}
        return self.look(), {agent: {"name": agent} for agent in self.x}

    def look(self) -> dict[str, ez.Observation]:
        return {
            agent: ez.Observation(
                {"Me": [[x]], "Other": [[other] for name, other in self.x.items() if name != agent]},
                actions={"move": ez.actions.CategoricalMask(actor_types=["Me"])},
            )
            for agent, x in self.x.items()
        }

    def _step(self, actions: dict[str, dict[str, Any]]) -> Any:
        self.time += 1
        moves = {agent: chosen["move"].labels[0] for agent, chosen in actions.items()}
        for agent, move in moves.items():
            self.x[agent] += {"left": -1, "right": 1, "hit": 0}[move]
        hitters = [agent for agent, move in moves.items() if move == "hit"]
        hit = {
            agent: any(other != agent and abs(x - self.x[other]) < 2 for other in hitters)
            for agent, x in self.x.items()
        }
        seen = self.look()
        self.x = {agent: x for agent, x in self.x.items() if not hit[agent]}
        rewards = {agent: -1.0 if hit[agent] else 0.1 for agent in actions}
        return seen, rewards, hit, self.time >= 20, {}


class PlainDuel(MultiAgentEnv):
    """The same written with plain arrays."""

    def __init__(self) -> None:
        self.possible_agents, self.agents = AGENTS, []
        self.rng = np.random.default_rng()

    def observation_space(self, agent: str) -> ez.EntitySpace:
        return SPACE

    def action_space(self, agent: str) -> ez.EntityActionSpace:
        return ACTIONS

    def look(self) -> dict[str, Any]:
        return {
            agent: {
                "entities": {
                    "Me": np.array([[self.x[agent]]], np.float32),
                    "Other": np.array(
                        [self.x[other] for other in self.agents if other != agent], np.float32
                    ).reshape(-1, 1),
                },
                "actions": {"move": {"actors": np.array([0]), "mask": np.ones((1, 3), np.int8)}},
            }
            for agent in self.agents
        }

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self.time, self.agents = 0, list(AGENTS)
        self.x = {agent: int(self.rng.integers(12)) for agent in AGENTS}
        return self.look(), {agent: {"name": agent} for agent in AGENTS}

    def step(self, actions: Mapping[str, Any]) -> Any:
        self.time += 1
        moves = {agent: actions[agent]["move"][0] for agent in self.agents}
        for agent, move in moves.items():
            self.x[agent] += (-1, 1, 0)[move]
        hit = {
            a: any(b != a and moves[b] == 2 and abs(self.x[a] - self.x[b]) < 2 for b in self.agents)
            for a in self.agents
        }
        seen, acted = self.look(), self.agents
        over = self.time >= 20
        self.agents = [agent for agent in acted if not (hit[agent] or over)]
        rewards = {agent: -1.0 if hit[agent] else 0.1 for agent in acted}
        return seen, rewards, hit, dict.fromkeys(acted, over), {agent: {} for agent in acted}


def assert_equal(mine: Any, its: Any) -> None:
    if isinstance(its, Mapping):
        assert mine.keys() == its.keys()
        for key, value in its.items():
            assert_equal(mine[key], value)
    elif isinstance(its, np.ndarray):
        np.testing.assert_array_equal(mine, its)
        assert mine.dtype == its.dtype
    else:
        assert mine == its and type(mine) is type(its)


def test_a_game_does_what_the_same_game_with_plain_arrays_does() -> None:
    mine, its = Duel(), PlainDuel()
    rng = np.random.default_rng(0)
    ends = 0
    for episode in range(40):
        seed = episode if episode % 3 else None
        seed = seed if episode else 7
        for got, expected in zip(mine.reset(seed=seed), its.reset(seed=seed), strict=True):
            assert_equal(got, expected)
        while its.agents:
            assert mine.agents == its.agents
            actions = {agent: {"move": rng.integers(3, size=1)} for agent in its.agents}
            for got, expected in zip(mine.step(actions), its.step(actions), strict=True):
                assert_equal(got, expected)
        ends += 1
        assert mine.agents == []
    assert ends == 40


@pytest.mark.parametrize("game", [Duel, lambda: Taking(), lambda: Kinds()])
def test_games_keep_the_rules(game: Any) -> None:
    check_multi_agent_env(game)


@ez.entity
class Heap:
    size: float


class Taking(ez.EntityGame):
    """Two players take one or two of a heap, in turn; who takes the last wins. Whose turn it is acts."""

    def __init__(self) -> None:
        self.possible_agents = ["first", "second"]
        self.spaces = ez.declare(entities=[Heap], actions={"take": ez.GlobalCategorical(["one", "two"])})

    def _reset(self, options: dict[str, Any]) -> Any:
        self.left, self.turn = 7, 0
        return self.look()

    def look(self) -> Any:
        mask = ez.actions.GlobalCategoricalMask()
        return {
            agent: ez.Obs(Heap(self.left), actions={"take": mask} if self.turn == number else {})
            for number, agent in enumerate(self.possible_agents)
        }

    def _step(self, actions: Any) -> Any:
        mover = self.possible_agents[self.turn]
        assert actions[self.possible_agents[1 - self.turn]] == {}  # who waits has no action
        self.left = max(0, self.left - 1 - actions[mover]["take"].choice)
        self.turn = 1 - self.turn
        over = self.left == 0
        score = {mover: 1.0 if over else 0.0, self.possible_agents[self.turn]: -1.0 if over else 0.0}
        infos = {mover: {"outcome": "win"}, self.possible_agents[self.turn]: {"outcome": "loss"}}
        return self.look(), score, over, False, infos if over else {}


class Kinds(ez.EntityGame):
    """One guard and two thieves with other observations and actions; a caught thief observes nothing more."""

    def __init__(self) -> None:
        self.possible_agents = ["guard", "thief_0", "thief_1"]
        guard = ez.EntityActionSpace({"catch": ez.SelectEntity()})
        thief = ez.EntityActionSpace({"speed": ez.GlobalContinuous([0.0], [1.0])})
        self.spaces = {
            "guard": (ez.EntitySpace({"Guard": [], "Thief": ["speed"]}, guard), guard),
            "thief": (ez.EntitySpace({"Thief": ["speed"]}, thief), thief),
        }

    def _reset(self, options: dict[str, Any]) -> Any:
        self.speed = {"thief_0": 0.0, "thief_1": 0.0}
        self.time = 0
        return self.look()

    def look(self) -> Any:
        select = ez.actions.SelectEntityMask(actor_ids=["guard"], actee_ids=list(self.speed))
        rows = [[speed] for speed in self.speed.values()]
        seen = {
            thief: ez.Observation({"Thief": [[speed]]}, actions={"speed": ez.actions.GlobalContinuousMask()})
            for thief, speed in self.speed.items()
        }
        ids: dict[str, Any] = {"Guard": ["guard"], "Thief": list(self.speed)}
        actions = {"catch": select} if self.speed else {}
        seen["guard"] = ez.Observation({"Guard": [[]], "Thief": rows}, ids=ids, actions=actions)
        return seen

    def _step(self, actions: Any) -> Any:
        self.time += 1
        caught = actions["guard"]["catch"].actees[0]
        for thief in self.speed:
            self.speed[thief] = float(actions[thief]["speed"].values[0])
        rewards = {"guard": 1.0 - self.speed[caught], **dict.fromkeys(self.speed, -1.0)}
        del self.speed[caught]
        over = not self.speed
        return self.look(), rewards, {caught: True, **({"guard": True} if over else {})}, {}, {}


def test_who_waits_has_no_actors_and_the_outcome_is_told() -> None:
    game = Taking()
    seen, _ = game.reset()
    takes = []
    while game.agents:
        acting = [agent for agent in game.agents if len(seen[agent]["actions"]["take"]["mask"])]
        assert len(acting) == 1
        takes.append(acting[0])
        seen, rewards, _, _, infos = game.step({acting[0]: {"take": np.array([1])}})
    assert takes == ["first", "second", "first", "second"]
    assert rewards == {"first": -1.0, "second": 1.0}
    assert infos == {"first": {"outcome": "loss"}, "second": {"outcome": "win"}}


def test_agents_of_a_kind_share_spaces_and_a_caught_thief_observes_nothing() -> None:
    game = Kinds()
    seen, _ = game.reset()
    assert game.observation_space("thief_0") == game.observation_space("thief_1")
    assert game.observation_space("guard").entities.keys() == {"Guard", "Thief"}
    speeds = {thief: {"speed": np.array([[0.25]], np.float32)} for thief in ("thief_0", "thief_1")}
    seen, rewards, terminated, _, _ = game.step({"guard": {"catch": np.array([2])}, **speeds})
    assert rewards == {"guard": 0.75, "thief_0": -1.0, "thief_1": -1.0}
    assert terminated == {"guard": False, "thief_0": False, "thief_1": True}
    assert len(seen["thief_1"]["entities"]["Thief"]) == 0 and game.agents == ["guard", "thief_0"]


def test_samples_are_legal_for_each_agents_own_observation() -> None:
    game = Kinds()
    game.reset(seed=1)
    for number, agent in enumerate(game.agents):
        game.action_space(agent).seed(number)
    for _ in range(20):
        game.step({agent: game.action_space(agent).sample() for agent in game.agents})
        if not game.agents:
            game.reset()


def test_lanes_of_make_vec_are_those_of_pettingzoo() -> None:
    mine = ez.make_vec(Duel, num_envs=3)
    its = ez.from_pettingzoo(lambda: ez.to_pettingzoo(Duel()), num_envs=3)
    assert mine.num_envs == its.num_envs == 9 and (mine.lane_games == its.lane_games).all()
    results = [
        ez.evaluate(ez.evaluation.RandomActor(venv.single_action_space), venv, 30) for venv in (mine, its)
    ]
    np.testing.assert_array_equal(*[result.returns for result in results])
    with raises(TypeError, "Duel", "make_vec", "from_pettingzoo"):
        ez.make(Duel)
    with mine, ez.make_vec(Duel, 3, num_workers=2) as shared:
        assert shared.reset(seed=1)[0].equals(mine.reset(seed=1)[0])


def test_a_network_learns_to_win_the_game_in_turns() -> None:
    with ez.make_vec(Taking, num_envs=16) as venv:
        net = ez.RogueNet(
            venv.single_observation_space, venv.single_action_space, d_model=16, n_layer=1, n_head=2
        )
        config = ez.PPOConfig(num_steps=32, minibatch_size=128, learning_rate=0.01, seed=1)
        ez.PPO(net, venv, config).train(12_000)
        random = ez.evaluation.RandomActor(venv.single_action_space)
        assert ez.self_play.play_matches({"net": net, "random": random}, venv, 100).score("net").low > 0.6


def test_random_numbers_follow_from_the_seed_and_go_on_without_one() -> None:
    def starts(game: Duel, *seeds: int | None) -> list[list[int]]:
        found = []
        for seed in seeds:
            game.reset(seed=seed)
            found.append(list(game.x.values()))
        return found

    assert starts(Duel(), 3, None, None) == starts(Duel(), 3, None, None)
    assert starts(Duel(), 3, 3)[0] == starts(Duel(), 3)[0]
    drawn = starts(Duel(), 3, None, None, None)
    assert len({tuple(start) for start in drawn}) > 1
    game = Duel()
    game.np_random = np.random.default_rng(3)
    assert starts(game, None) == starts(Duel(), 3)


def test_an_illegal_action_moves_nobody() -> None:
    game = Duel()
    game.reset(seed=1)
    before = dict(game.x)
    good = {agent: {"move": np.array([0])} for agent in AGENTS}
    with raises(ez.ActionError, "Duel", "'fighter_1'", "'move'"):
        game.step({**good, "fighter_1": {"move": np.array([3])}})
    with raises(ez.ActionError, "'fighter_2'", "'move'"):
        game.step({agent: good[agent] for agent in AGENTS[:2]})
    with raises(ez.ActionError, "'fighter_9'", "fighter_0"):
        game.step({**good, "fighter_9": {}})
    assert game.x == before and game.agents == AGENTS
    game.step(good)
    assert game.x != before


def test_a_game_must_be_reset() -> None:
    game = Duel()
    with raises(gymnasium.error.ResetNeeded, "Duel"):
        game.step({})
    with raises(KeyError, "'fighter_9'", "Duel"):
        game.observation_space("fighter_9")


def changed(**parts: Any) -> Duel:
    """A game of which `_step` returns other parts."""

    class Changed(Duel):
        def _step(self, actions: Any) -> Any:
            names = ("observations", "rewards", "terminated", "truncated", "infos")
            return tuple({**dict(zip(names, super()._step(actions), strict=True)), **parts}.values())

    return Changed()


@pytest.mark.parametrize(
    ("parts", "facts"),
    [
        ({"observations": {}}, ["'fighter_0'", "observation"]),
        ({"observations": None}, ["observations", "None"]),
        ({"observations": dict.fromkeys(AGENTS, 3)}, ["'fighter_0'", "Observation", "int"]),
        (
            {"observations": {agent: ez.Observation({"Me": [[1, 2]]}) for agent in AGENTS}},
            ["'Me'", "fighter_0"],
        ),
        ({"observations": {"fihgter_0": ez.Observation()}}, ["'fihgter_0'", "'fighter_0'"]),
        ({"rewards": 1.0}, ["rewards", "1.0"]),
        ({"rewards": {}}, ["'fighter_0'", "reward"]),
        ({"rewards": dict.fromkeys(AGENTS, "much")}, ["'fighter_0'", "reward", "'much'"]),
        ({"rewards": dict.fromkeys(AGENTS, float("nan"))}, ["'fighter_0'", "reward", "nan"]),
        ({"rewards": dict.fromkeys(AGENTS, 1e300)}, ["'fighter_0'", "float32"]),
        ({"terminated": 0.5}, ["terminated", "0.5"]),
        ({"terminated": {"fighter_0": "no"}}, ["terminated", "'fighter_0'", "'no'"]),
        ({"truncated": {"other": True}}, ["truncated", "'other'"]),
        ({"infos": None}, ["infos", "None"]),
        ({"infos": {"fighter_1": 3}}, ["'fighter_1'", "info", "3"]),
        ({"more": 1}, ["(observations, rewards, terminated, truncated, infos)"]),
    ],
)
def test_what_an_author_returns_wrongly_is_told(parts: dict[str, Any], facts: list[str]) -> None:
    game = changed(**parts)
    game.reset(seed=2)
    game.x = {agent: 10 * number for number, agent in enumerate(AGENTS)}  # nobody can be hit
    actions = {agent: {"move": np.array([0])} for agent in AGENTS}
    with raises(ez.ObservationError, "Changed", *facts):
        game.step(actions)
    with raises(gymnasium.error.ResetNeeded, "Changed"):
        game.step(actions)
    game.reset(seed=2)
    assert game.agents == AGENTS


def test_an_agent_that_joins_or_comes_back_is_told_that_it_can_not() -> None:
    class Late(Duel):
        def _reset(self, options: Any) -> Any:
            super()._reset(options)
            return {agent: seen for agent, seen in self.look().items() if agent != "fighter_2"}

    game = Late()
    game.reset(seed=2)
    with raises(ez.ObservationError, "Late._step", "'fighter_2'", "join", "without actors"):
        game.step({agent: {"move": np.array([0])} for agent in AGENTS[:2]})


@pytest.mark.parametrize(
    ("found", "facts"),
    [
        ({}, ["observations", "none"]),
        (None, ["observations", "None"]),
        ({"nobody": ez.Observation()}, ["'nobody'"]),
        (({agent: ez.Observation() for agent in AGENTS}, 3), ["infos", "3"]),
    ],
)
def test_what_a_reset_returns_wrongly_is_told(found: Any, facts: list[str]) -> None:
    class Wrong(Duel):
        def _reset(self, options: Any) -> Any:
            return found

    with raises(ez.ObservationError, "Wrong._reset", *facts):
        Wrong().reset()


def test_spaces_that_are_missing_or_wrong_are_told() -> None:
    class Bare(Duel):
        def __init__(self) -> None:
            pass

    with raises(AttributeError, "Bare", "possible_agents", "__init__"):
        Bare().reset()
    with raises(AttributeError, "Bare", "possible_agents", "__init__"):
        ez.make_vec(Bare, 2)
    game = Duel()
    game.spaces = SPACE  # type: ignore[assignment]
    with raises(TypeError, "Duel", "'fighter_0'", "declare"):
        game.reset()
    game.spaces = {"guard": (SPACE, ACTIONS)}
    with raises(TypeError, "Duel", "'fighter_0'"):
        game.reset()
    other = ez.EntityActionSpace({"stay": ez.Categorical(["yes"])})
    game.spaces = (SPACE, other)
    with raises(TypeError, "Duel", "'fighter_0'"):
        game.reset()


def test_some_agents_may_take_no_part() -> None:
    class Pair(Duel):
        def _reset(self, options: Any) -> Any:
            seen, infos = super()._reset(options)
            del self.x["fighter_1"], infos["fighter_1"]
            return {agent: seen[agent] for agent in self.x}, infos

    game = Pair()
    seen, _ = game.reset(seed=0)
    assert game.agents == list(seen) == ["fighter_0", "fighter_2"]
    with raises(ez.ActionError, "'fighter_1'"):
        game.step({agent: {"move": np.array([0])} for agent in AGENTS})


def test_agents_of_a_game_that_share_a_space_are_shown_together() -> None:
    ((agents, overview),) = check_multi_agent_env(Duel, 40)
    assert len(agents) == 3 and "\nMe: 1 at a time; x " in f"\n{overview}"
    by_kind = {tuple(agents): str(shown) for agents, shown in check_multi_agent_env(Kinds, 40)}
    assert set(by_kind) == {("guard",), ("thief_0", "thief_1")}
    assert "rewards: -1\n" in by_kind["thief_0", "thief_1"]
    env = ez.to_pettingzoo(Kinds())
    rng = np.random.default_rng(0)
    ends: defaultdict[str, int] = defaultdict(int)
    seen, _ = env.reset(seed=0)
    for _ in range(40):
        actions = {}
        for agent in env.agents:
            batch = ez.envs.batch_observations(env.observation_space(agent), [seen[agent]])
            drawn = ez.actions.sample_actions(env.action_space(agent), batch, rng)
            actions[agent] = {name: chosen[0] for name, chosen in drawn.items()}
        seen, _, terminated, truncated, _ = env.step(actions)
        for agent in terminated:
            ends[agent] += terminated[agent] or truncated[agent]
        if not env.agents:
            seen, _ = env.reset()
    assert f"episodes: {ends['guard']} ended" in by_kind["guard",]
    assert f"episodes: {ends['thief_0'] + ends['thief_1']} ended" in by_kind["thief_0", "thief_1"]
