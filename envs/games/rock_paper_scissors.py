"""RockPaperScissors: the value function sees the opponent's throw, the policy does not."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ...ragged import RaggedArray
from ...ragged.compiled import compiled
from ..actions import Categorical, EntityActionSpace
from ..batch.entity_batch import EntityBatch
from ..randomness import uniform
from ..spaces import EntitySpace
from ..vector.native import NativeVectorEnv
from ..vector.native_arrays import Flags, Floats, Ints, Words, all_true, even, featureless, free_choice
from ..vector.native_env import native_game
from ..vector.saved_state import Bounds

_THROWS = ["rock", "paper", "scissors"]


class RockPaperScissorsVectorEnv(NativeVectorEnv):
    """Beat an opponent that throws rock, paper and scissors with probability 50 %, 30 % and 20 %.

    Entities: Player (no features), and Opponent (rock, paper, scissors: 1 for its throw, else 0), which only
    the value function may see. With `cheat` the policy sees it too.

    Actions: the player's `throw`. Beating the opponent pays 2, all else nothing. An episode is one throw.

    Optimum: 2 · 0.5 = 1 per episode on average, by always throwing paper: the policy does not observe the
    opponent's throw, and rock and scissors get 2 · 0.2 and 2 · 0.3. With `cheat` it is 2. In both cases
    the value function can predict the reward of a deterministic policy exactly, with an error of 0.

    Args:
        num_envs: how many games.
        cheat: whether the policy sees the opponent's throw.
    """

    state_names: ClassVar[tuple[str, ...]] = ("_thrown",)

    def __init__(self, num_envs: int = 1, *, cheat: bool = False, render_mode: str | None = None) -> None:
        self.cheat = bool(cheat)
        actions = EntityActionSpace({"throw": Categorical(_THROWS)})
        space = EntitySpace({"Player": [], "Opponent": _THROWS}, actions, hidden=True)
        super().__init__(space, num_envs, render_mode=render_mode)
        self._thrown = np.zeros(num_envs, np.int64)  # by the opponent

    def _start(self, lanes: Ints) -> None:
        _draw_throws(lanes, self.random_state, self._thrown)

    def _bounds(self) -> Bounds:
        return {"_thrown": (0, len(_THROWS) - 1)}

    def _advance(self, actions: dict[str, RaggedArray]) -> tuple[Floats, Flags]:
        # Each throw beats the one before it in the list, and the first one the last.
        wins = actions["throw"].one_each(-1) == (self._thrown + 1) % 3
        return wins * np.float32(2), all_true(self.num_envs)

    def _look(self, lanes: Ints | None) -> EntityBatch:
        thrown = self._thrown if lanes is None else self._thrown[lanes]
        count = len(thrown)
        opponents = np.zeros((count, 3), np.float32)
        opponents[np.arange(count), thrown] = 1
        players = even(np.zeros(count, np.int64))
        return EntityBatch(
            {"Player": featureless(players.offsets), "Opponent": even(opponents)},
            np.empty((count, 0), np.float32),
            {"throw": free_choice(players, 3)},
            {"Player": even(all_true(count)), "Opponent": even(np.full(count, self.cheat))},
        )


RockPaperScissors, make_vec = native_game(RockPaperScissorsVectorEnv)


@compiled
def _draw_throws(lanes: Ints, random_state: Words, thrown: Ints) -> None:
    """Draw the opponent's throw in each of `lanes`."""
    for lane in lanes:
        drawn = uniform(random_state[lane])
        thrown[lane] = 0 if drawn < 0.5 else 1 if drawn < 0.8 else 2
