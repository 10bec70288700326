"""Networks that decide: RogueNet, the published networks, and deciding without torch (floor 2).

The names below load their modules on first use: the runtime needs no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import attach

if TYPE_CHECKING:
    from .checkpoint import METADATA as METADATA
    from .checkpoint import RUN_CONFIG as RUN_CONFIG
    from .checkpoint import CheckpointError as CheckpointError
    from .checkpoint import checkpoint_paths as checkpoint_paths
    from .checkpoint import newest_checkpoint as newest_checkpoint
    from .checkpoint import read_metadata as read_metadata
    from .checkpoint import step_of as step_of
    from .loading import load_policy as load_policy
    from .policy import ActingPolicy as ActingPolicy
    from .policy import ActResult as ActResult
    from .policy import Evaluation as Evaluation
    from .policy import ExplainablePolicy as ExplainablePolicy
    from .policy import Policy as Policy
    from .policy import check_members as check_members
    from .policy import fit_to as fit_to
    from .policy import frozen_weights as frozen_weights
    from .policy import space_read_by as space_read_by
    from .rogue_net import RogueNet as RogueNet
    from .rogue_net import RogueNetConfig as RogueNetConfig
else:
    __getattr__, __dir__, __all__ = attach(__name__)
