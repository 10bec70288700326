"""Make the games that `from_pettingzoo` was given: objects, or functions that make them."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from ...envs.errors import whole_number
from .agent_names import same
from .game import AECGame, PettingZooGame
from .parallel_game import ParallelGame


def game_makers(env: Any, num_envs: int | None) -> list[Any]:
    """Return what makes each game: a function, or the game itself.

    Raises:
        ImportError: PettingZoo is not installed.
        TypeError: `num_envs` is no whole number.
        ValueError: it does not fit `env`, or `env` is an empty list.
    """
    aec, parallel = pettingzoo_classes()
    if num_envs is not None:
        num_envs = whole_number("num_envs", num_envs)
    if isinstance(env, (aec, parallel)):
        if num_envs not in (None, 1):
            raise ValueError(
                f"num_envs: expected 1 for a single game object, got {num_envs}. Pass a function that"
                " makes games"
            )
        return [env]
    if isinstance(env, Sequence) and not isinstance(env, str):
        if num_envs not in (None, len(env)):
            raise ValueError(f"num_envs: expected {len(env)}, the number of functions, got {num_envs}")
        if not env:
            raise ValueError("env: expected one game or function or more, got an empty list")
        return list(env)
    return [env] * (num_envs or 1)


def make_games(makers: Sequence[Any], first: int = 0) -> list[PettingZooGame]:
    """Make the games, of which the first has this index; if one fails, close those made before.

    Raises:
        TypeError: one is no game.
        ValueError: one has been made before, or has other agents or spaces than the first.
    """
    aec, parallel = pettingzoo_classes()
    games: list[PettingZooGame] = []
    try:
        for index, make in enumerate(makers, first):
            made = make() if callable(make) and not isinstance(make, (aec, parallel)) else make
            if not isinstance(made, (aec, parallel)):
                raise TypeError(
                    f"game {index}: expected a PettingZoo ParallelEnv or AECEnv, or a function that makes"
                    f" one, got {made!r}"
                )
            if any(game.env is made for game in games):
                raise ValueError(
                    f"game {index}: expected a new game, got the same object as before. Make one per function"
                )
            games.append((ParallelGame if isinstance(made, parallel) else AECGame)(made, index))
            _check_same(games[0], games[-1])
    except Exception:
        close_games(games, makers)
        raise
    return games


def close_games(games: Sequence[PettingZooGame], makers: Sequence[Any]) -> None:
    """Close the games made here, but none that was given, which the caller may try again."""
    for game in games:
        if not any(game.env is given for given in makers):
            game.env.close()


def _check_same(first: PettingZooGame, other: PettingZooGame) -> None:
    if type(other) is not type(first) or other.possible_agents != first.possible_agents:
        raise ValueError(
            f"{other.label}: expected the agents of {first.label}, {list(first.possible_agents)}, got"
            f" {list(other.possible_agents)}"
        )
    compared: set[tuple[int, int]] = set()  # agents mostly share their spaces, and equality takes long
    for agent in first.possible_agents:
        for what in ("observation", "action"):
            mine, firsts = (getattr(game, f"{what}_spaces")[agent] for game in (other, first))
            if (id(mine), id(firsts)) not in compared and not same(mine, firsts):
                raise ValueError(
                    f"{other.label}: {what} space of {agent!r}: expected {firsts} as in {first.label}, got"
                    f" {mine}"
                )
            compared.add((id(mine), id(firsts)))


def pettingzoo_classes() -> tuple[type, type]:
    """Import PettingZoo's `AECEnv` and `ParallelEnv`."""
    try:
        pettingzoo = importlib.import_module("pettingzoo")
    except ModuleNotFoundError as error:
        raise ImportError("PettingZoo is not installed: pip install 'entitize[pettingzoo]'") from error
    return pettingzoo.AECEnv, pettingzoo.ParallelEnv
