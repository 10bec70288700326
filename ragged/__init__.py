"""Variable-length arrays without padding (floor 0: knows only NumPy and Numba)."""

from .array import RaggedArray
from .blocks import BlockLayout
from .buffer import RaggedBuffer
from .combine import concatenate, gather_all, join_rows
from .memory import keep_freed_memory, return_freed_memory
from .threads import available_cores, get_num_threads, set_num_threads

__all__ = [
    "BlockLayout",
    "RaggedArray",
    "RaggedBuffer",
    "available_cores",
    "concatenate",
    "gather_all",
    "get_num_threads",
    "join_rows",
    "keep_freed_memory",
    "return_freed_memory",
    "set_num_threads",
]
