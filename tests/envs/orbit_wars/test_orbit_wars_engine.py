"""Orbit Wars against its published engine: every number of every tick."""

from __future__ import annotations

import copy
import math
import random
from typing import Any

import entitize as ez
import numpy as np
import pytest
from entitize.envs import sample_actions
from entitize.envs.games.conquest.orbit_wars import rules
from entitize.envs.games.conquest.orbit_wars.game import OrbitWarsVectorEnv
from entitize.envs.games.conquest.orbit_wars.maps import COMET_TICKS, make_map
from entitize.envs.games.conquest.orbit_wars.view import carry_out, order_launches
from entitize.envs.games.conquest.python_random import randint, seeded, uniform

from published_games import ORBIT_WARS, PublishedGame, orbit_wars

MAX_SPEED, EXPONENTS = 6.0, (2.0, 1.5)


def shown(boards: rules.Boards, game: int) -> tuple[list[Any], list[Any]]:
    """Planets and fleets as the engine lists them."""
    planets = [
        [slot, int(owner), *boards.planets[game, slot, :3].tolist(), int(ships), int(production)]
        for slot, (owner, ships, production) in enumerate(boards.owned[game, : rules.num_slots(boards, game)])
    ]
    rows = range(int(boards.fleet_counts[game]))
    fleets = [
        [int(number), int(owner), *boards.fleets[game, row, :3].tolist(), int(origin), int(ships)]
        for row in rows
        for owner, ships, origin, number in [boards.crews[game, row]]
    ]
    return planets, fleets


def assert_equal(boards: rules.Boards, game: int, published: PublishedGame) -> None:
    planets, fleets = shown(boards, game)
    assert planets == [list(planet) for planet in published.shown.planets]
    assert fleets == [list(fleet) for fleet in published.shown.fleets]


def assert_seen(venv: Any, batch: Any, lane: int, player: int, shown: Any) -> None:
    """Compare what a player observes, by name, with what the engine shows; sides are turned alike."""
    ships, production = np.zeros((2, 4))
    for kind, rows, at in (("Planet", shown.planets, 5), ("Fleet", shown.fleets, 6)):
        names = venv.single_observation_space.entities[kind]
        seen = dict(zip(names, batch.entities[kind][lane].T, strict=True))
        table = np.array([list(row) for row in rows], float).reshape(len(rows), -1)
        owners = table[:, 1]
        assert (seen["ships"] == table[:, at]).all()
        np.testing.assert_allclose(seen["log_ships"], np.log1p(table[:, at]), rtol=1e-6)
        np.testing.assert_allclose(
            np.hypot(seen["x"], seen["y"]), np.hypot(table[:, 2] - 50, table[:, 3] - 50), rtol=1e-5, atol=1e-4
        )
        assert (seen["mine"] == (owners == player)).all()
        enemies = np.array([seen[name] for name in names if name.startswith("enemy")])
        assert (enemies.sum(0) == ((owners != player) & (owners >= 0))).all()
        for owner in set(owners) - {player, -1.0}:
            assert np.ptp(enemies[:, owners == owner].argmax(0)) == 0, "an enemy has a column of its own"
            ships[int(owner)] += table[owners == owner, at].sum()
        ships[player] += table[owners == player, at].sum()
        if kind == "Planet":
            np.testing.assert_allclose(seen["radius"], table[:, 4], rtol=1e-6)
            assert (seen["production"] == table[:, 6]).all()
            for owner in range(4):
                production[owner] = table[owners == owner, 6].sum()
    known = dict(zip(venv.single_observation_space.global_features, batch.globals[lane], strict=True))
    assert known["angular_velocity"] == np.float32(shown.angular_velocity)
    assert known["tick"] == shown.step
    assert (known["my_ships"], known["enemy_ships"]) == (ships[player], ships.sum() - ships[player])
    mine = production[player]
    assert (known["my_production"], known["enemy_production"]) == (mine, production.sum() - mine)


def any_moves(rng: random.Random, published: PublishedGame, player: int) -> list[list[Any]]:
    """Moves in the direction of planets: legal ones, and some that the engine ignores."""
    planets = published.shown.planets
    moves = []
    for number, owner, x, y, _, ships, _ in planets:
        if (owner == player or rng.random() < 0.02) and rng.random() < 0.3:
            target = rng.choice(planets)
            heading = math.atan2(target[3] - y, target[2] - x) + rng.gauss(0, 0.05)
            moves.append([number, heading, rng.choice([1, 5, ships // 2, ships, ships + 1, 0, -3])])
    return moves


def test_random_numbers_are_those_of_python() -> None:
    for seed in (0, 1, 2**40, "orbit_wars-comet-7-50"):
        words, expected = seeded(seed), random.Random(seed)
        for _ in range(500):
            assert uniform(words, -2.0, 5.0) == expected.uniform(-2.0, 5.0)
            assert randint(words, 5, 99) == expected.randint(5, 99)


@pytest.mark.parametrize("seed", [0, 3, 12345, 2**31 - 1])
def test_maps_are_those_of_the_engine(seed: int) -> None:
    made, rng = make_map(seed, 4.0), random.Random(seed)
    assert made.angular_velocity == rng.uniform(0.025, 0.05)
    planets = ORBIT_WARS.generate_planets(rng)
    assert made.bodies.tolist() == [planet[2:5] for planet in planets]
    assert made.contents.tolist() == [planet[5:] for planet in planets]
    assert made.home == rng.randint(0, len(planets) // 4 - 1)
    for group, tick in enumerate(COMET_TICKS):
        rng = random.Random(f"orbit_wars-comet-{seed}-{tick}")
        paths = ORBIT_WARS.generate_comet_paths(planets, made.angular_velocity, tick, [], 4.0, rng=rng)
        length = made.path_lengths[group]
        assert (paths is None) == (length == 0)
        if paths is not None:
            assert made.paths[group, :length].tolist() == [[x, y] for y, x in paths[0]]
            assert made.comet_ships[group] == min(rng.randint(1, 99) for _ in range(4))


@pytest.mark.parametrize(("seed", "num_players"), [(1, 2), (5, 2), (6, 4)])
def test_every_tick_is_that_of_the_engine(seed: int, num_players: int) -> None:
    venv = OrbitWarsVectorEnv(num_players, num_players=num_players, bot=None, max_fleets=4000)
    venv.reset(seed=0, options={"game_seeds": [seed]})
    published, rng, is_over, most = orbit_wars(seed, num_players), random.Random(seed), False, 0
    assert_equal(venv.boards, 0, published)
    while not is_over:
        moves = [any_moves(rng, published, player) for player in range(num_players)]
        is_over = published.step(copy.deepcopy(moves))
        for player, made in enumerate(moves):
            carry_out(venv.boards, 0, player, np.array(made, float).reshape(-1, 3), MAX_SPEED, EXPONENTS[1])
        rules.spawn_comets(venv.boards, 0)
        rules.tick(venv.boards, 0, EXPONENTS[0])
        assert_equal(venv.boards, 0, published)
        most = max(most, int(venv.boards.fleet_counts[0]))
    assert most > 20
    assert venv.boards.ticks[0] in range(51, 500)


@pytest.mark.parametrize(("num_players", "max_fleets"), [(2, 1024), (4, 1024), (2, 70)])
def test_players_of_the_environment_play_by_the_engine(num_players: int, max_fleets: int) -> None:
    """Where fleets are few, who may choose launches, whatever the others have launched before."""
    seeds = [0, 1]
    venv = ez.make_vec(
        "OrbitWars/lanes", num_players * len(seeds), num_players=num_players, max_fleets=max_fleets
    )
    assert isinstance(venv, OrbitWarsVectorEnv)
    batch, _ = venv.reset(seed=0, options={"game_seeds": seeds})
    published, rng = [orbit_wars(seed, num_players) for seed in seeds], np.random.default_rng(0)
    playing, wins = set(range(len(seeds))), 0
    while playing:
        actions = sample_actions(venv.single_action_space, batch, rng)
        moves = [orders(venv, actions, lane) for lane in range(venv.num_envs)]
        batch, rewards, terminated, _, _ = venv.step(actions)
        for game in sorted(playing):
            lanes = slice(game * num_players, (game + 1) * num_players)
            is_over = published[game].step(moves[lanes])
            assert (terminated[lanes] == is_over).all()
            if is_over:
                assert rewards[lanes].tolist() == published[game].rewards
                wins += published[game].rewards.count(1)
                playing.remove(game)
            else:
                assert_equal(venv.boards, game, published[game])
                for player in range(num_players):
                    assert_seen(venv, batch, lanes.start + player, player, published[game].shown)
    assert wins >= len(seeds)


def orders(venv: OrbitWarsVectorEnv, actions: Any, lane: int) -> list[list[float]]:
    """The moves that a lane's choices come to."""
    moves = np.empty((rules.MAX_SLOTS, 3))
    count = order_launches(
        *(venv.boards, int(venv.lane_games[lane]), int(venv.lane_players[lane])),
        *(actions["Target"][lane], actions["Share"][lane], venv.min_ships, MAX_SPEED, EXPONENTS[1], moves),
    )
    return [[int(origin), heading, int(ships)] for origin, heading, ships in moves[:count].tolist()]


@pytest.mark.parametrize("seed", [2, 8])
def test_the_starter_bot_plays_as_the_published_one(seed: int) -> None:
    venv = OrbitWarsVectorEnv(1, bot="starter")
    batch, _ = venv.reset(seed=seed, options={"game_seeds": [seed]})
    me = int(venv.lane_players[0])
    published, is_over, num_moves = orbit_wars(seed, 2), False, 0
    while not is_over:
        moves: list[Any] = [[], []]
        moves[1 - me] = ORBIT_WARS.starter_agent(published.observation(1 - me))
        num_moves += len(moves[1 - me])
        before = venv.boards.ticks[0]
        own = batch.actions["Target"].actors
        waits = {"Target": own, "Share": own.with_values(np.zeros(own.num_items, np.int64))}
        batch, rewards, terminated, _, info = venv.step(waits)  # selecting itself, a planet waits
        is_over = published.step(moves)
        assert is_over == terminated[0]
        if not is_over:
            assert venv.boards.ticks[0] == before + 1
            assert_equal(venv.boards, 0, published)
    assert num_moves > 10
    assert rewards[0] == published.rewards[me]
    assert info["outcome"][0] == {1: "win", -1: "loss"}[published.rewards[me]]
