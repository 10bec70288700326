"""Episodes, actions, options and errors of Griddly's environments, with the real engine."""

import importlib.util
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import entitize as ez
import gymnasium
import numpy as np
import pytest

if importlib.util.find_spec("griddly") is None:  # importing it would import gym
    pytest.skip("needs griddly", allow_module_level=True)

from entitize.adapters.griddly.library import find_game
from entitize.adapters.griddly.rules import read_rules

from facts import raises

#: A game of one's own: three coins, of which the left one is a step away, and a pit.
COINS = """
Version: "0.1"
Environment:
  Name: Coins
  Observers: {Sprite2D: {TileSize: 24}}
  Player: {AvatarObject: walker}
  Variables:
    - {Name: left, InitialValue: 3}
  Termination:
    Win: [{eq: [left, 0]}]
    Lose: [{eq: ["walker:count", 0]}]
    End: [{eq: [_steps, 9]}]
  Levels:
    - |
      p  c  .  w
      .  .  .  .
    - |
      c  w  c  .  c  p
Actions:
  - Name: go
    Behaviours:
      - Src: {Object: walker, Commands: [{mov: _dest}]}
        Dst: {Object: _empty}
      - Src: {Object: walker, Commands: [{mov: _dest}, {reward: 1}, {add: [purse, 300]}, {decr: left}]}
        Dst: {Object: coin, Commands: [{remove: true}]}
      - Src: {Object: walker, Commands: [{remove: true}, {reward: -1}]}
        Dst: {Object: pit}
Objects:
  - {Name: walker, MapCharacter: w, Variables: [{Name: purse, InitialValue: 0}]}
  - {Name: coin, MapCharacter: c}
  - {Name: pit, MapCharacter: p}
"""


@pytest.fixture
def coins(tmp_path: Path) -> str:
    path = tmp_path / "coins.yaml"
    path.write_text(COINS)
    return str(path)


def choose(venv: Any, *labels: str) -> dict[str, Any]:
    """Return an action by its label for each lane, of avatars."""
    choices = venv.single_action_space["action"].choices
    values = np.array([choices.index(label) for label in labels])
    return {"action": ez.ragged.RaggedArray(values, np.arange(len(labels) + 1))}


def history(venv: Any, seed: Any, steps: int = 40) -> list[Any]:
    """Return all that a vector environment gives when random actions are played."""
    batch, info = venv.reset(seed=seed)
    venv.action_space.seed(7)
    parts = []
    for _ in range(steps):
        values = {name: (rows.values, rows.offsets) for name, rows in batch.entities.items()}
        mask = batch.actions["action"]
        parts.append((values, batch.globals, mask.mask.values, mask.actors.values, info["episode_seed"]))
        batch, *rest, info = venv.step(venv.action_space.sample(mask=batch))
        parts.append(tuple(rest))
    return parts


def gym_environment(name: str) -> Any:
    """Return the engine's own environment of a game."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from griddly import GymWrapper, gd

        kind = gd.ObserverType.VECTOR
        return GymWrapper(str(find_game(name)), player_observer_type=kind, global_observer_type=kind)


@pytest.mark.parametrize("name", ["Zelda", "Clusters", "Spiders", "Drunk-Dwarf"])
def test_rewards_and_ends_are_those_of_the_engines_own_environment(name: str) -> None:
    peer = gym_environment(name)
    several = len(peer.action_names) > 1
    with ez.make_vec(f"Griddly/{name}", 1, max_steps=None) as venv:
        batch, info = venv.reset(seed=2)
        venv.action_space.seed(2)
        commands = venv._choices.commands
        peer.seed(int(info["episode_seed"][0]))
        peer.reset()
        ends = total = 0
        for _ in range(400):
            action = venv.action_space.sample(mask=batch)
            number, key = commands[action["action"].values[0]]
            batch, rewards, terminated, truncated, info = venv.step(action)
            _, reward, is_over, results = peer.step([number, key] if several else key)
            assert (rewards[0], terminated[0], truncated[0]) == (reward, is_over, False)
            total += abs(reward)
            if is_over:
                ends += 1
                won = results["PlayerResults"]["1"] == "Win"
                assert info["outcome"][0] == ("win" if won else "loss")
                peer.seed(int(info["episode_seed"][0]))
                peer.reset()
        assert total or name not in ("Zelda", "Spiders")


def test_rewards_of_several_avatars_are_those_of_the_engines_own_environment() -> None:
    peer = gym_environment("Foragers")
    with ez.make_vec("Griddly/Foragers", 4, max_steps=None) as venv:
        batch, info = venv.reset(seed=2)
        venv.action_space.seed(2)
        peer.seed(int(info["episode_seed"][0]))
        peer.reset()
        total = 0
        for _ in range(200):
            action = venv.action_space.sample(mask=batch)
            commands = [venv._choices.commands[choice] for choice in action["action"].values]
            batch, rewards, terminated, _, info = venv.step(action)
            _, reward, is_over, _ = peer.step(commands)
            assert rewards.tolist() == reward
            assert terminated.tolist() == [is_over] * 4
            total += sum(reward)
            if is_over:
                peer.seed(int(info["episode_seed"][0]))
                peer.reset()
        assert total


@pytest.mark.parametrize("name", ["GriddlyRTS", "Push-Mania"])
def test_rewards_of_two_armies_are_those_of_the_engines_own_environment(name: str) -> None:
    """The engine's own environment pays the first player a step late, and at the end of a game not at all."""
    peer = gym_environment(name)
    with ez.make_vec(f"Griddly/{name}", 2, max_steps=None) as venv:
        batch, info = venv.reset(seed=2)
        venv.action_space.seed(2)
        peer.seed(int(info["episode_seed"][0]))
        peer.reset()
        sums, peers, ends = np.zeros(2), np.zeros(2), 0
        for _ in range(250):
            action = venv.action_space.sample(mask=batch)
            rows = venv.commands(action)
            # Two rows at least, by which it tells armies from avatars.
            padded = [np.concatenate([part, np.zeros((2, 4), np.int32)]) for part in rows]
            batch, rewards, terminated, _, info = venv.step(action)
            _, reward, is_over, _ = peer.step(padded)
            assert rewards[1] == reward[1]
            assert terminated.tolist() == [is_over] * 2
            sums += rewards
            peers += reward
            if is_over:
                ends += 1
                assert set(info["outcome"]) in ({"win", "loss"}, {"draw"})
                peer.seed(int(info["episode_seed"][0]))
                peer.reset()
        assert abs(sums - peers).max() <= 1
        assert ends or name == "GriddlyRTS"


@pytest.mark.parametrize("name", ["Zelda", "GriddlyRTS", "Robot-Tag-4v4", "Butterflies-and-Spiders"])
def test_the_same_seed_plays_the_same_episodes(name: str) -> None:
    count = 2 * read_rules(find_game(name)).num_players
    with ez.make_vec(f"Griddly/{name}", count) as venv, ez.make_vec(f"Griddly/{name}", count) as another:
        first = history(venv, 11)
        for other in (history(venv, 11), history(another, 11)):
            np.testing.assert_equal(other, first)


def test_seeds_decide_what_is_random() -> None:
    with ez.make_vec("Griddly/Zelda", 2) as venv:
        first, others = ([part[:-1] for part in history(venv, seed)] for seed in (11, 12))  # without the seed
        with pytest.raises(AssertionError):
            np.testing.assert_equal(others, first)


@pytest.mark.full
def test_workers_change_nothing() -> None:
    with ez.make_vec("Griddly/GriddlyRTS", 4) as venv:
        first = history(venv, 5, 10)
    with ez.make_vec("Griddly/GriddlyRTS", 4, num_workers=2) as venv:
        np.testing.assert_equal(history(venv, 5, 10), first)


def test_the_single_environment_plays_what_a_lane_plays() -> None:
    with ez.make_vec("Griddly/Zelda", 2) as venv:
        batch, _ = venv.reset(seed=[3, 9])
        pair = [batch.entities["spider"][lane] for lane in (0, 1)]
    for lane, seed in enumerate((3, 9)):
        env = gymnasium.make("entitize/Griddly-v0", game="Zelda")
        observation, info = env.reset(seed=seed)
        assert (observation["entities"]["spider"] == pair[lane]).all()
        assert info["level"] == 0
        env.close()


def test_time_limits_truncate(coins: str) -> None:
    with ez.make_vec("Griddly/Clusters", 2, max_steps=4) as venv:
        venv.reset(seed=1)
        steps = [venv.step({}) for _ in range(9)]
        assert not np.array([step[2] for step in steps]).any()
        assert np.flatnonzero([step[3][0] for step in steps]).tolist() == [3, 7]
        assert steps[3][4]["_final_obs"].all()
    with ez.make_vec(f"Griddly/{coins}", 1) as venv:  # the game's own limit
        venv.reset(seed=1)
        steps = [venv.step({}) for _ in range(10)]
        assert np.flatnonzero([step[3][0] for step in steps]).tolist() == [8]
        assert not np.array([step[2] for step in steps]).any()


def test_games_of_ones_own(coins: str) -> None:
    with ez.make_vec(f"Griddly/{coins}", 1, level=1) as venv:
        assert venv.single_observation_space.entities["walker"][-1] == "purse"
        assert venv.single_observation_space.global_features == ("left",)
        batch, info = venv.reset(seed=1)
        assert batch.entities["walker"][0].tolist() == [[1, 0, 1, 0]]
        assert info["level"][0] == 1
        batch, rewards, *_ = venv.step(choose(venv, "go: Left"))
        assert (rewards[0], batch.globals[0, 0]) == (1, 2)
        assert batch.entities["walker"][0].tolist() == [[0, 0, 1, 300]]
        venv.step(choose(venv, "go: Right"))
        venv.step(choose(venv, "go: Right"))
        venv.step(choose(venv, "go: Right"))
        batch, rewards, terminated, truncated, info = venv.step(choose(venv, "go: Right"))
        assert (rewards[0], terminated[0], truncated[0], info["outcome"][0]) == (1, True, False, "win")
        final = info["final_obs"]
        assert len(final.entities["coin"][0]) == 0 and len(batch.entities["coin"][0]) == 3
    with ez.make_vec(f"Griddly/{coins}", 1, level="p w") as venv:  # a level of one's own
        batch, _ = venv.reset(seed=1)
        assert len(batch.entities["pit"][0]) == 1
        *_, terminated, _, info = venv.step(choose(venv, "go: Left"))
        assert terminated[0] and info["outcome"][0] == "loss"


def test_an_avatar_that_is_left_without_a_command_leaves_those_of_others_to_them(coins: str) -> None:
    with ez.make_vec(f"Griddly/{coins}", 3, level=1) as venv:
        venv.reset(seed=1)
        left = choose(venv, "go: Left")["action"].values
        batch, rewards, *_ = venv.step({"action": ez.ragged.RaggedArray(left, [0, 0, 1, 1])})
        assert [rows[0, 0] for rows in batch.entities["walker"]] == [1, 0, 1]
        assert rewards.tolist() == [0, 1, 0]


def test_an_army_that_is_left_without_commands_leaves_those_of_others_to_them() -> None:
    with ez.make_vec("Griddly/GriddlyRTS", 4) as venv:
        batch, _ = venv.reset(seed=3)
        venv.action_space.seed(3)
        everything = venv.action_space.sample(mask=batch)["action"]
        commands = venv.commands({"action": everything})
        given = [everything[lane] if lane in (1, 2) else everything[lane][:0] for lane in range(4)]
        found = venv.commands({"action": ez.ragged.RaggedArray.from_arrays(given)})
        assert [len(rows) for rows in found] == [0, len(commands[1]), len(commands[2]), 0]
        for lane in (1, 2):
            assert len(found[lane]) and np.array_equal(found[lane], commands[lane])


def test_levels_are_drawn_for_each_episode(coins: str) -> None:
    with ez.make_vec(f"Griddly/{coins}", 8, level=None, max_steps=1) as venv:
        levels = list(venv.reset(seed=1)[1]["level"])
        for _ in range(3):
            levels += list(venv.step({})[4]["level"])
        assert set(levels) == {0, 1}


def test_a_level_can_be_a_number_of_numpy(coins: str) -> None:
    with ez.make_vec(f"Griddly/{coins}", level=np.int64(1)) as venv:
        assert venv.reset(seed=1)[1]["level"][0] == 1


@pytest.mark.parametrize(
    ("limit", "last"),
    [
        ("eq: [_steps, 9]", 9),
        ("gte: [_steps, 9]", 9),
        ("gt: [_steps, 9]", 10),
        ("eq: [9, _steps]", 9),
        ("lte: [9, _steps]", 9),
        ("lt: [9, _steps]", 10),
    ],
)
def test_a_limit_of_steps_truncates_however_it_is_written(coins: str, limit: str, last: int) -> None:
    Path(coins).write_text(COINS.replace("eq: [_steps, 9]", limit))
    with ez.make_vec(f"Griddly/{coins}") as venv:
        venv.reset(seed=1)
        ends = [venv.step({})[2:4] for _ in range(last)]
        assert not any(terminated[0] for terminated, _ in ends)
        assert [truncated[0] for _, truncated in ends] == [False] * (last - 1) + [True]


def test_a_limit_of_steps_can_be_a_variable(coins: str) -> None:
    path = Path(coins)
    path.write_text(COINS.replace("[_steps, 9]", "[_steps, left]"))
    with ez.make_vec(f"Griddly/{coins}") as venv:
        venv.reset(seed=1)
        assert [venv.step({})[2][0] for _ in range(3)] == [False, False, True]


def test_an_object_in_the_avatars_cell_changes_no_other_game(tmp_path: Path) -> None:
    """Games with two objects in one cell are read in another way than the others."""
    path = tmp_path / "over.yaml"
    text = COINS.replace("MapCharacter: c}", "MapCharacter: c, Z: 1}").replace(
        "remove: true}]}", "reward: 0}]}"
    )
    path.write_text(text)
    with ez.make_vec(f"Griddly/{path}", 3, level="p c w .", max_steps=None) as venv:
        venv.reset(seed=1)
        batch, *_ = venv.step(choose(venv, "nop", "go: Left", "nop"))
        walkers = [rows.tolist() for rows in batch.entities["walker"]]
        assert walkers == [[[2, 0, 1, 0]], [[1, 0, 1, 300]], [[2, 0, 1, 0]]]
        assert [rows.tolist() for rows in batch.entities["coin"]] == [[[1, 0, 0]]] * 3
        assert [rows.tolist() for rows in batch.entities["pit"]] == [[[0, 0, 0]]] * 3


def test_two_players_are_two_lanes() -> None:
    with ez.make_vec("Griddly/GriddlyRTS", 4) as venv:
        assert venv.lane_games.tolist() == [0, 0, 1, 1]
        batch, _ = venv.reset(seed=1)
        bases = [batch.entities["base"][lane] for lane in range(4)]
        own = venv.single_observation_space.entities["base"].index("is_own")
        assert (bases[0][:, own] == 1 - bases[1][:, own]).all()
        assert (batch.entities["minerals"][0] == batch.entities["minerals"][1]).all()
        actors = batch.actions["action"].actors
        assert all(len(actors[lane]) for lane in range(4))
        batch, *_ = venv.step({})  # all actors may be left without a command


@pytest.mark.full
def test_random_opponents_leave_the_first_player_as_lane() -> None:
    options = {"opponents": "random", "max_steps": 8}
    with ez.make_vec("Griddly/GriddlyRTS", 3, **options) as venv:
        assert venv.lane_games is None
        first = history(venv, 4, 20)
        np.testing.assert_equal(history(venv, 4, 20), first)
        final = venv.step({})[4].get("final_obs")
        for _ in range(8):
            *_, truncated, info = venv.step({})
            if truncated.any():
                final = info["final_obs"]
                assert len(final) == 3
        assert final is not None
    with ez.make_vec("Griddly/GriddlyRTS", 3, num_workers=2, **options) as venv:
        np.testing.assert_equal(history(venv, 4, 20), first)
    env = gymnasium.make("entitize/Griddly-v0", game="GriddlyRTS", render_mode="rgb_array", **options)
    ez.check_entity_env(env.unwrapped)
    env.close()


def test_random_opponents_act_and_the_lane_decides_for_itself() -> None:
    with ez.make_vec("Griddly/GriddlyRTS", 1, opponents="random") as venv:
        batch, _ = venv.reset(seed=1)
        own = venv.single_observation_space.entities["worker"].index("is_own")
        before = batch.entities["worker"][0]
        for _ in range(12):
            batch, *_ = venv.step({})
        after = batch.entities["worker"][0]
        mine, theirs = before[before[:, own] == 1], before[before[:, own] == 0]
        assert mine.tolist() == after[after[:, own] == 1].tolist()
        assert theirs.tolist() != after[after[:, own] == 0].tolist()


def test_a_run_of_the_policy_trains() -> None:
    with ez.make_vec("Griddly/GriddlyRTS", 2, max_steps=10) as venv:
        net = ez.RogueNet(venv.single_observation_space, venv.single_action_space, d_model=16, n_layer=1)
        ppo = ez.PPO(net, venv, ez.PPOConfig(num_steps=8))
        ppo.collect()
        assert ppo.update()["losses/entropy"] > 0


@pytest.mark.parametrize("name", ["Clusters", "Zelda", "GriddlyRTS", "Kill-The-King"])
def test_boards_are_drawn_without_a_display(name: str) -> None:
    count = read_rules(find_game(name)).num_players
    with ez.make_vec(f"Griddly/{name}", count, render_mode="rgb_array") as venv:
        batch, _ = venv.reset(seed=1)
        venv.action_space.seed(1)
        first = venv.render()[0]
        (width, height), (columns, rows) = venv.rules.tile_size, venv.games[0].board
        assert first.shape == (rows * height, columns * width, 3)
        assert (first == venv.render()[-1]).all()
        state = venv.games[0].process.get_state()["Objects"]
        for _ in range(10):
            batch, *_ = venv.step(venv.action_space.sample(mask=batch))
        moved = [item for item in venv.games[0].process.get_state()["Objects"] if item not in state]
        assert moved
        changed = (venv.render()[0] != first).any(2).reshape(rows, height, columns, width).any((1, 3))
        assert all(changed[item["Location"][1], item["Location"][0]] for item in moved if name == "Clusters")
        assert 0 < changed.sum() < changed.size


def test_the_last_picture_is_that_of_the_end() -> None:
    options = {"game": "Push-Mania", "opponents": "random", "render_mode": "rgb_array"}
    env = gymnasium.make("entitize/Griddly-v0", **options)
    env.reset(seed=1)
    first = env.render()
    for _ in range(300):
        *_, terminated, truncated, _ = env.step({})
        last = env.render()
        if terminated or truncated:
            break
    assert terminated and (last != first).any()
    env.close()


def test_types_without_sprites_are_drawn_as_squares(coins: str) -> None:
    env = gymnasium.make("entitize/Griddly-v0", game=coins, render_mode="rgb_array")
    env.reset(seed=1)
    frame = env.render()
    assert frame.shape == (2 * 24, 4 * 24, 3)
    tiles = frame.reshape(2, 24, 4, 24, 3).swapaxes(1, 2).reshape(8, -1, 3)
    assert all((tile == tile[0]).all() for tile in tiles)
    assert len({tuple(tile[0]) for tile in tiles}) == 4  # three types, and nothing
    env.close()


def test_the_package_and_gym_are_not_imported() -> None:
    code = (
        "import sys, entitize as ez; venv = ez.make_vec('Griddly/Sokoban'); venv.reset(seed=1);"
        " print([name for name in ('griddly', 'gym', 'torch') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_wrong_names_and_options_give_one_error(coins: str, tmp_path: Path) -> None:
    with raises(ValueError, "'Sokobann'", "'Sokoban'"):
        ez.make_vec("Griddly/Sokobann")
    with raises(ValueError, "nowhere.yaml"):
        ez.make_vec("Griddly/nowhere.yaml")
    with raises(ValueError, "level", 2, 7):
        ez.make_vec(f"Griddly/{coins}", level=7)
    for level in (1.5, {"a": 1}):
        with raises(TypeError, "level", repr(level)):
            ez.make_vec("Griddly/Sokoban", level=level)
    with raises(TypeError, "'levels'", "'level'"):
        ez.make_vec("Griddly/Sokoban", levels=1)
    with raises(ValueError, "exclude", "'walls'", "'wall'"):
        ez.make_vec("Griddly/Sokoban", exclude=["walls"])
    with raises(ValueError, "exclude", "'avatar'"):
        ez.make_vec("Griddly/Sokoban", exclude=["avatar"])
    with raises(TypeError, "exclude", "'wall'"):
        ez.make_vec("Griddly/Sokoban", exclude="wall")
    with raises(ValueError, "max_steps", 0):
        ez.make_vec("Griddly/Sokoban", max_steps=0)
    with raises(ValueError, "opponents", "'randomm'", "'random'"):
        ez.make_vec("Griddly/GriddlyRTS", opponents="randomm")
    with raises(ValueError, "opponents", "Sokoban"):
        ez.make_vec("Griddly/Sokoban", opponents="random")
    with raises(ValueError, "num_envs", 2, 3, "GriddlyRTS"):
        ez.make_vec("Griddly/GriddlyRTS", 3)
    with raises(ValueError, "opponents", "'random'", 2, "GriddlyRTS"):
        ez.make("Griddly/GriddlyRTS")
    for text in (
        *("", "Environment: {}", "a: [", "Environment: 3\nObjects: []"),
        *(COINS.replace("{AvatarObject: walker}", player) for player in ("3", "{Count: two}")),
        COINS.replace("Object: pit", "Object: pitt"),
    ):
        path = tmp_path / "wrong.yaml"
        path.write_text(text)
        with raises(ValueError, "wrong.yaml"):
            ez.make_vec(f"Griddly/{path}")
    path.write_text(COINS.replace("{mov: _dest}", "{fly: away}"))
    with ez.make_vec(f"Griddly/{path}") as venv:
        for _ in range(2):  # a second attempt fails for the same reason
            with raises(ValueError, "Coins", "fly"):
                venv.reset()


@pytest.mark.parametrize("level", ["c c", "w x", "w q", "w w", ""])
def test_levels_that_cannot_be_played_give_one_error(coins: str, level: str) -> None:
    with ez.make_vec(f"Griddly/{coins}", level=level) as venv, raises(ValueError, "level", "Coins"):
        venv.reset(seed=1)
