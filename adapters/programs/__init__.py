"""Programs: games with a loop of their own that ask an agent for decisions (docs/programs.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...lazy import attach

if TYPE_CHECKING:
    from . import protocol as protocol
    from .game import Program as Program
    from .game import program as program
    from .lane import GameStopped as GameStopped
    from .listening import listen as listen
    from .message_file import MessageFile as MessageFile
    from .protocol import Limits as Limits
    from .server import ListeningVectorEnv as ListeningVectorEnv
    from .training_agent import TrainingAgent as TrainingAgent
    from .vector_env import ProgramVectorEnv as ProgramVectorEnv
    from .vector_env import make_vec as make_vec
else:
    __getattr__, __dir__, __all__ = attach(__name__)
