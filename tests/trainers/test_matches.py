"""Matches between players: who plays where, who wins, and how it is told."""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

import entitize as ez
import numpy as np
import pytest
from entitize.envs import EntityBatch, sample_actions
from entitize.evaluation import RandomActor, wilson_interval
from entitize.policies import ActResult
from entitize.self_play import MatchResults, OpponentPool, past_self_play, play_matches

from facts import raises, warns


class Painter:
    """Acts at random, but paints the first of the allowed colours, or the last one."""

    def __init__(self, space: Any, is_last: bool) -> None:
        self.space, self.is_last = space, is_last

    def act(self, batch: EntityBatch, rng: np.random.Generator, deterministic: bool = False) -> ActResult:
        actions = sample_actions(self.space, batch, rng)
        paint = actions["Paint"].with_values(colours(batch.actions["Paint"].mask.values, self.is_last))
        return ActResult({**actions, "Paint": paint}, {}, np.zeros(len(batch), np.float32))


def colours(allowed: Any, is_last: bool) -> Any:
    """The first or the last colour that each actor may paint."""
    return 2 - allowed[:, ::-1].argmax(1) if is_last else allowed.argmax(1)


def painters(venv: Any) -> dict[str, Painter]:
    return {name: Painter(venv.single_action_space, name == "two") for name in ("one", "two")}


class Recorder:
    """Environments as they are, of which each step is written down: observations, actions and results."""

    def __init__(self, venv: Any) -> None:
        self.steps: list[Any] = []
        inner = venv.step

        def step(actions: Any) -> Any:
            before = venv.batch
            result = inner(actions)
            self.steps.append((before, actions, result))
            return result

        venv.step = step


def played_by(batch: EntityBatch, actions: Any, lane: int) -> set[str]:
    """Which painters may have chosen a lane's colours."""
    allowed = batch.actions["Paint"].mask[lane]
    return {
        name
        for name in ("one", "two")
        if np.array_equal(actions["Paint"][lane], colours(allowed, name == "two"))
    }


@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("games", [7, 40])
def test_scores_are_those_of_the_games_that_were_played(duels: Any, told: bool, games: int) -> None:
    venv = duels(8, told=told)
    recorder = Recorder(venv)
    results = play_matches(painters(venv), venv, games, seed=3)

    quota = np.full(4, games // 4)
    quota[: games % 4] += 1
    returns, played, expected = np.zeros(8), np.zeros(4, int), Counter[float]()
    sides = np.zeros((4, 2), int)  # how often the first player had each side
    surely, before = 0, np.cumsum(quota) - quota  # the games that count are numbered place by place
    for batch, actions, (_, rewards, terminated, truncated, info) in recorder.steps:
        for lane in range(8):
            name = "one" if lane % 2 == (before + played)[lane // 2] % 2 else "two"
            could = played_by(batch, actions, lane)
            assert name in could
            surely += len(could) == 1
        returns += rewards
        for game in np.flatnonzero((terminated | truncated).reshape(-1, 2).all(1)):
            lanes = np.array([2 * game, 2 * game + 1])
            first = (before + played)[game] % 2  # the sides are taken in turn
            if played[game] < quota[game]:
                lead = returns[lanes[first]] - returns[lanes[1 - first]]
                if told:
                    lead = {"win": 1, "draw": 0, "loss": -1}[info["outcome"][lanes[first]]]
                expected[np.sign(np.round(lead, 6))] += 1
                sides[game, first] += 1
            played[game] += 1
            returns[lanes] = 0
    assert surely > 20
    assert results.wins.tolist() == [[0, expected[1]], [expected[-1], 0]]
    assert results.draws.tolist() == [[0, expected[0]], [expected[0], 0]]
    assert results.games.tolist() == [[0, games], [games, 0]] and expected.total() == games
    assert abs(np.subtract(*sides.sum(0))) <= 1 and sides.sum(1).tolist() == quota.tolist()
    score = wilson_interval(expected[1] + expected[0] / 2, games)
    assert results.score("one", "two") == results.score("one") == score
    assert str(score) in str(results)


def test_every_pair_plays_and_the_same_seed_gives_the_same_games(duels: Any) -> None:
    venv = duels(8)
    players = {**painters(venv), "random": RandomActor(venv.single_action_space)}
    first, again = (play_matches(players, venv, 10, seed=5) for _ in range(2))
    assert first.players == ("one", "two", "random")
    assert first.games.tolist() == [[0, 10, 10], [10, 0, 10], [10, 10, 0]]
    assert (first.wins == again.wins).all() and (first.draws == again.draws).all()
    points = first.wins[0].sum() + first.draws[0].sum() / 2
    assert first.score("one") == wilson_interval(points, 20)
    alone = play_matches({name: players[name] for name in ("one", "random")}, venv, 10, seed=5)
    assert (alone.wins[0, 1], alone.draws[0, 1]) == (first.wins[0, 2], first.draws[0, 2])


def test_who_is_alone_changes_in_games_of_more_than_two_sides(duels: Any) -> None:
    venv = duels(8)
    recorder = Recorder(venv)
    results = play_matches(painters(venv), venv, 24, games=[[0, 1, 2], [3, (4, 5)]])
    assert results.games[0, 1] == 24
    turn = surely = 0
    for batch, actions, (_, _, terminated, truncated, _) in recorder.steps:
        for lane in range(3):
            lone, other = ("one", "two") if turn % 2 == 0 else ("two", "one")
            could = played_by(batch, actions, lane)
            assert (lone if lane == turn // 2 % 3 else other) in could
            surely += len(could) == 1
        turn += (terminated | truncated)[:3].any()  # the next game begins with the lane that ended
    assert turn >= 12 and surely > 20


class Lottery(ez.EntityGame):
    """One of four agents wins at once, whatever they do."""

    def __init__(self) -> None:
        self.possible_agents = ["a", "b", "c", "d"]
        self.spaces = ez.declare(entities=[], actions={"wait": ez.GlobalCategorical(["yes"])})

    def _reset(self, options: Any) -> Any:
        mask = {"wait": ez.actions.GlobalCategoricalMask()}
        return {agent: ez.Observation(actions=mask) for agent in self.possible_agents}

    def _step(self, actions: Any) -> Any:
        winner = self.np_random.choice(self.possible_agents)
        infos = {agent: {"outcome": "win" if agent == winner else "loss"} for agent in self.possible_agents}
        return {}, dict.fromkeys(self.possible_agents, 0.0), True, False, infos


@pytest.mark.parametrize("games_per_pair", [4, 8, 25])
@pytest.mark.parametrize("games", [None, [((0, 1), (2, 3)), ((4, 5), (6, 7)), ((8, 9), (10, 11))]])
def test_equal_players_of_a_game_of_many_have_equal_scores(games: Any, games_per_pair: int) -> None:
    venv = ez.make_vec(Lottery, num_envs=3)
    players = {name: RandomActor(venv.single_action_space) for name in ("a", "b")}
    wins, played = 0, 0
    for seed in range(600 // games_per_pair):
        results = play_matches(players, venv, games_per_pair, games=games, seed=1000 * seed)
        assert results.draws.sum() == 0  # the best of a side decides
        wins, played = wins + int(results.wins[0, 1]), played + int(results.games[0, 1])
    score = wilson_interval(wins, played, level=0.99)
    assert score.low < 0.5 < score.high


class Table(ez.EntityGame):
    """The first player who bids "high" wins; some of four seats are taken."""

    told = False  # outcomes in infos

    def __init__(self, sizes: tuple[int, ...] = (2, 3, 4), is_shuffled: bool = True) -> None:
        self.possible_agents = ["a", "b", "c", "d"]
        self.sizes, self.is_shuffled = sizes, is_shuffled
        actions = ez.EntityActionSpace({"bid": ez.GlobalCategorical(["low", "high"])})
        self.spaces = ez.EntitySpace({"Me": ["x"]}, actions), actions

    def _views(self) -> Any:
        mask = {"bid": ez.actions.GlobalCategoricalMask()}
        return {agent: ez.Observation({"Me": [[1.0]]}, actions=mask) for agent in self.taken}

    def _reset(self, options: Any) -> Any:
        size = self.np_random.choice(self.sizes)
        seats = self.np_random.permutation(4)[:size] if self.is_shuffled else range(size)
        self.taken = [self.possible_agents[seat] for seat in sorted(seats)]
        return self._views()

    def _step(self, actions: Any) -> Any:
        high = [agent for agent in self.taken if actions[agent]["bid"].label == "high"]
        winner = high[0] if high else self.taken[0]
        infos = {agent: {"outcome": "win" if agent == winner else "loss"} for agent in self.taken}
        rewards = {agent: 1.0 if agent == winner else -1 / (len(self.taken) - 1) for agent in self.taken}
        return self._views(), rewards, True, False, infos if self.told else {}


def bids(choice: int) -> Any:
    return lambda batch, rng: {"bid": np.full(batch.actions["bid"].actors.num_items, choice, np.int64)}


@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("is_shuffled", [False, True])
def test_seats_that_are_free_play_no_part_in_a_match(
    told: bool, is_shuffled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Table, "told", told)
    with ez.make_vec(Table, num_envs=3, is_shuffled=is_shuffled) as venv:
        results = play_matches({"high": bids(1), "low": bids(0)}, venv, 60)
    assert (results.wins[0, 1], results.games[0, 1]) == (60, 60)


class Tag(Table):
    """Of two seats the second is taken in every second game only; the first one wins."""

    def _reset(self, options: Any) -> Any:
        self.games = getattr(self, "games", 0) + 1
        self.taken = ["a", "b"][: 2 - self.games % 2] if self.is_shuffled else ["a"]
        return self._views()

    def _step(self, actions: Any) -> Any:
        rewards = {agent: float(agent == "a") for agent in self.taken}
        return self._views(), rewards, True, False, {}


def test_games_that_one_player_has_not_joined_do_not_count() -> None:
    players = {"one": bids(0), "other": bids(1)}
    with ez.make_vec(Tag, num_envs=2) as venv:
        results = play_matches(players, venv, 40, games=[(0, 1), (4, 5)])
        assert results.games[0, 1] == 40 and results.wins[0, 1] == results.wins[1, 0] == 20
    with ez.make_vec(Tag, num_envs=2, is_shuffled=False) as venv, raises(ValueError, "lanes 0, 1", "200"):
        play_matches(players, venv, 4, games=[(0, 1), (4, 5)])


def test_the_learner_plays_in_every_game_whichever_seats_are_taken() -> None:
    with ez.make_vec(Table, num_envs=4, sizes=(2,)) as inner:
        policy = ez.RogueNet(inner.single_observation_space, inner.single_action_space, d_model=4, n_layer=1)
        pool = ez.self_play.OpponentPool(policy)
        pool.add(0)
        venv = ez.self_play.past_self_play(inner, pool, latest_share=0)
        batch, _ = venv.reset(seed=0)
        venv.action_space.seed(0)
        for _ in range(100):
            assert (batch.actions["bid"].actors.lengths.reshape(4, 4).sum(1) == 1).all()
            batch, *_ = venv.step(venv.action_space.sample(mask=batch))
        past = pool.past[0]
        assert past.games == past.wins + past.losses == 400
        assert 150 < past.wins < 250, "the first of two wins where both bid alike"


def test_the_stronger_wins_a_game_in_turns() -> None:
    pettingzoo = pytest.importorskip("pettingzoo")

    class Last:
        """Takes the last column that is free, as long as there is one: four in a column."""

        def act(self, batch: EntityBatch, rng: np.random.Generator, deterministic: bool = False) -> ActResult:
            part = batch.actions["action"]
            last = [6 - int(np.argmax(row[::-1])) for row in part.mask.values]
            actions = {"action": part.actors.with_values(np.array(last, np.int64))}
            return ActResult(actions, {}, np.zeros(len(batch), np.float32))

    venv = ez.from_pettingzoo(lambda: pettingzoo.make("aec", "classic/connect_four-v3"), num_envs=4)
    results = play_matches({"column": Last(), "random": RandomActor(venv.single_action_space)}, venv, 40)
    assert results.score("column").low > 0.5
    venv.close()


def test_names_of_players_are_no_headings(duels: Any) -> None:
    names, wins = ("all", "b", "c"), np.array([[0, 3, 1], [1, 0, 2], [3, 2, 0]])
    table = str(MatchResults(names, wins, np.zeros((3, 3), np.int64))).splitlines()
    assert table[0].split() == ["all", "b", "c", "all"]
    assert table[2].split()[:2] == ["b", "0.25"] and table[1].split()[1] == "0.75"
    results = MatchResults(names, wins, np.zeros((3, 3), np.int64))
    assert str(results.score("all")) in table[1] and str(results.score("b", "all")) in table[2]
    with raises(TypeError, "names", 1):
        play_matches({1: painters(duels(8))["one"], "b": object()}, duels(8))  # type: ignore[dict-item]


class Wrong:
    """Returns something else than actions."""

    def __init__(self, result: Any) -> None:
        self.result = result

    def act(self, batch: EntityBatch, rng: np.random.Generator, deterministic: bool = False) -> Any:
        return self.result(batch) if callable(self.result) else self.result


@pytest.mark.parametrize(
    ("result", "error", "facts"),
    [
        (None, TypeError, ["actions", "None"]),
        (ActResult({}, {}, np.zeros(8, np.float32)), ez.ActionError, ["'Paint'"]),
        (ActResult({"Paint": [1]}, {}, np.zeros(8, np.float32)), TypeError, ["'Paint'", "[1]"]),  # type: ignore[dict-item]
        (lambda batch: 1 / 0, ZeroDivisionError, []),
    ],
)
def test_players_that_cannot_play_are_named_before_the_first_game(
    result: Any, error: type[Exception], facts: list[str], duels: Any
) -> None:
    venv = duels(8)
    recorder = Recorder(venv)
    with pytest.raises(error) as caught:
        play_matches({**painters(venv), "bad": Wrong(result)}, venv, 8)
    shown = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
    assert all(fact in shown for fact in ["'bad'", *facts]) and not recorder.steps


@pytest.mark.parametrize(
    "games", [5, [0, 1], [(0, "x")], [(0, None)], [(0.5, 1)], [(True, False)], [((0, 1),)]]
)
def test_games_of_something_else_are_told(games: Any, duels: Any) -> None:
    venv = duels(8)
    with raises(ValueError, "games", repr(games)):
        play_matches(painters(venv), venv, 4, games=games)


def test_games_without_an_end_are_warned_about(duels: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("entitize.trainers.self_play.matches.MANY_STEPS", 1)
    venv = duels(4)
    with warns(UserWarning, "play_matches"):
        play_matches(painters(venv), venv, 4)


def test_functions_play_as_policies_do(duels: Any) -> None:
    venv = duels(8)
    players = painters(venv)
    functions = {
        name: lambda batch, rng, player=player: player.act(batch, rng).actions
        for name, player in players.items()
    }
    ours, theirs = (play_matches(those, venv, 12) for those in (functions, players))
    assert ours.wins.tolist() == theirs.wins.tolist()
    with raises(ez.ActionError, "'odd'", "'Paint'"):
        play_matches({"odd": lambda batch, rng: {}, **players}, venv, 12)


def test_networks_play_in_evaluation_mode_and_are_left_as_they_were() -> None:
    venv = ez.make_vec("MultiSnake/lanes", num_envs=8, max_steps=10)
    space = venv.single_observation_space
    nets = [ez.RogueNet(space, space.actions, d_model=8, n_layer=1, n_head=1, dropout=0.5) for _ in range(2)]
    nets[0].train()
    nets[1].eval()
    players = {"first": nets[0], "the same": nets[0], "second": nets[1]}
    results = [play_matches(players, venv, 12, deterministic=True) for _ in range(2)]
    assert nets[0].training and not nets[1].training
    assert (results[0].wins == results[1].wins).all()


def test_a_pool_of_opponents_is_refused_and_named(duels: Any, toy_policy: Any) -> None:
    inner = duels(8)
    venv = past_self_play(inner, OpponentPool(toy_policy()))
    with raises(ValueError, "past_self_play", "venv"):
        play_matches({"a": toy_policy(), "b": toy_policy()}, venv)


def test_wrong_calls_are_told(duels: Any, toy_venv: Any, toy_policy: Any) -> None:
    venv, policy = duels(8), toy_policy()
    with raises(TypeError, "EntityVectorEnv", "dict"):
        play_matches(venv, {"a": policy, "b": policy})  # type: ignore[arg-type]
    with raises(ValueError, "players", "two"):
        play_matches({"a": policy}, venv)
    with raises(TypeError, "'b'", "act"):
        play_matches({"a": policy, "b": object()}, venv)  # type: ignore[dict-item]
    with raises(ValueError, "lane_games"):
        play_matches({"a": policy, "b": policy}, toy_venv(4))
    with raises(TypeError, "games_per_pair"):
        play_matches({"a": policy, "b": policy}, venv, 2.5)  # type: ignore[arg-type]
    other = ez.make_vec("MineSweeper", num_envs=1)
    foreign = ez.RogueNet(other.single_observation_space, other.single_action_space, d_model=8, n_head=1)
    with raises(ValueError, "'b'", "actions"):
        play_matches({"a": policy, "b": foreign}, venv)
    results = MatchResults(("new", "old"), np.array([[0, 3], [1, 0]]), np.zeros((2, 2), np.int64))
    assert results.score("new").mean == 0.75
    with raises(ValueError, "'odl'", "'old'"):
        results.score("new", "odl")
    with raises(ValueError, "'new'"):
        results.score("new", "new")


def test_unknown_outcomes_are_told_and_returns_decide(duels: Any) -> None:
    venv = duels(4, told=True)
    inner = venv.step

    def step(actions: Any) -> Any:
        *result, info = inner(actions)
        words = [
            word and {"win": "victory", "draw": "even", "loss": "defeat"}[word] for word in info["outcome"]
        ]
        return *result, {**info, "outcome": np.array(words, object)}

    venv.step = step
    with pytest.warns(UserWarning, match="victory|even|defeat"):
        results = play_matches(painters(venv), venv, 20)
    plain = duels(4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert play_matches(painters(plain), plain, 20).wins.tolist() == results.wins.tolist()
