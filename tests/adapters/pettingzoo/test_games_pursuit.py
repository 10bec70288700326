"""The view of pursuit against the grids that the game itself shows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pettingzoo
from entitize.adapters.pettingzoo.games import PursuitView
from hypothesis import given, settings
from hypothesis import strategies as st

from facts import raises

STEPS = {"left": (-1, 0), "right": (1, 0), "up": (0, 1), "down": (0, -1), "stay": (0, 0)}


def make(**options: Any) -> tuple[Any, PursuitView]:
    env = pettingzoo.make("parallel", "sisl/pursuit-v5", **options)
    env.reset(seed=1)
    return env, PursuitView(env.unwrapped)


def as_grid(
    entities: dict[str, np.ndarray], shape: tuple[int, ...], scale: tuple[int, int], at: int
) -> np.ndarray:
    """How many there are in each cell (y, x, of what): obstacles, pursuers, evaders."""
    grid = np.zeros(shape, np.float32)
    for channel, name in enumerate(("Obstacle", "Pursuer", "Evader")):
        cells = entities[name][:, :2] * scale + at
        np.testing.assert_allclose(cells, cells.round(), atol=1e-5)
        for x, y in cells.round().astype(int):
            grid[y, x, channel] += 1
    return grid


def check(env: Any, view: PursuitView) -> None:
    for agent in env.possible_agents:
        seen, grid = view.observe(agent), env.unwrapped.observe(agent)
        sight = len(grid) // 2
        rebuilt = as_grid(seen.entities, grid.shape, (max(sight, 1),) * 2, sight)
        np.testing.assert_array_equal(rebuilt, grid)
        own = seen.ids["Pursuer"].index(agent)
        assert seen.entities["Pursuer"][:, 2].tolist() == [i == own for i in range(len(seen.ids["Pursuer"]))]
        assert seen.entities["Pursuer"][own].tolist() == [0, 0, 1]


@settings(max_examples=12)
@given(
    seed=st.integers(0, 1000),
    size=st.tuples(st.integers(11, 16), st.integers(11, 16)),
    sight=st.sampled_from([1, 3, 5, 7, 9]),
    pursuers=st.integers(1, 6),  # upstream looks for ever for room for more
    evaders=st.integers(1, 8),
)
def test_what_pursuers_see_makes_up_their_grids(
    seed: int, size: tuple[int, int], sight: int, pursuers: int, evaders: int
) -> None:
    env, view = make(x_size=size[0], y_size=size[1], obs_range=sight, n_pursuers=pursuers, n_evaders=evaders)
    env.reset(seed=seed)
    rng = np.random.default_rng(seed)
    for _ in range(15):
        check(env, view)
        if not env.agents:
            break
        env.step({agent: int(rng.integers(5)) for agent in env.agents})


def test_caught_evaders_are_gone_and_the_last_one_ends_the_game() -> None:
    env, view = make(x_size=9, y_size=9, n_evaders=3, n_pursuers=5, surround=False, n_catch=1)
    rng = np.random.default_rng(2)
    counts = []
    while env.agents:
        env.step({agent: int(rng.integers(5)) for agent in env.agents})
        check(env, view)
        counts.append(len(view.observe_team(tuple(env.possible_agents)).entities["Evader"]))
    assert counts == sorted(counts, reverse=True) and counts[0] > 0 and counts[-1] == 0
    seen = view.observe(env.possible_agents[0])
    assert seen.entities["Evader"].shape == (0, 2)


def test_a_team_sees_the_games_whole_state() -> None:
    env, view = make(x_size=14, y_size=11, n_evaders=8)
    team = ("pursuer_1", "pursuer_6")
    rng = np.random.default_rng(3)
    for _ in range(20):
        env.step({agent: int(rng.integers(5)) for agent in env.agents})
        seen = view.observe_team(team)
        state = env.unwrapped.state()
        np.testing.assert_array_equal(as_grid(seen.entities, state.shape, (13, 10), 0), state)
        assert seen.ids["Pursuer"] == env.possible_agents
        assert seen.entities["Pursuer"][:, 2].tolist() == [name in team for name in env.possible_agents]


def test_moves_go_where_they_are_called() -> None:
    env, view = make()
    rng = np.random.default_rng(4)
    gone = set()
    for _ in range(30):
        before = view.observe_team(()).entities["Pursuer"][:, :2] * 15
        actions = {agent: int(rng.integers(5)) for agent in env.agents}
        env.step(actions)
        after = view.observe_team(()).entities["Pursuer"][:, :2] * 15
        for agent, moved in zip(actions, (after - before).round().astype(int).tolist(), strict=True):
            choice = view.choices(agent)[actions[agent]]
            assert tuple(moved) in (STEPS[choice], (0, 0))
            gone.add(tuple(moved))
    assert gone == set(STEPS.values())


def test_an_agent_that_the_game_does_not_have_is_named() -> None:
    _, view = make()
    with raises(ValueError, "agent 'pursuer_8'", "'pursuer_0'", "…"):
        view.observe("pursuer_8")
