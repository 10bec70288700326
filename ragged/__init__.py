"""Variable-length arrays without padding (floor 0: knows only NumPy and Numba)."""

from .array import RaggedArray, concatenate, join, join_rows
from .buffer import RaggedBuffer

__all__ = ["RaggedArray", "RaggedBuffer", "concatenate", "join", "join_rows"]
