"""Gymnasium, both ways: `wrap` and `wrap_vec` make entities of arrays, `to_gymnasium` arrays of entities."""

from . import views
from .scope import ViewError
from .wrap import EntityWrapper, wrap
from .wrap_vec import WrappedVectorEnv, wrap_vec

__all__ = [
    "EntityWrapper",
    "ViewError",
    "WrappedVectorEnv",
    "views",
    "wrap",
    "wrap_vec",
]
