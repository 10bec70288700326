"""Variable-length arrays without padding (floor 0: knows only NumPy and Numba)."""

from .array import RaggedArray
from .buffer import RaggedBuffer
from .combine import concatenate, join, join_rows
from .memory import keep_freed_memory

__all__ = ["RaggedArray", "RaggedBuffer", "concatenate", "join", "join_rows", "keep_freed_memory"]
