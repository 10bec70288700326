"""Reports of runs and experiments: tables and plots, as HTML and Markdown.

The names below load their modules on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...lazy import attach

if TYPE_CHECKING:
    from . import plots as plots
    from .ablation_report import variants_by_game as variants_by_game
    from .document import Document as Document
    from .document import ReportColumn as ReportColumn
    from .document import ReportTable as ReportTable
    from .document import Section as Section
    from .document import as_html as as_html
    from .document import as_markdown as as_markdown
    from .document import csv_text as csv_text
    from .document import write_document as write_document
    from .measured_runs import MeasuredRun as MeasuredRun
    from .measured_runs import RunTable as RunTable
    from .measured_runs import measure as measure
    from .measured_runs import run_table as run_table
    from .measured_runs import short_steps as short_steps
    from .network_costs import count_entities as count_entities
    from .procgen_aggregates import MILESTONES as MILESTONES
    from .procgen_aggregates import aggregate_rows as aggregate_rows
    from .procgen_aggregates import improvement_rows as improvement_rows
    from .run_report import read_single_run as read_single_run
else:
    __getattr__, __dir__, __all__ = attach(__name__)
