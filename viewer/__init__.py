"""`ez.viewer`: what an agent observes, attends to and chooses, as a page that a browser opens (floor 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import attach

if TYPE_CHECKING:
    from .page import write_page as write_page
    from .recording import Decision as Decision
    from .recording import Recording as Recording
    from .recording import record_episodes as record_episodes
    from .recording import recording_of_dataset as recording_of_dataset
    from .scene import grows_downwards as grows_downwards
    from .scene import position_columns as position_columns
else:
    __getattr__, __dir__, __all__ = attach(__name__)
