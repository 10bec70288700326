"""`RogueNetExtractor`: RogueNet as a features extractor of Stable-Baselines3."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import Tensor, nn

from ...policies.padded import PaddedRogueNet


class RogueNetExtractor(BaseFeaturesExtractor):
    """RogueNet for `MultiInputPolicy` on padded observations, without attention for padding.

        env = ez.to_gymnasium(MyEnv(), "padded", maxima=8, flat_actions=True, illegal="replace")
        model = PPO("MultiInputPolicy", env, policy_kwargs=dict(
            features_extractor_class=ez.sb3.RogueNetExtractor,
            features_extractor_kwargs=dict(d_model=16, n_layer=2, n_head=2), net_arch=[]))

    With `net_arch=[]` the policy and the value are linear maps of the features, as in RogueNet itself;
    otherwise SB3 puts MLPs behind them. See `PaddedRogueNet` for the features, the options and the errors.
    """

    def __init__(self, observation_space: gymnasium.Space[Any], **options: Any) -> None:
        net = PaddedRogueNet(observation_space, **options)
        super().__init__(observation_space, net.features_dim)
        self.net = net

    def forward(self, observations: Mapping[str, Tensor]) -> Tensor:
        """Padded observations (B, …) to features (B, features_dim)."""
        return self.net(observations)

    def apply(self, fn: Callable[[nn.Module], None]) -> RogueNetExtractor:
        """Nothing: SB3's `ortho_init` calls it to start all linear layers anew, and RogueNet's residual
        blocks have to start small."""
        return self
