"""`ez.distributed`: rollouts from actors, on this machine or on a cluster (docs/scaling.md).

The names below load their modules on first use: actors need neither torch nor, where they run, a trainer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...lazy import attach

if TYPE_CHECKING:
    from .actor import RolloutActor as RolloutActor
    from .actor_rollouts import ActorError as ActorError
    from .actor_rollouts import ActorRollouts as ActorRollouts
    from .ray_rollouts import RayRollouts as RayRollouts
else:
    __getattr__, __dir__, __all__ = attach(__name__)
