"""An agent in a game's own loop does what it does in the lanes of `from_pettingzoo`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import entitize as ez
import numpy as np
import pettingzoo
import pytest
import torch
from entitize.pettingzoo import GamePlayer
from mpe2 import simple_speaker_listener_v4, simple_tag_v3

from facts import raises


def positions(game: Any) -> Any:
    return [body.state.p_pos.tolist() for body in game.unwrapped.world.agents]


TAG = partial(simple_tag_v3.parallel_env, max_cycles=15)
SPEAKER = partial(simple_speaker_listener_v4.parallel_env, max_cycles=15)
SNAKES = partial(ez.games.MultiSnakeAgents, render_mode="rgb_array")
#: What makes a game, its view, and what reads its state.
GAMES: dict[str, tuple[Any, Any, Any]] = {
    "a view of the state": (TAG, None, positions),
    "observations": (TAG, ez.views.auto, positions),
    "agents that differ": (SPEAKER, None, positions),
    "continuous": (partial(TAG, continuous_actions=True), None, positions),
    "turns and masks": (
        partial(pettingzoo.make, "aec", "classic/tictactoe-v3"),
        None,
        lambda game: list(game.unwrapped.board.squares),
    ),
    "a board": (
        partial(pettingzoo.make, "aec", "classic/connect_four-v3"),
        ez.views.auto,
        lambda game: list(game.unwrapped.board),
    ),
    "entities of agents that die": (
        lambda: ez.to_pettingzoo(SNAKES()),
        None,
        lambda game: game.render().tolist(),
    ),
}


def network(venv: Any) -> ez.RogueNet:
    torch.manual_seed(3)
    space = venv.single_observation_space
    return ez.RogueNet(space, space.actions, d_model=8, n_layer=1, n_head=1)


def in_lanes(policy: Any, game: Any, view: Any, read: Any) -> list[Any]:
    """The states of a game in lanes, of one episode without its end."""
    venv = ez.from_pettingzoo(game, view=view)
    batch, _ = venv.reset(seed=3)
    ended, got = np.zeros(venv.num_envs, bool), []
    while not ended.all():
        got.append(read(game))
        acted = policy.act(batch, np.random.default_rng(), True)
        batch, _, terminated, truncated, _ = venv.step(acted.actions)
        ended |= terminated | truncated
    venv.close()
    return got


def in_own_loop(player: GamePlayer, game: Any, read: Any) -> list[Any]:
    """The same in the loops that PettingZoo's manual shows."""
    got = []
    if hasattr(game, "agent_iter"):
        game.reset(seed=3)
        for agent in game.agent_iter():
            observation, _, terminated, truncated, info = game.last()
            if terminated or truncated:
                game.step(None)
            else:
                got.append(read(game))
                game.step(player.act(agent, observation, info))
        return got
    observations, infos = game.reset(seed=3)
    while game.agents:
        got.append(read(game))
        actions = {agent: player.act(agent, observations[agent], infos[agent]) for agent in game.agents}
        observations, _, _, _, infos = game.step(actions)
    return got


@pytest.mark.parametrize("name", GAMES)
def test_an_agent_acts_in_the_games_own_loop_as_in_lanes(name: str) -> None:
    make, view, read = GAMES[name]
    with ez.from_pettingzoo(make(), view=view) as venv:
        policy = network(venv)
    game = make()
    got = in_own_loop(GamePlayer(policy, game, view, deterministic=True), game, read)
    assert len(got) > 4 and got[0] != got[-1]
    assert got == in_lanes(policy, make(), view, read)


def test_players_of_their_own_agents_meet_in_one_game(tmp_path: Path) -> None:
    """Each network was trained on the lanes of one kind of agents; one acts without torch."""
    others = {"adversary": {"agent": "random"}, "agent": {"adversary": "random"}}
    networks = {}
    for kind, opponents in others.items():
        with ez.from_pettingzoo(TAG(), opponents=opponents) as venv:
            networks[kind] = network(venv)
            assert len(venv.agents) == (3 if kind == "adversary" else 1)
    ez.save_policy(networks["agent"], tmp_path / "agent")
    game = TAG()
    players = [
        GamePlayer(networks["adversary"], game, agents=["adversary"], seed=1),
        GamePlayer(ez.load_agent(tmp_path / "agent"), game, agents=["agent"], seed=2),
    ]
    assert [len(player.agents) for player in players] == [3, 1]
    observations, infos = game.reset(seed=3)
    while game.agents:
        actions = {
            agent: player.act(agent, observations[agent], infos[agent])
            for player in players
            for agent in player.agents
        }
        observations, _, _, _, infos = game.step(actions)


def test_sampled_actions_follow_from_the_seed() -> None:
    with ez.from_pettingzoo(TAG()) as venv:
        policy = network(venv)

    def played(seed: int) -> list[Any]:
        game = TAG()
        return in_own_loop(GamePlayer(policy, game, seed=seed), game, positions)

    assert played(1) == played(1) != played(2)


def test_masks_are_kept() -> None:
    make = GAMES["turns and masks"][0]
    game = make()
    with ez.from_pettingzoo(make()) as venv:
        player = GamePlayer(network(venv), game, seed=0)
    game.reset()
    observation = game.last()[0]
    observation["action_mask"] = np.eye(9, dtype=np.int8)[4]
    assert all(player.act(game.agent_selection, observation) == 4 for _ in range(10))
    waiting = next(agent for agent in game.agents if agent != game.agent_selection)
    with raises(ValueError, repr(waiting), repr(game.agent_selection)):
        player.act(waiting, observation)


def test_nobody_acts_when_the_game_is_over() -> None:
    game = TAG()
    with ez.from_pettingzoo(TAG()) as venv:
        player = GamePlayer(network(venv), game, seed=0)
    in_own_loop(player, game, positions)
    with raises(ValueError, "'agent_0'"):
        player.act("agent_0", None)


def test_a_policy_without_observations_is_for_its_own_actions() -> None:
    with ez.from_pettingzoo(SPEAKER()) as venv:
        everyones = ez.evaluation.RandomActor(venv.single_action_space)
    game = SPEAKER()
    observations, infos = game.reset(seed=1)
    agent = game.agents[0]
    kind = agent.split("_")[0]
    player = GamePlayer(everyones, game, agents=kind, seed=1)
    assert player.agents == (agent,) and game.action_space(agent).contains(
        player.act(agent, observations[agent], infos[agent])
    )
    with ez.from_pettingzoo(TAG()) as venv:
        other = ez.evaluation.RandomActor(venv.single_action_space)
    with raises(ValueError, "action space"):
        GamePlayer(other, game)


def test_wrong_calls_are_told() -> None:
    with ez.from_pettingzoo(TAG()) as venv:
        policy = network(venv)
    with raises(TypeError, "ParallelEnv"):
        GamePlayer(policy, TAG)
    with raises(TypeError, "act"):
        GamePlayer(object(), TAG())  # type: ignore[arg-type]
    with raises(ValueError, "'agnet'", "'agent'"):
        GamePlayer(policy, TAG(), agents=["agnet"])
    with raises(ValueError, "observation space"):
        GamePlayer(policy, TAG(), ez.views.auto)
    with raises(ValueError, "agents"):
        GamePlayer(policy, TAG(), agents=[])
    with raises(ValueError, "seed", -1):
        GamePlayer(policy, TAG(), seed=-1)
    with raises(TypeError, "RogueNet", "env"):
        GamePlayer(TAG(), policy)
    game = TAG()
    observations, _ = game.reset(seed=1)
    player = GamePlayer(policy, game, agents=["adversary"])
    with raises(ValueError, "'agent_0'", "'adversary_2'"):
        player.act("agent_0", observations["agent_0"])
    with raises(TypeError, "info", 5):
        player.act("adversary_0", observations["adversary_0"], 5)  # type: ignore[arg-type]
    with ez.from_pettingzoo(TAG(), view=ez.views.auto) as venv:
        seeing = GamePlayer(network(venv), game, ez.views.auto)
    with raises(ez.ObservationError, "'adversary_0'", "(16,)"):
        seeing.act("adversary_0", np.zeros(3, np.float32))
