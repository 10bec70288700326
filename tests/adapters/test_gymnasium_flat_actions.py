"""Padded observations with one flat action, masks as sb3-contrib wants them, and what SB3's checker says."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import entitize as ez
import gymnasium
import numpy as np
import pytest
from entitize.envs import PaddedSpace
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv

from facts import raises

MINES = {"Mine": 6, "Robot": 3, "Orbital Cannon": 1}
WHO_ACTS = {"Move": 3, "Fire Orbital Cannon": 1}


def mine_sweeper(layout: Any = "padded", **options: Any) -> gymnasium.Env[Any, Any]:
    env = gymnasium.make("entitize/MineSweeper-v0", nmines=6, nrobots=3, orbital_cannon=True)
    return ez.to_gymnasium(env, layout, maxima=MINES, max_actors=WHO_ACTS, **options)


def wrapped(env_id: str, layout: Any = "padded", **options: Any) -> gymnasium.Env[Any, Any]:
    return ez.to_gymnasium(ez.wrap(gymnasium.make(env_id)), layout, maxima=1, **options)


def procgen(layout: Any = "padded", **options: Any) -> gymnasium.Env[Any, Any]:
    env = gymnasium.make("entitize/Procgen-bigfish-v0", disable_env_checker=True)
    return ez.to_gymnasium(env, layout, maxima=24, beyond="drop", max_actors={"act": 1}, **options)


ENVS: dict[str, Callable[..., gymnasium.Env[Any, Any]]] = {
    "MineSweeper": mine_sweeper,
    "CartPole": lambda *args, **options: wrapped("CartPole-v1", *args, **options),
    "Pendulum": lambda *args, **options: wrapped("Pendulum-v1", *args, **options),
    "Procgen": procgen,
}
ACTION_SPACES = {
    "MineSweeper": spaces.MultiDiscrete([10, 5, 5, 5]),
    "CartPole": spaces.Discrete(2),
    "Pendulum": spaces.Box(-2, 2, (1,), np.float32),
    "Procgen": spaces.Discrete(15),
}


@pytest.mark.parametrize("name", ENVS)
def test_actions_are_flat_where_asked_for(name: str) -> None:
    env = ENVS[name](flat_actions=True)
    assert env.action_space == ACTION_SPACES[name]
    assert env.observation_space == ENVS[name]().observation_space
    assert ENVS[name]("flat").action_space == ACTION_SPACES[name]
    env.close()


def test_flat_actions_do_what_those_by_name_do() -> None:
    flat, named = mine_sweeper(flat_actions=True, illegal="replace"), mine_sweeper(illegal="replace")
    assert list(named.action_space.spaces) == ["Fire Orbital Cannon", "Move"]
    flat.action_space.seed(3)
    one, other = flat.reset(seed=3)[0], named.reset(seed=3)[0]
    for _ in range(60):
        np.testing.assert_equal(one, other)
        action = flat.action_space.sample()
        one, *mine = flat.step(action)
        other, *its = named.step({"Fire Orbital Cannon": action[:1], "Move": action[1:]})
        np.testing.assert_equal(mine, its)
        if mine[1] or mine[2]:
            one, other = flat.reset()[0], named.reset()[0]


@pytest.mark.parametrize("layout", ["padded", "flat"])
def test_masks_are_those_of_the_observation_and_leave_a_choice_to_nobody(layout: str) -> None:
    env = mine_sweeper(layout, **({"flat_actions": True} if layout == "padded" else {}))
    env.reset(seed=1)
    shown = mine_sweeper()
    seen, _ = shown.reset(seed=1)
    rng = np.random.default_rng(1)
    dead = 0
    for _ in range(80):
        masks = get_action_masks(env)
        assert masks.dtype == bool and masks.shape == (10 + 3 * 5,)
        choices = np.split(masks, np.cumsum(env.action_space.nvec)[:-1])
        expected = [*seen["actions/Fire Orbital Cannon/mask"], *seen["actions/Move/mask"]]
        present = [*seen["actions/Fire Orbital Cannon/presence"], *seen["actions/Move/presence"]]
        for mask, legal, there in zip(choices, expected, present, strict=True):
            dead += not there
            np.testing.assert_array_equal(mask, legal if there else np.arange(len(mask)) == 0)
        action = np.array([rng.choice(np.flatnonzero(mask)) for mask in choices])
        _, _, *ended, info = env.step(action)
        assert info["illegal_choices"] == 0
        seen, *_ = shown.step({"Fire Orbital Cannon": action[:1], "Move": action[1:]})
        if any(ended[:2]):
            env.reset(seed=1)
            seen, _ = shown.reset(seed=1)
    assert dead > 0


def test_sb3_finds_the_masks_of_vector_environments() -> None:
    venv = make_vec_env(lambda: mine_sweeper(flat_actions=True, illegal="replace"), 3)
    assert is_masking_supported(venv)
    venv.reset()
    assert get_action_masks(venv).shape == (3, 25)
    # A finished lane's mask is that of its next episode.
    ends = sum(venv.step(np.zeros((3, 4), np.int64))[2].sum() for _ in range(120))
    assert ends > 0
    stacked = get_action_masks(venv)
    for mask, env in zip(stacked, venv.envs, strict=True):
        np.testing.assert_array_equal(mask, env.get_wrapper_attr("action_masks")())


def test_masks_that_there_are_not_are_errors() -> None:
    with raises(TypeError, "Pendulum-v1", "'action'", "masks"):
        wrapped("Pendulum-v1", flat_actions=True).action_masks()
    with raises(gymnasium.error.ResetNeeded, "reset()", "action_masks()"):
        mine_sweeper().action_masks()


class Mixed(ez.EntityEnv):
    """A global choice beside a global number."""

    def __init__(self) -> None:
        self.action_space = ez.EntityActionSpace(
            {"gear": ez.GlobalCategorical(3), "gas": ez.GlobalContinuous(0, 1)}
        )
        self.observation_space = ez.EntitySpace({"Car": ["speed"]}, self.action_space)

    def _reset(self, options: dict[str, Any]) -> ez.Observation:
        return ez.Observation({"Car": [[0.0]]})

    def _step(self, actions: dict[str, Any]) -> Any:
        return ez.Observation({"Car": [[0.0]]}), 0.0, False, False, {}


def test_choices_and_numbers_do_not_go_together() -> None:
    for layout, options in (("flat", {}), ("padded", {"flat_actions": True})):
        with raises(ValueError, "Mixed", "['gas', 'gear']", "layout='padded'", "flat_actions"):
            ez.to_gymnasium(Mixed(), layout, maxima=1, **options)  # type: ignore[arg-type]
    assert isinstance(ez.to_gymnasium(Mixed(), "padded", maxima=1).action_space, spaces.Dict)
    with raises(ValueError, "flat_actions"):
        ez.to_gymnasium(Mixed(), flat_actions=True)


@pytest.mark.parametrize("layout", ["padded", "flat"])
def test_specs_make_the_same_face_again(layout: str) -> None:
    env = mine_sweeper(layout, **({"flat_actions": True} if layout == "padded" else {}))
    again = gymnasium.make(EnvSpec.from_json(env.spec.to_json()))
    assert again.action_space == env.action_space and again.observation_space == env.observation_space
    np.testing.assert_equal(again.reset(seed=2)[0], env.reset(seed=2)[0])


# -- the padded space ---------------------------------------------------------------------------------------


def test_padded_spaces_keep_their_layout_and_differ_in_names() -> None:
    space = mine_sweeper().observation_space
    assert isinstance(space, PaddedSpace)
    for same in (copy.deepcopy(space), pickle.loads(pickle.dumps(space)), mine_sweeper().observation_space):
        assert same == space and same.layout.max_entities == MINES
        assert same.layout.space == space.layout.space
    assert space == spaces.Dict(space.spaces) and spaces.Dict(space.spaces) == space
    one, other = (
        ez.batch.PaddedLayout(
            ez.EntitySpace({"Car": names}, ez.EntityActionSpace({"honk": ez.GlobalCategorical(2)})),
            {"Car": 2},
        )
        for names in (["x", "y"], ["y", "x"])
    )
    assert one.observation_space.spaces == other.observation_space.spaces
    assert one.observation_space != other.observation_space


def test_vector_environments_keep_the_padded_space() -> None:
    make = [lambda: mine_sweeper(flat_actions=True)] * 2
    for venv in (SyncVectorEnv(make), AsyncVectorEnv(make), DummyVecEnv(make)):
        space = venv.observation_space if isinstance(venv, DummyVecEnv) else venv.single_observation_space
        assert isinstance(space, PaddedSpace)
        observations = venv.reset() if isinstance(venv, DummyVecEnv) else venv.reset(seed=1)[0]
        assert observations["entities/Mine"].shape == (2, 6, 2)
        venv.close()


# -- SB3's checker ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ENVS)
@pytest.mark.parametrize("layout", ["padded", "flat"])
def test_sb3s_checker_finds_nothing_that_is_ours_to_change(name: str, layout: str) -> None:
    options = {"flat_actions": True} if layout == "padded" else {}
    env = ENVS[name](layout, illegal="replace", **options)  # the checker samples without masks
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_env(env)
    said = [str(warning.message) for warning in caught]
    if name == "Pendulum":  # the bounds of the wrapped environment's own action
        said = [text for text in said if "symmetric and normalized Box action space" not in text]
    # Of tables it says that they need "a custom policy to properly process the data", which RogueNet is.
    tables = [text for text in said if "has an unconventional shape" in text]
    expected = (
        [key for key, part in env.observation_space.spaces.items() if len(part.shape) == 2]
        if (layout == "padded")
        else []
    )
    assert said == tables and len(tables) == len(expected)
    for text, key in zip(tables, expected, strict=True):
        assert f"Your observation {key} has" in text
    env.close()


def test_sb3s_checker_asks_to_flatten_a_dict_of_actions() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_env(mine_sweeper(illegal="replace"))
    assert any("You should try to flatten the action" in str(warning.message) for warning in caught)
