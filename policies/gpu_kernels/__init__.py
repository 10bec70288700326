"""Parts of RogueNet as Triton kernels, for rows so narrow that torch's own kernels waste most of a GPU.

`layer_norm` and `attend_in_tiles` compute what their torch counterparts do, forward and backward. They are
used where ENTITIZE_TRITON=1 switches them on and `runs_triton` says that they can compute: no training with
them has been measured yet (docs/gpu.md). Triton comes with torch's builds for CUDA on Linux. Without a GPU
the tests run the kernels in Triton's interpreter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...lazy import attach

if TYPE_CHECKING:
    from .norms import layer_norm as layer_norm
    from .support import runs_triton as runs_triton
    from .tile_attention import attend_in_tiles as attend_in_tiles
else:
    __getattr__, __dir__, __all__ = attach(__name__)
