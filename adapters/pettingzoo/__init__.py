"""PettingZoo's multi-agent games as entity environments, and back."""

from .entry import from_pettingzoo
from .game_view import GameView, Seen

__all__ = ["GameView", "Seen", "from_pettingzoo"]
