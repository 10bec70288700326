"""RogueNet on batches of fixed shapes, for GPUs: few launches, one transfer in, one out, and CUDA graphs.

A batch is laid out in arrays whose sizes are rounded up to a capacity, so that shapes repeat (`capacity`,
`static_tiles`); all arrays lie in one block of bytes (`packing`), which goes to the device in one transfer
(`staging`). The computation there (`static_network`, `static_heads`, `static_attention`) depends on no number
that only the device knows, so it can be captured once per capacity and replayed (`captured_graphs`). None of
it needs a GPU: on the CPU the same functions run without graphs, and are tested that way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....lazy import attach

if TYPE_CHECKING:
    from . import cuda as cuda
    from .capacity import Capacities as Capacities
    from .capacity import Capacity as Capacity
    from .capacity import Recent as Recent
    from .capacity import Sizes as Sizes
    from .capacity import rounded_up as rounded_up
    from .captured_graphs import WARM_UP as WARM_UP
    from .captured_graphs import Graphs as Graphs
    from .cuda import matrix_precision as matrix_precision
    from .packing import Field as Field
    from .packing import Packing as Packing
    from .staging import Staging as Staging
    from .static_network import Plan as Plan
    from .static_network import Precision as Precision
    from .static_network import StaticForm as StaticForm
    from .static_tiles import Tiles as Tiles
else:
    __getattr__, __dir__, __all__ = attach(__name__)
