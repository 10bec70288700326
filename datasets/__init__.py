"""`ez.datasets`: recorded play, as Arrow files that other tools read as well."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import attach

if TYPE_CHECKING:
    from .dataset import EntityDataset as EntityDataset
    from .dataset import Episode as Episode
    from .errors import DatasetError as DatasetError
    from .recorder import Recorder as Recorder
    from .recorder import record as record
    from .replay_check import Difference as Difference
    from .replay_check import replay as replay
    from .steps import Steps as Steps
    from .writer import DatasetWriter as DatasetWriter
else:
    __getattr__, __dir__, __all__ = attach(__name__)
