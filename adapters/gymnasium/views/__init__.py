"""`ez.views`: how observations of Gymnasium environments become entities."""

from .auto import auto
from .chunks import Chunks
from .function import Function
from .grids import Cells, Channels
from .items import Items
from .rows import Rows
from .scope import View, ViewError
from .text import Characters, Words
from .vector import Vector

__all__ = [
    "Cells",
    "Channels",
    "Characters",
    "Chunks",
    "Function",
    "Items",
    "Rows",
    "Vector",
    "View",
    "ViewError",
    "Words",
    "auto",
]
