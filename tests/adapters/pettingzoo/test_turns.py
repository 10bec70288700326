"""PettingZoo games played in turns, as lanes, against plain loops with `env.last()`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any

import entitize as ez
import numpy as np
import pettingzoo
import pytest
from entitize.envs import sample_actions
from gymnasium import spaces
from mpe2 import simple_world_comm_v3
from pettingzoo import AECEnv
from pettingzoo.utils import parallel_to_aec, wrappers

classic = partial(partial, pettingzoo.make, "aec")

GAMES: dict[str, Callable[[], Any]] = {
    "tictactoe": classic("classic/tictactoe-v3"),
    "connect_four": classic("classic/connect_four-v3"),
    "leduc_holdem": classic("classic/leduc_holdem-v4"),
    "rock_paper_scissors": classic("classic/rps-v2"),
    "knights_archers_zombies": classic(
        "butterfly/knights_archers_zombies-v11", max_cycles=60, max_zombies=30, spawn_delay=4, line_death=True
    ),
    "world_comm": partial(simple_world_comm_v3.env, max_cycles=6),
    "world_comm_in_turns": lambda: parallel_to_aec(simple_world_comm_v3.parallel_env(max_cycles=6)),
}


class Auction(AECEnv[str, Any, Any]):
    """Three bidders in turns who go at different times; what anybody does is told to all by rewards.

    A bid of 2 ends the bidder, who stays at the table until its next turn comes round, as in some games.
    After `length` moves everybody who is left is truncated. Masks are in the infos, as Shimmy has them.
    """

    metadata = {"name": "auction_v0", "render_modes": []}  # noqa: RUF012 - PettingZoo's form

    def __init__(self, length: int = 20) -> None:
        self.possible_agents = ["bidder_0", "bidder_1", "bidder_2"]
        self.length = length
        self.render_mode = None

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        return spaces.Box(-99, 99, (2,), np.float32)

    def action_space(self, agent: str) -> spaces.Space[Any]:
        return spaces.Discrete(3)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        if seed is not None or not hasattr(self, "rng"):
            self.rng = np.random.default_rng(seed)
        self.agents = list(self.possible_agents)
        self.agent_selection = self.agents[0]
        self.moves = 0
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self._tell()

    def _tell(self) -> None:
        self.price = float(self.rng.integers(1, 9))
        # Everybody may pass; to bid and to go is allowed at some times only.
        self.infos = {a: {"action_mask": np.int8([1, *self.rng.integers(0, 2, 2)])} for a in self.agents}

    def observe(self, agent: str) -> np.ndarray:
        return np.array([self.price, self.possible_agents.index(agent)], np.float32)

    def step(self, action: int | None) -> None:
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            following = self._following(agent)
            self._was_dead_step(action)
            self.agent_selection = following
            return
        assert self.infos[agent]["action_mask"][action], "an illegal bid"
        self._cumulative_rewards[agent] = 0
        self.moves += 1
        for i, other in enumerate(self.agents):
            share = 0 if self.terminations[other] else self.price if other == agent else -0.25 * (i + 1)
            self.rewards[other] = (action + 1) * share
        self._accumulate_rewards()
        self.terminations[agent] = action == 2
        if self.moves == self.length:
            self.truncations = dict.fromkeys(self.agents, True)
        self._tell()
        self.agent_selection = self._following(agent)

    def _following(self, agent: str) -> str:
        return self.agents[(self.agents.index(agent) + 1) % len(self.agents)]


class LateBidder(Auction):
    """The third bidder joins after five moves, and is paid for that."""

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        super().reset(seed, options)
        self.agents.remove("bidder_2")
        for facts in (
            self.rewards,
            self._cumulative_rewards,
            self.terminations,
            self.truncations,
            self.infos,
        ):
            facts.pop("bidder_2")

    def step(self, action: int | None) -> None:
        if self.moves == 5 and action is not None and "bidder_2" not in self.infos:
            super().step(action)
            self.agents.append("bidder_2")
            self.rewards["bidder_2"] = self._cumulative_rewards["bidder_2"] = 7.0
            self.terminations["bidder_2"] = self.truncations["bidder_2"] = False
            self._tell()
        else:
            super().step(action)


GAMES["auction"] = Auction
GAMES["auction_with_a_late_bidder"] = LateBidder
GAMES["auction_in_wrappers"] = lambda: wrappers.OrderEnforcingWrapper(
    wrappers.AssertOutOfBoundsWrapper(Auction())
)


def flattened(space: spaces.Space[Any], observation: Any) -> np.ndarray:
    if isinstance(space, spaces.Dict):
        observation = observation["observation"]
    if isinstance(space, spaces.Discrete):
        return np.eye(space.n, dtype=np.float32)[observation]
    return np.asarray(observation, np.float32).ravel()


def numbers(batch: ez.EntityBatch, lane: int) -> np.ndarray:
    return np.concatenate([rows[lane].ravel() for rows in batch.entities.values()])


def legal(env: Any, agent: str) -> np.ndarray:
    """A game's own mask of its actions."""
    observation, *_, info = env.last()
    count = env.action_space(agent).n
    if isinstance(observation, dict):
        return np.asarray(observation["action_mask"], bool)
    return np.asarray(info.get("action_mask", np.ones(count)), bool)


@pytest.mark.parametrize("name", GAMES)
def test_lanes_are_what_a_plain_loop_over_the_turns_sees(name: str) -> None:
    """Same seed, same moves: same turns, observations, masks and ends; rewards add up to those of `last`."""
    venv = ez.from_pettingzoo(GAMES[name], view=ez.views.Vector())
    env = GAMES[name]()
    lanes = {agent: lane for lane, (_, agent) in enumerate(venv.agents)}
    rng = np.random.default_rng(4)
    batch, info = venv.reset(seed=7)
    env.reset(seed=7)
    paid: defaultdict[str, float] = defaultdict(float)  # since each agent's last move
    gone: set[str] = set()
    games = turns = 0
    for _ in range(240):
        mover = env.agent_selection
        assert np.flatnonzero(~info["inactive"]).tolist() == [lanes[mover]]
        for agent, lane in lanes.items():
            there = agent in env.agents and not (env.terminations[agent] or env.truncations[agent])
            expected = flattened(env.observation_space(agent), env.observe(agent)) if there else np.zeros(0)
            np.testing.assert_array_equal(numbers(batch, lane), expected)
        assert env.last()[1] == pytest.approx(paid.pop(mover, 0.0), rel=1e-5, abs=1e-6)
        (part,) = [p for p in batch.actions.values() if p.actors.num_items]
        np.testing.assert_array_equal(part.mask.values[0], legal(env, mover))

        orders = sample_actions(venv.single_action_space, batch, rng)
        (move,) = [int(order.values[0]) for order in orders.values() if order.num_items]
        batch, rewards, terminated, truncated, info = venv.step(orders)
        turns += 1
        env.step(move)
        for agent, lane in lanes.items():
            assert terminated[lane] == (agent not in gone and env.terminations.get(agent, False))
            assert truncated[lane] == (agent not in gone and env.truncations.get(agent, False))
            if agent not in gone:
                paid[agent] += float(rewards[lane])
        gone |= {agent for agent, lane in lanes.items() if terminated[lane] or truncated[lane]}
        while env.agents and env.agent_selection in gone:
            assert env.last()[1] == pytest.approx(paid.pop(env.agent_selection), rel=1e-5, abs=1e-6)
            env.step(None)
        if not env.agents:
            games += 1
            assert not any(paid.values())
            paid.clear()
            gone = set()
            env.reset()
    assert turns == 240 and games >= (1 if name == "knights_archers_zombies" else 5)
    venv.close()
    env.close()


@pytest.mark.parametrize("name", ["auction", "auction_in_wrappers"])
def test_turns_keep_the_rules_of_entity_environments(name: str) -> None:
    venv = ez.from_pettingzoo(GAMES[name], num_envs=2, view=ez.views.auto)
    ez.check_entity_env(venv, num_steps=40)
    venv.close()


def test_the_last_observation_and_reward_come_in_the_step_that_ends_the_game() -> None:
    venv = ez.from_pettingzoo(GAMES["tictactoe"], view=ez.views.Vector(name="Board"))
    batch, info = venv.reset(seed=1)
    for square in (0, 3, 1, 4, 2):  # the first player fills the left column
        orders = {"action": batch.actions["action"].actors.with_values(np.array([square]))}
        batch, rewards, terminated, truncated, info = venv.step(orders)
    assert rewards.tolist() == [1, -1]
    assert terminated.all() and not truncated.any()
    mine = info["final_obs"].entities["Board"].values.reshape(2, 3, 3, 2)
    np.testing.assert_array_equal(mine[0, ..., 0], [[1, 1, 1], [0, 0, 0], [0, 0, 0]])
    np.testing.assert_array_equal(mine[1], mine[0, ..., ::-1])
    assert not batch.entities["Board"].values.any(), "the next game has begun"
    assert info["inactive"].tolist() == [False, True]
    venv.close()


def test_several_games_move_once_each_in_a_step() -> None:
    venv = ez.from_pettingzoo(GAMES["connect_four"], num_envs=3)
    batch, info = venv.reset(seed=0)
    venv.action_space.seed(0)
    assert info["inactive"].tolist() == [False, True] * 3
    batch, *_, info = venv.step(venv.action_space.sample(mask=batch))
    assert info["inactive"].tolist() == [True, False] * 3
    venv.close()


def test_agents_with_a_seat_go_at_different_times_and_their_lanes_are_empty_then() -> None:
    venv = ez.from_pettingzoo(Auction, view=ez.views.Vector())
    rng = np.random.default_rng(0)
    batch, info = venv.reset(seed=3)
    lonely = 0
    over = np.zeros(3, bool)
    for _ in range(200):
        batch, _, terminated, truncated, info = venv.step(
            sample_actions(venv.single_action_space, batch, rng)
        )
        over |= terminated | truncated
        if over.all():
            over[:] = False
        lonely += int(over.sum() == 2)
        assert (batch.entities["Vector"].lengths == ~over).all()
        assert info["inactive"][over].all()
    assert lonely > 5
    venv.close()


class ReusedAuction(Auction):
    """All observations are one array, and the infos hold a list that a reset empties."""

    def __init__(self, length: int = 20) -> None:
        super().__init__(length)
        self.seen, self.prices = np.zeros(2, np.float32), list[float]()

    def _tell(self) -> None:
        super()._tell()
        self.prices.append(self.price)
        self.seen[0] = self.price
        for info in self.infos.values():
            info["prices"] = self.prices

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        self.prices.clear()
        super().reset(seed, options)

    def observe(self, agent: str) -> np.ndarray:
        self.seen[:] = super().observe(agent)
        return self.seen


class CopiedAuction(ReusedAuction):
    """The same game in fresh objects."""

    def _tell(self) -> None:
        super()._tell()
        for info in self.infos.values():
            info["prices"] = list(self.prices)

    def observe(self, agent: str) -> np.ndarray:
        return super().observe(agent).copy()


@pytest.mark.parametrize("opponents", [{}, {"bidder_1": "random"}])
def test_a_game_may_reuse_its_objects(opponents: dict[str, Any]) -> None:
    histories = []
    for kind in (CopiedAuction, ReusedAuction):
        venv = ez.from_pettingzoo(kind, view=ez.views.Vector(), opponents=opponents)
        rng, history, ends = np.random.default_rng(0), list[Any](), 0
        batch, info = venv.reset(seed=3)
        for _ in range(80):
            batch, _, _, _, info = venv.step(sample_actions(venv.single_action_space, batch, rng))
            history.append(batch.entities["Vector"].values.tolist())
            if "final_obs" in info:
                ends += 1
                history.append(info["final_obs"].entities["Vector"].values.tolist())
                history.append([list(prices or ()) for prices in info["final_info"]["prices"]])
        assert ends > 5
        histories.append(history)
        venv.close()
    assert histories[0] == histories[1]
