"""Who wins a game of several players, and where its rounds begin and end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from typing import Any

import entitize as ez
import numpy as np
import pytest
from entitize.adapters.programs import ListeningVectorEnv
from entitize.adapters.programs.lane import SharedGame
from entitize.adapters.programs.outcomes import Result, outcomes_of
from websockets.exceptions import ConnectionClosed

from facts import raises
from websocket_games import SPACE, SPACES, always, client, training

#: Plays rounds with the agents of the players until it is interrupted.
Game = Callable[[list[Any]], None]


@contextmanager
def played(game: Game, players: int = 2, num_games: int = 2) -> Iterator[ListeningVectorEnv]:
    """An environment in which so many games are played."""

    def run(number: int) -> None:
        with ExitStack() as stack, suppress(client.AgentError, ConnectionClosed):
            connect = [
                client.Agent.connect(url, SPACES, game=f"game {number}", player=player)
                for player in range(players)
            ]
            game([stack.enter_context(agent) for agent in connect])

    with ListeningVectorEnv("127.0.0.1:0", players * num_games, SPACE, players=players) as venv:
        url = f"ws://{venv.address}"
        games = [threading.Thread(target=run, args=(number,)) for number in range(num_games)]
        for each in games:
            each.start()
        yield venv
    for each in games:
        each.join()


def move(agent: Any, **result: Any) -> int:
    """Ask for a move: 0 or 1."""
    answer = agent.act({"Cat": [[0.0]]}, {"move": {"actors": [0]}}, **result)
    return int(answer["move"]["choices"][0])


PLAYERS = {"left": always(0), "right": always(1)}


def test_points_before_a_players_first_question_decide_who_has_won() -> None:
    def game(agents: list[Any]) -> None:
        while True:  # RIGHT costs the other one a point, so that nobody wins if both choose it
            scores = [10.0, 10.0]
            for turn in range(4):
                mine, other = turn % 2, 1 - turn % 2
                scores[other] -= move(agents[mine], score=scores[mine])
            for agent, score in zip(agents, scores, strict=True):
                agent.game_over(score=score)

    with played(game) as venv:
        results = ez.self_play.play_matches({**PLAYERS, "also right": always(1)}, venv, games_per_pair=8)
    assert results.wins.tolist() == [[0, 0, 0], [8, 0, 0], [8, 0, 0]]
    assert results.draws[1, 2] == 8


@pytest.mark.parametrize("says_over_to_all", [True, False])
def test_a_round_in_which_a_player_has_no_question_is_a_round(says_over_to_all: bool) -> None:
    """Players begin in turns, and the first move may end the round."""
    rounds: list[tuple[int, list[int | None]]] = []

    def game(agents: list[Any]) -> None:
        for starter in count():
            moves: list[int | None] = [None, None]
            order = (starter % 2, 1 - starter % 2)
            for number in order:
                moves[number] = move(agents[number], score=0)
                if moves[number]:
                    break  # RIGHT wins
            winner = order[1] if moves[order[0]] == 0 else order[0]
            rounds.append((winner, moves))
            for number, agent in enumerate(agents):
                if says_over_to_all or moves[number] is not None:
                    agent.game_over(score=float(number == winner))

    with played(game, num_games=1) as venv:
        results = ez.self_play.play_matches(PLAYERS, venv, games_per_pair=20)
    # LEFT never wins where it begins, and where RIGHT begins there is no question for it.
    assert results.wins.tolist() == [[0, 0], [20, 0]] and not results.draws.any()
    whole = rounds[:20]
    assert all(1 in moves for _, moves in whole)
    assert all(moves.count(0) <= 1 for _, moves in whole), "nobody is exchanged in the middle of a round"


def test_a_pause_of_the_trainer_mixes_no_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each player has a loop of its own, so that one may ask for the next round while the other waits."""
    monkeypatch.setattr(SharedGame, "THINKING", 0.4)
    pauses = iter([1.0] * 5)

    def slowly(choice: int) -> Any:
        def play(batch: ez.EntityBatch, rng: np.random.Generator) -> dict[str, ez.RaggedArray]:
            if batch.actions["move"].actors.num_items:
                time.sleep(next(pauses, 0.0))
            return always(choice)(batch, rng)  # type: ignore[no-any-return]

        return play

    def game(agents: list[Any]) -> None:
        def alone(agent: Any, moves: int) -> None:
            with suppress(client.AgentError, ConnectionClosed):
                while True:
                    total = sum(move(agent, score=0) for _ in range(moves))
                    agent.game_over(score=total / moves)

        loops = [threading.Thread(target=alone, args=pair) for pair in zip(agents, (1, 3), strict=True)]
        for loop in loops:
            loop.start()
        for loop in loops:
            loop.join()

    with played(game, num_games=1) as venv:
        results = ez.self_play.play_matches({"left": slowly(0), "right": slowly(1)}, venv, games_per_pair=12)
    assert results.wins.tolist() == [[0, 0], [12, 0]]


def test_a_game_says_who_has_won() -> None:
    def game(agents: list[Any]) -> None:
        while True:
            moves = [move(agent, score=0) for agent in agents]
            for agent, mine in zip(agents, moves, strict=True):  # LEFT wins, although RIGHT has the score
                agent.game_over(score=mine, outcome="loss" if mine else "win")

    with played(game) as venv:
        results = ez.self_play.play_matches(PLAYERS, venv, games_per_pair=4)
    assert results.wins.tolist() == [[0, 4], [0, 0]]


def test_three_players_of_whom_one_is_out_early() -> None:
    def game(agents: list[Any]) -> None:
        while True:
            scores = [float(move(agent, score=0)) for agent in agents]
            agents[2].game_over(score=-1)
            for agent, score in zip(agents[:2], scores, strict=False):
                move(agent, score=score)
            for agent, score in zip(agents, [*scores[:2], -1.0], strict=True):
                agent.game_over(score=score)

    with played(game, players=3, num_games=1) as venv:
        results = ez.self_play.play_matches(PLAYERS, venv, games_per_pair=12)
        lengths = ez.evaluate(always(1), venv, episodes=9).lengths
    assert lengths.tolist() == [2, 2, 2, 2, 2, 2, 1, 1, 1]
    # RIGHT alone in the place that is out early loses; else whoever chose RIGHT in the first two places wins.
    assert results.games[0, 1] == 12 and results.wins[1, 0] >= 8


def test_outcomes_are_what_players_say_or_who_has_the_most() -> None:
    def of(*totals: float | None) -> list[str | None]:
        return outcomes_of([Result(total) for total in totals])

    assert of(1) == [None] and of(1, None) == [None, None]
    assert of(2, 1) == ["win", "loss"] and of(1, 1) == ["draw", "draw"]
    assert of(3, 1, 3) == ["draw", "loss", "draw"] and of(1, 5, 3) == ["loss", "win", "loss"]
    assert outcomes_of([None, Result(1.0)]) == [None, None]
    assert outcomes_of([Result(0.0, "win"), Result(1.0)]) == ["win", "win"]


def test_an_unknown_outcome_is_refused() -> None:
    with training() as trainer, client.Agent.connect(f"ws://{trainer.venv.address}", SPACES) as agent:
        move(agent, score=0)
        agent.game_over(score=1, outcome="victory")
        with raises(client.AgentError, "outcome", "win, draw, loss", "victory"):
            move(agent, score=0)
