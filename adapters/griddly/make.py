"""Making vector environments of Griddly: in this process, or their games shared between several."""

from __future__ import annotations

from functools import partial
from typing import Any

from ...envs import EntityVectorEnv
from ...envs.errors import whole_number
from ...envs.registration import share_lanes
from ...suggestions import did_you_mean
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
    parent_works: bool | None = None,
    worker_timeout: float | None = 60.0,
    opponents: str | None = None,
    **options: Any,
) -> EntityVectorEnv:
    """Make a `GriddlyVectorEnv`, or one in workers; what `entitize.make_vec("Griddly/<game>")` calls.

    The same seed gives the same episodes.

    Args:
        opponents: None: every player is a lane; "random": the first player of each game is one, and the
            others draw among their allowed choices.

    Raises:
        ValueError: other opponents, or opponents in a game of one player; and see `GriddlyVectorEnv`.
    """
    seed = options.pop("seed", None)
    make = partial(make_lanes, GriddlyVectorEnv, game, opponents)
    if not num_workers:
        return make(num_envs, seed=seed, **options)
    return share_lanes(
        make,
        num_envs,
        num_workers,
        parent_works=parent_works,
        lanes_per_game=1 if opponents else read_rules(find_game(game)).num_players,
        first_seed=seed,
        worker_timeout=worker_timeout,
        **options,
    )


def make_lanes(
    kind: type[GriddlyVectorEnv], game: str, opponents: str | None, num_envs: int = 1, **options: Any
) -> EntityVectorEnv:
    """Make a vector environment of this kind, or the lanes of its first players."""
    if opponents is None:
        return kind(game, num_envs, **options)
    rules = read_rules(find_game(game))
    check_opponents(opponents, rules)
    return RandomOpponents(kind(game, whole_number("num_envs", num_envs) * rules.num_players, **options))


def check_opponents(opponents: str, rules: Rules) -> None:
    """Refuse opponents that there are not, and games without opponents.

    Raises:
        ValueError: see above.
    """
    if opponents not in OPPONENTS:
        raise ValueError(
            f"opponents: expected None or 'random', got {opponents!r}{did_you_mean(opponents, OPPONENTS)}"
        )
    if rules.num_players == 1:
        raise ValueError(f"opponents: expected None in {rules.name}, a game of one player, got {opponents!r}")
