"""`entitize check --listen`: a game of another program is played at random, and its first error named."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from waiting import PATIENCE
from websocket_games import SPACES, client, free_address

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def address() -> str:
    return free_address()


def checked(entitize: Run, address: str, game: Callable[[], None], *flags: object) -> tuple[int, str, str]:
    """Check a game that runs in a thread; it ends with the check."""

    def run() -> None:
        with suppress(client.AgentError, ConnectionClosed):
            game()

    thread = threading.Thread(target=run)
    thread.start()
    result = entitize("check", "--listen", address, *flags)
    thread.join(PATIENCE)
    assert not thread.is_alive()
    return result


def connected(address: str, spaces: Any = SPACES, **options: Any) -> Any:
    """Connect as soon as the check listens."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return client.Agent.connect(f"ws://{address}", spaces, **options)
        except OSError:
            assert time.monotonic() < end
            time.sleep(0.02)


def act(agent: Any, x: float, score: float) -> None:
    agent.act({"Cat": [[x]], "Mouse": [[3, 4]]}, {"move": {"actors": [0]}}, score=score)


def test_a_game_that_leaves_is_shown_as_far_as_it_came(entitize: Run, address: str) -> None:
    def game() -> None:
        with connected(address) as agent:
            for episode in range(3):
                for step in range(4):
                    act(agent, x=step, score=episode * step)
                agent.game_over(score=episode * 4, truncated=episode == 2)

    code, out, _ = checked(entitize, address, game)
    lines = [line.strip() for line in out.splitlines()]
    assert code == 0 and lines[-1] == "ok" and "12 of 100" in lines[0]
    assert "Cat: 1 at a time; x 0 to 3" in lines
    assert "Mouse: 1 at a time; x always 3, y always 4" in lines
    assert "action move: 1 actor at a time" in lines
    assert "rewards: 0 to 2, and 0 in 33.3 % of the steps" in lines
    assert "episodes: 3 ended (1 truncated), after 4 steps, with returns of 0 to 8" in lines


def test_a_game_that_goes_on_is_played_for_that_many_steps(entitize: Run, address: str) -> None:
    seen = []

    def game() -> None:
        with connected(address, token="secret") as agent:
            while True:
                act(agent, x=len(seen), score=0)
                seen.append(len(seen))

    code, out, _ = checked(entitize, address, game, "--steps", 20, "--token", "secret")
    assert code == 0 and "rewards: always 0" in out and "none ended in 20 steps" in out
    assert len(seen) == 20


def test_players_of_one_game_are_played_together(entitize: Run, address: str) -> None:
    both = threading.Barrier(2, timeout=PATIENCE)

    def player(number: int) -> Callable[[], None]:
        def play() -> None:
            with connected(address, game="chess", player=number) as agent:
                both.wait()
                for step in range(5):
                    act(agent, x=step, score=0)
                agent.game_over(score=number)

        return play

    other = threading.Thread(target=player(1))
    other.start()
    code, out, _ = checked(entitize, address, player(0), "--kwargs", "players=2", "num_envs=2")
    other.join(PATIENCE)
    assert code == 0 and "2 ended, after 5 steps, with returns of 0 to 1" in out


@pytest.mark.parametrize(
    ("spaces", "question", "facts"),
    [
        ({"entities": {"Cat": ["x", "x"]}}, {}, ["hello", "actions"]),
        (SPACES, {"entities": {"Cat": [[0, 1]]}}, ["Cat", "(1, 2)"]),
        (SPACES, {"entities": {"Cat": [[0]]}, "actions": {"move": {"actors": [7]}}}, ["move", "7"]),
    ],
)
def test_the_first_error_ends_the_check(
    entitize: Run, address: str, spaces: Any, question: Any, facts: list[str]
) -> None:
    def game() -> None:
        with connected(address, spaces) as agent:
            act(agent, x=0, score=0)
            agent.act(**{"actions": {}, "score": 0, **question})
            raise AssertionError("the wrong question was answered")

    code, out, err = checked(entitize, address, game)
    assert (code, err) == (1, "")
    assert all(fact in out for fact in facts), out


TWO = {
    **SPACES,
    "actions": {**SPACES["actions"], "wait": {"kind": "GlobalCategorical", "choices": ["a", "b"]}},
}


def test_a_game_in_which_nobody_acts_fails(entitize: Run, address: str) -> None:
    seen = []

    def game() -> None:
        with connected(address, TWO) as agent:
            while True:
                agent.act({"Cat": [[len(seen)]]}, {}, score=0)
                seen.append(0)

    code, out, err = checked(entitize, address, game, "--steps", 5)
    assert (code, err) == (1, "") and "action move: never" in out and "ok" not in out.split()
    assert all(fact in out for fact in ("'move', 'wait'", "50 steps")) and len(seen) == 50, out


def test_an_action_that_never_has_an_actor_gets_a_note(entitize: Run, address: str) -> None:
    seen = []

    def game() -> None:
        with connected(address, TWO) as agent:
            while True:
                acting = {"move": {"actors": [0]}} if len(seen) >= 12 else {}
                agent.act({"Cat": [[len(seen)]]}, acting, score=0)
                seen.append(0)

    code, out, err = checked(entitize, address, game, "--steps", 5)
    assert (code, err) == (0, "") and out.endswith("ok\n"), "an actor that is rare is waited for"
    assert re.search(r"^note: .*12 steps.*'wait'", out, re.MULTILINE), out


def test_it_is_an_environment_or_games(entitize: Run, address: str) -> None:
    for flags, fact in (
        ([], "--listen"),
        (["MineSweeper", "--listen", address], "both"),
        (["MineSweeper", "--token", "secret"], "--token"),
        (["--listen", "7000"], "HOST:PORT"),
        (["--listen", address, "--kwargs", "player=2"], "'players'"),
    ):
        code, _, err = entitize("check", *flags)
        assert code == 2 and fact in err, err


def test_a_game_that_connects_for_each_episode_is_played_on(entitize: Run, address: str) -> None:
    def game() -> None:
        for _ in range(4):
            with connected(address) as agent:
                for step in range(5):
                    act(agent, x=step, score=step)
                agent.game_over(score=5)

    code, out, _ = checked(entitize, address, game, "--steps", 20)
    assert code == 0 and "note" not in out
    assert re.search(r"^20 random steps", out, re.MULTILINE), out
