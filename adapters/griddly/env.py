"""`GriddlyEnv`: one game of Griddly as a Gymnasium environment."""

from __future__ import annotations

from typing import Any

from ...envs.errors import check_render_mode
from ...envs.vector.one_lane_env import OneLaneEnv
from .library import find_game
from .make import make_lanes
from .rules import read_rules
from .vector_env import GriddlyVectorEnv


class GriddlyEnv(OneLaneEnv):
    """One player of a game: `gymnasium.make("entitize/Griddly-v0", game="Clusters")`.

    Spaces, options and errors are those of `GriddlyVectorEnv`, over which it is built. Seeded alike, it plays
    the same episodes as the first lane of any.

    Args:
        game: the name of a game of the package, or a path that ends in ".yaml" or ".yml".
        opponents: "random", in games of several players: see `make_vec`.
        render_mode: None, or "rgb_array".
        options: those of `GriddlyOptions`, and `seed`.

    Raises:
        ValueError: a game of several players without opponents.
    """

    metadata: dict[str, Any] = GriddlyVectorEnv.metadata

    def __init__(
        self,
        game: str = "Clusters",
        *,
        opponents: str | None = None,
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        check_render_mode("GriddlyEnv", render_mode, self.metadata["render_modes"])
        if opponents is None and (num_players := read_rules(find_game(game)).num_players) > 1:
            raise ValueError(
                f"GriddlyEnv: expected opponents='random' in {game}, a game of {num_players} players,"
                " got None. In `ez.make_vec` each player is a lane"
            )
        venv = make_lanes(game, opponents, render_mode=render_mode, **options)
        super().__init__(venv)
