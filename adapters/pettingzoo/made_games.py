"""Games of several agents that a function made, for `make_vec`.

This module loads PettingZoo only where a game needs it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import gymnasium

if TYPE_CHECKING:
    from ...envs import EntityVectorEnv
    from ..gymnasium.views import View


def is_game(env: Any) -> bool:
    """Return True for a game of several agents: a `MultiAgentEnv`, or one of PettingZoo."""
    from ...envs.multi_agent import MultiAgentEnv

    if isinstance(env, MultiAgentEnv):
        return True
    pettingzoo = sys.modules.get("pettingzoo")
    return pettingzoo is not None and isinstance(env, pettingzoo.AECEnv | pettingzoo.ParallelEnv)


def makes_games(make: Callable[..., Any], one: Callable[[], Any]) -> bool:
    """Return True if a function or class makes games of several agents.

    Args:
        make: is asked, if it is a class of Gymnasium or of this library.
        one: `make` with its options; makes one otherwise, which is closed, as Gymnasium's `AsyncVectorEnv`
            does. False if that raises: the workers report it.
    """
    from ...envs.multi_agent import MultiAgentEnv

    if isinstance(make, type) and issubclass(make, gymnasium.Env | MultiAgentEnv):
        return issubclass(make, MultiAgentEnv)
    try:
        made = one()
        made.close()
    except Exception:
        return False
    return is_game(made)


def lanes_of(
    make: Callable[[], Any], num_envs: int, view: View | Mapping[str, Any] | None, **workers: Any
) -> EntityVectorEnv:
    """Return `num_envs` games, each agent in a lane; see `from_pettingzoo`.

    Args:
        make: makes a game for which `is_game` is true.
        view: how observations become entities, or its options.
        workers: `num_workers` and `worker_timeout`.
    """
    from ...envs.multi_agent import MultiAgentEnv
    from ..gymnasium.views.view_config import from_config
    from .conversion import from_pettingzoo
    from .to_pettingzoo.conversion import to_pettingzoo

    def game() -> Any:
        made = make()
        return to_pettingzoo(made) if isinstance(made, MultiAgentEnv) else made

    given = from_config(view)
    return from_pettingzoo(game, view=given, num_envs=num_envs, **workers)
