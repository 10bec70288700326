"""Published results of Procgen, and returns normalized as in its paper.

The names below load their modules on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...lazy import attach

if TYPE_CHECKING:
    from .published_procgen import IMPALA_MEAN_NORMALIZED as IMPALA_MEAN_NORMALIZED
    from .published_procgen import IMPALA_STEPS as IMPALA_STEPS
    from .published_procgen import IMPALA_WINDOW as IMPALA_WINDOW
    from .published_procgen import PROGRAM_EASY_RANGES as PROGRAM_EASY_RANGES
    from .published_procgen import PUBLISHED_PROCGEN as PUBLISHED_PROCGEN
    from .published_procgen import RANGES as RANGES
    from .published_procgen import Reference as Reference
    from .published_procgen import impala_return as impala_return
    from .published_procgen import normalize as normalize
else:
    __getattr__, __dir__, __all__ = attach(__name__, renamed={"normalise": "normalize"})
