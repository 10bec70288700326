"""Orbit Wars as an environment: what players see, options, and agents in games of the published engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import entitize as ez
import numpy as np
import pytest
import torch
from entitize.envs import sample_actions
from entitize.envs.games.conquest.orbit_wars.game import OrbitWarsVectorEnv
from entitize.envs.games.conquest.orbit_wars.player import OrbitWarsPlayer, read_boards

from facts import raises
from published_games import orbit_wars

CENTRE = 50.0


def small_net(venv: ez.EntityVectorEnv) -> ez.RogueNet:
    torch.manual_seed(0)
    spaces = venv.single_observation_space, venv.single_action_space
    return ez.RogueNet(*spaces, d_model=8, n_layer=1, n_head=1)


def test_planets_are_seen_from_the_sun() -> None:
    venv = OrbitWarsVectorEnv(2, bot=None)
    batch, _ = venv.reset(seed=0, options={"game_seeds": [4]})
    planets = orbit_wars(4, 2).shown.planets
    names = venv.single_observation_space.entities["Planet"]
    for lane, turn in enumerate((1, -1)):
        rows = {name: batch.entities["Planet"][lane][:, i] for i, name in enumerate(names)}
        assert np.allclose(rows["x"], [turn * (planet[2] - CENTRE) for planet in planets])
        assert np.allclose(rows["y"], [turn * (planet[3] - CENTRE) for planet in planets])
        assert rows["mine"].tolist() == [float(planet[1] == lane) for planet in planets]
        assert rows["enemy"].tolist() == [float(planet[1] == 1 - lane) for planet in planets]
        assert rows["ships"].tolist() == [planet[5] for planet in planets]
        assert np.allclose(rows["log_ships"], np.log1p([planet[5] for planet in planets]))


@pytest.mark.parametrize("num_players", [2, 4])
def test_all_players_start_alike(num_players: int) -> None:
    venv = OrbitWarsVectorEnv(num_players, bot=None, num_players=num_players)
    batch, _ = venv.reset(seed=3)
    seen = [batch.entities["Planet"][lane] for lane in range(num_players)]
    own = list(venv.single_observation_space.entities["Planet"]).index("mine") + 1
    first = seen[0][np.lexsort(np.round(seen[0][:, :own].T, 3))]
    for rows in seen[1:]:
        assert np.allclose(rows[np.lexsort(np.round(rows[:, :own].T, 3))], first, atol=1e-4)
    assert all(rows.tolist() == batch.globals[0].tolist() for rows in batch.globals)


def test_velocities_say_where_things_are_next() -> None:
    venv, rng = OrbitWarsVectorEnv(2, bot=None), np.random.default_rng(0)
    batch, _ = venv.reset(seed=0, options={"game_seeds": [1]})
    compared = 0
    for _ in range(80):
        before = batch
        fleet_ids = venv.boards.crews[0, : venv.boards.fleet_counts[0], 3].tolist()
        batch, *_ = venv.step(sample_actions(venv.single_action_space, batch, rng))
        old, new = before.entities["Planet"][0], batch.entities["Planet"][0]
        same = min(len(old), len(new))
        there = (np.abs(old[:same, :2]) <= CENTRE).all(1)
        if venv.boards.ticks[0] > 1:  # nothing circles in the first tick
            assert np.allclose((old[:same, :2] + old[:same, 2:4])[there], new[:same, :2][there], atol=1e-3)
        now = venv.boards.crews[0, : venv.boards.fleet_counts[0], 3].tolist()
        old, new = before.entities["Fleet"][0], batch.entities["Fleet"][0]
        for row, number in enumerate(fleet_ids):
            if number in now:
                assert np.allclose(old[row, :2] + old[row, 2:4], new[now.index(number), :2], atol=1e-3)
                compared += 1
    assert compared > 20


def test_fleets_reach_planets_that_circle() -> None:
    """Whoever aims at a planet that can be reached, and that nobody else shoots at, takes or feeds it."""
    venv, rng = OrbitWarsVectorEnv(64, bot=None, min_ships=1), np.random.default_rng(0)
    batch, _ = venv.reset(seed=1)
    for tick in range(120):
        actions = sample_actions(venv.single_action_space, batch, rng)
        own = batch.actions["Target"].actors
        if tick:  # one launch at the start, then everybody waits
            actions["Target"] = own
        else:
            actions["Share"] = own.with_values(np.full(own.num_items, 3))
            batch_targets = actions["Target"]
        batch, _, terminated, *_ = venv.step(actions)
        assert not terminated.any()
        if tick == 0:
            launched = int(venv.boards.fleet_counts.sum())
    assert batch_targets.num_items == 64
    assert launched > 30
    assert venv.boards.fleet_counts.sum() == 0
    # A target with fewer ships than came changed hands, the others lost as many: no fleet got lost in space.
    assert (venv.boards.owned[:, :, 0] >= 0).sum() >= 64


@pytest.mark.parametrize("num_players", [2, 4])
def test_the_forecast_is_what_happens_if_nobody_launches(num_players: int) -> None:
    """From tick 75 on, when the first comets leave and no others come."""
    lanes = 4 * num_players
    venv = OrbitWarsVectorEnv(lanes, bot=None, num_players=num_players, fleets="forecast")
    rng, changes = np.random.default_rng(0), 0
    batch, _ = venv.reset(seed=0, options={"game_seeds": [5, 6, 7, 8]})
    names = list(venv.single_observation_space.entities["Planet"])
    force = [name for name in names[names.index("ships") :] if "_in_" not in name]
    for tick in range(116):
        if tick == 75:
            before = batch
        for horizon in (5, 10, 20, 40):
            if tick != 75 + horizon:
                continue
            foreseen = [names.index(f"{name}_in_{horizon}") for name in force]
            for lane in range(lanes):
                planets = int(venv.boards.planet_counts[venv.lane_games[lane]])
                then, now = (seen.entities["Planet"][lane][:planets] for seen in (before, batch))
                now = now[:, [names.index(name) for name in force]]
                assert np.array_equal(then[:, foreseen], now)
                changes += int((then[:, names.index("mine")] != now[:, 2]).sum())
        actions = sample_actions(venv.single_action_space, batch, rng)
        if tick >= 75:  # who selects itself waits
            actions["Target"] = batch.actions["Target"].actors
        batch, _, terminated, *_ = venv.step(actions)
        assert not terminated.any()
    assert changes > 10


def test_comets_that_leave_are_nobodys_in_the_forecast() -> None:
    venv, rng = OrbitWarsVectorEnv(2, bot=None, fleets="forecast"), np.random.default_rng(0)
    batch, _ = venv.reset(seed=0, options={"game_seeds": [5]})
    names = list(venv.single_observation_space.entities["Planet"])
    left = stayed = 0
    for _ in range(120):
        batch, *_ = venv.step(sample_actions(venv.single_action_space, batch, rng))
        for row in batch.entities["Planet"][0]:
            shown = dict(zip(names, row.tolist(), strict=True))
            if 0 < shown["comet_ticks"] <= 20:
                assert shown["ships_in_20"] == shown["mine_in_20"] == shown["enemy_in_20"] == 0
                left += 1
            elif shown["comet_ticks"] > 20:
                stayed += shown["ships_in_20"] > 0
    assert left > 10
    assert stayed > 10


def test_rewards_of_the_share_add_up() -> None:
    venv, rng = OrbitWarsVectorEnv(8, reward="share", num_players=4), np.random.default_rng(0)
    batch, _ = venv.reset(seed=0)
    total, ended = np.zeros(8), np.zeros(8, bool)
    for _ in range(499):
        batch, rewards, terminated, truncated, info = venv.step(
            sample_actions(venv.single_action_space, batch, rng)
        )
        assert not truncated.any()
        total += np.where(ended, 0.0, rewards)
        for lane in np.flatnonzero(terminated & ~ended):
            final = info["final_obs"].globals[np.cumsum(terminated)[lane] - 1]
            mine, others = final[2:4].tolist()
            share = mine / (mine + others) - 0.25
            outcome = 1.0 if info["outcome"][lane] in ("win", "draw") else -1.0
            assert total[lane] == pytest.approx(share + outcome, abs=1e-4)
        ended |= terminated
    assert ended.all()


def test_who_plays_against_a_bot_sits_anywhere() -> None:
    venv = OrbitWarsVectorEnv(64, num_players=4, bot="random")
    venv.reset(seed=0)
    assert set(venv.lane_players.tolist()) == {0, 1, 2, 3}
    assert venv.boards.owned[..., 0].max() == 3


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"num_players": 3}, ("num_players", "2 or 4", 3)),
        ({"bot": "clever"}, ("bot", "starter", "clever")),
        ({"reward": "ships"}, ("reward", "outcome", "ships")),
        ({"fleets": "none"}, ("fleets", "forecast", "none")),
        ({"min_ships": 0}, ("min_ships", 1, 0)),
        ({"max_fleets": 3}, ("max_fleets", 64, 3)),
        ({"ship_speed": 0.5}, ("ship_speed", 1, 0.5)),
        ({"bot": None, "num_envs": 3}, ("num_envs", 2, 3)),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any], told: tuple[Any, ...]) -> None:
    with raises(ValueError, *told):
        OrbitWarsVectorEnv(**options)


@pytest.mark.parametrize(
    ("option", "value"),
    [("num_players", "2"), ("min_ships", 2.5), ("max_fleets", None), ("ship_speed", "fast")],
)
def test_options_that_are_no_numbers_are_named(option: str, value: Any) -> None:
    with raises(TypeError, option, repr(value)):
        ez.make_vec("OrbitWars/lanes", 4, **{option: value})


@pytest.mark.parametrize("game", ["OrbitWars", "PlanetWars"])
def test_lanes_have_no_bots(game: str) -> None:
    with raises(TypeError, f"{game}/lanes", "bot", "'random'"):
        ez.make_vec(f"{game}/lanes", 2, bot="random")


@pytest.mark.parametrize("seeds", [5, "12", [1], [1, 2, 3], ["a", "b"], [1.5, 2.5]])
def test_seeds_of_games_are_checked(seeds: Any) -> None:
    venv = OrbitWarsVectorEnv(2)
    with raises(ValueError, "game_seeds", 2):
        venv.reset(options={"game_seeds": seeds})
    with raises(ValueError, "OrbitWars", "'game_seeds'", "'game_seed'"):
        venv.reset(options={"game_seed": [1, 2]})
    venv.reset(options={"game_seeds": np.array([1, 2]), "options": 1})
    venv.reset(seed=0)


def test_frames_show_planets() -> None:
    venv = OrbitWarsVectorEnv(1, render_mode="rgb_array")
    venv.reset(seed=0)
    (frame,) = venv.render() or ()
    assert frame.shape == (400, 400, 3)
    for slot in range(int(venv.boards.planet_counts[0])):
        x, y = (4 * venv.boards.planets[0, slot, :2]).astype(int)
        assert frame[y, x].tolist() != frame[0, 0].tolist()


@pytest.mark.parametrize("fleets", ["entities", "forecast"])
def test_an_agent_plays_the_published_game(tmp_path: Path, fleets: str) -> None:
    """What it observes there is what it observes in our games, and its moves are those that we carry out."""
    venv = OrbitWarsVectorEnv(2, bot=None, fleets=fleets)
    torch.manual_seed(0)  # a network that sends fleets
    policy = ez.RogueNet(
        venv.single_observation_space, venv.single_action_space, d_model=8, n_layer=1, n_head=1
    )
    ppo = ez.PPO(policy, venv, ez.PPOConfig(num_steps=2, total_timesteps=4), run_dir=tmp_path / "run")
    ppo.train(progress=False)
    agent = ez.load_agent(tmp_path / "run")
    player = OrbitWarsPlayer(agent, deterministic=True)
    venv = OrbitWarsVectorEnv(2, bot=None, fleets=fleets)
    batch, _ = venv.reset(seed=0, options={"game_seeds": [7]})
    published, num_moves = orbit_wars(7, 2), 0
    for _ in range(120):
        chosen = agent.act(batch, deterministic=True).actions
        moves = [player(published.observation(seat)) for seat in range(2)]
        num_moves += sum(map(len, moves))
        batch, _, terminated, *_ = venv.step(chosen)
        assert published.step(moves) == terminated[0]
        if terminated[0]:
            break
        boards, _ = read_boards(published.observation(0), 6.0)
        count = int(venv.boards.fleet_counts[0])
        assert boards.fleets[0, :count].tolist() == venv.boards.fleets[0, :count].tolist()
        assert boards.owned[0, : len(published.shown.planets)].tolist() == (
            venv.boards.owned[0, : len(published.shown.planets)].tolist()
        )
    assert num_moves > 0


def test_an_agent_of_another_game_is_refused(tmp_path: Path) -> None:
    venv = ez.make_vec("MoveToOrigin", 2)
    policy = ez.RogueNet(
        venv.single_observation_space, venv.single_action_space, d_model=8, n_layer=1, n_head=1
    )
    with raises(ValueError, "OrbitWars"):
        OrbitWarsPlayer(policy)


def test_an_agent_of_two_players_refuses_a_game_of_four() -> None:
    venv = OrbitWarsVectorEnv(2, bot=None)
    policy = ez.RogueNet(venv.single_observation_space, venv.single_action_space, d_model=8, n_layer=1)
    player, published = OrbitWarsPlayer(policy), orbit_wars(7, 4)
    for seat in range(4):
        with raises(ValueError, "num_players=2", "player 3"):
            player(published.observation(seat))
