"""Views of well-known games, which read their typed state. Importing them imports none of the games."""

from __future__ import annotations

from typing import Any

from ..game_view import GameView
from .boards import ConnectFourView, TicTacToeView
from .chess import ChessView
from .knights_archers_zombies import KnightsArchersZombiesView
from .known_game_view import KnownGameView
from .magent import MagentView
from .mpe_scenarios import (
    CollectTreasureView,
    SimpleAdversaryView,
    SimpleCryptoView,
    SimpleFormationView,
    SimplePushView,
    SimpleReferenceView,
    SimpleSpeakerListenerView,
    SimpleSpreadView,
    SimpleTagView,
    SimpleView,
    SimpleWorldCommView,
)
from .pursuit import PursuitView

#: The views of known games.
VIEWS: tuple[type[KnownGameView], ...] = (
    ChessView,
    CollectTreasureView,
    ConnectFourView,
    KnightsArchersZombiesView,
    MagentView,
    PursuitView,
    SimpleAdversaryView,
    SimpleCryptoView,
    SimpleFormationView,
    SimplePushView,
    SimpleReferenceView,
    SimpleSpeakerListenerView,
    SimpleSpreadView,
    SimpleTagView,
    SimpleView,
    SimpleWorldCommView,
    TicTacToeView,
)
_BY_MODULE = {module: view for view in VIEWS for module in view.modules}


def find_view(game: Any) -> type[GameView] | None:
    """Return the view of an unwrapped game (`env.unwrapped`), found by its class's module, or None."""
    return _BY_MODULE.get(type(game).__module__)
