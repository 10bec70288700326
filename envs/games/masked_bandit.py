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
        num_arms: how many arms there are, at least two.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - Gymnasium declares no ClassVar

    def __init__(self, num_arms: int = 4, render_mode: str | None = None) -> None:
        if num_arms < 2:
            raise ValueError(f"num_arms must be at least 2, got {num_arms}")
        self.num_arms = num_arms
        self.render_mode = render_mode
        self.action_space = EntityActionSpace(
            {"Pull": GlobalCategorical([f"arm {i}" for i in range(num_arms)])}
        )
        self.observation_space = EntitySpace({}, self.action_space, global_features=["open arms"])

    def _reset(self, options: dict[str, Any]) -> Observation:
        is_open = self.np_random.random(self.num_arms) < 0.5
        is_open[self.np_random.integers(self.num_arms)] = True
        self._open = is_open.tolist()
        return self._look()

    def _step(self, actions: dict[str, Action]) -> Transition:
        pull = actions.get("Pull")
        best = max(arm for arm in range(self.num_arms) if self._open[arm])
        paid = isinstance(pull, GlobalCategoricalAction) and pull.choice == best
        return self._look(), float(paid), True, False, {}

    def _look(self) -> Observation:
        return Observation(
            globals=[sum(self._open)], actions={"Pull": GlobalCategoricalMask(mask=self._open)}
        )


def make_vec(num_envs: int = 1, **options: Any) -> EntityVectorEnv:
    """`num_envs` bandits; options as for `MaskedBandit`, and `num_workers`."""
    return vectorize(MaskedBandit, num_envs, **options)
