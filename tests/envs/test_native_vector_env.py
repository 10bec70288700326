"""The base of the native games: seeds, restarts, checks, saving; and the single games over it."""

from __future__ import annotations

from typing import Any

import entitize as ez
import gymnasium
import numpy as np
import pytest
from entitize.envs import NativeVectorEnv, sample_actions, unbatch_observation
from entitize.envs.vector.infos import lane_infos
from gymnasium.utils.env_checker import data_equivalence

from facts import raises

GAMES: list[tuple[str, dict[str, Any]]] = [
    ("MineSweeper", {"max_steps": 9, "cooldown_period": 1}),
    ("Minefield", {"max_steps": 15, "width": 60.0, "render_mode": "rgb_array"}),
    ("MoveToOrigin", {"max_steps": 6}),
    ("MultiSnake", {"num_snakes": 1, "board_size": 3, "max_snake_length": 3, "max_steps": 8}),
    ("MultiSnake", {"num_snakes": 8, "max_steps": 12}),
    ("MultiSnake/lanes", {"num_snakes": 3, "board_size": 4, "max_snake_length": 3, "max_steps": 9}),
]
#: Those that are also single environments over one lane.
SINGLE = [game for game in GAMES if game[0] not in ("MultiSnake/lanes", "MineSweeper")]

games = pytest.mark.parametrize(("name", "options"), GAMES)
single_games = pytest.mark.parametrize(("name", "options"), SINGLE)


def make(name: str, options: dict[str, Any], num_envs: int = 6) -> NativeVectorEnv:
    venv = ez.make_vec(name, num_envs, **options)
    assert isinstance(venv, NativeVectorEnv)
    return venv


@single_games
def test_a_games_spec_survives_json(name: str, options: dict[str, Any]) -> None:
    env = gymnasium.make(f"entitize/{name}-v0", **options)
    spec = gymnasium.envs.registration.EnvSpec.from_json(env.spec.to_json())  # type: ignore[union-attr]
    assert gymnasium.make(spec).observation_space == env.observation_space


@games
def test_ended_episodes_start_over_in_the_step_that_ends_them(name: str, options: dict[str, Any]) -> None:
    venv, rng = make(name, options), np.random.default_rng(0)
    batch, _ = venv.reset(seed=3)
    ends = 0
    for _ in range(30):
        batch, _, terminated, truncated, info = venv.step(
            sample_actions(venv.single_action_space, batch, rng)
        )
        assert not (terminated & truncated).any()
        assert ("final_obs" in info) == bool((terminated | truncated).any())
        if "final_obs" in info:
            ends += len(info["final_obs"])
            assert np.array_equal(info["_final_obs"], terminated | truncated)
        assert venv.steps.max() < venv.max_steps if venv.max_steps else True
    assert ends > 5


@games
def test_a_game_depends_on_its_own_seed_alone(name: str, options: dict[str, Any]) -> None:
    size = options.get("num_snakes", 1) if name == "MultiSnake/lanes" else 1
    many, one = make(name, options, 4 * size), make(name, options, size)
    batch, _ = many.reset(seed=11)
    alone, _ = one.reset(seed=11 + 2 * size)
    rng = np.random.default_rng(1)
    lanes = slice(2 * size, 3 * size)
    for _ in range(25):
        assert alone.equals(batch[lanes])
        actions = sample_actions(many.single_action_space, batch, rng)
        batch, rewards, *_ = many.step(actions)
        alone, own_rewards, *_ = one.step({key: order[lanes] for key, order in actions.items()})
        assert np.array_equal(own_rewards, rewards[lanes])


@single_games
def test_a_single_game_plays_the_episodes_of_the_first_lane(name: str, options: dict[str, Any]) -> None:
    venv, env = make(name, options, 1), gymnasium.make(f"entitize/{name}-v0", **options).unwrapped
    space = venv.single_observation_space
    batch, _ = venv.reset(seed=5)
    observation, _ = env.reset(seed=5)
    rng = np.random.default_rng(2)
    for _ in range(40):
        assert data_equivalence(observation, unbatch_observation(space, batch, 0))
        actions = sample_actions(space.actions, batch, rng)
        batch, rewards, terminated, truncated, info = venv.step(actions)
        observation, *rest, own_info = env.step({key: order[0] for key, order in actions.items()})
        assert rest == [rewards[0], terminated[0], truncated[0]]
        assert own_info == lane_infos({k: v for k, v in info.items() if "final_obs" not in k}, 1)[0]
        if "final_obs" in info:
            last = unbatch_observation(space, info["final_obs"], 0)
            assert data_equivalence(observation, last)
            with pytest.raises(gymnasium.error.ResetNeeded):
                env.step({})
            observation, _ = env.reset()


@games
def test_a_saved_state_goes_on_to_the_bit(name: str, options: dict[str, Any]) -> None:
    venv, other = make(name, options), make(name, options)
    rng = np.random.default_rng(3)
    batch, _ = venv.reset(seed=1)
    for _ in range(7):
        batch, *_ = venv.step(sample_actions(venv.single_action_space, batch, rng))
    state = venv.get_state()
    assert other.set_state(state).equals(batch)
    for _ in range(20):
        actions = sample_actions(venv.single_action_space, batch, rng)
        batch, *rest, info = venv.step(actions)
        again, *others, other_info = other.step(actions)
        assert again.equals(batch)
        assert all(np.array_equal(*pair) for pair in zip(rest, others, strict=True))
        assert ("final_obs" in info) == ("final_obs" in other_info)
        assert "final_obs" not in info or info["final_obs"].equals(other_info["final_obs"])
    for name_, array in state.items():
        assert not np.may_share_memory(array, getattr(venv, name_))


def test_a_state_of_another_game_is_refused_and_changes_nothing() -> None:
    venv = make("MoveToOrigin", {}, 3)
    venv.reset(seed=0)
    state = venv.get_state()
    wrong = [
        ({**state, "ships": state["ships"][:2]}, ("state 'ships'", "float64 (3, 4)", "float64 (2, 4)")),
        ({**state, "steps": state["steps"] * 1.0}, ("state 'steps'", "int64 (3,)", "float64 (3,)")),
        ({"ships": state["ships"] + 1}, ("state 'random_state'", "uint64 (3, 4)", "nothing")),
    ]
    for bad, facts in wrong:
        with raises(ValueError, "MoveToOriginVectorEnv", *facts):
            venv.set_state(bad)
        assert all(np.array_equal(state[key], array) for key, array in venv.get_state().items())


def test_without_a_seed_the_streams_go_on_and_the_first_differ() -> None:
    first, second = make("MoveToOrigin", {}, 2), make("MoveToOrigin", {}, 2)
    one, other = first.reset()[0], second.reset()[0]
    assert not one.equals(other)
    first.reset(seed=4)
    second.reset(seed=4)
    again, other = first.reset()[0], second.reset()[0]
    assert again.equals(other)
    assert not again.equals(first.reset(seed=4)[0])


def test_seeds_may_be_given_lane_by_lane() -> None:
    venv = make("MoveToOrigin", {}, 3)
    rows = venv.reset(seed=[7, None, 2**70 + 5])[0].entities["Spaceship"]
    again = venv.reset(seed=[7, None, 5 + 2**64])[0].entities["Spaceship"]
    assert [np.array_equal(*pair) for pair in zip(rows, again, strict=True)] == [True, False, True]
    for seed, facts in (([1, 2], ("2 seeds", "3 envs")), (-1, ("seed", "negative", -1))):
        with raises(ValueError, *facts):
            venv.reset(seed=seed)  # type: ignore[arg-type]


def test_a_game_out_of_order_says_what_it_needs() -> None:
    venv = make("Minefield", {"render_mode": "rgb_array"}, 2)
    for call in (lambda: venv.step({}), venv.get_state, venv.render):
        with raises(gymnasium.error.ResetNeeded, "MinefieldVectorEnv"):
            call()
    venv.reset(seed=0)
    frames = venv.render()
    assert frames is not None
    assert [frame.shape for frame in frames] == [(256, 256, 3)] * 2
    venv.close()
    for call in (lambda: venv.step({}), venv.reset, venv.render, venv.get_state):
        with raises(gymnasium.error.ClosedEnvironmentError, "MinefieldVectorEnv", "closed"):
            call()
    with raises(ValueError, "render_mode"):
        make("Minefield", {}).render()
    assert gymnasium.make("entitize/Minefield-v0").unwrapped.render() is None


@pytest.mark.parametrize(
    ("name", "options", "facts"),
    [
        ("MoveToOrigin", {"max_steps": 0}, ("max_steps", 1, 0)),
        ("Minefield", {"max_steps": 0}, ("max_steps", 1, 0)),
        ("Minefield", {"max_mines": -1}, ("max_mines", -1)),
        ("Minefield", {"width": 0}, ("width", 0)),
        ("Minefield", {"render_mode": "human"}, ("render_mode", "None, 'rgb_array'", "'human'")),
        ("MoveToOrigin", {"render_mode": "rgb_array"}, ("render_mode", "None", "'rgb_array'")),
        ("MultiSnake", {"num_snakes": 9}, ("num_snakes", "1 to 8", 9)),
        ("MultiSnake", {"max_snake_length": 1}, ("max_snake_length", 2, 1)),
        ("MultiSnake", {"board_size": 101}, ("board_size", "1 to 100", 101)),
        (
            "MultiSnake",
            {"board_size": 4},
            ("2 snakes", "length 11", "4 x 4"),
        ),
        ("MultiSnake/lanes", {"num_snakes": 4}, ("num_snakes", 4, 6)),
        ("MultiSnake/lanes", {"num_snakes": 0}, ("num_snakes", "1 to 8", 0)),
        ("MineSweeper", {"width": 0}, ("width", 1, 0)),
    ],
)
def test_impossible_native_games_are_refused(
    name: str, options: dict[str, Any], facts: tuple[object, ...]
) -> None:
    with raises(ValueError, *facts):
        make(name, options)


def test_errors_of_a_single_game_name_it() -> None:
    env = gymnasium.make("entitize/Minefield-v0").unwrapped
    env.reset(seed=0)
    for action, facts in (
        ({"move": [3]}, ("Minefield: action 'move'", "actor 0 (Vehicle 0)", "choice 3")),
        ({"move": [1, 1]}, ("Minefield: action 'move'", 1, "Vehicle 0", 2)),
        ({"move": [0.5]}, ("Minefield: action 'move'", "integers", "(n,)", "float64 (1,)")),
        ({"turn": [1]}, ("Minefield: action 'turn'", "'move'")),
        (1, ("Minefield", "dict", "int")),
    ):
        with raises(ez.ActionError, *facts):
            env.step(action)
    env.step({"move": [1]})


def test_seeds_of_64_bits_differ() -> None:
    venv = ez.make_vec("MoveToOrigin", num_envs=3)
    rows = venv.reset(seed=[5, 5 + 2**32, 5 + 2**64])[0].entities["Spaceship"]
    assert np.array_equal(rows[0], rows[2]) and not np.array_equal(rows[0], rows[1])
