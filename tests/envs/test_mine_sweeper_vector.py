"""The native MineSweeper is the Python one, step by step, from the same state with the same actions."""

from __future__ import annotations

from typing import Any

import entitize as ez
import numpy as np
from entitize.envs import batch_observations, sample_actions
from hypothesis import given, settings
from hypothesis import strategies as st

from facts import raises


@st.composite
def set_ups(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options of a game, and a state of it: robots may share cells, mines may not."""
    width, height = draw(st.integers(1, 5)), draw(st.integers(2, 5))
    cells = draw(st.permutations([(x, y) for x in range(width) for y in range(height)]))
    num_mines = draw(st.integers(1, len(cells) - 1))
    free = st.sampled_from(cells[num_mines:])
    options = {
        "width": width,
        "height": height,
        "nmines": 1,
        "nrobots": 1,
        "cooldown_period": draw(st.integers(0, 3)),
        "max_steps": draw(st.integers(1, 25)),
    }
    state: dict[str, Any] = {
        "mines": cells[:num_mines],
        "robots": draw(st.lists(free, min_size=1, max_size=4)),
    }
    if draw(st.booleans()):
        state["orbital_cannon"] = draw(st.booleans())
    if draw(st.booleans()):
        state["orbital_cannon_cooldown"] = draw(st.integers(0, 3))
    return options, state


def assert_same_play(venv: Any, batch: ez.EntityBatch, game: Any, observation: Any, seed: int) -> None:
    """Play one lane of `venv` beside `game`, which shows the same, until the episode's end."""
    space, lane = game.observation_space, venv.num_envs - 1
    rng = np.random.default_rng(seed)
    while True:
        assert batch[lane : lane + 1].equals(batch_observations(space, [observation]))
        actions = sample_actions(space.actions, batch, rng)
        own = {name: choices[lane] for name, choices in actions.items()}
        observation, reward, terminated, truncated, _ = game.step(own)
        batch, rewards, *ends, info = venv.step(actions)
        assert rewards[lane] == reward
        assert [end[lane] for end in ends] == [terminated, truncated]
        if terminated or truncated:
            assert info["final_obs"][-1:].equals(batch_observations(space, [observation]))
            return


@given(set_up=set_ups(), seed=st.integers(0, 2**32))
def test_a_written_out_state_is_played_alike(set_up: Any, seed: int) -> None:
    options, state = set_up
    venv = ez.make_vec("MineSweeper", 2, state=state, **options)
    game = ez.games.MineSweeper(state=state, **options)
    observation, _ = game.reset()
    batch, _ = venv.reset(seed=seed)
    start = venv.get_state()
    assert_same_play(venv, batch, game, observation, seed)
    # The episode that followed started from the same state.
    ended = venv.steps == 0
    for name in ("mine_counts", "robot_counts", "cooldowns", "has_cannon"):
        assert np.array_equal(getattr(venv, name)[ended], start[name][ended])


@given(set_up=set_ups(), seed=st.integers(0, 2**32))
def test_a_state_for_one_episode_is_played_alike(set_up: Any, seed: int) -> None:
    options, state = set_up
    venv, game = ez.make_vec("MineSweeper", 3, **options), ez.games.MineSweeper(**options)
    venv.reset(seed=seed)
    observation, _ = game.reset(options={"state": state})
    batch, _ = venv.reset(options={"state": state})
    assert_same_play(venv, batch, game, observation, seed)
    lane = int(np.flatnonzero(venv.steps == 0)[0])
    assert venv.mine_counts[lane] == venv.robot_counts[lane] == 1  # the next one is a random one again


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32), orbital_cannon=st.booleans())
def test_a_random_start_is_played_alike(seed: int, orbital_cannon: bool) -> None:
    options: dict[str, Any] = {"width": 4, "height": 5, "nmines": 6, "nrobots": 3, "cooldown_period": 2}
    venv = ez.make_vec("MineSweeper", 2, orbital_cannon=orbital_cannon, **options)
    batch, _ = venv.reset(seed=seed)
    mines, robots = (batch.entities[name][1].astype(int).tolist() for name in ("Mine", "Robot"))
    cells = {tuple(cell) for cell in [*mines, *robots]}
    assert (len(mines), len(robots), len(cells)) == (6, 3, 9)
    assert all(0 <= x < 4 and 0 <= y < 5 for x, y in cells)
    game = ez.games.MineSweeper(
        orbital_cannon=orbital_cannon, state={"mines": mines, "robots": robots}, **options
    )
    observation, _ = game.reset()
    assert_same_play(venv, batch, game, observation, seed)


def test_every_cell_is_as_likely_to_hold_a_mine() -> None:
    batch, _ = ez.make_vec("MineSweeper", 3600, width=3, height=2, nmines=2, nrobots=1).reset(seed=0)
    for name, expected in (("Mine", 1200), ("Robot", 600)):
        x, y = batch.entities[name].values.astype(int).T
        counts = np.bincount(x + 3 * y, minlength=6)
        assert np.abs(counts - expected).max() < 120, name


def test_wrong_states_and_options_are_refused_and_change_nothing() -> None:
    venv = ez.make_vec("MineSweeper", 2)
    batch, _ = venv.reset(seed=0)
    with raises(ValueError, "robots", "none"):
        venv.reset(options={"state": {"mines": [(0, 0)], "robots": []}})
    for env in (venv, ez.make("MineSweeper").unwrapped):
        with raises(ValueError, "MineSweeper", "reset", "'state'", "'states'"):
            env.reset(options={"states": {"mines": [], "robots": []}})
    actions = sample_actions(venv.single_action_space, batch, np.random.default_rng(0))
    assert venv.step(actions)[0].entities["Mine"].lengths.tolist() == [5, 5]
    with raises(ValueError, "5 mines", "2 robots", "1 x 6"):
        ez.make_vec("MineSweeper", 2, width=1)
    with raises(TypeError, "num_cannons"):
        ez.make_vec("MineSweeper", 2, num_cannons=3)


def test_pictures_are_those_of_the_python_game() -> None:
    state = {"mines": [(3, 2), (1, 1)], "robots": [(0, 0)], "orbital_cannon_cooldown": 2}
    game = ez.games.MineSweeper(state=state, render_mode="rgb_array")
    game.reset()
    for cannon in (True, False):
        venv = ez.make_vec("MineSweeper", 2, render_mode="rgb_array")
        venv.reset(options={"state": {**state, "orbital_cannon": cannon}})
        frames = venv.render()
        assert frames is not None
        assert [np.array_equal(frame, game.render()) for frame in frames] == [cannon] * 2
