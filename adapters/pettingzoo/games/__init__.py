"""Views of known games, which read their typed state."""

from __future__ import annotations

from typing import Any

from ..game_view import GameView


def find_view(game: Any) -> type[GameView] | None:
    """The view of an unwrapped PettingZoo game; None where there is none."""
    return None
