"""The parameters of relative positions in the flat array, and the places of a batch's rows; no torch.

Shape alphabet: N rows, P position features.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..inputs.places import PlaceReader
from ..inputs.prepare import Prepared
from ..rogue_net.config import RelativePosition
from .attention.relative_attention import RelativeTables
from .block_kernels import BlocksShape
from .parameter_layout import Layout
from .relative_gate import GATES
from .tiles.matrices import up_to_4
from .tiles.simd import LANES

Floats = NDArray[np.float32]
#: The module of relative positions in an encoder.
RELATIVE = "backbone.relpos_encoding"


class RelativeParameters:
    """The tables and the gate of relative positions, which all blocks and heads share."""

    def __init__(
        self,
        layout: Layout,
        place: str,
        features: Mapping[str, tuple[str, ...]],
        config: RelativePosition,
        shape: BlocksShape,
        blocks: int,
    ) -> None:
        """Add the parameters to `layout`; `blocks`: where those of the blocks start."""
        self._config = config
        self._reader = PlaceReader(config, features)
        self._d, self._width = shape.d, shape.d // shape.n_head
        lines = config.num_buckets
        of_values = lines * (len(features) if config.per_entity_values else 1)
        gate: dict[str, tuple[int, ...]] = {}
        if config.value_gate is not None:
            gate = {
                "value_gate_proj__weight": (self._width, shape.d),
                "value_gate_proj__bias": (self._width,),
            }
        start = layout.add(
            f"{place}{RELATIVE}", None,
            keys=(lines, self._width), values=(of_values, self._width), **gate,
        )  # fmt: skip
        # Places among the blocks' parameters.
        keys, values = start - blocks, start - blocks + lines * self._width
        self._gate = values + of_values * self._width
        self._keys, self._values = slice(keys, values), slice(values, self._gate)

    def tables(self, folded: Floats, prepared: Prepared, num_rows: int) -> tuple[Any, ...]:
        """Return the fields of `RelativeTables` for a batch whose blocks have so many rows."""
        places = self._reader.read(prepared)
        kind, position = np.where(places.known, places.kind, -1), places.position
        if num_rows < len(kind):
            kind, position = kind[prepared.visible], position[prepared.visible]
        config = self._config
        return tuple(
            RelativeTables(
                keys=self._with_zeros(folded[self._keys]),
                values=self._with_zeros(folded[self._values]),
                position=np.pad(position.T, ((0, 0), (0, LANES))).reshape(-1),
                kind=np.pad(kind.astype(np.float32), (0, LANES)),
                extent=np.array(config.extent, np.int64),
                scale=config.scale,
                by_kind=int(config.per_entity_values),
                gate=GATES.index(config.value_gate),
                gate_weight=self._gate,
                gate_bias=self._gate + self._width * self._d,
            )
        )

    def _with_zeros(self, table: Floats) -> Floats:
        """Return a copy with lines of up to 3 zeros more, behind a line of zeros for pairs without offset."""
        lines = table.reshape(-1, self._width)
        return np.pad(lines, ((1, 0), (0, -self._width % 4))).reshape(-1)

    def zeros(self) -> tuple[Floats, Floats]:
        """Return arrays for the gradients of both tables."""
        width, numbers = int(up_to_4(self._width)), (self._keys, self._values)
        keys, values = ((part.stop - part.start) // self._width * width + width for part in numbers)
        return np.zeros(keys, np.float32), np.zeros(values, np.float32)

    def add_gradients(self, g: Floats, keys: Floats, values: Floats) -> None:
        """Add the gradients of the tables to those of the blocks' parameters."""
        width = int(up_to_4(self._width))
        g[self._keys] += keys.reshape(-1, width)[1:, : self._width].reshape(-1)
        g[self._values] += values.reshape(-1, width)[1:, : self._width].reshape(-1)
