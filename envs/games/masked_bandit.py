"""MaskedBandit: a bandit whose arms are not always open. A test of masks and of global actions."""

from __future__ import annotations

from typing import Any

from ..env import EntityEnv, Transition
from ..observation import Action, GlobalCategoricalAction, GlobalCategoricalMask, Observation
from ..registration import vectorize
from ..spaces import EntityActionSpace, EntitySpace, GlobalCategorical
from ..vector import EntityVectorEnv


class MaskedBandit(EntityEnv):
    """Pull one of the open arms; of those, the one with the highest number pays 1, the others nothing.

    There are no entities, and the mask is not observed other than as a mask: a policy that merely prefers
    higher arms gets 1.0 per episode, the optimum, and one that ignores the mask can't act at all. An episode
    is one pull. Pulling no arm pays nothing.

    Args:
        num_arms: how many arms there are, 2 to 30.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - Gymnasium declares no ClassVar

    def __init__(self, num_arms: int = 4, render_mode: str | None = None) -> None:
        if not 2 <= num_arms <= 30:
            raise ValueError(f"num_arms must be between 2 and 30, got {num_arms}")
        self.num_arms = num_arms
        self.render_mode = render_mode
        self.action_space = EntityActionSpace(
            {"Pull": GlobalCategorical([f"arm {i}" for i in range(num_arms)])}
        )
        self.observation_space = EntitySpace({}, self.action_space, global_features=["open arms"])

    def _reset(self, options: dict[str, Any]) -> Observation:
        drawn = int(self.np_random.integers(1, 2**self.num_arms))  # a bit per arm, at least one of them open
        self._open = [bool(drawn >> arm & 1) for arm in range(self.num_arms)]
        self._best = drawn.bit_length() - 1
        return self._look()

    def _step(self, actions: dict[str, Action]) -> Transition:
        pull = actions.get("Pull")
        paid = isinstance(pull, GlobalCategoricalAction) and pull.choice == self._best
        return self._look(), float(paid), True, False, {}

    def _look(self) -> Observation:
        return Observation(
            globals=[sum(self._open)], actions={"Pull": GlobalCategoricalMask(mask=self._open)}
        )


def make_vec(num_envs: int = 1, **options: Any) -> EntityVectorEnv:
    """`num_envs` bandits; options as for `MaskedBandit`, and `num_workers`."""
    return vectorize(MaskedBandit, num_envs, **options)
