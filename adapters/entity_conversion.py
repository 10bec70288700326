"""Environments of any kind as entity environments: as they are, or wrapped; one, or many lanes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import gymnasium

from ..envs.returned import check_has_spaces, old_gym_hint
from .pettingzoo.made_games import is_game, lanes_of

if TYPE_CHECKING:
    from ..envs import EntityVectorEnv
    from .gymnasium.views import View


def as_entity_env(
    env: Any, name: str, view: View | Mapping[str, Any] | None = None
) -> gymnasium.Env[Any, Any]:
    """Return `env` if it is an entity environment, or wrapped as one.

    Raises:
        TypeError: `env` is no environment that can be wrapped without further options.
        ViewError: the view does not fit the observation space.
    """
    from ..envs.spaces import EntitySpace

    if isinstance(env, gymnasium.Env):
        check_has_spaces(name, env)
        if not isinstance(env.observation_space, EntitySpace):
            from .gymnasium.wrap import EntityWrapper

            return EntityWrapper(env, view)
        _refuse_view(name, view)
        return env
    if "entity_gym" in sys.modules:
        from .entity_gym import from_entity_gym
        from .entity_gym.package import entity_gym

        if isinstance(env, entity_gym.Environment):
            _refuse_view(name, view)
            return from_entity_gym(env)
    raise TypeError(f"{name} made {env!r}: expected an environment.{_advice(env)}")


def as_entity_vector_env(
    venv: Any, name: str, view: View | Mapping[str, Any] | None = None
) -> EntityVectorEnv:
    """Return `venv` if it is an entity vector environment, or wrapped as one.

    Raises:
        TypeError: `venv` is no vector environment.
        ViewError: the view does not fit the observation space.
    """
    from ..envs.vector.vector_env import EntityVectorEnv

    if isinstance(venv, EntityVectorEnv):
        _refuse_view(name, view)
        return venv
    if isinstance(venv, gymnasium.vector.VectorEnv):
        from .gymnasium.views.view_config import from_config
        from .gymnasium.wrap_vec import wrap_vec

        try:
            return wrap_vec(venv, from_config(view))
        except BaseException:
            venv.close()
            raise
    raise TypeError(f"{name} made {venv!r}: expected a vector environment")


def make_entity_env(
    one: Callable[[], Any], name: str, view: View | Mapping[str, Any] | None
) -> gymnasium.Env[Any, Any]:
    """Make an environment with `one`, as an entity environment."""
    return as_entity_env(one(), name, view)


def make_entity_vector_env(
    many: Callable[..., Any], name: str, view: View | Mapping[str, Any] | None, num_envs: int
) -> EntityVectorEnv:
    """Make a vector environment with `many(num_envs=…)`, as an entity vector environment."""
    return as_entity_vector_env(many(num_envs=num_envs), name, view)


def in_this_process(
    one: Callable[[], Any], name: str, num_envs: int, view: View | Mapping[str, Any] | None
) -> EntityVectorEnv:
    """Return a vector environment that steps single environments in this process."""
    from ..envs.spaces import EntitySpace
    from ..envs.vector.list_vector import ListVectorEnv, check_separate

    made = [one()]  # to see what it is; it becomes the first lane

    def lane() -> Any:
        return made.pop() if made else one()

    if is_game(made[0]):
        return lanes_of(lane, num_envs, view)
    if isinstance(made[0], gymnasium.Env):
        check_has_spaces(name, made[0])
        if not isinstance(made[0].observation_space, EntitySpace):
            from .gymnasium.lanes import PlainLanes

            envs = PlainLanes([lane] * num_envs, name)
            check_separate(envs.envs)
            return as_entity_vector_env(envs, name, view)
    return ListVectorEnv([partial(make_entity_env, lane, name, view)] * num_envs)


def _refuse_view(name: str, view: View | Mapping[str, Any] | None) -> None:
    if view is not None:
        raise TypeError(f"{name} is an entity environment: remove view, which is for other environments")


def _advice(env: Any) -> str:
    if isinstance(env, gymnasium.vector.VectorEnv):
        return " A function that makes a vector environment must take num_envs"
    if is_game(env):
        return (
            " A game of several agents has a lane for each: use make_vec. For a team of agents use"
            " entitize.from_pettingzoo"
        )
    return old_gym_hint(env)
