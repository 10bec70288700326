"""Planet Wars against its published engine: every number of every turn; and what players see."""

from __future__ import annotations

from typing import Any

import entitize as ez
import gymnasium
import numpy as np
import pytest
from entitize.envs import sample_actions
from entitize.envs.games.conquest.planet_wars.game import PlanetWarsVectorEnv
from entitize.envs.games.conquest.planet_wars.maps import make_map
from entitize.envs.games.conquest.planet_wars.rules import Galaxies, advance, send

from facts import raises
from published_games import PLANET_WARS, PublishedGame, planet_wars

SHARES = np.array([0.25, 0.5, 0.75, 1.0])


def assert_equal(galaxies: Galaxies, game: int, published: PublishedGame) -> None:
    count, flying = int(galaxies.planet_counts[game]), int(galaxies.fleet_counts[game])
    planets = [
        [i, *galaxies.places[game, i].tolist(), *galaxies.owned[game, i].tolist()] for i in range(count)
    ]
    assert planets == published.shown.planets
    assert galaxies.fleets[game, :flying].tolist() == published.shown.fleets


def test_maps_are_those_of_the_engine() -> None:
    for seed in range(200):
        places, owned = make_map(seed)
        planets, _ = PLANET_WARS.generate_map(seed)
        assert places.tolist() == [planet[1:3] for planet in planets]
        assert owned.tolist() == [planet[3:] for planet in planets]


@pytest.mark.parametrize("seed", range(4))
def test_every_turn_is_that_of_the_engine(seed: int) -> None:
    """With several orders of a planet in a turn, and to the same destination."""
    venv, rng = PlanetWarsVectorEnv(2, bot=None), np.random.default_rng(seed)
    venv.reset(seed=0, options={"game_seeds": [seed]})
    published, is_over, most = planet_wars(seed), False, 0
    while not is_over:
        orders: list[list[Any]] = [[], []]
        for number, _, _, owner, ships, _ in published.shown.planets:
            for _ in range(rng.integers(3) if owner else 0):
                target, sent = int(rng.integers(len(published.shown.planets))), int(rng.integers(1, 30))
                if target != number and sent <= ships:
                    orders[owner - 1].append([number, target, sent])
                    ships -= sent
        is_over = published.step(orders)
        for player, made in enumerate(orders, 1):
            assert all(send(venv.galaxies, 0, player, *order) for order in made)
        advance(venv.galaxies, 0)
        assert_equal(venv.galaxies, 0, published)
        most = max(most, int(venv.galaxies.fleet_counts[0]))
    assert most > 10


def test_players_of_the_environment_play_by_the_engine() -> None:
    seeds = list(range(8))
    venv = ez.make_vec("PlanetWars/lanes", 2 * len(seeds))
    assert isinstance(venv, PlanetWarsVectorEnv)
    batch, _ = venv.reset(seed=0, options={"game_seeds": seeds})
    published, rng = [planet_wars(seed) for seed in seeds], np.random.default_rng(0)
    playing, outcomes = set(range(len(seeds))), []
    while playing:
        actions = sample_actions(venv.single_action_space, batch, rng)
        orders = [orders_of(batch, actions, lane) for lane in range(venv.num_envs)]
        batch, rewards, terminated, _, info = venv.step(actions)
        for game in sorted(playing):
            lanes = slice(2 * game, 2 * game + 2)
            is_over = published[game].step(orders[lanes])
            assert (terminated[lanes] == is_over).all()
            if is_over:
                assert rewards[lanes].tolist() == published[game].rewards
                outcomes += info["outcome"][lanes].tolist()
                playing.remove(game)
            else:
                assert_equal(venv.galaxies, game, published[game])
    assert outcomes.count("win") == outcomes.count("loss") > 0


def orders_of(batch: Any, actions: Any, lane: int) -> list[list[int]]:
    """The orders that a lane's choices come to, from what it observes."""
    ships = batch.entities["Planet"][lane][:, 3]
    actors = batch.actions["Target"].actors[lane]
    chosen = zip(actors, actions["Target"][lane], actions["Share"][lane], strict=True)
    return [
        [int(source), int(target), max(1, int(ships[source] * SHARES[share]))]
        for source, target, share in chosen
        if source != target
    ]


def test_a_single_game_tells_its_outcome() -> None:
    env, ended = gymnasium.make("entitize/PlanetWars-v0", bot="random", max_turns=3), False
    env.reset(seed=1)
    env.action_space.seed(1)
    while not ended:
        _, reward, ended, _, info = env.step(env.action_space.sample())
        assert list(info) == (["outcome"] if ended else [])
    assert info["outcome"] == {1: "win", 0: "draw", -1: "loss"}[int(reward)]


@pytest.mark.parametrize("seed", [3, 9])
def test_the_nearest_enemy_bot_plays_as_the_published_one(seed: int) -> None:
    venv = PlanetWarsVectorEnv(1, bot="nearest_enemy")
    batch, _ = venv.reset(seed=seed, options={"game_seeds": [seed]})
    me = int(venv.lane_players[0])
    published, is_over = planet_wars(seed), False
    while not is_over:
        orders: list[Any] = [[], []]
        orders[1 - me] = PLANET_WARS.nearest_enemy({**vars(published.shown), "player": 2 - me})
        own = batch.actions["Target"].actors  # selecting itself, a planet waits
        waits = {"Target": own, "Share": own.with_values(np.zeros(own.num_items, np.int64))}
        batch, rewards, terminated, _, _ = venv.step(waits)
        is_over = published.step(orders)
        assert is_over == terminated[0]
        if not is_over:
            assert_equal(venv.galaxies, 0, published)
    assert rewards[0] == published.rewards[me]


def test_fleets_are_seen_on_their_way() -> None:
    venv, rng = PlanetWarsVectorEnv(2, bot=None), np.random.default_rng(0)
    batch, _ = venv.reset(seed=1)
    names = venv.single_observation_space.entities["Fleet"]
    seen = 0
    for _ in range(60):
        batch, *_ = venv.step(sample_actions(venv.single_action_space, batch, rng))
        fleets = venv.galaxies.fleets[0, : venv.galaxies.fleet_counts[0]]
        places = venv.galaxies.places[0] - 15.0
        for lane in range(2):
            rows = {name: batch.entities["Fleet"][lane][:, i] for i, name in enumerate(names)}
            left = (fleets[:, 5] / fleets[:, 4])[:, None]
            expected = places[fleets[:, 3]] + left * (places[fleets[:, 2]] - places[fleets[:, 3]])
            assert np.allclose(np.stack([rows["x"], rows["y"]], 1), expected, atol=1e-4)
            assert rows["mine"].tolist() == (fleets[:, 0] == lane + 1).tolist()
            assert rows["enemy"].tolist() == (fleets[:, 0] == 2 - lane).tolist()
            assert rows["turns_remaining"].tolist() == fleets[:, 5].tolist()
            seen += len(fleets)
    assert seen > 50


def test_the_forecast_is_what_happens_if_nobody_sends() -> None:
    venv, rng = PlanetWarsVectorEnv(8, bot=None, fleets="forecast"), np.random.default_rng(0)
    batch, _ = venv.reset(seed=0)
    assert list(venv.single_observation_space.entities) == ["Planet"]
    names = list(venv.single_observation_space.entities["Planet"])
    force = ["ships", "log_ships", "mine", "enemy"]
    for _ in range(25):
        batch, *_ = venv.step(sample_actions(venv.single_action_space, batch, rng))
    before, changes = batch.entities["Planet"].values, 0
    for turn in range(1, 41):
        own = batch.actions["Target"].actors  # selecting itself, a planet waits
        waits = {"Target": own, "Share": own.with_values(np.zeros(own.num_items, np.int64))}
        batch, _, terminated, *_ = venv.step(waits)
        assert not terminated.any()
        if turn in (5, 10, 20, 40):
            now = batch.entities["Planet"].values[:, [names.index(name) for name in force]]
            foreseen = before[:, [names.index(f"{name}_in_{turn}") for name in force]]
            assert np.array_equal(foreseen, now)
            changes += int((before[:, names.index("mine")] != now[:, 2]).sum())
    assert changes > 0


@pytest.mark.parametrize(
    ("options", "told"),
    [({"bot": "clever"}, ("bot", "random", "clever")), ({"max_turns": 1}, ("max_turns", 2, 1))],
)
def test_options_out_of_range_are_refused(options: dict[str, Any], told: tuple[Any, ...]) -> None:
    with raises(ValueError, *told):
        PlanetWarsVectorEnv(**options)
    with raises(TypeError, "max_turns", "'9'"):
        PlanetWarsVectorEnv(max_turns="9")  # type: ignore[arg-type]
