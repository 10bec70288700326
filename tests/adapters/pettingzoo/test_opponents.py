"""Who plays for agents that have no lane, and are not in the team."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import entitize as ez
import numpy as np
import pettingzoo
import pytest
from entitize.envs import sample_actions
from gymnasium import spaces
from mpe2 import simple_speaker_listener_v4, simple_tag_v3
from pettingzoo import AECEnv

from facts import raises

TAG = partial(simple_tag_v3.parallel_env, max_cycles=12)
SPEAKER = partial(simple_speaker_listener_v4.parallel_env, max_cycles=12)
TICTACTOE = partial(pettingzoo.make, "aec", "classic/tictactoe-v3")
LEDUC = partial(pettingzoo.make, "aec", "classic/leduc_holdem-v4")
AUTO = ez.views.auto


class Fixed:
    """A policy that always takes the last choice that is allowed, and remembers what it saw."""

    def __init__(self, observation_space: ez.EntitySpace | None = None) -> None:
        if observation_space is not None:
            self.observation_space = observation_space
        self.seen: list[ez.EntityBatch] = []

    def act(self, batch: ez.EntityBatch, rng: np.random.Generator, deterministic: bool = False) -> Any:
        self.seen.append(batch)
        orders = {}
        for name, part in batch.actions.items():
            columns = part.mask.values.shape[1]
            last = columns - 1 - part.mask.values[:, ::-1].argmax(1)
            orders[name] = part.actors.with_values(last)
        return SimpleNamespace(actions=orders)


def last_legal(observation: Any, mask: Any, agent: str) -> int:
    """The same as a function of what the game shows."""
    return int(np.flatnonzero(mask)[-1])


def play(venv: Any, steps: int = 30, seed: int = 3) -> list[tuple[np.ndarray, ...]]:
    """Everything that comes of random play."""
    rng = np.random.default_rng(seed)
    batch, info = venv.reset(seed=seed)
    played = []
    for _ in range(steps):
        batch, rewards, terminated, truncated, info = venv.step(
            sample_actions(venv.single_action_space, batch, rng)
        )
        rows = np.concatenate([rows.values.ravel() for rows in batch.entities.values()])
        played.append((rows, rewards, terminated, truncated, info["inactive"]))
    venv.close()
    return played


def assert_same(one: list[tuple[np.ndarray, ...]], other: list[tuple[np.ndarray, ...]]) -> None:
    for mine, others in zip(one, other, strict=True):
        for a, b in zip(mine, others, strict=True):
            np.testing.assert_array_equal(a, b)


def test_opponents_have_no_lane_and_move_within_the_step() -> None:
    venv = ez.from_pettingzoo(TICTACTOE, opponents={"player_2": "random"}, num_envs=4, view=AUTO)
    assert venv.agents == [(i, "player_1") for i in range(4)]
    played = play(venv)
    for _, _, _, truncated, idle in played:
        assert not idle.any() and not truncated.any()
    assert sum(terminated.sum() for _, _, terminated, _, _ in played) > 10


def test_an_opponent_opens_the_game_where_it_is_its_turn() -> None:
    venv = ez.from_pettingzoo(
        TICTACTOE, opponents={"player_1": last_legal}, num_envs=2, view=ez.views.Vector(name="Board")
    )
    batch, _ = venv.reset(seed=1)
    board = batch.entities["Board"].values.reshape(2, 3, 3, 2)
    assert (board[:, 2, 2] == [0, 1]).all() and board.sum() == 2
    assert not batch.actions["action"].mask.values[:, 8].any()


def test_a_function_is_held_to_the_mask() -> None:
    def stubborn(observation: Any, mask: Any, agent: str) -> int:
        return 0

    venv = ez.from_pettingzoo(TICTACTOE, opponents={"player_1": stubborn}, num_envs=1, view=AUTO)
    batch, _ = venv.reset(seed=1)
    with raises(ez.envs.WorkerError, "'player_1'", "mask", 0):
        venv.step({"action": batch.actions["action"].actors.with_values(np.array([5]))})


@pytest.mark.parametrize("opponent", ["random", last_legal, Fixed()], ids=["random", "function", "policy"])
@pytest.mark.parametrize("name", ["tictactoe", "leduc"])
def test_games_with_opponents_keep_the_rules(name: str, opponent: Any) -> None:
    make, agent = {"tictactoe": (TICTACTOE, "player_1"), "leduc": (LEDUC, "player_0")}[name]
    venv = ez.from_pettingzoo(make, opponents={agent: opponent}, num_envs=2, view=AUTO)
    ez.check_entity_env(venv, num_steps=30)
    venv.close()


def test_a_policy_and_a_function_that_do_the_same_play_the_same_game() -> None:
    games = [
        play(ez.from_pettingzoo(TICTACTOE, opponents={"player_2": who}, num_envs=3, view=AUTO))
        for who in (last_legal, Fixed())
    ]
    assert_same(*games)


def test_an_opponent_moves_as_it_would_in_a_plain_loop() -> None:
    """Adversaries that a function plays: the same game as when the loop asks the function."""
    asked = []

    def chase(observation: np.ndarray, mask: None, agent: str) -> int:
        asked.append((agent, observation.copy(), mask))
        return int(observation[2] > 0) + 1

    venv = ez.from_pettingzoo(TAG, opponents={"adversary": chase}, view=AUTO)
    assert venv.agents == [(0, "agent_0")] and list(venv.single_observation_space.entities) == ["Vector"]
    game = TAG()
    batch, _ = venv.reset(seed=2)
    shown, _ = game.reset(seed=2)
    rng = np.random.default_rng(0)
    for _ in range(12):
        orders = sample_actions(venv.single_action_space, batch, rng)
        told = {a: int(shown[a][2] > 0) + 1 for a in game.agents if a != "agent_0"}
        before = shown
        shown, paid, *_ = game.step({**told, "agent_0": int(orders["action"].values[0])})
        batch, rewards, *_ = venv.step(orders)
        assert rewards[0] == pytest.approx(paid["agent_0"])
        for agent, observation, mask in asked[-3:]:
            assert mask is None
            np.testing.assert_array_equal(observation, before[agent])
        if game.agents:
            np.testing.assert_array_equal(batch.entities["Vector"].values[0], shown["agent_0"])
    venv.close()


def test_random_opponents_are_seeded_and_legal_and_of_all_choices() -> None:
    def made() -> Any:
        return ez.from_pettingzoo(LEDUC, opponents={"player_1": "random"}, num_envs=4, view=AUTO)

    assert_same(play(made()), play(made()))
    venv = ez.from_pettingzoo(TICTACTOE, opponents={"player_1": "random"}, num_envs=60, view=AUTO)
    batch, _ = venv.reset(seed=0)
    taken = (~batch.actions["action"].mask.values).argmax(1)
    assert set(taken) == set(range(9))
    venv.close()


def test_one_policy_sees_all_games_in_one_batch_as_a_lane_would() -> None:
    policy = Fixed()
    venv = ez.from_pettingzoo(TAG, opponents={"adversary": policy}, num_envs=5, view=AUTO)
    lanes = ez.from_pettingzoo(TAG, num_envs=5, view=AUTO)
    batch, _ = venv.reset(seed=1)
    expected, _ = lanes.reset(seed=1)
    venv.action_space.seed(1)
    venv.step(venv.action_space.sample(mask=batch))
    assert len(policy.seen) == 1
    np.testing.assert_array_equal(
        policy.seen[0].entities["Vector"].values, expected.entities["adversary"].values
    )
    venv.close()
    lanes.close()


def test_a_policy_made_for_all_agents_together_can_play_some_of_them() -> None:
    together = ez.from_pettingzoo(SPEAKER, view=AUTO)
    policy = Fixed(together.single_observation_space)
    venv = ez.from_pettingzoo(SPEAKER, opponents={"speaker": policy}, view=AUTO)
    assert list(venv.single_observation_space.entities) == ["Vector"]
    batch, _ = venv.reset(seed=1)
    venv.action_space.seed(1)
    venv.step(venv.action_space.sample(mask=batch))
    assert policy.seen[0].entities["speaker"].lengths.tolist() == [1]
    assert list(policy.seen[0].actions) == ["speaker", "listener"]
    alone = Fixed(
        ez.from_pettingzoo(SPEAKER, opponents={"listener": "random"}, view=AUTO).single_observation_space
    )
    venv = ez.from_pettingzoo(SPEAKER, opponents={"speaker_0": alone}, view=AUTO)
    batch, _ = venv.reset(seed=1)
    venv.action_space.seed(1)
    venv.step(venv.action_space.sample(mask=batch))
    assert list(alone.seen[0].entities) == ["Vector"]


def test_a_name_counts_for_more_than_a_kind() -> None:
    asked: list[str] = []

    def noting(observation: Any, mask: Any, agent: str) -> int:
        asked.append(agent)
        return 0

    venv = ez.from_pettingzoo(TAG, opponents={"adversary": "random", "adversary_1": noting}, view=AUTO)
    batch, _ = venv.reset(seed=1)
    venv.action_space.seed(1)
    venv.step(venv.action_space.sample(mask=batch))
    assert asked == ["adversary_1"]


class Ambush(AECEnv[str, Any, Any]):
    """The villain moves first; with 1 it ends the game at once, and every hero gets 5."""

    metadata = {"name": "ambush_v0", "render_modes": []}  # noqa: RUF012 - PettingZoo's form
    render_mode = None

    def __init__(self) -> None:
        self.possible_agents = ["villain_0", "hero_0"]

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        return spaces.Box(0, 9, (1,), np.float32)

    def action_space(self, agent: str) -> spaces.Space[Any]:
        return spaces.Discrete(2)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        self.agents = list(self.possible_agents)
        self.agent_selection = "villain_0"
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: {} for agent in self.agents}

    def observe(self, agent: str) -> np.ndarray:
        return np.ones(1, np.float32)

    def step(self, action: int | None) -> None:
        agent = self.agent_selection
        if self.terminations[agent]:
            self._was_dead_step(action)
            return
        self._cumulative_rewards[agent] = 0
        self._clear_rewards()
        if agent == "hero_0" or action == 1:
            self.terminations = dict.fromkeys(self.agents, True)
            self.rewards["hero_0"] = 5.0 if agent == "villain_0" else 1.0
        self.agent_selection = "hero_0" if agent == "villain_0" else "villain_0"
        self._accumulate_rewards()
        self._deads_step_first()


@pytest.mark.parametrize("mode", ["lanes", "team"])
def test_a_game_that_opponents_end_before_anybody_could_move_is_told_in_the_next_step(mode: Any) -> None:
    moves = iter([0, 1, 1, 0, 0])
    env = ez.from_pettingzoo(
        Ambush(), mode, opponents={"villain": lambda observation, mask, agent: next(moves)}
    )
    returned = []
    seen, info = env.reset(seed=1)
    env.action_space.seed(1)
    idle = [bool(info["inactive"][0])] if mode == "lanes" else []
    for _ in range(4):
        seen, reward, terminated, _, info = env.step(env.action_space.sample(mask=seen))
        returned.append((float(np.squeeze(reward)), bool(np.squeeze(terminated))))
        if mode == "lanes":
            idle.append(bool(info["inactive"][0]))
        else:
            seen, _ = env.reset()
    assert returned == [(1, True), (5, True), (5, True), (1, True)]
    if mode == "lanes":
        assert idle == [False, True, True, False, False]


def _wrong_action(observation: Any, mask: Any, agent: str) -> int:
    return 99


@pytest.mark.parametrize(
    ("opponents", "error", "facts"),
    [
        (
            {"adversry": "random"},
            ValueError,
            ["opponents", "agent", "kind 'adversry'"],
        ),
        (
            {"adversary_0": "randm"},
            ValueError,
            ["tag_v3", "'randm'", "'adversary_0'", "'random'"],
        ),
        ({"adversary_0": 3}, TypeError, ["'adversary_0'", 3, "'random'"]),
        ({"adversary": "random", "agent": "random"}, ValueError, ["opponents", "agents"]),
        ("random", ValueError, ["dict", "lanes", "'agent_0'"]),
        (
            {"agent": Fixed(ez.EntitySpace({}, ez.EntityActionSpace({})))},
            ValueError,
            ["'agent_0'", "EntitySpace"],
        ),
    ],
)
def test_opponents_that_cannot_play_are_told_at_once(
    opponents: Any, error: type[Exception], facts: list[object]
) -> None:
    with raises(error, *facts):
        ez.from_pettingzoo(TAG, opponents=opponents, view=AUTO)


def test_an_opponent_that_raises_or_does_what_cannot_be_done_is_named_and_everything_closed() -> None:
    def broken(observation: Any, mask: Any, agent: str) -> int:
        raise KeyError("no such key")

    for player, facts in (
        (broken, ["KeyError", "'adversary_0'", "'no such key'"]),
        (_wrong_action, ["opponent", "'adversary_0'", 99, "Discrete(5)"]),
    ):
        closed: list[int] = []
        venv = ez.from_pettingzoo(
            partial(closing, closed), num_envs=2, opponents={"adversary": player}, view=AUTO
        )
        batch, _ = venv.reset(seed=1)
        venv.action_space.seed(1)
        with raises(ez.WorkerError, "game 0", "simple_tag_v3", *facts) as caught:
            venv.step(venv.action_space.sample(mask=batch))
        assert caught.value.env_indices == (0,)
        assert len(closed) == 2


def test_an_opponent_that_raises_in_a_game_of_turns_is_named() -> None:
    def broken(observation: Any, mask: Any, agent: str) -> int:
        raise KeyError("no such key")

    game = partial(pettingzoo.make, "aec", "classic/tictactoe-v3")
    venv = ez.from_pettingzoo(game, opponents={"player_1": broken})
    with raises(ez.WorkerError, "game 0", "KeyError", "opponent 'player_1'") as caught:
        venv.reset(seed=1)  # player_1 moves first
    assert "observe" not in str(caught.value)


def closing(closed: list[int]) -> Any:
    game = TAG()
    game.close = lambda: closed.append(1)
    return game


def test_a_policy_with_two_parameters_can_be_an_opponent() -> None:
    class Two:
        def act(self, batch: ez.EntityBatch, rng: np.random.Generator) -> Any:
            return Fixed().act(batch, rng)

    played = [
        play(ez.from_pettingzoo(TAG(), view=AUTO, opponents={"adversary": opponent}))
        for opponent in (Two(), Fixed())
    ]
    for mine, its in zip(*played, strict=True):
        for one, other in zip(mine, its, strict=True):
            np.testing.assert_array_equal(one, other)
