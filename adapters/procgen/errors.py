"""Errors of the Procgen adapter."""

from __future__ import annotations


class ProcgenStateError(ValueError):
    """A state dump that is truncated, damaged or of another game.

    Attributes:
        game: the game that the dump was to be of.
        state: which dump of the batch (an index).
        offset: the byte of that dump at which reading stopped.
        reason: what is wrong there.
    """

    def __init__(self, game: str, state: int, offset: int, reason: str) -> None:
        super().__init__(f"{game}: state {state} at byte {offset}: {reason}")
        self.game = game
        self.state = state
        self.offset = offset
        self.reason = reason

    def __reduce__(self) -> tuple[type[ProcgenStateError], tuple[str, int, int, str]]:
        return type(self), (self.game, self.state, self.offset, self.reason)
