"""Games of several players that connect by WebSocket, each with a lane of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import entitize as ez
import numpy as np
import pytest
from entitize.adapters.programs import ListeningVectorEnv
from websockets.exceptions import ConnectionClosed

from facts import raises
from waiting import wait_until
from websocket_games import SPACE, SPACES, always, ask, client, play, raw, training

MOVES = 5  # of each player in an episode


def race(url: str, name: str) -> None:
    """Episodes of two players who move in turns; RIGHT is a point for the one and costs the other one."""
    with ExitStack() as stack, suppress(client.AgentError, ConnectionClosed):
        agents = [
            stack.enter_context(client.Agent.connect(url, SPACES, game=name, player=player))
            for player in (0, 1)
        ]
        while True:
            lead = 0.0
            for move in range(2 * MOVES):
                player = move % 2
                mine = -lead if player else lead
                answer = agents[player].act({"Cat": [[mine]]}, {"move": {"actors": [0]}}, score=mine)
                lead += (answer["move"]["labels"] == ["RIGHT"]) * (-1 if player else 1)
            for agent, score in zip(agents, (lead, -lead), strict=True):
                agent.game_over(score=score)


@contextmanager
def races(count: int, max_wait: float | None = None) -> Iterator[ListeningVectorEnv]:
    """An environment of so many games. It waits for all of them, but for one player of each alone."""
    with ListeningVectorEnv("127.0.0.1:0", 2 * count, SPACE, max_wait=max_wait, players=2) as venv:
        url = f"ws://{venv.address}"
        games = [threading.Thread(target=race, args=(url, f"race {number}")) for number in range(count)]
        for game in games:
            game.start()
        yield venv
    for game in games:
        game.join()


def test_players_that_move_in_turns_are_evaluated_in_whole_games() -> None:
    with races(3) as venv:
        assert venv.lane_games is not None and venv.lane_games.tolist() == [0, 0, 1, 1, 2, 2]
        for _ in range(3):
            results = ez.evaluate(ez.evaluation.RandomActor(SPACE.actions), venv, episodes=12)
            assert results.lengths.tolist() == [MOVES] * 12
            by_game = results.returns.reshape(3, 2, 2)  # game, player, episode
            # What came before a player's first decision, a point of the other one, is no reward.
            assert np.isin(by_game.sum(1), (0, 1)).all()


def test_matches_are_won_by_the_better_player_in_whole_games() -> None:
    players = {"right": always(1), "left": always(0), "random": ez.evaluation.RandomActor(SPACE.actions)}
    with races(2) as venv:
        results = ez.self_play.play_matches(players, venv, games_per_pair=6)
    assert results.games.sum() == 2 * 3 * 6
    assert results.wins[0].tolist() == [0, 6, 6 - results.draws[0, 2]]
    assert results.wins[2, 1] >= results.wins[1, 2]


def test_past_versions_play_one_side() -> None:
    policy = ez.RogueNet(SPACE, SPACE.actions, d_model=8, n_layer=1)
    with races(2) as venv:
        against = ez.self_play.past_self_play(venv, ez.self_play.OpponentPool(policy))
        trainer = ez.PPO(policy, against, ez.PPOConfig(64, num_steps=8, minibatch_size=16))
        trainer.train(progress=False)
        assert trainer.step >= 64


def test_a_hello_must_say_whose_lane_it_is() -> None:
    hello = {"type": "hello", "protocol": 1}
    with training(num_envs=2, players=2) as trainer:
        for wrong, fact in (
            ({}, "game"),
            ({"game": 3, "player": 0}, "game"),
            ({"game": "a"}, "player"),
            ({"game": "a", "player": 2}, "player"),
            ({"game": "a", "player": True}, "player"),
            ({"game": "a", "player": "1"}, "player"),
        ):
            with raw(trainer) as game:
                answer = ask(game, {**hello, **wrong})
                assert answer["fatal"] and fact in answer["message"]
        with raw(trainer) as game:
            assert ask(game, {**hello, "game": "a", "player": 1})["lane"] == 1
            for taken, fact in (({"game": "a", "player": 1}, "player"), ({"game": "b", "player": 0}, "free")):
                with raw(trainer) as other:
                    answer = ask(other, {**hello, **taken})
                    assert answer["fatal"] and fact in answer["message"]
            with raw(trainer) as other:
                assert ask(other, {**hello, "game": "a", "player": 0})["lane"] == 0

        def is_free() -> bool:
            with raw(trainer) as game:
                return ask(game, {**hello, "game": "b", "player": 0})["type"] == "hello"

        wait_until(is_free)


def test_where_each_connection_is_a_game_the_names_do_not_matter() -> None:
    with training(num_envs=2) as trainer:
        url = f"ws://{trainer.venv.address}"
        with ExitStack() as stack:
            for _ in range(2):
                agent = stack.enter_context(client.Agent.connect(url, SPACES, game="a", player=0))
                play(agent)


def test_lanes_are_of_whole_games() -> None:
    with raises(ValueError, "num_envs", 2, 3):
        ListeningVectorEnv("127.0.0.1:0", 3, SPACE, players=2)
    with pytest.raises((TypeError, ValueError), match="players"):
        ListeningVectorEnv("127.0.0.1:0", 3, SPACE, players=0)
