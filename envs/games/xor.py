"""Xor: decide whether two bits differ. A test of combining two entities."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from ...ragged import RaggedArray
from ...ragged.compiled import compiled
from ..actions import Categorical, EntityActionSpace, GlobalCategorical
from ..batch.entity_batch import EntityBatch
from ..errors import one_of
from ..randomness import below
from ..spaces import EntitySpace
from ..vector.native import NativeVectorEnv
from ..vector.native_arrays import Flags, Floats, Ints, Words, all_true, even, free_choice, global_choice
from ..vector.native_env import native_game
from ..vector.saved_state import Bounds

_CHOICES = ["equal", "different"]


class XorVectorEnv(NativeVectorEnv):
    """Two entities have one bit each; answer with their exclusive or.

    Entities: two of type Bit (value, 0 or 1). With `negate` there is a global feature `negate`, 0 or 1, and
    where it is 1 the answer is turned around: the parity of three bits, which is the reference's Xor.

    Actions: `Answer`, "equal" or "different". The right answer pays 1, a wrong one or none nothing. An
    episode is one answer.

    Optimum: 1 per episode, since the observation shows the answer. A policy that ignores one of the bits gets
    0.5, as chance does, for the bits are independent: no part of the solution is better than none.

    Args:
        num_envs: how many games.
        answer: "global": a global action; "actor": an action of the first bit.
        negate: whether the answer is turned around in half of the episodes.

    Raises:
        ValueError: another `answer`.
    """

    state_names: ClassVar[tuple[str, ...]] = ("_bits", "_negated", "_right")

    def __init__(
        self,
        num_envs: int = 1,
        *,
        answer: Literal["global", "actor"] = "global",
        negate: bool = False,
        render_mode: str | None = None,
    ) -> None:
        one_of("answer", answer, ("global", "actor"))
        self.answer = answer
        self.negate = bool(negate)
        kind = GlobalCategorical if answer == "global" else Categorical
        actions = EntityActionSpace({"Answer": kind(_CHOICES)})
        space = EntitySpace({"Bit": ["value"]}, actions, ["negate"] if negate else [])
        super().__init__(space, num_envs, render_mode=render_mode)
        self._bits = np.zeros((num_envs, 2), np.float32)
        self._negated = np.zeros((num_envs, int(self.negate)), np.float32)
        self._right = np.zeros(num_envs, np.int64)  # answers

    def _start(self, lanes: Ints) -> None:
        _draw_bits(lanes, self.random_state, self._bits, self._negated, self._right)

    def _bounds(self) -> Bounds:
        return {"_bits": (0, 1), "_negated": (0, 1), "_right": (0, 1)}

    def _advance(self, actions: dict[str, RaggedArray]) -> tuple[Floats, Flags]:
        rewards = (actions["Answer"].one_each(-1) == self._right).astype(np.float32)
        return rewards, all_true(self.num_envs)

    def _look(self, lanes: Ints | None) -> EntityBatch:
        bits = self._bits.copy() if lanes is None else self._bits[lanes]
        count = len(bits)
        if self.answer == "global":
            mask = global_choice(all_true((count, 2)))
        else:
            mask = free_choice(even(np.zeros(count, np.int64)), 2)
        return EntityBatch(
            {"Bit": even(bits.reshape(-1, 1), 2)},
            self._negated.copy() if lanes is None else self._negated[lanes],
            {"Answer": mask},
        )


Xor, make_vec = native_game(XorVectorEnv)


@compiled
def _draw_bits(lanes: Ints, random_state: Words, bits: Floats, negated: Floats, right: Ints) -> None:
    """The bits of each of `lanes`, the one that turns the answer around if there is one, and the answer."""
    for lane in lanes:
        drawn = below(random_state[lane], 8)
        first, second, turned = drawn & 1, (drawn >> 1) & 1, drawn >> 2
        bits[lane, 0], bits[lane, 1] = first, second
        right[lane] = first ^ second
        if negated.shape[1]:
            negated[lane, 0] = turned
            right[lane] ^= turned
