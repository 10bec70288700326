"""`ez.pettingzoo`: PettingZoo's multi-agent games as entity environments, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...lazy import attach

if TYPE_CHECKING:
    from ...envs import MultiAgentEnv as MultiAgentEnv
    from .conversion import from_pettingzoo as from_pettingzoo
    from .game_player import GamePlayer as GamePlayer
    from .game_view import ArrayResult as ArrayResult
    from .game_view import GameObservation as GameObservation
    from .game_view import GameObservations as GameObservations
    from .game_view import GameView as GameView
    from .to_pettingzoo.checker import check_multi_agent_env as check_multi_agent_env
else:
    __getattr__, __dir__, __all__ = attach(__name__, renamed={"Seen": "GameObservation"})
