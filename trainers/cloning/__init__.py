"""Behaviour cloning: training on recorded play."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...lazy import attach

if TYPE_CHECKING:
    from .behavior_cloning import BehaviorCloning as BehaviorCloning
    from .cloning_config import BehaviorCloningConfig as BehaviorCloningConfig
    from .cloning_learner import FusedCloningLearner as FusedCloningLearner
    from .cloning_learner import TorchCloningLearner as TorchCloningLearner
    from .demonstrations import Demonstrations as Demonstrations
else:
    __getattr__, __dir__, __all__ = attach(__name__)
