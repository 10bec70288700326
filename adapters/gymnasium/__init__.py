"""Gymnasium, both ways: `wrap` and `wrap_vec` make entities of arrays, `to_gymnasium` arrays of entities."""

from . import views
from .faces import FlatFace, GymnasiumFace, PaddedFace, RaggedFace, to_gymnasium
from .limits import Nearest
from .views.scope import ViewError
from .wrap import EntityWrapper, wrap
from .wrap_vec import WrappedVectorEnv, wrap_vec

__all__ = [
    "EntityWrapper",
    "FlatFace",
    "GymnasiumFace",
    "Nearest",
    "PaddedFace",
    "RaggedFace",
    "ViewError",
    "WrappedVectorEnv",
    "to_gymnasium",
    "views",
    "wrap",
    "wrap_vec",
]
