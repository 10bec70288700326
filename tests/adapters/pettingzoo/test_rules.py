"""Games that break PettingZoo's rules, games that raise, and agents that come later."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import entitize as ez
import gymnasium
import numpy as np
import pettingzoo
import pytest
from entitize.envs import sample_actions
from gymnasium import spaces
from mpe2 import simple_tag_v3
from pettingzoo import ParallelEnv
from pettingzoo.utils import parallel_to_aec

from facts import raises, warns

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # PettingZoo's tests import a game in the old way
    from pettingzoo.test.example_envs import generated_agents_env_v0, generated_agents_parallel_v0

AUTO = ez.views.auto


class Colony(ParallelEnv[str, Any, Any]):
    """Ants that are told how long they live: ant i joins at step `born[i]` and ends after step `dies[i]`.

    A negative step of death means that it is truncated then. `damage` may change what a step returns, or
    raise.
    """

    metadata = {"name": "colony_v0", "render_modes": []}  # noqa: RUF012 - PettingZoo's form
    render_mode = None

    def __init__(
        self,
        born: tuple[int, ...] = (0, 0, 2),
        dies: tuple[int, ...] = (1, -4, 3),
        damage: Callable[[Colony, list[Any]], None] = lambda colony, result: None,
        places: int = 2,
    ) -> None:
        self.possible_agents = [f"ant_{i}" for i in range(len(born))]
        self.born, self.dies, self.damage, self.places = born, dies, damage, places
        self.agents: list[str] = []
        self.closed = 0

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        return spaces.Box(-9, 9, (self.places,), np.float32)

    def action_space(self, agent: str) -> spaces.Space[Any]:
        return spaces.Discrete(2)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.time = 0
        self.agents = [ant for ant, born in zip(self.possible_agents, self.born, strict=True) if born == 0]
        return self._seen(self.agents), {ant: {"age": 0} for ant in self.agents}

    def _seen(self, ants: list[str]) -> dict[str, Any]:
        return {ant: np.array([self.time, int(ant[-1])], np.float32) for ant in ants}

    def step(self, actions: dict[str, Any]) -> Any:
        assert set(actions) == set(self.agents)
        before = self.agents
        self.time += 1
        ends = {ant: self.dies[int(ant[-1])] for ant in before}
        born = [a for a, time in zip(self.possible_agents, self.born, strict=True) if time == self.time]
        self.agents = [ant for ant in before if abs(ends[ant]) != self.time] + born
        result = [
            self._seen([*before, *born]),
            {ant: float(actions[ant]) for ant in before},
            {ant: ends[ant] == self.time for ant in before},
            {ant: -ends[ant] == self.time for ant in before},
            {ant: {"age": self.time} for ant in before},
        ]
        self.damage(self, result)
        return tuple(result)

    def close(self) -> None:
        self.closed += 1


def stepped(env: Any, steps: int = 3) -> Any:
    """The last of some random steps."""
    result = batch, _ = env.reset(seed=1)
    for _ in range(steps):
        result = env.step(sample_actions(env.single_action_space, batch, np.random.default_rng(0)))
        batch = result[0]
    return result


ANTS = ["ant_0", "ant_1", "ant_2"]


class AntView(ez.pettingzoo.GameView):
    """All living ants by their number; each acts through its own entity."""

    entities = {"Ant": ("number", "time")}  # noqa: RUF012 - never changed

    def observe(self, agent: str) -> ez.pettingzoo.GameObservation:
        ants = list(self.game.agents)
        rows = np.array([[int(ant[-1]), self.game.time] for ant in ants], np.float32).reshape(-1, 2)
        return ez.pettingzoo.GameObservation({"Ant": rows}, {"Ant": ants})

    def observe_team(self, agents: tuple[str, ...]) -> ez.pettingzoo.GameObservation:
        return self.observe(agents[0])


def test_agents_that_join_later_act_through_their_own_entity_of_a_view() -> None:
    told: list[dict[str, Any]] = []

    class Told(Colony):
        def step(self, actions: dict[str, Any]) -> Any:
            told.append(dict(actions))
            return super().step(actions)

    game = Told(born=(0, 0, 2), dies=(-1, -4, -4))
    venv = ez.from_pettingzoo(game, view=AntView)
    assert [agent for _, agent in venv.agents] == ANTS
    rng = np.random.default_rng(3)
    batch, info = venv.reset()
    late = 0
    for _ in range(12):
        idle = info["inactive"].tolist()
        assert idle == [agent not in game.agents for agent in ANTS]
        for lane, ant in enumerate(ANTS):
            actors = batch.actions["action"].actors[lane].tolist()
            assert actors == ([] if idle[lane] else [game.agents.index(ant)])
            if actors:
                assert batch.entities["Ant"][lane][actors[0], 0] == lane
        late += not idle[2]
        orders = sample_actions(venv.single_action_space, batch, rng)
        batch, _, _, _, info = venv.step(orders)
        chosen = {ant: orders["action"][lane].tolist() for lane, ant in enumerate(ANTS)}
        assert {ant: [int(move)] for ant, move in told[-1].items()} == {
            ant: move for ant, move in chosen.items() if move
        }
    assert late >= 4
    venv.close()


def test_agents_that_join_later_are_idle_until_then() -> None:
    venv = ez.from_pettingzoo(Colony())
    rng = np.random.default_rng(0)
    batch, info = venv.reset()
    told = [(info["inactive"].tolist(), [], [])]
    for _ in range(5):
        batch, _, terminated, truncated, info = venv.step(
            sample_actions(venv.single_action_space, batch, rng)
        )
        told.append(
            (info["inactive"].tolist(), *(np.flatnonzero(f).tolist() for f in (terminated, truncated)))
        )
    assert told == [
        ([False, False, True], [], []),
        ([True, False, True], [0], []),
        ([True, False, False], [], []),
        ([True, False, True], [2], []),
        ([False, False, True], [], [1]),  # the last of them: the game has started over
        ([True, False, True], [0], []),
    ]
    assert info["age"].tolist() == [0, 1, 0] and info["_age"].tolist() == [False, True, False]
    assert info["final_info"]["age"][0] == 1
    ez.check_entity_env(venv, num_steps=20)


def test_an_evaluation_does_not_wait_for_an_agent_that_never_joins() -> None:
    venv = ez.from_pettingzoo(Colony(born=(0, 7), dies=(2, 9)), num_envs=None)
    policy = ez.evaluation.RandomActor(venv.single_action_space)
    with warns(UserWarning, "evaluate", "lane 1", "lane 0", "active"):
        assert ez.evaluate(policy, venv, episodes=2).lanes.tolist() == [0]
    venv = ez.from_pettingzoo(Colony(born=(0, 2), dies=(3, 5)), num_envs=None)
    assert ez.evaluate(policy, venv, episodes=4).lengths.tolist() == [3, 3, 3, 3]


def test_agents_that_join_later_join_the_team() -> None:
    env = ez.from_pettingzoo(Colony(), "team")
    seen, _ = env.reset(seed=1)
    env.action_space.seed(1)
    counts = [len(seen["entities"]["ant"])]
    for _ in range(4):
        seen, _, terminated, truncated, _ = env.step(env.action_space.sample(mask=seen))
        counts.append(len(seen["entities"]["ant"]))
    assert counts == [2, 1, 2, 1, 1] and truncated and not terminated
    ez.check_entity_env(env, num_steps=20)


def test_agents_without_a_fixed_list_of_names_are_refused_in_a_sentence() -> None:
    for game in (generated_agents_parallel_v0.parallel_env(), generated_agents_env_v0.env()):
        for mode in ("lanes", "team"):
            with raises(ez.ObservationError, "game 0", "generated_agents_", "possible_agents"):
                ez.from_pettingzoo(game, mode)  # type: ignore[call-overload]


# -- broken rules -------------------------------------------------------------------------------------------


def at(time: int, change: Callable[[Colony, list[Any]], Any]) -> Callable[[Colony, list[Any]], None]:
    def damage(colony: Colony, result: list[Any]) -> None:
        if colony.time == time:
            change(colony, result)

    return damage


def renamed(colony: Colony, result: list[Any]) -> None:
    colony.agents = ["ant_1", "ant_11"]


BROKEN: list[tuple[Callable[[Colony, list[Any]], None], list[object]]] = [
    (at(2, lambda c, r: c.agents.append("ant_0")), ["agent 'ant_0'", "ended", "agents"]),
    (at(2, lambda c, r: c.agents.append("ant_1")), ["agent 'ant_1'", "twice", "agents"]),
    (at(2, renamed), ["unknown", "agent 'ant_11'", "'ant_1'"]),
    (
        at(2, lambda c, r: r[0].update(ant_0=np.zeros(2))),
        ["observation", "agent 'ant_0'"],
    ),
    (at(2, lambda c, r: r[0].pop("ant_1")), ["no observation", "agent 'ant_1'"]),
    (at(2, lambda c, r: r[1].pop("ant_1")), ["no reward", "agent 'ant_1'"]),
    (at(2, lambda c, r: r[1].update(ant_1=np.nan)), ["reward", "agent 'ant_1'", "nan"]),
    (at(2, lambda c, r: r[1].update(ant_1=1e39)), ["reward", "agent 'ant_1'", "float32", 1e39]),
    (at(2, lambda c, r: r[1].update(ant_0=3e38, ant_1=-1e39)), ["reward", "agent 'ant_1'", -1e39]),
    (
        at(2, lambda c, r: r[1].update(ant_1="much")),
        ["reward", "agent 'ant_1'", "'much'"],
    ),
    (
        at(2, lambda c, r: c.agents.remove("ant_1")),
        ["agent 'ant_1'", "terminated", "truncated"],
    ),
    (at(2, lambda c, r: r[2].update(ant_1=True)), ["agent 'ant_1'", "ended", "agents"]),
    (
        at(4, lambda c, r: r[0].pop("ant_1")),
        ["agent 'ant_1'", "truncated", "last"],
    ),
    (at(2, lambda c, r: r.pop()), ["step", "dicts", "tuple"]),
    *(
        (at(2, lambda c, r, i=i, v=value: r.__setitem__(i, v)), ["step", name, "dict", repr(value)])
        for i, name in enumerate(("observations", "rewards", "terminations", "truncations", "infos"))
        for value in (None, False)
    ),
    (at(4, lambda c, r: r[4].update(ant_1=None)), ["info", "agent 'ant_1'", "dict", "None"]),
    (
        at(2, lambda c, r: r[0].update(ant_1=np.zeros(3, np.float32))),
        ["'ant_1'", "observation_space", "(2,)", "(3,)"],
    ),
    (at(2, lambda c, r: r[0].update(ant_1=np.float32([0, np.nan]))), ["'ant_1'", "nan", "[1]"]),
    (
        at(2, lambda c, r: r[0].update(ant_1="a text")),
        ["'ant_1'", "observation_space", "(2,)", "()"],
    ),
    (
        at(2, lambda c, r: r[4]["ant_1"].update(action_mask=[1, 1, 1])),
        ["'ant_1'", "action_mask"],
    ),
]


@pytest.mark.parametrize(("damage", "facts"), BROKEN)
@pytest.mark.parametrize("mode", ["lanes", "team"])
def test_a_game_that_breaks_the_rules_is_told_and_can_be_reset(
    mode: Any, damage: Any, facts: list[object]
) -> None:
    games = [Colony(), Colony(damage=damage)]
    env = ez.from_pettingzoo([lambda: games[0], lambda: games[1]], mode)
    errors = (
        ez.ObservationError,
        ez.WorkerError,
    )  # a team is an environment of its own in a ListVectorEnv
    with raises(errors, "game 1", "colony_v0", *facts):
        stepped(env, 5)
    if mode == "lanes":
        with raises(gymnasium.error.ResetNeeded, "colony_v0", "reset()"):
            env.step({})
        games[1].damage = lambda colony, result: None
        stepped(env, 5)
    env.close()
    assert [game.closed for game in games] == [1, 1]


def test_a_game_in_turns_that_selects_an_unknown_agent_or_keeps_a_dead_one_is_told() -> None:
    class Broken(type(pettingzoo.make("aec", "classic/tictactoe-v3").unwrapped)):  # type: ignore[misc]
        fault = ""

        def step(self, action: Any) -> None:
            if action is None and self.fault == "stays":
                return
            super().step(action)
            if self.fault == "stranger":
                self.agent_selection = "player_9"
            if self.fault == "vanishes":
                self.agents = ["player_1"]

    for fault, facts in (
        ("stays", ["agent 'player_", "None"]),
        ("stranger", ["agent_selection", "'player_9'", "['player_1', 'player_2']"]),
        ("vanishes", ["agent 'player_2'", "terminated", "truncated"]),
    ):
        game = Broken()
        game.fault = fault
        venv = ez.from_pettingzoo(game, view=AUTO)
        with raises(ez.ObservationError, "game 0", "tictactoe_v3", *facts):
            stepped(venv, 12)


# -- games that raise ---------------------------------------------------------------------------------------


def explode(colony: Colony, result: list[Any]) -> None:
    raise ZeroDivisionError("no ants left to divide by")


@pytest.mark.parametrize(
    "make", [Colony, lambda **o: parallel_to_aec(Colony(**o))], ids=["parallel", "turns"]
)
def test_a_game_that_raises_is_named_and_all_games_are_closed(make: Any) -> None:
    games = [make(), make(damage=at(1, explode)), make()]
    venv = ez.from_pettingzoo([partial(lambda game: game, game) for game in games])
    batch, _ = venv.reset(seed=1)
    venv.action_space.seed(1)
    where = "step" if make is Colony else "step for agent 'ant_1'"
    with raises(
        ez.WorkerError, "game 1", "colony_v0", "ZeroDivisionError", where, "no ants left to divide by"
    ) as caught:
        for _ in range(2):
            batch, *_ = venv.step(venv.action_space.sample(mask=batch))
    assert caught.value.env_indices == (3, 4, 5)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert [game.unwrapped.closed for game in games] == [1, 1, 1]
    with pytest.raises(gymnasium.error.ClosedEnvironmentError):
        venv.reset()
    venv.close()


def test_a_team_whose_game_raises_is_closed() -> None:
    game = Colony(damage=at(1, explode))
    env = ez.from_pettingzoo(game, "team")
    seen, _ = env.reset(seed=1)
    env.action_space.seed(1)
    with raises(ez.WorkerError, "game 0", "colony_v0", "ZeroDivisionError", "step"):
        env.step(env.action_space.sample(mask=seen))
    assert game.closed == 1
    with pytest.raises(gymnasium.error.ClosedEnvironmentError):
        env.reset()


# -- what is asked for --------------------------------------------------------------------------------------


def test_wrong_orders_name_the_lane_and_its_agent_and_nothing_moves() -> None:
    venv = ez.from_pettingzoo(Colony, num_envs=2)
    batch, _ = venv.reset(seed=1)
    venv.action_space.seed(1)
    orders = venv.action_space.sample(mask=batch)
    orders["action"] = orders["action"].with_values(np.array([0, 1, 0, 7]))
    with raises(ez.ActionError, "colony_v0", "lane 4", "'ant_1' of game 1", 7):
        venv.step(orders)
    with raises(ez.ActionError, "colony_v0", "unknown", "'jump'", "'action'"):
        venv.step({"jump": orders["action"]})
    with raises(ez.ActionError, "colony_v0", "lane 0", "'ant_0'", "'action'", 1):
        venv.step({})
    legal = venv.action_space.sample(mask=batch)
    assert venv.step(legal)[0].entities["Vector"].values[:, 0].tolist() == [1, 1]


def fewer_places(count: int) -> Any:
    return partial(Colony, places=count)


@pytest.mark.parametrize(
    ("env", "options", "error", "facts"),
    [
        (Colony, {"mode": "lane"}, ValueError, ["mode", "'lane'", "'lanes'"]),
        (Colony, {"team": "ant"}, ValueError, ["team", "mode='team'"]),
        (Colony, {"num_envs": 0}, ValueError, ["num_envs", 0]),
        (Colony(), {"num_envs": 2}, ValueError, ["game", 2]),
        ([], {}, ValueError, ["game"]),
        ([Colony, Colony], {"num_envs": 3}, ValueError, ["num_envs", 3, 2]),
        ("chess", {}, TypeError, ["game 0", "'chess'", "ParallelEnv", "AECEnv"]),
        (gymnasium.Env, {}, TypeError, ["game 0", "Env", "ParallelEnv", "AECEnv"]),
        ([lambda: SHARED] * 2, {}, ValueError, ["game 1", "same"]),
        (
            [Colony, partial(Colony, (0,), (9,))],
            {},
            ValueError,
            ["game 1", "['ant_0']"],
        ),
        (
            [Colony, fewer_places(3)],
            {},
            ValueError,
            ["'ant_0'", "observation space", "3", "game 0"],
        ),
        ([Colony, partial(simple_tag_v3.parallel_env)], {}, ValueError, ["'adversary_0'"]),
        (
            Colony,
            {"view": "auto"},
            ez.views.ViewError,
            ["'ant_0'", "'auto'", "ez.views"],
        ),
        (Colony, {"reward": "mean"}, ValueError, ["reward", "'lanes'", "'mean'"]),
        (Colony, {"num_envs": 1.5}, TypeError, ["num_envs", 1.5]),
        (Colony, {"view": {"bee": AUTO}}, ez.views.ViewError, ["'ant_0'", "'bee'"]),
        (
            Colony,
            {"view": ez.views.Channels()},
            ez.views.ViewError,
            ["colony_v0", "Channels"],
        ),
    ],
)
def test_what_cannot_be_made_is_told_at_once(
    env: Any, options: dict[str, Any], error: type[Exception], facts: list[object]
) -> None:
    with raises(error, *facts):
        ez.from_pettingzoo(env, **options)


SHARED = Colony()


def test_agents_that_share_a_name_are_refused() -> None:
    game = Colony()
    game.possible_agents = ["ant_0", "ant_1", "ant_0"]
    with raises(ez.ObservationError, "agent 'ant_0'", "twice", "possible_agents"):
        ez.from_pettingzoo(game)


def test_agents_that_nobody_names_are_told() -> None:
    game = Colony()
    game.possible_agents = None  # type: ignore[assignment]
    with raises(ez.ObservationError, "possible_agents", "names of all agents"):
        ez.from_pettingzoo(game)


def test_games_that_were_made_are_closed_where_making_fails_and_given_ones_are_not() -> None:
    made: list[Colony] = []

    def make() -> Colony:
        made.append(Colony(places=len(made) + 1))
        return made[-1]

    with raises(ValueError, "game 1"):
        ez.from_pettingzoo(make, num_envs=2)
    with pytest.raises(ez.views.ViewError):
        ez.from_pettingzoo(make, view=ez.views.Channels())
    assert [game.closed for game in made] == [1, 1, 1]
    given = Colony()
    with pytest.raises(ez.views.ViewError):
        ez.from_pettingzoo(given, view=ez.views.Channels())
    assert given.closed == 0


def test_the_name_is_there_without_pettingzoo_and_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['pettingzoo'] = None\n"
        "import entitize as ez\n"
        "try:\n    ez.from_pettingzoo(print)\n"
        "except ImportError as error:\n    print(error)\n"
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "PettingZoo is not installed: pip install 'entitize[pettingzoo]'\n"


def test_the_mean_reward_is_over_the_agents_in_play() -> None:
    env = ez.from_pettingzoo(lambda: Colony(born=(0, 0, 0), dies=(1, 5, 5)), "team", reward="mean", view=AUTO)
    env.reset(seed=0)
    assert env.step({"action": np.array([0, 1, 1])})[1] == pytest.approx(2 / 3)
    assert env.step({"action": np.array([1, 0])})[1] == pytest.approx(1 / 2)


def test_a_team_passes_options_on() -> None:
    given: list[Any] = []

    class Told(Colony):
        def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
            given.append((seed, options))
            return super().reset(seed, options)

    env = ez.from_pettingzoo(Told, "team", view=AUTO)
    env.reset(seed=3, options={"map": 2})
    assert given[-1] == (3, {"map": 2})


def test_masks_of_choices_that_do_not_start_at_0() -> None:
    class Numbered(Colony):
        """Choices 5, 6 and 7, of which 6 is forbidden."""

        def action_space(self, agent: str) -> spaces.Space[Any]:
            return spaces.Discrete(3, start=5)

        def reset(self, seed: int | None = None, options: Any = None) -> Any:
            seen, infos = super().reset(seed, options)
            return seen, {ant: {"action_mask": np.array([1, 0, 1], np.int8)} for ant in infos}

    def venv(choice: int) -> Any:
        return ez.from_pettingzoo(
            lambda: Numbered(born=(0, 0), dies=(9, 9)), opponents={"ant_1": lambda o, m, a: choice}, view=AUTO
        )

    for choice in (5, 7):
        games = venv(choice)
        batch, _ = games.reset(seed=0)
        games.step({"action": batch.actions["action"].actors.with_values(np.array([0]))})
    games = venv(6)
    batch, _ = games.reset(seed=0)
    with raises(ez.envs.WorkerError, "'ant_1'", 6, [5, 7]):
        games.step({"action": batch.actions["action"].actors.with_values(np.array([0]))})
