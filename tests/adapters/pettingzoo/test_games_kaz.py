"""The view of knights, archers, zombies against the game's own vectors."""

from __future__ import annotations

from typing import Any

import entitize as ez
import numpy as np
import pettingzoo
import pytest
from entitize.adapters.pettingzoo.games import KnightsArchersZombiesView
from hypothesis import given, settings
from hypothesis import strategies as st

from facts import raises

#: In the order of the columns of the game's one-hot type; the last marks the row of the one who looks.
TYPES = ("Zombie", "Archer", "Knight", "Sword", "Arrow")
FORWARD, BACKWARD, LEFT, RIGHT, ATTACK, NOTHING = range(6)


def make(**options: Any) -> tuple[Any, KnightsArchersZombiesView]:
    env = pettingzoo.make(
        "parallel", "butterfly/knights_archers_zombies-v11", obs_method="vector-sequence", **options
    )
    env.reset(seed=1)
    return env, KnightsArchersZombiesView(env.unwrapped)


def assert_same(seen: ez.pettingzoo.GameObservation, one_hot: np.ndarray, numbers: np.ndarray) -> None:
    """That entities are the rows of the game's vectors: types (n, 5 or 6) and x, y, heading (n, 4)."""
    for column, name in enumerate(TYPES):
        rows = numbers[one_hot[:, column] == 1]
        width = 2 if name == "Zombie" else 4
        np.testing.assert_allclose(seen.entities[name][:, :width], rows[:, :width], atol=1e-6)
        if name == "Zombie":
            assert (rows[:, 2:] == (0, 1)).all(), "zombies head down"


def check(env: Any, view: KnightsArchersZombiesView, agent: str) -> None:
    vector = env.unwrapped.observe(agent)
    own, others = vector[0], vector[1:]
    assert own[5] == 1
    seen = view.observe(agent)
    assert_same(seen, others[:, :6], others[:, 7:])
    np.testing.assert_allclose(seen.globals, own[7:9], atol=1e-6)
    distances = np.hypot(others[:, 7], others[:, 8]) / np.sqrt(2)
    np.testing.assert_allclose(
        others[:, 6], distances, atol=1e-9, err_msg="a distance says no more than x, y"
    )
    players = {
        name: row
        for kind in ("Archer", "Knight")
        for name, row in zip(seen.ids[kind], seen.entities[kind], strict=True)
    }
    alive = set(env.unwrapped.possible_agents) - set(env.unwrapped.dead_agents)
    assert players.keys() == alive
    for name, row in players.items():
        assert row[4] == (name == agent)
        assert row[5] == 0 or name == agent, "how long another waits is its own affair"
    if agent in players:
        assert (players[agent][:2] == 0).all()
        np.testing.assert_allclose(players[agent][2:4], own[9:], atol=1e-6)


def play(env: Any, seed: int, steps: int, check_each: Any) -> int:
    """Random play with much shooting; returns how many agents died on the way."""
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        if not env.agents:
            break
        actions = {agent: int(rng.choice(6, p=[0.3, 0.05, 0.15, 0.15, 0.3, 0.05])) for agent in env.agents}
        env.step(actions)
        check_each()
    return len(env.unwrapped.dead_agents)


@pytest.mark.parametrize("options", [{}, {"line_death": True, "spawn_delay": 5}, {"max_cycles": 30}])
def test_agents_see_what_their_vectors_say_to_the_end(options: dict[str, Any]) -> None:
    env, view = make(**options)
    env.reset(seed=3)
    deaths = play(env, 3, 400, lambda: [check(env, view, agent) for agent in env.unwrapped.possible_agents])
    assert not env.agents, "the episode is over"
    assert deaths or "max_cycles" in options


@settings(max_examples=15)
@given(archers=st.integers(0, 3), knights=st.integers(0, 3), seed=st.integers(0, 1000))
def test_any_number_of_fighters_is_seen(archers: int, knights: int, seed: int) -> None:
    if not archers + knights:
        archers = 1
    env, view = make(num_archers=archers, num_knights=knights, spawn_delay=4)
    env.reset(seed=seed)
    play(env, seed, 25, lambda: [check(env, view, agent) for agent in env.unwrapped.possible_agents])


def test_a_team_sees_the_screen_as_the_games_state_does() -> None:
    env, view = make(spawn_delay=5)
    env.reset(seed=4)
    team = ("archer_0", "knight_1")

    def check_team() -> None:
        seen = view.observe_team(team)
        state = env.unwrapped.state()
        state = state[state[:, :6].any(1)]
        assert_same(seen, state[:, :6], state[:, 6:])
        assert (seen.globals == 0).all()
        for kind in ("Archer", "Knight"):
            own = [name for name, row in zip(seen.ids[kind], seen.entities[kind], strict=True) if row[4]]
            assert set(own) == {n for n in team if n.startswith(kind.lower()) and n in seen.ids[kind]}

    play(env, 4, 200, check_team)


def test_a_knight_that_attacks_has_a_sword_and_can_do_nothing_until_its_wait_is_over() -> None:
    env, view = make(spawn_delay=10_000)
    env.step({agent: ATTACK if agent == "knight_0" else NOTHING for agent in env.agents})
    waits, headings = [], []
    for _ in range(7):
        seen = view.observe("knight_0")
        row = seen.entities["Knight"][seen.ids["Knight"].index("knight_0")]
        waits.append(row[5])
        headings.append(tuple(row[2:4]))
        env.step(dict.fromkeys(env.agents, LEFT))
    np.testing.assert_allclose(waits, 1 - np.arange(7) / 7, atol=1e-6)
    assert len(set(headings)) == 1
    seen = view.observe("knight_0")
    assert len(seen.entities["Sword"]) == 0
    row = seen.entities["Knight"][seen.ids["Knight"].index("knight_0")]
    assert row[5] == 0 and tuple(row[2:4]) != headings[0]


def test_an_archer_can_shoot_when_its_wait_is_over() -> None:
    env, view = make(spawn_delay=10_000)
    arrows, waits = [], []
    for _ in range(9):
        env.step({agent: ATTACK if agent == "archer_1" else NOTHING for agent in env.agents})
        seen = view.observe("archer_1")
        arrows.append(len(seen.entities["Arrow"]))
        waits.append(float(seen.entities["Archer"][seen.ids["Archer"].index("archer_1")][5]))
    assert arrows == [1, 1, 1, 1, 2, 2, 2, 2, 3]
    assert waits == [1, 0.75, 0.5, 0.25, 1, 0.75, 0.5, 0.25, 1]


def test_choices_are_in_the_order_of_the_games_actions() -> None:
    env, view = make()
    choices = view.choices("archer_0")
    assert [name.split("_")[1].lower() for name in type_names(env)] == [
        {"turn left": "turn", "turn right": "turn", "nothing": "none"}.get(choice, choice)
        for choice in choices
    ]
    before = view.observe("archer_0").entities["Archer"][0]
    env.step({agent: choices.index("turn right") for agent in env.agents})
    after = view.observe("archer_0").entities["Archer"][0]
    assert before[2] == 0 and after[2] > 0, "from up to the right"


def type_names(env: Any) -> list[str]:
    from pettingzoo.butterfly.knights_archers_zombies.src.constants import Actions

    return [action.name for action in Actions]


def test_an_agent_that_the_game_does_not_have_is_named() -> None:
    _, view = make()
    with raises(ValueError, "agent 'paladin_0'", "'archer_0', 'archer_1', 'knight_0'"):
        view.observe("paladin_0")
    with raises(ValueError, "agent 'paladin_0'"):
        view.observe_team(("archer_0", "paladin_0"))
