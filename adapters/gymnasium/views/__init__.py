"""`ez.views`: how observations of Gymnasium environments become entities."""

from . import batches
from .auto import auto
from .chunks import Chunks
from .columns import Columns
from .function import Function
from .grids import Cells, Channels
from .items import Items
from .per_entity import PerEntity
from .rows import Rows
from .scope import EntityEncoder, Scope, View, ViewError
from .text import Characters, Words
from .vector import Vector

__all__ = [
    "Cells",
    "Channels",
    "Characters",
    "Chunks",
    "Columns",
    "EntityEncoder",
    "Function",
    "Items",
    "PerEntity",
    "Rows",
    "Scope",
    "Vector",
    "View",
    "ViewError",
    "Words",
    "auto",
    "batches",
]
