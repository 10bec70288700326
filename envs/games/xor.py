"""Xor: tell whether two bits differ. A test of seeing two entities together."""

from __future__ import annotations

from typing import Any, Literal

from ..env import EntityEnv, Transition
from ..observation import (
    Action,
    CategoricalAction,
    CategoricalMask,
    GlobalCategoricalAction,
    GlobalCategoricalMask,
    Observation,
)
from ..registration import vectorize
from ..spaces import Categorical, EntityActionSpace, EntitySpace, GlobalCategorical
from ..vector import EntityVectorEnv


class Xor(EntityEnv):
    """Two entities have one bit each; answer with their exclusive or.

    The right answer pays 1, so the optimum is 1.0 per episode and chance 0.5. An episode is one answer; no
    answer pays nothing.

    Args:
        answer: who answers: "global", or "actor", the first of the two bits.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - Gymnasium declares no ClassVar

    def __init__(self, answer: Literal["global", "actor"] = "global", render_mode: str | None = None) -> None:
        if answer not in ("global", "actor"):
            raise ValueError(f"answer must be 'global' or 'actor', got {answer!r}")
        self.answer = answer
        self.render_mode = render_mode
        kind = GlobalCategorical if answer == "global" else Categorical
        self.action_space = EntityActionSpace({"Answer": kind(["equal", "different"])})
        self.observation_space = EntitySpace({"Bit": ["value"]}, self.action_space)
        self._mask = GlobalCategoricalMask() if answer == "global" else CategoricalMask(actor_ids=["first"])

    def _reset(self, options: dict[str, Any]) -> Observation:
        drawn = int(self.np_random.integers(4))
        self._bits = (drawn & 1, drawn >> 1)
        return self._look()

    def _step(self, actions: dict[str, Action]) -> Transition:
        answer = actions.get("Answer")
        given = None
        if isinstance(answer, GlobalCategoricalAction):
            given = answer.choice
        elif isinstance(answer, CategoricalAction) and answer.actors:
            given = int(answer.choices[0])
        return self._look(), float(given == (self._bits[0] ^ self._bits[1])), True, False, {}

    def _look(self) -> Observation:
        return Observation(
            entities={"Bit": [[bit] for bit in self._bits]},
            ids={"Bit": ("first", "second")},
            actions={"Answer": self._mask},
        )


def make_vec(num_envs: int = 1, **options: Any) -> EntityVectorEnv:
    """`num_envs` games; options as for `Xor`, and `num_workers`."""
    return vectorize(Xor, num_envs, **options)
