"""`ez.self_play`: training against learned opponents, and matches between players."""

from .matches import MatchResults, play_matches
from .opponents import Opponent, OpponentPool
from .past_self_play import PastSelfPlay, past_self_play

__all__ = ["MatchResults", "Opponent", "OpponentPool", "PastSelfPlay", "past_self_play", "play_matches"]
