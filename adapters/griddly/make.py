"""`make_vec` of Griddly: a vector environment in this process, or its games shared between several."""

from __future__ import annotations

from functools import partial
from typing import Any

from ...envs import EntityVectorEnv
from ...envs.errors import one_of, whole_number
from ...envs.registration import share_lanes
from .library import find_game
from .opponents import RandomOpponents
from .rules import Rules, read_rules
from .vector_env import GriddlyVectorEnv

OPPONENTS = ("random",)


def make_vec(
    game: str = "Clusters",
    num_envs: int = 1,
    *,
    num_workers: int = 0,
    opponents: str | None = None,
    **options: Any,
) -> EntityVectorEnv:
    """Make a `GriddlyVectorEnv`, or one in workers; what `entitize.make_vec("Griddly/<game>")` calls.

    The same seed gives the same episodes.

    Args:
        opponents: None: every player is a lane; "random": the first player of each game is one, and the
            others draw among their allowed choices.
        options: those of `GriddlyVectorEnv`; with workers also `worker_timeout`, see `ShardedVectorEnv`.

    Raises:
        ValueError: other opponents, or opponents in a game of one player; and see `GriddlyVectorEnv`.
    """
    lanes_per_game = 1 if opponents or not num_workers else read_rules(find_game(game)).num_players
    make = partial(make_lanes, game, opponents)
    return share_lanes(make, num_envs, num_workers, lanes_per_game=lanes_per_game, **options)


def make_lanes(game: str, opponents: str | None, num_envs: int = 1, **options: Any) -> EntityVectorEnv:
    """Make a `GriddlyVectorEnv`, or the lanes of its first players."""
    if opponents is None:
        return GriddlyVectorEnv(game, num_envs, **options)
    rules = read_rules(find_game(game))
    check_opponents(opponents, rules)
    num_players = whole_number("num_envs", num_envs) * rules.num_players
    return RandomOpponents(GriddlyVectorEnv(game, num_players, **options))


def check_opponents(opponents: str, rules: Rules) -> None:
    """Refuse opponents that there are not, and games without opponents.

    Raises:
        ValueError: see above.
    """
    one_of("opponents", opponents, (None, *OPPONENTS))
    if rules.num_players == 1:
        raise ValueError(f"opponents: expected None in {rules.name}, a game of one player, got {opponents!r}")
