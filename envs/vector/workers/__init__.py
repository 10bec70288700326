"""Worker processes of vector environments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....lazy import attach

if TYPE_CHECKING:
    from .shared_memory import StepLayout as StepLayout
    from .worker_pool import WORKER_TIMEOUT as WORKER_TIMEOUT
    from .worker_pool import WorkerPool as WorkerPool
    from .worker_pool import shares as shares
else:
    __getattr__, __dir__, __all__ = attach(__name__)
