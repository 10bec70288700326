"""The view of MAgent2's games against the grids of channels that the games themselves show."""

from __future__ import annotations

import importlib
from typing import Any

import entitize as ez
import numpy as np
import pytest
from entitize.adapters.pettingzoo.games import MagentView, find_view

from facts import raises

#: Game -> options, and the groups (type, side) in the order of the engine.
GAMES: dict[str, tuple[dict[str, Any], list[tuple[str, int]]]] = {
    "battle_v4": ({"map_size": 24}, [("Soldier", 0), ("Soldier", 1)]),
    "battlefield_v5": ({"map_size": 60}, [("Soldier", 0), ("Soldier", 1)]),
    "combined_arms_v6": ({"map_size": 16}, [("Melee", 0), ("Ranged", 0), ("Melee", 1), ("Ranged", 1)]),
    "adversarial_pursuit_v4": ({"map_size": 20}, [("Predator", 0), ("Prey", 1)]),
    "tiger_deer_v4": ({"map_size": 20}, [("Deer", 0), ("Tiger", 1)]),
    "gather_v5": ({}, [("Food", 1), ("Omnivore", 0)]),
}
ROLES = {
    "redmelee": 0, "redranged": 1, "bluemelee": 2, "blueranged": 3, "red": 0, "blue": 1,
    "predator": 0, "prey": 1, "deer": 0, "tiger": 1, "omnivore": 1,
}  # fmt: skip


def make(name: str, **options: Any) -> tuple[Any, MagentView]:
    env = importlib.import_module(f"magent2.environments.{name}").parallel_env(**(GAMES[name][0] | options))
    env.reset(seed=1)
    view = find_view(env.unwrapped)
    assert view is MagentView
    return env, view(env.unwrapped)


def random_actions(env: Any, rng: np.random.Generator) -> dict[str, int]:
    return {agent: int(rng.integers(env.action_space(agent).n)) for agent in env.agents}


def warlike_actions(env: Any, view: MagentView, rng: np.random.Generator) -> dict[str, int]:
    """Half of the time a blow at random; otherwise red goes to the right and blue to the left."""
    actions = random_actions(env, rng)
    for agent in env.agents:
        ahead = "move +1 +0" if agent.startswith("red") else "move -1 +0"
        choices = view.choices(agent)
        if ahead in choices and rng.random() < 0.5:
            actions[agent] = choices.index(ahead)
        elif choices[-1].startswith("attack"):
            actions[agent] = int(rng.choice([i for i, c in enumerate(choices) if c.startswith("attack")]))
    return actions


def reset_and_step(env: Any, seed: int) -> None:
    """MAgent2 0.3.4 gives all groups the first one's actions in the first step of a game."""
    env.reset(seed=seed)
    env.step(random_actions(env, np.random.default_rng(seed)))


def prefix(agent: str) -> str:
    return agent.rpartition("_")[0]


def own_rows(seen: ez.pettingzoo.GameObservation) -> set[object]:
    return {
        name
        for kind, ids in seen.ids.items()
        for name, row in zip(ids, seen.entities[kind], strict=True)
        if row[4]
    }


def as_channels(
    seen: ez.pettingzoo.GameObservation, agent: str, groups: list[tuple[str, int]], shape: tuple[int, ...]
) -> np.ndarray:
    """The observation (h, w, 1 + 2 groups) that shows these entities: walls, then presence and hp of the
    observer's own group and of those that follow it."""
    grid = np.zeros(shape, np.float32)
    own = ROLES[prefix(agent)]
    side = groups[own][1]
    width = shape[0]
    radius, centre = width // 2, (width - 1) / 2
    for x, y in seen.entities["Wall"] * radius + centre:
        grid[round(y), round(x), 0] = 1
    for kind, rows in seen.entities.items():
        for x, y, hp, ally, _ in rows if kind != "Wall" else ():
            group = groups.index((kind, side if ally else 1 - side))
            channel = 1 + 2 * ((group - own) % len(groups))
            body = (-0.5, 0.5) if kind == "Predator" else (0.0,)
            for dx in body:
                for dy in body:
                    cell_x, cell_y = x * radius + dx, y * radius + dy
                    if cell_x**2 + cell_y**2 < radius**2 + 0.01:
                        grid[round(cell_y + centre), round(cell_x + centre), channel : channel + 2] = 1, hp
    return grid


@pytest.mark.parametrize("name", GAMES)
def test_what_agents_see_makes_up_their_observations_to_the_end(name: str) -> None:
    large = name == "gather_v5"
    env, view = make(name, max_cycles=6 if large else 105 if name == "tiger_deer_v4" else 60)
    groups = GAMES[name][1]
    rng = np.random.default_rng(3)
    deaths = 0
    for seed in (1, 2) if name != "tiger_deer_v4" else (1,):
        observations, _ = env.reset(seed=seed)
        while env.agents:
            for agent in env.agents[:: 25 if large else 1]:
                seen, grid = view.observe(agent), observations[agent]
                np.testing.assert_array_equal(
                    as_channels(seen, agent, groups, grid.shape), grid, err_msg=agent
                )
                assert list(seen.entities) == list(view.entities)
                assert own_rows(seen) == {agent}
            observations, _, terminated, truncated, _ = env.step(warlike_actions(env, view, rng))
            dead = [agent for agent in terminated if terminated[agent] and not truncated[agent]]
            deaths += len(dead)
            for agent in dead if env.agents else ():
                seen = view.observe(agent)
                assert not seen.entities and not seen.ids, "the dead see nothing"
    assert deaths or name in ("adversarial_pursuit_v4", "battlefield_v5", "gather_v5")


@pytest.mark.parametrize("name", GAMES)
def test_a_team_sees_the_games_whole_state(name: str) -> None:
    env, view = make(name)
    groups, size = GAMES[name][1], env.unwrapped.map_size
    rng = np.random.default_rng(4)
    for _ in range(4):
        env.step(random_actions(env, rng))
    team = tuple(agent for agent in env.possible_agents if prefix(agent) == prefix(env.possible_agents[0]))[
        :30
    ]
    seen = view.observe_team(team)
    side = groups[ROLES[prefix(team[0])]][1]
    state = env.unwrapped.state()
    grid = np.zeros_like(state)
    grid[..., 0] = state[..., 0]  # upstream keeps the walls of the game before
    for kind, rows in seen.entities.items():
        for x, y, hp, ally, _ in rows if kind != "Wall" else ():
            channel = 1 + 2 * groups.index((kind, side if ally else 1 - side))
            corner = np.array([x, y]) * (size - 1) - (0.5 if kind == "Predator" else 0)
            column, row = corner.round().astype(int)
            grid[column, row, channel : channel + 2] = 1, hp
    np.testing.assert_array_equal(grid, state)
    assert own_rows(seen) == set(team) & set(env.agents)
    walls = (seen.entities["Wall"] * (size - 1)).round().astype(int)
    engine = env.unwrapped.env._get_walls_info()
    assert set(map(tuple, walls.tolist())) == set(map(tuple, engine.tolist()))


def where(view: MagentView, agents: list[str], size: int) -> dict[str, tuple[int, ...]]:
    """x and y, in cells, of all agents."""
    seen = view.observe_team(tuple(agents))
    return {
        str(name): tuple((row[:2] * (size - 1)).round(1).tolist())
        for kind, ids in seen.ids.items()
        for name, row in zip(ids, seen.entities[kind], strict=True)
    }


@pytest.mark.parametrize("name", GAMES)
def test_moves_go_where_they_are_called(name: str) -> None:
    env, view = make(name)
    size = env.unwrapped.map_size
    reset_and_step(env, 5)
    rng = np.random.default_rng(5)
    gone = set()
    for _ in range(12 if name != "gather_v5" else 3):
        before = where(view, env.agents, size)
        actions = random_actions(env, rng)
        names = {agent: view.choices(agent)[action] for agent, action in actions.items()}
        env.step(actions)
        after = where(view, env.agents, size)
        for agent in env.agents:
            moved = tuple(np.subtract(after[agent], before[agent]).round().astype(int).tolist())
            if moved != (0, 0):
                kind, x, y = names[agent].split()
                assert kind == "move" and moved == (int(x), int(y))
                gone.add((prefix(agent), names[agent]))
    possible = {
        (prefix(agent), choice)
        for agent in env.possible_agents
        for choice in view.choices(agent)
        if choice.startswith("move")
    }
    assert len(gone) > 0.7 * len(possible)


@pytest.mark.parametrize("name", ["battle_v4", "combined_arms_v6", "adversarial_pursuit_v4"])
def test_attacks_hit_where_they_are_called(name: str) -> None:
    """Only who hits an opponent is rewarded."""
    rewards = {"tag_penalty": 0.0}
    if name != "adversarial_pursuit_v4":
        rewards = {
            "step_reward": 0.0,
            "dead_penalty": 0.0,
            "attack_penalty": 0.0,
            "attack_opponent_reward": 1.0,
        }
    env, view = make(name, **rewards)
    size = env.unwrapped.map_size
    reset_and_step(env, 6)
    groups, rng = GAMES[name][1], np.random.default_rng(6)
    hits = misses = 0
    for _ in range(40):
        before = where(view, env.agents, size)
        cells = {place: agent for agent, place in before.items()}
        actions = warlike_actions(env, view, rng)
        names = {agent: view.choices(agent)[action] for agent, action in actions.items()}
        _, gained, _, _, _ = env.step(actions)
        for agent, choice in names.items():
            if choice.startswith("attack"):
                offset = np.array(choice.split()[1:], float)
                target = cells.get(tuple((before[agent] + offset).round(1).tolist()), agent)
                is_opponent = groups[ROLES[prefix(target)]][1] != groups[ROLES[prefix(agent)]][1]
                assert gained[agent] <= 0 or is_opponent
                hits += gained[agent] > 0
                misses += gained[agent] <= 0
    assert hits > 5 and misses > 5


def test_dead_agents_are_no_rows_of_their_team() -> None:
    env, view = make("battle_v4")
    rng = np.random.default_rng(7)
    team = tuple(agent for agent in env.possible_agents if agent.startswith("red"))
    while env.agents and all(agent in env.agents for agent in team):
        env.step(warlike_actions(env, view, rng))
    seen = view.observe_team(team)
    assert own_rows(seen) == set(team) & set(env.agents)
    assert 0 < len(own_rows(seen)) < len(team)
    assert set(seen.ids["Soldier"]) == set(env.agents)


def test_a_new_game_is_read_anew_even_if_no_step_lies_between() -> None:
    env, view = make("adversarial_pursuit_v4")
    places = []
    for seed in (1, 2, 1):
        env.reset(seed=seed)
        places.append(where(view, env.agents, env.unwrapped.map_size))
    assert places[0] == places[2] != places[1]


def test_what_is_handed_out_belongs_to_who_asked() -> None:
    _, view = make("battle_v4")
    first = view.observe("red_0")
    first.entities["Soldier"][:] = 9
    first.ids["Soldier"].clear()
    second = view.observe("red_0")
    assert (second.entities["Soldier"] <= 1).all() and "red_0" in second.ids["Soldier"]


def test_looking_changes_nothing_in_the_game() -> None:
    histories = []
    for looks in (False, True):
        env, view = make("battle_v4")
        rng = np.random.default_rng(8)
        history = []
        for _ in range(25):
            observations, rewards, *_ = env.step(random_actions(env, rng))
            history.append((np.array([observations[a] for a in observations]).sum(), sum(rewards.values())))
            if looks:
                for agent in env.agents:
                    view.observe(agent)
        histories.append(history)
    assert histories[0] == histories[1]


@pytest.mark.parametrize("option", ["minimap_mode", "extra_features"])
def test_games_that_show_more_than_entities_are_refused(option: str) -> None:
    with raises(ez.views.ViewError, f"{option}=True", f"{option}=False"):
        make("battle_v4", **{option: True})


def test_an_agent_that_the_game_does_not_have_is_named() -> None:
    _, view = make("battle_v4")
    for ask in (view.observe, view.choices, lambda agent: view.observe_team((agent,))):
        with raises(ValueError, "agent 'green_0'", "'red_0'"):
            ask("green_0")
