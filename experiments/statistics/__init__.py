"""Aggregates with bootstrap intervals, and learning curves.

The names below load their modules on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...lazy import attach

if TYPE_CHECKING:
    from .aggregates import METRICS as METRICS
    from .aggregates import Metric as Metric
    from .aggregates import Profile as Profile
    from .aggregates import aggregate as aggregate
    from .aggregates import bootstrap as bootstrap
    from .aggregates import improvements as improvements
    from .aggregates import metric_of as metric_of
    from .aggregates import performance_profiles as performance_profiles
    from .aggregates import probability_of_improvement as probability_of_improvement
    from .curves import RETURN as RETURN
    from .curves import Curve as Curve
    from .curves import MeanCurve as MeanCurve
    from .curves import aggregate_curve as aggregate_curve
    from .curves import common_bins as common_bins
    from .curves import mean_curve as mean_curve
    from .curves import range_curve as range_curve
    from .curves import read_curve as read_curve
else:
    __getattr__, __dir__, __all__ = attach(__name__)
