"""Games that several lanes play: which lanes have joined the running one, and when the next begins.

Shape alphabet: E environments (lanes), G games.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class RunningGames:
    """Follows games to their ends; agents may join some games only, or late.

    The next game has begun where a lane is active that has ended, or one that has not joined while all that
    have joined have ended. A lane joins when it is active, or waits for its turn where that is known.

    Args:
        game_of: (E,) the number of each lane's game.

    Attributes:
        joined: (E,) the lanes that have joined the running game.
        ended: (E,) the lanes that have ended in it.
    """

    def __init__(self, game_of: NDArray[np.int64]) -> None:
        self.game_of = game_of
        self._num_games = int(game_of.max()) + 1
        self.joined, self.ended = np.zeros((2, len(game_of)), bool)

    def begin(self, lanes: NDArray[np.int64] | slice, present: NDArray[np.bool_] | bool) -> None:
        """Let the next game begin for lanes, of which some are `present`."""
        self.joined[lanes], self.ended[lanes] = present, False

    def follow(
        self,
        ended: NDArray[np.bool_],
        active: NDArray[np.bool_],
        present: NDArray[np.bool_] | None = None,
    ) -> NDArray[np.bool_]:
        """Process a step: which lanes ended (E,), and which are active after it, or present (E,).

        Args:
            present: the active lanes, and those that wait for their turns; None: the active ones.

        Returns:
            (G,) the games whose next one has begun; `begin` them.
        """
        self.ended |= ended
        self.joined |= ended
        present = active if present is None else present
        if not self.ended.any():
            self.joined |= present
            return np.zeros(self._num_games, bool)
        again, has_ended = self._any(self.ended & active), self._any(self.ended)
        is_running, is_new = self._any(self.joined & ~self.ended), self._any(active & ~self.joined)
        over = again | (has_ended & ~is_running & is_new)
        self.joined |= present & ~over[self.game_of]
        return over

    def _any(self, lanes: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return the games (G,) that have one of these lanes (E,)."""
        return np.bincount(self.game_of[lanes], minlength=self._num_games) > 0
