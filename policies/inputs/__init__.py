"""Entity batches as input of networks; without torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...lazy import attach

if TYPE_CHECKING:
    from .generated import generate as generate
    from .number_units import units as units
    from .prepare import Inputs as Inputs
    from .prepare import Prepared as Prepared
    from .rows import RowLayout as RowLayout
else:
    __getattr__, __dir__, __all__ = attach(__name__)
