"""MaskedBandit: a bandit whose arms are not always open. A test of masks and of global actions."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ...ragged import RaggedArray
from ...ragged.compiled import compiled
from ..actions import EntityActionSpace, GlobalCategorical
from ..batch.entity_batch import EntityBatch
from ..errors import whole_number
from ..randomness import below
from ..spaces import EntitySpace
from ..vector.native import NativeVectorEnv
from ..vector.native_arrays import Flags, Floats, Ints, Words, all_true, global_choice
from ..vector.native_env import native_game
from ..vector.saved_state import Bounds, State


class MaskedBanditVectorEnv(NativeVectorEnv):
    """Pull one of the open arms; of those, the one with the highest number pays 1, the others nothing.

    There are no entities. The global feature `open arms` says how many are open, and only the mask says
    which; any set of arms but the empty one is equally likely.

    Actions: `Pull`, one of the open arms. An episode is one pull. Pulling no arm pays nothing.

    Optimum: 1 per episode, by always preferring higher arms. A policy that can't mask its choices can't act
    at all.

    Args:
        num_envs: how many games.
        num_arms: how many arms there are, 2 to 30.

    Raises:
        TypeError: a number that is no whole number.
        ValueError: another number of arms.
    """

    state_names: ClassVar[tuple[str, ...]] = ("_open", "_best")

    def __init__(self, num_envs: int = 1, *, num_arms: int = 4, render_mode: str | None = None) -> None:
        self.num_arms = whole_number("num_arms", num_arms, 2, 30)
        actions = EntityActionSpace({"Pull": GlobalCategorical([f"arm {i}" for i in range(num_arms)])})
        super().__init__(EntitySpace({}, actions, ["open arms"]), num_envs, render_mode=render_mode)
        self._open = np.zeros((num_envs, num_arms), bool)
        self._best = np.zeros(num_envs, np.int64)

    def _start(self, lanes: Ints) -> None:
        _draw_arms(lanes, self.random_state, self._open, self._best)

    def _bounds(self) -> Bounds:
        return {"_best": (0, self.num_arms - 1)}

    def _check_state(self, state: State) -> None:
        is_open, best = state["_open"], state["_best"]
        best_open = np.where(is_open, np.arange(self.num_arms), -1).max(1)
        self._expect(best == best_open, "_best", "the last arm of '_open'", best)

    def _advance(self, actions: dict[str, RaggedArray]) -> tuple[Floats, Flags]:
        rewards = (actions["Pull"].one_each(-1) == self._best).astype(np.float32)
        return rewards, all_true(self.num_envs)

    def _look(self, lanes: Ints | None) -> EntityBatch:
        is_open = self._open.copy() if lanes is None else self._open[lanes]
        counts = is_open.sum(1, dtype=np.float32)
        return EntityBatch({}, counts[:, None], {"Pull": global_choice(is_open)})


MaskedBandit, make_vec = native_game(MaskedBanditVectorEnv)


@compiled
def _draw_arms(lanes: Ints, random_state: Words, is_open: Flags, best: Ints) -> None:
    """Open some arms, at least one, in each of `lanes`."""
    num_arms = is_open.shape[1]
    for lane in lanes:
        drawn = 1 + below(random_state[lane], (1 << num_arms) - 1)  # a bit per arm
        for arm in range(num_arms):
            is_open[lane, arm] = (drawn >> arm) & 1
            if is_open[lane, arm]:
                best[lane] = arm
