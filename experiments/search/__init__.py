"""Search for hyper-parameters: trials that Optuna proposes and the queue of experiments trains.

The names below load their modules on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...lazy import attach

if TYPE_CHECKING:
    from .objective import REPORTS as REPORTS
    from .objective import objective_of as objective_of
    from .objective import running_values as running_values
    from .parameters import read_parameters as read_parameters
    from .parameters import with_values as with_values
    from .report import search_report as search_report
    from .settings import BEST as BEST
    from .settings import SearchSettings as SearchSettings
    from .settings import open_search as open_search
    from .settings import read_search as read_search
    from .study import TrialSource as TrialSource
    from .study import load_study as load_study
    from .study import make_study as make_study
    from .study import run_search as run_search
else:
    __getattr__, __dir__, __all__ = attach(__name__)
