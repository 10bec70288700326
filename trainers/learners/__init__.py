"""Gradient steps: learners, their optimizer and PPO's losses.

The names below load their modules on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...lazy import attach

if TYPE_CHECKING:
    from .fused_learner import FusedLearner as FusedLearner
    from .graph_learner import GraphLearner as GraphLearner
    from .learner import Learner as Learner
    from .learner import make_learner as make_learner
    from .losses import normalize_advantages as normalize_advantages
    from .losses import ppo_losses as ppo_losses
    from .optimizer import AdamW as AdamW
    from .optimizer import check_precision as check_precision
    from .optimizer import clip_gradients as clip_gradients
    from .optimizer import find_device as find_device
    from .optimizer import make_optimizer as make_optimizer
    from .optimizer import place as place
    from .optimizer import set_learning_rate as set_learning_rate
    from .torch_learner import TorchLearner as TorchLearner
else:
    __getattr__, __dir__, __all__ = attach(__name__)
