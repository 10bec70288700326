"""Run folders, checkpoints, trainer state. `trainers` exports most of what others use of it.

The names below load their modules on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...lazy import attach

if TYPE_CHECKING:
    from .checkpoint import delete_checkpoint as delete_checkpoint
    from .guard import check_batch as check_batch
    from .trainer_state import derived_seed as derived_seed
else:
    __getattr__, __dir__, __all__ = attach(__name__)
