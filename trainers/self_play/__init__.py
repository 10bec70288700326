"""`ez.self_play`: training against learned opponents."""

from .opponents import Opponent, OpponentPool
from .past_self_play import PastSelfPlay, past_self_play

__all__ = ["Opponent", "OpponentPool", "PastSelfPlay", "past_self_play"]
