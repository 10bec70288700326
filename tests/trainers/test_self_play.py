"""Lanes that past selves play: what the learner sees, what the games get, who is drawn, what is recorded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import Any

import entitize as ez
import gymnasium
import numpy as np
import pytest
import torch
from entitize.envs import ActionError
from entitize.ragged import RaggedArray
from entitize.trainers import PPO, OpponentPool, PPOConfig, past_self_play

from facts import raises

Make = Callable[..., Any]
LEARNER = -1  # stands for the learner among the members of the pool
CONFIG = PPOConfig(num_steps=9, minibatch_size=16, update_epochs=1, learning_rate=0.01)


@pytest.fixture
def stubborn(toy_policy: Any) -> Any:
    """A policy whose actions follow from what it sees, whatever the random numbers."""

    class Stubborn(toy_policy):  # type: ignore[misc]
        def act(self, batch: Any, rng: Any, deterministic: bool = False) -> Any:
            return super().act(batch, rng, True)

    return Stubborn


def pool_of(policy: Any, size: int, **options: Any) -> OpponentPool:
    """A pool of `size` past selves that differ."""
    pool = OpponentPool(policy, **options)
    generator = torch.Generator().manual_seed(5)
    for step in range(size):
        pool.add(step)
        with torch.no_grad():
            for parameter in policy.parameters():
                parameter += torch.randn(parameter.shape, generator=generator)
    return pool


def by_lane(arrays: list[Any]) -> RaggedArray:
    return RaggedArray.from_arrays(arrays, dtype=np.int64, inner_shape=())


class Reference:
    """The same games, played lane by lane with who is said to play them."""

    def __init__(self, duels: Any, pool: OpponentPool, seed: int) -> None:
        self.duels, self.pool = duels, pool
        self.batch, info = duels.reset(seed=seed)
        self.idle = info["inactive"].copy()
        self.returns = np.zeros(duels.num_envs)
        self.results: Counter[tuple[int, float]] = Counter()
        self.drawn: Counter[bool] = Counter()

    def step(self, actions: Any, players: np.ndarray) -> Any:
        orders: dict[str, list[np.ndarray]] = {name: [] for name in actions}
        for lane, player in enumerate(players):
            acted = actions
            if player != LEARNER:
                policy = self.pool.member(player).policy
                acted = policy.act(self.batch.gather([lane]), np.random.default_rng()).actions
            for name in actions:
                orders[name].append(acted[name][lane if player == LEARNER else 0])
        self.batch, rewards, terminated, truncated, info = self.duels.step(
            {name: by_lane(parts) for name, parts in orders.items()}
        )
        self.idle = info["inactive"].copy()
        self.returns += rewards
        self.over = (terminated | truncated).reshape(-1, 2).all(1)
        for game in np.flatnonzero(self.over):
            lanes = np.array([2 * game, 2 * game + 1])
            self._judge(lanes, players, info)
            self.returns[lanes] = 0
        return rewards, terminated, truncated, info

    def _judge(self, lanes: np.ndarray, players: np.ndarray, info: Any) -> None:
        whose = players[lanes]
        if (whose == LEARNER).all():
            return
        assert (whose == LEARNER).sum() == 1, "the learner has one of the two sides"
        mine, theirs = lanes[whose == LEARNER][0], lanes[whose != LEARNER][0]
        if "outcome" in info:
            score = {"win": 1.0, "draw": 0.5, "loss": 0.0}[info["outcome"][mine]]
        else:
            score = (np.sign(np.round(self.returns[mine] - self.returns[theirs], 6)) + 1) / 2
        self.results[(int(players[theirs]), float(score))] += 1


@pytest.mark.parametrize("told", [False, True])
def test_games_and_learner_get_what_a_loop_over_lanes_gives_them(
    duels: Any, stubborn: Any, told: bool
) -> None:
    pool = pool_of(stubborn(), 3)
    mine = duels(8, share=0.3, told=told)
    venv = past_self_play(mine, pool, latest_share=0.3)
    reference = Reference(duels(8, share=0.3, told=told), pool, seed=4)
    batch, info = venv.reset(seed=4)
    venv.action_space.seed(1)
    for _ in range(45):
        before = venv.assignment.players.copy()
        np.testing.assert_array_equal(info["inactive"], reference.idle | (before != LEARNER))
        for lane, player in enumerate(before):
            seen, shown = batch.gather([lane]), reference.batch.gather([lane])
            if player == LEARNER:
                assert seen.equals(shown)
            else:
                assert all(
                    part.actors.num_items == part.mask.num_items == 0 for part in seen.actions.values()
                )
                assert seen.entities["Robot"] == shown.entities["Robot"]
        actions = venv.action_space.sample(mask=batch)
        batch, rewards, terminated, truncated, info = venv.step(actions)
        expected, ends, cuts, raw_info = reference.step(actions, before)
        for got, raw in zip((mine.received,), (reference.duels.received,), strict=True):
            assert all(got[name] == raw[name] for name in raw), "opponents' actions are their policies'"
        ours = before == LEARNER
        np.testing.assert_array_equal(rewards, np.where(ours, expected, 0))
        np.testing.assert_array_equal(terminated, ends & ours)
        np.testing.assert_array_equal(truncated, cuts & ours)
        np.testing.assert_array_equal(info["_final_obs"], raw_info["_final_obs"] & ours)
        lanes = np.flatnonzero(raw_info["_final_obs"])
        assert info["final_obs"].equals(raw_info["final_obs"].gather(np.flatnonzero(ours[lanes])))
        if "outcome" in raw_info:
            np.testing.assert_array_equal(info["_outcome"], raw_info["_outcome"] & ours)
        moved = (venv.assignment.players != before).reshape(-1, 2).any(1)
        assert not (moved & ~reference.over).any(), "who plays changes only between games"
    recorded = {
        (member.number, score): count
        for member in pool.members
        for score, count in ((1.0, member.wins), (0.5, member.draws), (0.0, member.losses))
        if count
    }
    assert recorded == dict(reference.results)
    assert len({number for number, _ in recorded}) == 3 and sum(recorded.values()) > 20


def test_a_rollout_holds_the_learners_steps_and_no_others(duels: Any, toy_policy: Any) -> None:
    policy = toy_policy()
    pool = pool_of(policy, 2)
    inner = duels(8, share=0.2)
    venv = past_self_play(inner, pool, latest_share=0.2)
    trainer = PPO(policy, venv, CONFIG)
    seen: list[Any] = []
    play = venv.step

    def step(actions: Any) -> Any:
        seen.append(inner.batch.gather(np.flatnonzero(~inner.idle & (venv.assignment.players == LEARNER))))
        return play(actions)

    venv.step = step  # type: ignore[method-assign]
    samples = trainer.collect()
    assert sum(map(len, seen)) == len(samples) == venv.steps == trainer.step < 9 * 8 * 0.8
    first = 0
    for batch in seen:
        assert samples.observations[first : first + len(batch)].equals(batch)
        first += len(batch)


def test_where_the_learner_plays_all_games_nothing_is_different(duels: Any, toy_policy: Any) -> None:
    weights, metrics = [], []
    for wrapped in (False, True):
        policy = toy_policy()
        venv: Any = duels(8, share=0.2)
        if wrapped:
            pool = pool_of(toy_policy(), 2)
            pool.learner = policy
            venv = past_self_play(venv, pool, latest_share=1)
        trainer = PPO(policy, venv, CONFIG)
        metrics.append(trainer.train(120))
        weights.append(torch.cat([p.detach().flatten() for p in policy.parameters()]))
    assert torch.equal(*weights)
    same = [{k: v for k, v in m.items() if k.startswith(("losses", "charts/ep"))} for m in metrics]
    assert same[0] == same[1] and "opponents/size" in metrics[1]


def test_another_policy_than_the_learner_of_the_pool_is_not_trained(duels: Any, toy_policy: Any) -> None:
    venv = past_self_play(duels(4), OpponentPool(toy_policy()))
    for wrapped in (venv, ez.vector.EntityVectorWrapper(venv)):
        with raises(ValueError, "policy", "pool.learner"):
            PPO(toy_policy(), wrapped, CONFIG)
    assert PPO(venv.pool.learner, venv, CONFIG).train(8)


def test_games_are_drawn_as_often_as_they_should_be(duels: Any, toy_policy: Any) -> None:
    pool = pool_of(toy_policy(), 3)
    venv = past_self_play(duels(8), pool, latest_share=0.3)
    assignment, rng = venv.assignment, np.random.default_rng(1)
    drawn: Counter[tuple[int, ...]] = Counter()
    batch, _ = venv.reset(seed=0)
    for _ in range(1500):
        assignment.draw_all(batch, np.zeros(8, bool), rng)
        drawn.update(map(tuple, assignment.players.reshape(-1, 2).tolist()))
    total = sum(drawn.values())
    assert total == 6000 and len(drawn) == 7
    expected = {(LEARNER, LEARNER): 0.3}
    expected |= {pair: 0.7 / 6 for n in range(3) for pair in ((LEARNER, n), (n, LEARNER))}
    for pair, share in expected.items():
        assert drawn[pair] / total == pytest.approx(share, abs=4 * np.sqrt(share / total))


def test_an_empty_pool_leaves_all_games_to_the_learner(duels: Any, toy_policy: Any) -> None:
    venv = past_self_play(duels(4), OpponentPool(toy_policy()), latest_share=0)
    _, info = venv.reset(seed=1)
    assert (venv.assignment.players == LEARNER).all() and not info["inactive"].any()


def test_another_training_with_the_same_pool_continues_its_steps(duels: Any, toy_policy: Any) -> None:
    pool = pool_of(toy_policy(), 101)  # of steps 0 to 100, of which it keeps 20
    venv = past_self_play(duels(4), pool, interval=20)
    trainer = PPO(pool.learner, venv, CONFIG)
    trainer.train(80)
    steps = [past.step for past in pool.past]
    assert len(steps) == 20 and 100 in steps and venv.steps == 100 + trainer.step
    assert len([step for step in steps if step is not None and step > 100]) >= 2


def test_an_evaluation_leaves_steps_and_results_as_they_are(
    duels: Any, toy_policy: Any, tmp_path: Path
) -> None:
    policy = toy_policy()
    venv = past_self_play(duels(6), pool_of(policy, 2), latest_share=0)
    venv.set_progress(0.0)
    venv.reset(seed=1)
    venv.action_space.seed(1)
    for _ in range(9):
        venv.step(venv.action_space.sample())
    steps, results = venv.steps, [member.results() for member in venv.pool.members]
    assert steps > 0 and sum(member.games for member in venv.pool.members) > 0
    ez.evaluate(toy_policy(), venv, episodes=12)
    ez.datasets.record(venv, toy_policy(), tmp_path / "a", episodes=12)
    recorder = ez.datasets.Recorder(venv, tmp_path / "b")
    ez.evaluate(toy_policy(), recorder, episodes=12)
    recorder.writer.close()
    assert (venv.steps, [member.results() for member in venv.pool.members]) == (steps, results)
    batch, _ = venv.reset(seed=2)
    for _ in range(9):
        batch, *_ = venv.step(venv.action_space.sample(mask=batch))
    assert venv.steps > steps and [member.results() for member in venv.pool.members] != results


def test_sides_can_have_several_lanes(duels: Any, stubborn: Any) -> None:
    pool = pool_of(stubborn(), 2)
    venv = past_self_play(duels(8), pool, latest_share=0, games=[((0, 1, 2), 3)])
    seen = set()
    for seed in range(20):
        venv.reset(seed=seed)
        players = venv.assignment.players
        assert len(set(players[:3])) == 1 and (players[0] == LEARNER) != (players[3] == LEARNER)
        assert (players[4:] == LEARNER).all(), "lanes in no game are the learner's"
        seen.add(tuple(players[:4]))
    assert len(seen) == 4


def test_refused_actions_move_nobody(duels: Any, toy_policy: Any) -> None:
    wrong: list[tuple[Callable[[Any, int], Any], list[object]]] = [
        (
            lambda a, lane: {
                **a,
                "Paint": by_lane([[0] if i == lane else p for i, p in enumerate(a["Paint"])]),
            },
            ["action 'Paint'", "opponent"],
        ),
        (lambda a, lane: {**a, "Jump": a["Paint"]}, ["unknown", "action 'Jump'"]),
        (
            lambda a, lane: {**a, "Paint": a["Paint"].with_values(np.full_like(a["Paint"].values, 7))},
            ["action 'Paint'", 7, "not allowed"],
        ),
        (lambda a, lane: {**a, "Paint": [1, 2]}, ["action 'Paint'", "RaggedArray"]),
        (lambda a, lane: [1], ["dict", "list"]),
    ]
    results = []
    for erring in (False, True):
        policy = toy_policy()
        inner = duels(6)
        venv = past_self_play(inner, pool_of(policy, 2), latest_share=0)
        history: list[Any] = []
        with raises(gymnasium.error.ResetNeeded, "PastSelfPlay", "reset()"):
            venv.step({})
        batch, _ = venv.reset(seed=2)
        venv.action_space.seed(3)
        for _ in range(6):
            actions = venv.action_space.sample(mask=batch)
            lane = int(np.flatnonzero(venv.assignment.players != LEARNER)[0])
            for spoiled, facts in wrong if erring else ():
                with raises(ActionError, *facts):
                    venv.step(spoiled(actions, lane))
            narrow = {
                name: order.with_values(order.values.astype(np.int32)) for name, order in actions.items()
            }
            batch, rewards, *_ = venv.step(narrow if erring else actions)
            history += [rewards, batch.entities["Robot"].values, venv.assignment.players.copy()]
            history += [order.values for order in inner.received.values()]
        results.append(history)
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({"latest_share": 1.5}, ["latest_share", 1.5]),
        ({"interval": 0}, ["interval", 0]),
        ({"games": [(0,)]}, ["game", "sides"]),
        ({"games": []}, ["game", "sides"]),
        ({"games": [(0, ())]}, ["games", "side", "lane", "[(0, ())]"]),
        ({"games": [(0, 6)]}, ["games", "[(0, 6)]", 0, 5]),
        ({"games": [(0, 1), (1, 2)]}, ["games", "lane", "[(0, 1), (1, 2)]"]),
    ],
)
def test_wrong_options_are_told(
    duels: Any, toy_policy: Any, options: dict[str, Any], facts: list[object]
) -> None:
    with raises(ValueError, *facts):
        past_self_play(duels(6), OpponentPool(toy_policy()), **options)


def test_environments_without_games_are_refused(toy_venv: Any, toy_policy: Any) -> None:
    pool = OpponentPool(toy_policy())
    with raises(ValueError, "ToyVectorEnv", "lane_games"):
        past_self_play(toy_venv(4), pool)
    alone = toy_venv(4)
    alone.lane_games = np.arange(4)
    with raises(ValueError, "ToyVectorEnv", "lanes"):
        past_self_play(alone, pool)
    with raises(ValueError, "actions", "policy"):
        past_self_play(ez.make_vec("MultiSnake/lanes", num_envs=2), pool)
    with raises(TypeError, "past_self_play", "OpponentPool", None):
        past_self_play(alone, None)  # type: ignore[arg-type]


# -- real games --------------------------------------------------------------------------------------------


def small_net(venv: Any) -> Any:
    torch.manual_seed(1)
    return ez.RogueNet(
        venv.single_observation_space, venv.single_action_space, d_model=8, n_layer=1, n_head=1
    )


def test_snakes_that_die_wait_for_their_game_whoever_plays_them() -> None:
    inner = ez.make_vec("MultiSnake/lanes", num_envs=6, num_snakes=3, board_size=6, max_steps=12)
    pool = pool_of(small_net(inner), 2)
    venv = past_self_play(inner, pool, latest_share=0.2)
    batch, info = venv.reset(seed=1)
    venv.action_space.seed(2)
    played = Counter[bool]()
    for _ in range(80):
        before, steps = venv.assignment.players.copy(), inner.steps.copy()
        batch, rewards, terminated, truncated, info = venv.step(venv.action_space.sample(mask=batch))
        others = before != LEARNER
        assert not (rewards[others].any() or terminated[others].any() or truncated[others].any())
        assert all(part.actors.lengths[info["inactive"]].sum() == 0 for part in batch.actions.values())
        for game in range(2):
            lanes = slice(3 * game, 3 * game + 3)
            started = inner.steps[3 * game] != steps[3 * game] + 1
            played[started] += 1
            assert started or (venv.assignment.players[lanes] == before[lanes]).all()
            theirs = set(venv.assignment.players[lanes].tolist()) - {LEARNER}
            assert len(theirs) <= 1 and (venv.assignment.players[lanes] == LEARNER).sum() in (1, 3)
    assert played[True] > 10
    assert 0 < sum(member.games for member in pool.members) <= played[True]


def test_lanes_may_have_seeds_of_their_own_or_none() -> None:
    venv = ez.make_vec("MultiSnake/lanes", num_envs=2)
    games = past_self_play(venv, OpponentPool(small_net(venv)), seed=0)
    for seeds in ([None, None], [3, None]):
        games.reset(seed=seeds)
    first, again, others = (games.reset(seed=seeds)[0] for seeds in ([1, 2], [1, 2], [5, 6]))
    assert first.equals(again) and not first.equals(others)


def test_an_outcome_in_the_infos_of_the_last_step_decides() -> None:
    pettingzoo = pytest.importorskip("pettingzoo")

    class Duel(pettingzoo.ParallelEnv):  # type: ignore[misc, name-defined]
        """The first agent wins, the second one has the larger return."""

        metadata = MappingProxyType({"name": "duel"})
        possible_agents = ("a", "b")
        observation_space = action_space = staticmethod(lambda agent: gymnasium.spaces.Discrete(2))

        def reset(self, seed: int | None = None, options: Any = None) -> Any:
            self.agents, self.turn = ["a", "b"], 0
            return {"a": 0, "b": 0}, {"a": {"outcome": None}, "b": {"outcome": None}}

        def step(self, actions: Any) -> Any:
            self.turn += 1
            over = dict.fromkeys("ab", self.turn == 3)
            infos = {a: {"outcome": {"a": "win", "b": "loss"}[a] if over[a] else None} for a in over}
            self.agents = [agent for agent in over if not over[agent]]
            return {"a": 0, "b": 0}, {"a": 0.0, "b": 0.1}, over, dict.fromkeys(over, False), infos

    inner = ez.from_pettingzoo(Duel, num_envs=4)
    venv = past_self_play(inner, pool_of(small_net(inner), 1), latest_share=0)
    batch, _ = venv.reset(seed=0)
    venv.action_space.seed(1)
    results: Counter[str] = Counter()
    for _ in range(30):
        theirs = venv.assignment.players != LEARNER
        batch, _, terminated, _, info = venv.step(venv.action_space.sample(mask=batch))
        if terminated.any():
            assert not (info["final_info"]["_outcome"] & theirs).any()
            results.update(info["final_info"]["outcome"][~theirs])
    member = venv.pool.past[0]
    assert {"win": member.wins, "loss": member.losses} == results and results.total() == 40 > results["win"]


def test_a_game_in_turns_is_trained_against_past_selves() -> None:
    pettingzoo = pytest.importorskip("pettingzoo")
    inner = ez.from_pettingzoo(lambda: pettingzoo.make("aec", "classic/connect_four-v3"), num_envs=3)
    policy = small_net(inner)
    pool = OpponentPool(policy, max_size=3)
    venv = past_self_play(inner, pool, latest_share=0.4, interval=40)
    config = PPOConfig(num_steps=30, minibatch_size=64, update_epochs=1, total_timesteps=100)
    metrics = PPO(policy, venv, config).train()
    assert metrics["opponents/games"] > 0 and metrics["opponents/size"] >= 2
    results = ez.evaluate(policy, venv, episodes=6, seed=3)
    assert set(results.returns) <= {-1.0, 0.0, 1.0}
    venv.close()
    assert inner.closed


def test_the_side_with_the_larger_mean_return_wins(duels: Any, toy_policy: Any) -> None:
    pool = pool_of(toy_policy(), 1)
    venv = past_self_play(duels(4), pool, latest_share=0, games=[((0, 1, 2), 3)])
    batch, _ = venv.reset(seed=0)
    rng, everyone, alone = np.random.default_rng(0), np.ones(4, bool), 0
    for _ in range(30):
        alone += bool(venv.assignment.players[3] == LEARNER)
        venv.assignment.follow(np.array([2.0, 2.0, 2.0, 3.0]), everyone, {}, batch, ~everyone, rng)
    assert 0 < alone < 30
    assert (pool.past[0].wins, pool.past[0].losses) == (alone, 30 - alone)


def test_rounding_of_returns_decides_no_game(duels: Any, toy_policy: Any) -> None:
    pool = pool_of(toy_policy(), 1)
    venv = past_self_play(duels(2), pool, latest_share=0)
    batch, _ = venv.reset(seed=0)
    rng, nobody = np.random.default_rng(0), np.zeros(2, bool)
    for _ in range(20):
        for rewards, ended in (([0.1, 0.3], nobody), ([0.1, 0], nobody), ([0.1, 0], ~nobody)):
            venv.assignment.follow(np.array(rewards), ended, {}, batch, nobody, rng)
    assert 0.1 + 0.1 + 0.1 != 0.3
    assert (pool.past[0].wins, pool.past[0].draws, pool.past[0].losses) == (0, 20, 0)


def test_games_are_told_how_far_training_is(
    duels: Any, toy_policy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner, policy, told = duels(4), toy_policy(), []
    monkeypatch.setattr(inner, "set_progress", told.append)
    PPO(policy, past_self_play(inner, OpponentPool(policy), latest_share=1), CONFIG).train(72)
    assert told == [0.0, 0.5]


def test_the_same_seed_draws_the_same_players(duels: Any, toy_policy: Any) -> None:
    venv = past_self_play(duels(8), pool_of(toy_policy(), 3), latest_share=0.3)
    drawn = []
    for seed in (1, 1, 2, 3):
        venv.reset(seed=seed)
        drawn.append(venv.assignment.players.tolist())
    assert drawn[0] == drawn[1] and len(set(map(tuple, drawn))) > 1


def test_a_saved_state_does_not_change_with_the_games(duels: Any, toy_policy: Any) -> None:
    venv = past_self_play(duels(6), pool_of(toy_policy(), 2), latest_share=0.5)
    batch, _ = venv.reset(seed=1)
    venv.action_space.seed(1)
    batch, *_ = venv.step(venv.action_space.sample(mask=batch))
    state = venv.get_state()
    before = {name: array.copy() for name, array in state.items()}
    for _ in range(6):
        batch, *_ = venv.step(venv.action_space.sample(mask=batch))
    for name, array in before.items():
        np.testing.assert_array_equal(state[name], array, err_msg=name)
    assert any(not np.array_equal(array, before[name]) for name, array in venv.get_state().items())


def test_a_game_in_turns_goes_on_where_the_first_player_is_out_at_once() -> None:
    class Elimination(ez.EntityGame):
        """Three take turns; whoever has had a turn is out, and the last one wins."""

        def __init__(self) -> None:
            self.possible_agents = ["a", "b", "c"]
            actions = ez.EntityActionSpace({"go": ez.GlobalCategorical(["on"])})
            self.spaces = ez.EntitySpace({"Me": ["x"]}, actions), actions

        def _views(self) -> Any:
            turn = {"go": ez.actions.GlobalCategoricalMask()}
            return {
                agent: ez.Observation({"Me": [[1.0]]}, actions=turn if agent == self.left[0] else {})
                for agent in self.left
            }

        def _reset(self, options: Any) -> Any:
            self.left = list(self.possible_agents)
            return self._views()

        def _step(self, actions: Any) -> Any:
            out = self.left.pop(0)
            rewards = dict.fromkeys((out, *self.left), 0.0)
            rewards[out] = 1.0 if out == "c" else -1.0
            return self._views(), rewards, {out: True}, False, {}

    inner = ez.make_vec(Elimination, num_envs=1)
    policy = small_net(inner)
    pool = pool_of(policy, 1)
    venv = past_self_play(inner, pool, latest_share=0)
    venv.reset(seed=0)
    venv.action_space.seed(0)
    players = []
    for _ in range(90):
        players.append(venv.assignment.players.tolist())
        venv.step(venv.action_space.sample())
    assert all(players[i : i + 3] == [players[i]] * 3 for i in range(0, 90, 3)), "one draw for each game"
    assert pool.past[0].games == 30 and 0 < pool.past[0].wins == sum(p[2] == LEARNER for p in players[::3])
    venv.close()


def test_a_restored_game_counts_the_rewards_before(duels: Any, toy_policy: Any) -> None:
    pool = pool_of(toy_policy(), 1)
    venv = past_self_play(duels(2), pool, latest_share=0)
    batch, _ = venv.reset(seed=0)
    rng, nobody = np.random.default_rng(0), np.zeros(2, bool)
    ours = (venv.assignment.players == LEARNER).astype(float)
    venv.assignment.follow(ours, nobody, {}, batch, nobody, rng)
    state = venv.get_state()
    venv.reset(seed=5)
    venv.set_state(state)
    venv.assignment.follow(np.zeros(2), ~nobody, {}, batch, nobody, rng)
    assert (pool.past[0].wins, pool.past[0].draws, pool.past[0].losses) == (1, 0, 0)


def test_steps_of_restored_lanes_that_wait_do_not_count(duels: Any, toy_policy: Any) -> None:
    venv = past_self_play(duels(6, share=0.5), pool_of(toy_policy(), 2), latest_share=0.5)
    batch, info = venv.reset(seed=1)
    venv.action_space.seed(1)
    for _ in range(3):
        batch, *_, info = venv.step(venv.action_space.sample(mask=batch))
    state, active, steps = venv.get_state(), int((~info["inactive"]).sum()), venv.steps
    assert 0 < active < (venv.assignment.players == LEARNER).sum()
    batch = venv.set_state(state)
    venv.step(venv.action_space.sample(mask=batch))
    assert venv.steps == steps + active
