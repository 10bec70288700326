"""MultiArmedBandit: always pull the same arm. The least that a trainer must learn."""

from __future__ import annotations

import numpy as np

from ...ragged import RaggedArray
from ..actions import EntityActionSpace, GlobalCategorical
from ..batch.entity_batch import EntityBatch
from ..spaces import EntitySpace
from ..vector.native import NativeVectorEnv
from ..vector.native_arrays import Flags, Floats, Ints, all_true, global_choice
from ..vector.native_env import native_game

_ARMS = ["A", "B", "C", "D", "E"]
_PULLS = 32


class MultiArmedBanditVectorEnv(NativeVectorEnv):
    """Five arms, 32 pulls: arm A pays 1/32 each time, the others nothing.

    There are no entities. The global feature `step` counts the pulls from 0; nothing is random.

    Actions: `pull`, one of the arms A to E. Pulling no arm pays nothing, and counts.

    Optimum: 32 · 1/32 = 1 per episode, by always pulling arm A; chance gets 0.2.

    Args:
        num_envs: how many games.
    """

    def __init__(self, num_envs: int = 1, *, render_mode: str | None = None) -> None:
        actions = EntityActionSpace({"pull": GlobalCategorical(_ARMS)})
        super().__init__(EntitySpace({}, actions, ["step"]), num_envs, render_mode=render_mode)

    def _start(self, lanes: Ints) -> None:
        pass  # the count of steps, which the base keeps, is all there is

    def _advance(self, actions: dict[str, RaggedArray]) -> tuple[Floats, Flags]:
        pulled_a = actions["pull"].one_each(-1) == 0
        return pulled_a * np.float32(1 / _PULLS), self.steps + 1 >= _PULLS

    def _look(self, lanes: Ints | None) -> EntityBatch:
        steps = self.steps if lanes is None else self.steps[lanes]
        mask = global_choice(all_true((len(steps), len(_ARMS))))
        return EntityBatch({}, steps.astype(np.float32)[:, None], {"pull": mask})


MultiArmedBandit, make_vec = native_game(MultiArmedBanditVectorEnv)
