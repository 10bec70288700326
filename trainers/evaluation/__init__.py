"""Evaluation of policies: whole episodes, evenly over the environments, with confidence intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...lazy import attach

if TYPE_CHECKING:
    from .episodes import RandomActor as RandomActor
    from .episodes import evaluate as evaluate
    from .intervals import Interval as Interval
    from .intervals import bootstrap_interval as bootstrap_interval
    from .intervals import wilson_interval as wilson_interval
    from .results import EpisodeResults as EpisodeResults
else:
    __getattr__, __dir__, __all__ = attach(__name__)
