"""Ablation studies: what is changed in each variant of a network, and on which games.

The names below load their modules on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...lazy import attach

if TYPE_CHECKING:
    from .studies import Study as Study
    from .studies import ablation_config as ablation_config
    from .studies import find_study as find_study
    from .studies import read_studies as read_studies
else:
    __getattr__, __dir__, __all__ = attach(__name__)
