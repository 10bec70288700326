"""Games seen through a `GameView`, and games that show entities themselves."""

from __future__ import annotations

from functools import partial
from typing import Any

import entitize as ez
import numpy as np
import pettingzoo
import pytest
from entitize.envs import sample_actions
from mpe2 import simple_tag_v3
from pettingzoo import ParallelEnv

from facts import raises, warns

TAG = partial(simple_tag_v3.parallel_env, max_cycles=8)
MOVES = ("stay", "left", "right", "down", "up")


class TagView(ez.pettingzoo.GameView):
    """Agents with positions relative to the one who looks, in absolute ones for a team; obstacles."""

    entities = {"Obstacle": ("x", "y"), "Agent": ("x", "y", "fast")}  # noqa: RUF012 - never changed
    global_features = ("looking",)

    def observe(self, agent: str) -> ez.pettingzoo.GameObservation:
        world = self.game.world
        (me,) = [a for a in world.agents if a.name == agent]
        return self._seen(me.state.p_pos, [a for a in world.agents if a.name != "agent_0" or a is me], 1)

    def observe_team(self, agents: tuple[str, ...]) -> ez.pettingzoo.GameObservation:
        return self._seen(np.zeros(2), self.game.world.agents, len(agents))

    def _seen(self, origin: np.ndarray, agents: list[Any], looking: int) -> ez.pettingzoo.GameObservation:
        rows = [[*(a.state.p_pos - origin), not a.adversary] for a in agents]
        return ez.pettingzoo.GameObservation(
            {
                "Agent": np.float32(rows),
                "Obstacle": np.float32([mark.state.p_pos - origin for mark in self.game.world.landmarks]),
            },
            {"Agent": [a.name for a in agents]},
            np.float32([looking]),
        )

    def choices(self, agent: str) -> tuple[str, ...]:
        return MOVES


class BoardView(ez.pettingzoo.GameView):
    """Marks; players have no entity of their own."""

    entities = {"Mark": ("square", "player")}  # noqa: RUF012 - never changed

    def observe(self, agent: str) -> ez.pettingzoo.GameObservation:
        squares = self.game.board.squares
        return ez.pettingzoo.GameObservation(
            {"Mark": np.float32([[i, mark] for i, mark in enumerate(squares) if mark]).reshape(-1, 2)}
        )

    def observe_team(self, agents: tuple[str, ...]) -> ez.pettingzoo.GameObservation:
        return self.observe(agents[0])


TICTACTOE = partial(pettingzoo.make, "aec", "classic/tictactoe-v3")


def test_lanes_see_what_the_view_reads_and_act_through_their_own_entities() -> None:
    venv = ez.from_pettingzoo(TAG, view=TagView, num_envs=2)
    assert dict(venv.single_observation_space.entities) == dict(TagView.entities)
    assert venv.single_observation_space.global_features == ("looking",)
    assert venv.single_action_space == ez.EntityActionSpace({"action": ez.Categorical(MOVES)})
    games = [TAG(), TAG()]
    rng = np.random.default_rng(0)
    batch, _ = venv.reset(seed=4)
    for i, game in enumerate(games):
        game.reset(seed=4 + i)
    for _ in range(20):
        for lane, (i, agent) in enumerate(venv.agents):
            expected = TagView(games[i].unwrapped).observe(agent)
            for name, rows in expected.entities.items():
                np.testing.assert_array_equal(batch.entities[name][lane], rows)
            own = 2 + expected.ids["Agent"].index(agent)  # behind two obstacles
            assert batch.actions["action"].actors[lane].tolist() == [own]
        orders = sample_actions(venv.single_action_space, batch, rng)
        batch, rewards, *_, info = venv.step(orders)
        for i, game in enumerate(games):
            lanes = range(4 * i, 4 * i + 4)
            _, paid, *_ = game.step({venv.agents[k][1]: int(orders["action"][k][0]) for k in lanes})
            assert [float(rewards[k]) for k in lanes] == pytest.approx(list(paid.values()))
            if not game.agents:
                final = info["final_obs"][4 * i : 4 * i + 4]
                last = [TagView(game.unwrapped).observe(venv.agents[k][1]).entities["Agent"] for k in lanes]
                np.testing.assert_array_equal(final.entities["Agent"].values, np.concatenate(last))
                game.reset()
    venv.close()


@pytest.mark.filterwarnings("ignore:.*sum to 0:UserWarning")
@pytest.mark.parametrize("mode", ["lanes", "team"])
def test_views_of_games_keep_the_rules(mode: Any) -> None:
    for make, view in ((TAG, TagView), (TICTACTOE, BoardView)):
        env = ez.from_pettingzoo(make, mode, view)
        ez.check_entity_env(env, num_steps=25)
        env.close()


def test_players_without_an_entity_act_by_none_and_terminated_ones_leave_no_last_observation() -> None:
    venv = ez.from_pettingzoo(TICTACTOE, view=BoardView)
    assert isinstance(venv.single_action_space["action"], ez.GlobalCategorical)
    rng = np.random.default_rng(0)
    batch, info = venv.reset(seed=0)
    ended = False
    while not ended:
        assert batch.actions["action"].actors.values.tolist() == [-1]
        batch, _, terminated, _, info = venv.step(sample_actions(venv.single_action_space, batch, rng))
        ended = terminated.all()
        assert ended or len(batch.entities["Mark"][0]) == len(batch.entities["Mark"][1]) > 0
    assert "final_obs" not in info and "_final_obs" not in info
    venv.close()


def test_a_team_sees_the_field_and_its_agents_act_through_their_entities() -> None:
    env = ez.from_pettingzoo(TAG, "team", TagView, team="adversary", opponents={"agent": lambda o, m, a: 2})
    game = TAG()
    seen, _ = env.reset(seed=4)
    game.reset(seed=4)
    for step in range(8):
        expected = TagView(game.unwrapped).observe_team(("adversary_0", "adversary_1", "adversary_2"))
        np.testing.assert_array_equal(seen["entities"]["Agent"], expected.entities["Agent"])
        np.testing.assert_array_equal(seen["globals"], [3])
        assert seen["actions"]["action"]["actors"].tolist() == [2, 3, 4]
        order = (np.arange(3) + step) % 5
        seen, reward, _, truncated, _ = env.step({"action": order})
        told = {f"adversary_{i}": int(order[i]) for i in range(3)}
        _, paid, *_ = game.step({**told, "agent_0": 2})
        assert reward == pytest.approx(3 * paid["adversary_0"])
    assert truncated and len(seen["entities"]["Agent"]) == 4
    assert not len(seen["actions"]["action"]["actors"])


def test_a_board_game_is_played_by_a_team_in_turns_by_a_global_action() -> None:
    env = ez.from_pettingzoo(TICTACTOE, "team", BoardView)
    env.reset(seed=0)
    for square in (0, 3, 1, 4):
        seen, *_ = env.step({"action": square})
    np.testing.assert_array_equal(seen["entities"]["Mark"], [[0, 1], [1, 1], [3, 2], [4, 2]])
    np.testing.assert_array_equal(seen["actions"]["action"]["mask"], [[0, 0, 1, 0, 0, 1, 1, 1, 1]])


class StrangerView(TagView):
    """Doesn't find the agents after the first step."""

    def _seen(self, origin: np.ndarray, agents: list[Any], looking: int) -> ez.pettingzoo.GameObservation:
        seen = super()._seen(origin, agents, looking)
        if self.game.steps:
            self.spoil(seen)
        return seen

    spoil: Any = staticmethod(lambda seen: seen.ids.clear())


@pytest.mark.parametrize(
    ("spoil", "facts"),
    [
        (lambda seen: seen.ids.clear(), ["StrangerView"]),
        (lambda seen: seen.ids.update(Agent=["one"]), ["entity type 'Agent'", "1 ids"]),
        (lambda seen: seen.entities.update(Wolf=np.zeros((1, 1))), ["entity type 'Wolf'"]),
        (
            lambda seen: seen.entities.update(Agent=seen.entities["Agent"][:, :2]),
            ["entity type 'Agent'", "(3, 2)", "(n, 3)"],
        ),
        (
            lambda seen: seen.entities["Obstacle"].fill(np.nan),
            ["feature 'x'", "entity type 'Obstacle'", "nan"],
        ),
        (lambda seen: seen.globals.fill(np.inf), ["globals", "[inf]", 1]),
    ],
)
def test_a_view_that_shows_what_it_did_not_declare_is_told(spoil: Any, facts: list[object]) -> None:
    view = type("StrangerView", (StrangerView,), {"spoil": staticmethod(spoil)})
    venv = ez.from_pettingzoo(TAG, view=view, num_envs=2)
    batch, _ = venv.reset(seed=1)
    with raises(ez.ObservationError, "game 0", "simple_tag_v3", "'adversary_0'", *facts):
        venv.step(venv.action_space.sample(mask=batch))
    venv.close()


def test_a_view_without_entities_for_agents_that_move_at_once_is_refused_for_a_team() -> None:
    class Blank(BoardView):
        def observe(self, agent: str) -> ez.pettingzoo.GameObservation:
            return ez.pettingzoo.GameObservation()

    with raises(ez.views.ViewError, "simple_tag_v3", "Blank", "entity"):
        ez.from_pettingzoo(TAG, "team", Blank)
    assert ez.from_pettingzoo(TAG, view=Blank).num_envs == 4


def test_a_view_that_does_not_read_the_game_says_so_when_it_is_wrapped() -> None:
    class Picky(TagView):
        def __init__(self, game: Any) -> None:
            raise ez.views.ViewError(f"Picky reads no {type(game).__name__}")

    with raises(ez.views.ViewError, "Picky", "raw_env"):
        ez.from_pettingzoo(TAG, view=Picky)


# -- games that show entities themselves --------------------------------------------------------------------

WORKER = ez.EntityActionSpace({"Dig": ez.Categorical(["no", "yes"]), "Point": ez.SelectEntity()})
QUEEN = ez.EntityActionSpace({"Point": ez.SelectEntity(), "Speed": ez.GlobalContinuous(0, 1)})
SPACES = {
    "queen": ez.EntitySpace({"Food": ["x"]}, QUEEN, ["hour"]),
    "worker": ez.EntitySpace({"Ant": ["x", "y"], "Food": ["x"]}, WORKER, hidden=True),
}


class Nest(ParallelEnv[str, Any, Any]):
    """A queen and a worker with spaces of their own; tells nothing but what it was told."""

    metadata = {"name": "nest_v0", "render_modes": []}  # noqa: RUF012 - PettingZoo's form
    render_mode = None

    def __init__(self) -> None:
        self.possible_agents = ["queen_0", "worker_0"]
        self.told: list[dict[str, Any]] = []

    def observation_space(self, agent: str) -> ez.EntitySpace:
        return SPACES[agent[:-2]]

    def action_space(self, agent: str) -> ez.EntityActionSpace:
        return SPACES[agent[:-2]].actions

    def _seen(self) -> dict[str, Any]:
        return {agent: self._draw(agent) for agent in self.agents}

    def _draw(self, agent: str) -> dict[str, Any]:
        space = self.observation_space(agent)
        space.seed(int(self.rng.integers(1000)))
        return space.sample()

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        if seed is not None or not hasattr(self, "rng"):
            self.rng = np.random.default_rng(seed)
        self.agents, self.time = list(self.possible_agents), 0
        self.shown = self._seen()
        return self.shown, {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, Any]) -> Any:
        for agent, action in actions.items():
            assert action.keys() == self.action_space(agent).spaces.keys()
            assert self.action_space(agent).contains(action)
        self.told.append(actions)
        self.time += 1
        self.shown, before = self._seen(), self.agents
        ends = {agent: self.time == 4 or (agent == "queen_0" and self.time == 3) for agent in before}
        self.agents = [agent for agent in before if not ends[agent]]
        rewards = {agent: float(self.rng.integers(9)) for agent in before}
        return self.shown, rewards, ends, dict.fromkeys(before, False), {agent: {} for agent in before}


def test_agents_that_see_entities_are_lanes_of_all_their_types_and_actions() -> None:
    game = Nest()
    venv = ez.from_pettingzoo(game)
    space = venv.single_observation_space
    assert list(space.entities) == ["Ant", "Food"] and space.global_features == ("hour",) and space.hidden
    assert list(space.actions) == ["Point", "Speed", "Dig"]
    rng = np.random.default_rng(1)
    batch, info = venv.reset(seed=3)
    for step in range(1, 30):
        for lane, (_, agent) in enumerate(venv.agents):
            seen = game.shown.get(agent) if agent in game.agents else None
            for name, rows in batch.entities.items():
                expected = [] if seen is None else seen["entities"].get(name, [])
                np.testing.assert_array_equal(rows[lane].ravel(), np.ravel(expected))
            hour = 0 if seen is None else seen.get("globals", [0])[0]
            assert batch.globals[lane, 0] == np.float32(hour)
            for name, part in batch.actions.items():
                its = {} if seen is None else seen["actions"].get(name, {})
                np.testing.assert_array_equal(part.mask[lane].ravel(), np.ravel(its.get("mask", [])))
                if "actors" in its:
                    np.testing.assert_array_equal(part.actors[lane], its["actors"])
        orders = sample_actions(space.actions, batch, rng)
        movers = list(game.agents)
        batch, *_, info = venv.step(orders)
        assert set(game.told[-1]) == set(movers)
        for lane, (_, agent) in enumerate(venv.agents):
            for name, value in game.told[-1].get(agent, {}).items():
                np.testing.assert_array_equal(value, orders[name][lane])
        assert bool(info["inactive"][0]) >= (step % 4 == 3)
    ez.check_entity_env(venv, num_steps=12)


@pytest.mark.parametrize("api", ["parallel", "aec"])
def test_there_and_back_again_an_environment_is_what_it_was(api: Any) -> None:
    """An entity environment as a PettingZoo game of one agent, as lanes: what a list of it is."""
    venv = ez.from_pettingzoo(lambda: ez.to_pettingzoo(ez.games.MineSweeper(max_steps=9), api), num_envs=3)
    plain = ez.vector.ListVectorEnv([partial(ez.games.MineSweeper, max_steps=9)] * 3)
    rng = np.random.default_rng(0)
    (batch, _), (expected, _) = venv.reset(seed=2), plain.reset(seed=2)
    ends = 0
    for _ in range(40):
        assert batch.equals(expected)
        orders = sample_actions(venv.single_action_space, batch, rng)
        batch, *results, info = venv.step(orders)
        expected, *wanted, told = plain.step(orders)
        for result, value in zip(results, wanted, strict=True):
            np.testing.assert_array_equal(result, value)
        if "final_obs" in told:
            ends += 1
            np.testing.assert_array_equal(info["_final_obs"], told["_final_obs"])
            for name, rows in told["final_obs"].entities.items():
                assert info["final_obs"].entities[name] == rows
    assert ends > 3
    venv.close()
    plain.close()


def test_games_that_show_entities_need_no_view_and_make_no_team() -> None:
    with raises(ez.views.ViewError, "nest_v0", "entities", "view"):
        ez.from_pettingzoo(Nest(), view=ez.views.Vector())
    with raises(ez.views.ViewError, "nest_v0", "agent"):
        ez.from_pettingzoo(Nest(), "team")


def test_random_opponents_play_games_of_entities() -> None:
    game = Nest()
    venv = ez.from_pettingzoo(game, opponents={"queen": "random"})
    assert venv.agents == [(0, "worker_0")]
    ez.check_entity_env(venv, num_steps=12)
    assert any(len(told["queen_0"]["Speed"]) for told in game.told if "queen_0" in told)


def test_an_entity_observation_that_is_not_of_its_space_is_told() -> None:
    class Wrong(Nest):
        def step(self, actions: dict[str, Any]) -> Any:
            result = super().step(actions)
            self.spoil(result[0]["worker_0"])
            return result

        spoil: Any = None

    for spoil, facts in (
        (lambda its: its["entities"].pop("Ant"), ["'entities'", "'Ant'"]),
        (
            lambda its: its["entities"].update(Ant=np.float32([[0, np.nan]])),
            ["entity type 'Ant'", "feature 'y'"],
        ),
        (lambda its: its["entities"].update(Ant=np.float32([[0, 1, 2]])), ["entity type 'Ant'", "x, y"]),
        (lambda its: its.clear(), ["observation", "missing"]),
    ):
        game = Wrong()
        game.spoil = spoil
        venv = ez.from_pettingzoo(game)
        batch, _ = venv.reset(seed=1)
        with raises(ez.ObservationError, "game 0", "nest_v0", "'worker_0'", *facts):
            venv.step(venv.action_space.sample(mask=batch))


def test_spaces_of_agents_that_do_not_go_together_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def with_queen(space: ez.EntitySpace, facts: list[object]) -> None:
        monkeypatch.setitem(SPACES, "queen", space)
        with raises(ez.views.ViewError, "nest_v0", *facts):
            ez.from_pettingzoo(Nest())

    with_queen(ez.EntitySpace({"Food": ["x", "z"]}, QUEEN), ["'worker_0'", "entity type 'Food'"])
    dig = ez.EntityActionSpace({"Dig": ez.Categorical(["no"])})
    with_queen(ez.EntitySpace({}, dig), ["action 'Dig'", "agent 'worker_0'", "Categorical"])
    with_queen(ez.EntitySpace({"Food": ["x"], "Ant": ["x", "y"]}, QUEEN), ["entity types", "Food", "Ant"])


@pytest.mark.parametrize("mode", ["lanes", "team"])
def test_a_view_that_raises_is_named(mode: Any) -> None:
    def fail(seen: ez.pettingzoo.GameObservation) -> None:
        raise LookupError("nobody is there")

    view = type("Blinking", (StrangerView,), {"spoil": staticmethod(fail)})
    env = ez.from_pettingzoo(TAG, mode, view)
    seen, _ = env.reset(seed=1)
    where = {"lanes": "Blinking.observe('adversary_0')", "team": "Blinking.observe_team(('adv"}[mode]
    with raises(ez.WorkerError, "game 0", "simple_tag_v3", "LookupError", where):
        env.step(env.action_space.sample(mask=seen))


def test_the_former_name_of_game_observations_warns_and_names_the_new_one() -> None:
    with warns(DeprecationWarning, "pettingzoo", "Seen", "GameObservation"):
        former = ez.pettingzoo.Seen
    assert former is ez.pettingzoo.GameObservation
